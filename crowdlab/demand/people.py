"""Who is there at the start: people with their differences, placed without overlap, with goals they can get to."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import geometry
from crowdlab.demand.differences import Body, draw
from crowdlab.demand.groups import Group, Profile, chosen, shared_out
from crowdlab.errors import ScenarioError, nearest
from crowdlab.geometry import Floor, Place
from crowdlab.navigation import desired_direction, distance_to_goal_in_sight
from crowdlab.params import People, Spec, spec_of
from crowdlab.state import Array, State, World

# Draws for the start come from their own branch of the seed; a run folds in its steps, which never get as far as this number.
START = 2**32 - 1
MOST = 10_000_000  # people in one group; refused before anything is drawn
# One fixed number for each thing that is drawn, so that adding one later changes no other.
RADIUS, SOCIAL_RADIUS, MASS, DESIRED_SPEED, RELAXATION_TIME, PLACE, GOAL, PRE_MOVEMENT, PROFILE = range(9)
DRAWN = (
    "radius",
    "social_radius",
    "mass",
    "desired_speed",
    "relaxation_time",
    "pre_movement",
)  # columns of a crowd, one value each


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Crowd:
    """Everybody at the start, rows in the order of the groups."""

    group: np.ndarray  # (N,) number of the group
    position: np.ndarray  # (N, 2) m
    radius: np.ndarray  # (N,) m
    social_radius: np.ndarray  # (N,) m
    mass: np.ndarray  # (N,) kg
    desired_speed: np.ndarray  # (N,) m/s
    relaxation_time: np.ndarray  # (N,) s, NaN where a group says nothing
    pre_movement: np.ndarray  # (N,) s
    goal: np.ndarray  # (N,) number of the goal, -1 has none
    own_goals: tuple[tuple[str, np.ndarray], ...]  # goals of single persons, name and point (2,) m, numbered after the common ones


def populate(
    floor: Floor,
    groups: Mapping[str, Group],
    goals: Mapping[str, tuple[Place, float]],
    seed: int,
    *,
    relaxation: Spec,
    reach: float,
    profiles: Mapping[str, Profile] = MappingProxyType({}),
) -> Crowd:
    """Everybody of all groups, placed and given goals.

    `goals` are shape and arrival distance m by name; goals of single persons have the arrival distance `reach`, and `profiles` those
    kinds of people that the scenario has beside PROFILES. Given places come first, then random ones in the order of the groups, so that
    a random place is never where somebody was put by hand.

    Raises:
        ScenarioError, ParamError: names the group, what is wrong and what is allowed.
    """
    base = jax.random.fold_in(jax.random.key(seed), START)
    keys = [jax.random.fold_in(base, number) for number in range(len(groups))]
    rows = [
        _individuals(name, group, _count(floor, name, group), key, relaxation, profiles)
        for (name, group), key in zip(groups.items(), keys, strict=True)
    ]
    sizes = [len(row["radius"]) for row in rows]
    names = [f"groups.{name}.{_item(group)}[{i}]" for (name, group), n in zip(groups.items(), sizes, strict=True) for i in range(n)]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    columns = {what: np.concatenate([row[what] for row in rows] or [np.empty(0)]) for what in DRAWN}
    position = np.full((int(first[-1]), 2), math.nan)
    for given in (True, False):
        for number, (name, group) in enumerate(groups.items()):
            if (group.positions is not None) == given:
                mine = np.arange(first[number], first[number + 1])
                _place(floor, name, group, jax.random.fold_in(keys[number], PLACE), position, columns["radius"], mine, names)
    goal = np.full(len(position), -1)
    own: list[tuple[str, np.ndarray]] = []
    for number, (name, group) in enumerate(groups.items()):
        span = slice(first[number], first[number + 1])
        if group.goal is not None and group.goal_area is not None:
            raise ScenarioError(f"groups.{name}: has both goal and goal_area. Give one of them.")
        if group.goal is not None:
            if group.goal not in goals:
                raise ScenarioError(
                    f"groups.{name}.goal = '{group.goal}': there is no such goal. {nearest(group.goal, list(goals))}"
                )
            goal[span] = list(goals).index(group.goal)
            shape, distance = goals[group.goal]
            _check_reach(floor, position[span], columns["radius"][span], names[span], shape, distance, f"goals.{group.goal}")
        elif group.goal_area is not None:
            points = _own_goals(floor, name, group, columns["radius"][span], jax.random.fold_in(keys[number], GOAL))
            goal[span] = len(goals) + len(own) + np.arange(len(points))
            own += [(f"{name}.{i}", point) for i, point in enumerate(points)]
            for i, point in enumerate(points):
                one = slice(first[number] + i, first[number] + i + 1)
                shape = geometry.read_place("", point=point)
                _check_reach(floor, position[one], columns["radius"][one], names[one], shape, reach, f"groups.{name}.goal_area")
    return Crowd(group=np.repeat(np.arange(len(groups)), sizes), position=position, goal=goal, own_goals=tuple(own), **columns)


def _item(group: Group) -> str:
    return "positions" if group.positions is not None else "person"


def _count(floor: Floor, name: str, group: Group) -> int:
    """How many people a group has."""
    where = f"groups.{name}"
    ways = {"area": group.area, "positions": group.positions, "gaussian": group.gaussian}
    if sum(given is not None for given in ways.values()) != 1:
        raise ScenarioError(f"{where}: give either area or gaussian (and count or density) or positions.")
    if group.positions is not None:
        count = len(group.positions)
        if group.count not in (None, count):
            raise ScenarioError(f"{where}.count = {group.count}: there are {count} positions. Leave count out, or make them agree.")
    elif group.density is not None:
        if group.count is not None or group.area is None:
            raise ScenarioError(
                f"{where}.density = {group.density:g} (1/m^2): belongs to an area without a count. Give one of them."
            )
        ground = geometry.within(floor, _ground(floor, group.area, f"{where}.area"))
        count = round(group.density * ground.area) if 0 <= group.density * ground.area <= MOST else MOST + 1
    elif group.count is None:
        raise ScenarioError(f"{where}: key 'count' is missing: how many people start in the area? (Or give a density.)")
    else:
        count = group.count
    if count > MOST:
        raise ScenarioError(f"{where}.count = {count}: allowed are 0 to {MOST}. Give such a number.")
    return count


def _individuals(
    name: str, group: Group, count: int, key: Array, relaxation: Spec, profiles: Mapping[str, Profile]
) -> dict[str, np.ndarray]:
    """Radius, personal space, mass, desired speed, relaxation time and pre-movement time of everybody in a group."""
    where, shares = f"groups.{name}", group.profiles or {}
    kinds = chosen(shares, profiles, f"{where}.profiles")
    kind = shared_out(shares, count, jax.random.fold_in(key, PROFILE), f"{where}.profiles") if shares else np.zeros(count, int)

    def values(what: str, number: int, law: Spec, usual: np.ndarray | None = None) -> np.ndarray:
        chance, own = jax.random.fold_in(key, number), getattr(group, what)
        found = usual if own is None else draw(own, count, chance, f"{where}.{what}", law)
        found = np.full(count, np.nan) if found is None else found
        for index, (profile, title) in enumerate(zip(kinds, shares, strict=True)):
            special = getattr(profile, what)
            if special is not None:
                found = np.where(kind == index, draw(special, count, chance, f"profiles.{title}.{what}", law), found)
        return found

    radius = values("radius", RADIUS, spec_of(Body(), "radius"))
    return {
        "radius": radius,
        "social_radius": values("social_radius", SOCIAL_RADIUS, spec_of(Body(), "social_radius"), radius),
        "mass": values("mass", MASS, spec_of(Body(), "mass")),
        "desired_speed": values("desired_speed", DESIRED_SPEED, spec_of(People(), "desired_speed")),
        "relaxation_time": values("relaxation_time", RELAXATION_TIME, relaxation),
        "pre_movement": values("pre_movement", PRE_MOVEMENT, spec_of(People(), "pre_movement")),
    }


def _place(
    floor: Floor,
    name: str,
    group: Group,
    key: Array,
    position: np.ndarray,
    radius: np.ndarray,
    mine: np.ndarray,
    names: Sequence[str],
) -> None:
    """Fill in the rows `mine` of `position`, clear of all rows that are filled already."""
    done = np.flatnonzero(~np.isnan(position[:, 0]))
    taken = (position[done], radius[done])
    if group.positions is not None:
        given = geometry.read_points(group.positions, f"groups.{name}.positions") if len(mine) else np.empty((0, 2))
        places = geometry.Notes(floor.origin).inside(given)
        geometry.check_start(floor, places, radius[mine], [names[i] for i in [*mine, *done]], taken)
    elif group.gaussian is not None:
        x, y = geometry.Notes(floor.origin).inside(np.array(group.gaussian.centre, float)).tolist()
        bell = ((x, y), group.gaussian.deviation)
        if not 0 < bell[1] < math.inf:
            raise ScenarioError(
                f"groups.{name}.gaussian.deviation = {bell[1]:g} m: allowed are numbers above 0. Give such a number."
            )
        places = geometry.sample_discs(
            floor, floor.area, radius[mine], key, taken=taken, where=f"groups.{name}.gaussian", bell=bell
        )
    else:
        area = _ground(floor, group.area, f"groups.{name}.area")
        places = geometry.sample_discs(floor, area, radius[mine], key, taken=taken, where=f"groups.{name}.area")
    position[mine] = places


def _ground(floor: Floor, spec: Any, where: str) -> geometry.Area:
    area = geometry.read_area(spec, where, geometry.Notes(floor.origin))
    ground = geometry.within(floor, area)
    if ground.is_empty:
        raise ScenarioError(f"{where}: lies outside the walkable area. Move it to where people can walk.")
    return area


def _own_goals(floor: Floor, name: str, group: Group, radius: np.ndarray, key: Array) -> np.ndarray:
    """A random point for each person, (n, 2) m, where the stoutest of them can stand."""
    where = f"groups.{name}.goal_area"
    area = _ground(floor, group.goal_area, where)
    room = geometry.within(floor, area, float(radius.max(initial=0.0)))
    if len(radius) and room.is_empty:
        raise ScenarioError(f"{where}: nobody of radius {radius.max():g} m can stand there. Enlarge it.")
    return geometry.sample_points(room, len(radius), key, where)


def _check_reach(
    floor: Floor, starts: np.ndarray, radius: np.ndarray, names: Sequence[str], place: Place, reach: float, where: str
) -> None:
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
            cure = (
                "It lies nearer to a wall than the radius: move it away, or onto the outline of the area, where it opens the wall."
            )
        raise ScenarioError(f"{where}: unreachable for radius {radius[one]:.3g} m from {start}. {cure}")


def reals(values: Any) -> Array:
    """An array of the default float type, converted on the host: no program is compiled for it."""
    return jnp.asarray(np.asarray(values, jnp.result_type(float)))


def assemble(crowd: Crowd, world: World, origin: geometry.Origin = geometry.ZERO) -> State:
    """Everybody at rest at step 0, looking where they want to go; messages put the `origin`, m, back.

    Raises:
        ScenarioError: the raster of a huge plan has lost somebody's way.
    """
    count = len(crowd.radius)

    def integers(values: Any) -> Array:
        return jnp.asarray(np.asarray(values, np.int32))

    state = State(
        id=integers(np.arange(count)),
        position=reals(crowd.position.T),
        velocity=reals(np.zeros((2, count))),
        heading=reals(np.zeros((2, count))),
        radius=reals(crowd.radius),
        social_radius=reals(crowd.social_radius),
        mass=reals(crowd.mass),
        desired_speed=reals(crowd.desired_speed),
        group=integers(crowd.group),
        goal=integers(crowd.goal),
        alive=jnp.asarray(np.ones(count, bool)),
        arrived=integers(np.full(count, -1)),
        step=integers(0),
    )
    heading, distance = map(np.array, _look(state, world))
    nowhere = (heading == 0).all(0)
    lost = np.flatnonzero(nowhere & (crowd.goal >= 0) & np.isinf(distance))
    if len(lost):
        raise ScenarioError(
            f"person {lost[0]} at {geometry.at(crowd.position[lost[0]], origin)}: the way to the goal is too narrow for a raster of "
            f"{float(world.ways_cell):.3g} m, the finest that fits the memory. Use a smaller area or fewer goals."
        )
    heading[0, nowhere] = 1.0
    return state.with_(heading=reals(heading))


@jax.jit
def _look(state: State, world: World) -> tuple[Array, Array]:
    return desired_direction(state, world).stacked, distance_to_goal_in_sight(state, world)
