"""Who is there at the start, and how they differ."""

from crowdlab.demand.differences import Body, Distribution, Quantity, draw
from crowdlab.demand.people import Crowd, Group, assemble, populate, reals

__all__ = ["Body", "Crowd", "Distribution", "Group", "Quantity", "assemble", "draw", "populate", "reals"]
