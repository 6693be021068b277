"""`python -m crowdlab`: the command line, for where the console script is not on the path."""

from crowdlab.cli import main

raise SystemExit(main())
