"""How fast the simulation runs here, beside its peers in the same run: `crowdlab bench`.

Every code at every size runs in a process of its own, so that its memory is its own and its crash is a row of the table; the rounds of
all codes alternate, because other work on the machine slows them all alike. Only ratios of one run mean something.
"""

from crowdlab.bench.command import main

__all__ = ["main"]
