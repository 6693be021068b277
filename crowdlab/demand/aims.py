"""Where people of a group want to go, and whether they can."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crowdlab import geometry
from crowdlab.demand.grounds import check_reach, goal_points
from crowdlab.demand.groups import Group
from crowdlab.errors import ScenarioError, nearest
from crowdlab.geometry import Floor, Place
from crowdlab.state import Array


class Starts(NamedTuple):
    """Where everybody comes from; the rows of group g begin at `first[g]`."""

    place: np.ndarray  # (N, 2) m
    radius: np.ndarray  # (N,) m
    names: Sequence[str]  # (N), for messages
    entries: Sequence[np.ndarray]  # of each group, places (P, 2) m at which it may come in over time
    first: np.ndarray  # (groups + 1,)
    keys: Sequence[Array]  # of each group, draws its goals


def aims(
    floor: Floor,
    groups: Mapping[str, Group],
    goals: Mapping[str, tuple[Place | None, float, str]],
    journeys: Mapping[str, Sequence[str]],
    starts: Starts,
    reach: float,
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, np.ndarray]]]:
    """Goal and journey of everybody, (N,) each, and the goals of single persons, name and point.

    `goals` are shape, none for a direction, arrival distance, m, and the name for messages; `reach` is that of the goals of single persons.

    Raises:
        ScenarioError: there is no such goal, or somebody cannot get to it.
    """
    place, radius, names, entries, first, keys = starts
    goal, journey = np.full((2, len(place)), -1)
    own: list[tuple[str, np.ndarray]] = []
    for number, (name, group) in enumerate(groups.items()):
        span = slice(first[number], first[number + 1])
        if group.goal is not None and group.goal_area is not None:
            raise ScenarioError(f"groups.{name}: has both goal and goal_area. Give one of them.")
        if group.goal is not None and group.goal not in goals:
            raise ScenarioError(f"groups.{name}.goal = '{group.goal}': there is no such goal. {nearest(group.goal, list(goals))}")
        wanted = [group.goal] if group.goal is not None else journeys[group.journey] if group.journey is not None else []
        for aim in wanted:
            shape, distance, item = goals[aim]
            if shape is None:
                continue
            stoutest = np.full(len(entries[number]), radius[span].max(initial=0.0))
            entry = [f"groups.{name}.area"] * len(stoutest)
            check_reach(floor, place[span], radius[span], names[span], shape, distance, item)
            check_reach(floor, entries[number], stoutest, entry, shape, distance, item)
        if group.goal is not None:
            goal[span] = list(goals).index(group.goal)
        elif group.journey is not None:
            journey[span] = list(journeys).index(group.journey)
        elif group.goal_area is not None:
            points = goal_points(floor, name, group, radius[span], keys[number])
            goal[span] = len(goals) + len(own) + np.arange(len(points))
            own += [(f"{name}.{i}", point) for i, point in enumerate(points)]
            for i, point in enumerate(points):
                one = slice(first[number] + i, first[number] + i + 1)
                shape = geometry.read_place("", point=point)
                check_reach(floor, place[one], radius[one], names[one], shape, reach, f"groups.{name}.goal_area")
    return goal, journey, own
