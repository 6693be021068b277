"""Ways to goals: travel-time fields on a raster, made once on the host, and looked up for every agent in every step."""

from crowdlab.navigation.fields import PASSED, choose_cell, pad_goals, sound_cell, ways
from crowdlab.navigation.lookup import (
    desired_direction,
    distance_to_goal_in_sight,
    inside,
    inside_goal,
    outlet_crossed,
    reached,
    to_own_place,
    way_lengths,
)

__all__ = [
    "PASSED",
    "choose_cell",
    "desired_direction",
    "distance_to_goal_in_sight",
    "inside",
    "inside_goal",
    "outlet_crossed",
    "pad_goals",
    "reached",
    "sound_cell",
    "to_own_place",
    "way_lengths",
    "ways",
]
