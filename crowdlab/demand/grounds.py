"""Where the people of a group may be, and whether they can get to their goals from there."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from crowdlab import geometry
from crowdlab.demand.groups import Group
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Place
from crowdlab.navigation import desired_direction, distance_to_goal_in_sight
from crowdlab.state import Array, State, World

BEYOND = 0.01  # of an area that may lie where nobody can walk without a word: drawn to a wall, it may be a hair beyond


def ground(floor: Floor, spec: Any, where: str) -> geometry.Area:
    """An area that a scenario names, less the origin. Raises ScenarioError where nobody can walk in it."""
    area = geometry.read_area(spec, where, geometry.Notes(floor.origin))
    if geometry.within(floor, area).is_empty:
        raise ScenarioError(f"{where}: lies outside the walkable area. Move it to where people can walk.")
    return area


def note_grounds(floor: Floor, groups: Mapping[str, Group], notes: geometry.Notes) -> None:
    """Note the areas of groups that reach beyond the plan, where nobody is placed; obstacles in them are no mistake."""
    for name, group in groups.items():
        for key in ("area", "goal_area"):
            if getattr(group, key) is None:
                continue
            where = f"groups.{name}.{key}"
            with notes.attempt(where):
                area = geometry.read_area(getattr(group, key), where, geometry.Notes(floor.origin))
                out, spot = geometry.beyond(floor, area)
                if BEYOND * area.area < out < area.area * (1 - 1e-9):  # all of it is refused
                    notes.add(
                        geometry.WARNING, where, "reaches out of the walkable area", spot, out, "m²", "Nobody is placed there."
                    )


def goal_points(floor: Floor, name: str, group: Group, radius: np.ndarray, key: Array) -> np.ndarray:
    """A random point for each person, (n, 2) m, where the stoutest of them can stand."""
    where = f"groups.{name}.goal_area"
    area = ground(floor, group.goal_area, where)
    room = geometry.within(floor, area, float(radius.max(initial=0.0)))
    if len(radius) and room.is_empty:
        raise ScenarioError(f"{where}: nobody of radius {radius.max():g} m can stand there. Enlarge it.")
    return geometry.sample_points(room, len(radius), key, where)


def check_reach(
    floor: Floor, starts: np.ndarray, radius: np.ndarray, names: Sequence[str], place: Place, reach: float, where: str
) -> None:
    """Refuse starts (n, 2) m from which a body of that radius (n,) m cannot get within `reach` m of a place. Raises ScenarioError."""
    lost = np.flatnonzero(geometry.unreachable(floor, starts, radius, place, reach))
    if len(lost):
        one = lost[0]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        start = f"{names[one]} at {geometry.at(starts[one], floor.origin)}{more}"
        cure = "Widen the way (a door needs twice the radius), or give another goal."
        door = geometry.narrow_door(floor, starts[one], place, reach, float(radius[one]))
        if door is not None:
            cure = f"The door at {geometry.at(door.place, floor.origin)} is {door.width:.3g} m wide. {cure}"
        if not reach and floor.free(float(radius[one])).distance(place) > 0:
            cure = geometry.no_room(floor, place, float(radius[one]))
        raise ScenarioError(f"{where}: unreachable for radius {radius[one]:.3g} m from {start}. {cure}")


@jax.jit
def look(state: State, world: World) -> tuple[Array, Array]:
    """Direction (2, N) towards each one's goal, and the distance (N,) m to it, infinite where it is not in plain sight."""
    return desired_direction(state, world).stacked, distance_to_goal_in_sight(state, world)
