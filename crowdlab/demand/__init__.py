"""Who is there at the start, who comes in later, and how they differ."""

from crowdlab.demand.differences import Body, Distribution, Quantity, draw
from crowdlab.demand.grounds import note_grounds
from crowdlab.demand.groups import PROFILES, Gaussian, Group, Profile, Source, stoutest
from crowdlab.demand.people import START, Crowd, assemble, populate, reals
from crowdlab.demand.sources import Sources

__all__ = [
    "PROFILES",
    "START",
    "Body",
    "Crowd",
    "Distribution",
    "Gaussian",
    "Group",
    "Profile",
    "Quantity",
    "Source",
    "Sources",
    "assemble",
    "draw",
    "note_grounds",
    "populate",
    "reals",
    "stoutest",
]
