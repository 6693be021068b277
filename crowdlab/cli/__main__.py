"""`python -m crowdlab.cli`, for where the console script is not on the path."""

from crowdlab.cli import main

raise SystemExit(main())
