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
from crowdlab.demand.aims import Starts, aims
from crowdlab.demand.differences import Body, draw
from crowdlab.demand.grounds import ground, look
from crowdlab.demand.groups import Group, Profile, chosen, shared_out
from crowdlab.demand.placed import place_all
from crowdlab.demand.sources import Sources, due_times, places_of, sources_of
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Place
from crowdlab.params import People, spec_of
from crowdlab.state import OUTSIDE, Array, State, Trip, World
from crowdlab.trees import Spec

# Draws for the start come from their own branch of the seed; a run folds in its steps, which never get as far as this number.
START = 2**32 - 1
MOST = 10_000_000  # people in one group; refused before anything is drawn
# One fixed number for each thing that is drawn, so that adding one later changes no other.
RADIUS, SOCIAL_RADIUS, MASS, DESIRED_SPEED, RELAXATION_TIME, PLACE, GOAL, PRE_MOVEMENT, PROFILE, ARRIVAL, ENTRY = range(11)
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
    journey: np.ndarray  # (N,) number of the journey, -1 has none
    own_goals: tuple[tuple[str, np.ndarray], ...]  # goals of single persons, name and point (2,) m, numbered after the common ones
    sources: Sources | None = None  # of those who come in over time


def populate(
    floor: Floor,
    groups: Mapping[str, Group],
    goals: Mapping[str, tuple[Place | None, float, str]],
    seed: int,
    *,
    relaxation: Spec,
    reach: float,
    profiles: Mapping[str, Profile] = MappingProxyType({}),
    journeys: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Crowd:
    """Everybody of all groups, placed and given goals.

    `goals` are shape, none for a direction, arrival distance, m, and what messages call it, by name; goals of single persons have the
    arrival distance `reach`.
    `profiles` are those kinds of people that the scenario has beside PROFILES, `journeys` all goals of each journey. Given places come
    first, then random ones in the order of the groups, so that a random place is never where somebody was put by hand. Who comes in
    over time has the place that is tried first.

    Raises:
        ScenarioError, ParamError: names the group, what is wrong and what is allowed.
    """
    base = jax.random.fold_in(jax.random.key(seed), START)
    keys = [jax.random.fold_in(base, number) for number in range(len(groups))]
    due = [
        None if group.source is None else due_times(name, group, group.source, jax.random.fold_in(key, ARRIVAL), MOST)
        for (name, group), key in zip(groups.items(), keys, strict=True)
    ]
    rows = [
        _individuals(name, group, _count(floor, name, group) if times is None else len(times), key, relaxation, profiles)
        for (name, group), key, times in zip(groups.items(), keys, due, strict=True)
    ]
    sizes = [len(row["radius"]) for row in rows]
    names = [f"groups.{name}.{_item(group)}[{i}]" for (name, group), n in zip(groups.items(), sizes, strict=True) for i in range(n)]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    columns = {what: np.concatenate([row[what] for row in rows] or [np.empty(0)]) for what in DRAWN}
    position = np.full((int(first[-1]), 2), math.nan)
    place_all(floor, groups, [jax.random.fold_in(key, PLACE) for key in keys], first, position, columns["radius"], names)
    tried, entries = _enter(floor, groups, keys, first, position, columns["radius"])
    starts = Starts(position, columns["radius"], names, entries, first, [jax.random.fold_in(key, GOAL) for key in keys])
    goal, journey, own = aims(floor, groups, goals, journeys, starts, reach)
    return Crowd(
        group=np.repeat(np.arange(len(groups)), sizes),
        position=position,
        goal=goal,
        journey=journey,
        own_goals=tuple(own),
        sources=sources_of(list(groups.values()), due, entries, tried, sizes),
        **columns,
    )


def _enter(
    floor: Floor, groups: Mapping[str, Group], keys: Sequence[Array], first: np.ndarray, position: np.ndarray, radius: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which place each of those who come in over time tries first, (N,), and the places (P, 2) m of each group; fills `position`."""
    tried, entries = np.zeros(len(position), int), [np.empty((0, 2))] * len(groups)
    for number, (name, group) in enumerate(groups.items()):
        if group.source is not None:
            rows, key = slice(first[number], first[number + 1]), jax.random.fold_in(keys[number], ENTRY)
            places = entries[number] = places_of(floor, name, group, radius[rows], key)
            chance = geometry.uniforms(jax.random.fold_in(key, 1), int(first[number + 1] - first[number]))[:, 0]
            tried[rows] = (chance * len(places)).astype(int)
            position[rows] = places[tried[rows]]
    return tried, entries


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
        wanted = group.density * geometry.within(floor, ground(floor, group.area, f"{where}.area")).area
        count = round(wanted) if 0 <= wanted <= MOST else MOST + 1
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


def reals(values: Any) -> Array:
    """An array of the default float type, converted on the host: no program is compiled for it."""
    return jnp.asarray(np.asarray(values, jnp.result_type(float)))


def _begun(crowd: Crowd, world: World) -> tuple[np.ndarray, Trip | None]:
    """Everybody's first goal, (N,), and the journeys just begun. A goal is known from the start where there is nothing to choose and no
    place to be had.
    """
    plan = world.journeys
    if plan is None:
        return crowd.goal, None
    stage = np.append(np.asarray(plan.first), -1)[crowd.journey]  # the last is that of nobody's journey
    options = np.asarray(plan.options)
    plain = (options[:, 1:] < 0).all(1) & ((np.asarray(plan.tail) < 0) | np.asarray(plan.queue))[options[:, 0]]
    return np.where((stage >= 0) & plain[stage], options[stage, 0], crowd.goal), Trip.begun(stage)


def assemble(crowd: Crowd, world: World, origin: geometry.Origin = geometry.ZERO) -> State:
    """Everybody at rest at step 0, looking where they want to go; messages put the `origin`, m, back.

    Raises:
        ScenarioError: the raster of a huge plan has lost somebody's way.
    """
    count = len(crowd.radius)

    def integers(values: Any) -> Array:
        return jnp.asarray(np.asarray(values, np.int32))

    goal, trip = _begun(crowd, world)
    state = State(
        trip=trip,
        id=integers(np.arange(count)),
        position=reals(crowd.position.T),
        velocity=reals(np.zeros((2, count))),
        heading=reals(np.zeros((2, count))),
        radius=reals(crowd.radius),
        social_radius=reals(crowd.social_radius),
        mass=reals(crowd.mass),
        desired_speed=reals(crowd.desired_speed),
        group=integers(crowd.group),
        goal=integers(goal),
        alive=jnp.asarray(np.ones(count, bool)),  # those outside as well, to see whether they have a way
        arrived=integers(np.full(count, -1)),
        entered=integers(np.zeros(count)),
        step=integers(0),
    )
    heading, distance = map(np.array, look(state, world))
    nowhere = (heading == 0).all(0)
    lost = np.flatnonzero(nowhere & (goal >= 0) & np.isinf(distance))
    if len(lost):
        raise ScenarioError(
            f"person {lost[0]} at {geometry.at(crowd.position[lost[0]], origin)}: the way to the goal is too narrow for a raster of "
            f"{float(world.ways_cell):.3g} m, the finest that fits the memory. Use a smaller area or fewer goals."
        )
    heading[0, nowhere] = 1.0
    inside = np.ones(count, bool) if crowd.sources is None else crowd.sources.source < 0
    return state.with_(heading=reals(heading), alive=jnp.asarray(inside), entered=integers(np.where(inside, 0, OUTSIDE)))
