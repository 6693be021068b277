"""Ways to goals: travel-time fields on a raster, made once on the host, and looked up for every agent in every step."""

from crowdlab.navigation.fields import choose_cell, pad_goals, ways
from crowdlab.navigation.lookup import desired_direction, distance_to_goal_in_sight, reached

__all__ = ["choose_cell", "desired_direction", "distance_to_goal_in_sight", "pad_goals", "reached", "ways"]
