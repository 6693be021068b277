"""Who is near whom: agents sorted into grid cells, then a list of candidates that serves several steps.

The list holds everybody within the reach plus a skin, in the order of ids; each step measures offsets and distances anew and
cuts hard at the reach. So no result depends on when a list was made, on how much room it has or on which row somebody has.
"""

from crowdlab.neighbours.cells import Grid
from crowdlab.neighbours.contacts import overlapping
from crowdlab.neighbours.lists import Need, NeighbourList, has_all, make_list, tie_directions
from crowdlab.neighbours.pairs import Neighbours, Pairs, find, measure
from crowdlab.neighbours.sizing import enlarge, list_need, packed, plan_grid, roomy, with_wall_table

__all__ = [
    "Grid",
    "Need",
    "NeighbourList",
    "Neighbours",
    "Pairs",
    "enlarge",
    "find",
    "has_all",
    "list_need",
    "make_list",
    "measure",
    "overlapping",
    "packed",
    "plan_grid",
    "roomy",
    "tie_directions",
    "with_wall_table",
]
