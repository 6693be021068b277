"""Who is there at the start, and how they differ."""

from crowdlab.demand.differences import Body, Distribution, Quantity, draw
from crowdlab.demand.groups import PROFILES, Gaussian, Group, Profile
from crowdlab.demand.people import Crowd, assemble, populate, reals

__all__ = [
    "PROFILES",
    "Body",
    "Crowd",
    "Distribution",
    "Gaussian",
    "Group",
    "Profile",
    "Quantity",
    "assemble",
    "draw",
    "populate",
    "reals",
]
