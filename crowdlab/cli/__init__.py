"""The command line: the same things as in a notebook, without one."""

import os
import sys
from collections.abc import Sequence

from crowdlab import cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a recording is not reproduced, 2 a mistake, 130 stopped."""
    # JAX reads the environment when it is imported. So this comes before everything else, and after a first import it would be idle.
    if "jax" not in sys.modules:
        os.environ.update(cache.settings())
    from crowdlab.cli import commands

    return commands.main(arguments)
