"""Who is there at the start: individual differences drawn from the key, places without overlap, goals."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import geometry
from crowdlab.errors import ScenarioError, nearest
from crowdlab.geometry import Floor, Place
from crowdlab.geometry.placing import uniforms
from crowdlab.navigation import desired_direction
from crowdlab.params import People, Spec, check_value, param, pytree, spec_of
from crowdlab.state import Array, State, World

# Draws for the start come from their own branch of the seed; a run folds in its steps, which never get as far as this number.
START = 2**32 - 1
# One fixed number for each thing that is drawn, so that adding one later changes no other.
RADIUS, SOCIAL_RADIUS, MASS, DESIRED_SPEED, RELAXATION_TIME, PLACE, GOAL = range(7)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Numbers that differ from person to person."""

    uniform: tuple[float, float] | None = None  # from, to
    normal: tuple[float, float] | None = None  # mean, standard deviation
    least: float | None = None  # a normal distribution is cut here, by drawing from what is left of it
    most: float | None = None


Quantity: TypeAlias = float | list[float] | Distribution


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """People who have something in common, as a scenario describes them."""

    count: int | None = None
    area: Any = None
    positions: list[tuple[float, float]] | None = None
    goal: str | None = None
    goal_area: Any = None
    desired_speed: Quantity = 1.34
    radius: Quantity = 0.25
    social_radius: Quantity | None = None
    mass: Quantity = 80.0
    relaxation_time: Quantity | None = None


@pytree
class Body:
    """What a person is made of."""

    radius: Any = param(
        default=0.25,
        unit="m",
        low=0.1,
        high=0.5,
        least=0.01,
        doc="radius of the body",
        source="Helbing, Farkas & Vicsek 2000: 0.25-0.35",
    )
    social_radius: Any = param(
        default=0.25,
        unit="m",
        low=0.1,
        high=1.0,
        doc="personal space, from which the social force is counted",
        source="the body radius",
    )
    mass: Any = param(default=80.0, unit="kg", low=20.0, high=150.0, least=1.0, doc="mass", source="Helbing, Farkas & Vicsek 2000")


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
    goal: np.ndarray  # (N,) number of the goal, -1 has none
    own_goals: tuple[tuple[str, np.ndarray], ...]  # goals of single persons, name and point (2,) m, numbered after the common ones


def draw(quantity: Quantity, count: int, key: Array, where: str, law: Spec) -> np.ndarray:
    """One value per person, (count,). Raises ScenarioError or ParamError naming `where`, the value and what is allowed."""
    if isinstance(quantity, list):
        if len(quantity) != count:
            raise ScenarioError(f"{where}: has {len(quantity)} values for {count} people. Give one for each, or a single number.")
        values = np.array(quantity, float)
    elif isinstance(quantity, Distribution):
        values = _draw_from(quantity, uniforms(key, count)[:, 0], where, law)
    else:
        values = np.full(count, float(quantity))
    check_value(where, values if count else quantity if not isinstance(quantity, Distribution) else values, law)
    return values


def _draw_from(spread: Distribution, chance: np.ndarray, where: str, law: Spec) -> np.ndarray:
    if (spread.uniform is None) == (spread.normal is None):
        raise ScenarioError(f"{where}: give exactly one of uniform = [from, to] and normal = [mean, deviation].")
    if spread.uniform is not None:
        low, high = spread.uniform
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ScenarioError(f"{where}.uniform = [{low:g}, {high:g}]: allowed are two finite numbers, the smaller one first.")
        if spread.least is not None or spread.most is not None:
            raise ScenarioError(f"{where}: least and most belong to normal; uniform has its two ends.")
        return low + (high - low) * chance
    mean, deviation = spread.normal or (0.0, 1.0)
    least = law.least if spread.least is None else spread.least
    most = law.most if spread.most is None else spread.most
    if not (math.isfinite(mean) and 0 < deviation < math.inf):
        raise ScenarioError(f"{where}.normal = [{mean:g}, {deviation:g}]: allowed are a mean and a deviation above zero.")
    bell = NormalDist(mean, deviation)
    bottom, top = bell.cdf(least), bell.cdf(most)
    if not top - bottom > 1e-9:
        raise ScenarioError(
            f"{where}: nothing of the normal distribution lies between least = {least:g} and most = {most:g}. Widen them."
        )
    share = np.clip(bottom + (top - bottom) * chance, 1e-15, 1 - 1e-15)
    # The end points themselves may be missed by rounding of the inverse.
    return np.clip([bell.inv_cdf(float(one)) for one in share], least, most)


def populate(
    floor: Floor,
    groups: Mapping[str, Group],
    goals: Mapping[str, tuple[Place, float]],
    seed: int,
    *,
    relaxation: Spec,
    reach: float,
) -> Crowd:
    """Everybody of all groups, placed and given goals.

    `goals` are shape and arrival distance m by name; goals of single persons have the arrival distance `reach`. Given places come first,
    then random ones in the order of the groups, so that a random place is never where somebody was put by hand.

    Raises:
        ScenarioError, ParamError: names the group, what is wrong and what is allowed.
    """
    base = jax.random.fold_in(jax.random.key(seed), START)
    keys = [jax.random.fold_in(base, number) for number in range(len(groups))]
    rows = [_individuals(name, group, key, relaxation) for (name, group), key in zip(groups.items(), keys, strict=True)]
    sizes = [len(row["radius"]) for row in rows]
    names = [f"groups.{name}.{_item(group)}[{i}]" for (name, group), n in zip(groups.items(), sizes, strict=True) for i in range(n)]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    columns = {what: np.concatenate([row[what] for row in rows] or [np.empty(0)]) for what in rows[0]} if rows else {}
    columns = columns or dict.fromkeys(("radius", "social_radius", "mass", "desired_speed", "relaxation_time"), np.empty(0))
    position = np.full((int(first[-1]), 2), math.nan)
    for given in (True, False):
        for number, (name, group) in enumerate(groups.items()):
            if (group.positions is not None) == given:
                mine = np.arange(first[number], first[number + 1])
                _place(floor, name, group, jax.random.fold_in(keys[number], PLACE), position, columns["radius"], mine, names)
    goal = np.full(len(position), -1)
    own: list[tuple[str, np.ndarray]] = []
    for number, (name, group) in enumerate(groups.items()):
        mine = slice(first[number], first[number + 1])
        if group.goal is not None and group.goal_area is not None:
            raise ScenarioError(f"groups.{name}: has both goal and goal_area. Give one of them.")
        if group.goal is not None:
            if group.goal not in goals:
                raise ScenarioError(
                    f"groups.{name}.goal = '{group.goal}': there is no such goal. {nearest(group.goal, list(goals))}"
                )
            goal[mine] = list(goals).index(group.goal)
            shape, distance = goals[group.goal]
            _check_ways(floor, position[mine], columns["radius"][mine], names[mine], shape, distance, f"goals.{group.goal}")
        elif group.goal_area is not None:
            points = _own_goals(floor, name, group, columns["radius"][mine], jax.random.fold_in(keys[number], GOAL))
            goal[mine] = len(goals) + len(own) + np.arange(len(points))
            own += [(f"{name}.{i}", point) for i, point in enumerate(points)]
            for i, point in enumerate(points):
                one = slice(first[number] + i, first[number] + i + 1)
                shape = geometry.read_place("", point=point)
                _check_ways(floor, position[one], columns["radius"][one], names[one], shape, reach, f"groups.{name}.goal_area")
    return Crowd(group=np.repeat(np.arange(len(groups)), sizes), position=position, goal=goal, own_goals=tuple(own), **columns)


def _item(group: Group) -> str:
    return "positions" if group.positions is not None else "person"


def _individuals(name: str, group: Group, key: Array, relaxation: Spec) -> dict[str, np.ndarray]:
    """Radius, personal space, mass, desired speed and relaxation time of everybody in a group."""
    where = f"groups.{name}"
    if (group.area is None) == (group.positions is None):
        raise ScenarioError(f"{where}: give either area (and count) or positions.")
    count = group.count if group.positions is None else len(group.positions)
    if count is None:
        raise ScenarioError(f"{where}: key 'count' is missing: how many people start in the area?")
    if group.count is not None and group.count != count:
        raise ScenarioError(f"{where}.count = {group.count}: there are {count} positions. Leave count out, or make them agree.")

    def values(what: str, number: int, quantity: Quantity, law: Spec) -> np.ndarray:
        return draw(quantity, count, jax.random.fold_in(key, number), f"{where}.{what}", law)

    radius = values("radius", RADIUS, group.radius, spec_of(Body(), "radius"))
    social, tau = group.social_radius, group.relaxation_time
    return {
        "radius": radius,
        "social_radius": radius
        if social is None
        else values("social_radius", SOCIAL_RADIUS, social, spec_of(Body(), "social_radius")),
        "mass": values("mass", MASS, group.mass, spec_of(Body(), "mass")),
        "desired_speed": values("desired_speed", DESIRED_SPEED, group.desired_speed, spec_of(People(), "desired_speed")),
        "relaxation_time": np.full(count, np.nan) if tau is None else values("relaxation_time", RELAXATION_TIME, tau, relaxation),
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
        places = geometry.read_points(group.positions, f"groups.{name}.positions") if len(mine) else np.empty((0, 2))
        geometry.check_start(floor, places, radius[mine], [names[i] for i in [*mine, *done]], taken)
    else:
        area = _ground(floor, group.area, f"groups.{name}.area")
        places = geometry.sample_discs(floor, area, radius[mine], key, taken=taken, where=f"groups.{name}.area")
    position[mine] = places


def _ground(floor: Floor, spec: Any, where: str) -> geometry.Area:
    area = geometry.read_area(spec, where)
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


def _check_ways(
    floor: Floor, starts: np.ndarray, radius: np.ndarray, names: Sequence[str], place: Place, reach: float, where: str
) -> None:
    lost = np.flatnonzero(geometry.unreachable(floor, starts, radius, place, reach))
    if len(lost):
        one = lost[0]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise ScenarioError(
            f"{where}: unreachable for radius {radius[one]:g} m from {names[one]} at ({starts[one][0]:.4g}, {starts[one][1]:.4g}) m{more}. "
            "Widen the way (a door needs twice the radius), or give another goal."
        )


def assemble(crowd: Crowd, world: World) -> State:
    """Everybody at rest at step 0, looking where they want to go."""
    real = jnp.result_type(float)
    count = len(crowd.radius)

    def integers(values: Any) -> Array:
        return jnp.asarray(values, jnp.int32)

    state = State(
        id=jnp.arange(count, dtype=jnp.int32),
        position=jnp.asarray(crowd.position.T, real),
        velocity=jnp.zeros((2, count), real),
        heading=jnp.zeros((2, count), real),
        radius=jnp.asarray(crowd.radius, real),
        social_radius=jnp.asarray(crowd.social_radius, real),
        mass=jnp.asarray(crowd.mass, real),
        desired_speed=jnp.asarray(crowd.desired_speed, real),
        group=integers(crowd.group),
        goal=integers(crowd.goal),
        alive=jnp.ones(count, bool),
        arrived=jnp.full(count, -1, jnp.int32),
        step=jnp.zeros((), jnp.int32),
    )
    heading = jax.jit(desired_direction)(state, world)
    nowhere = (heading**2).sum(0) == 0
    return state.with_(heading=jnp.where(nowhere, jnp.asarray([[1.0], [0.0]], real), heading))
