"""Doors that open and close while people walk.

A closed door is a wall and shuts the ways through it; people who have no other way walk to it and wait. The surroundings of every set of
closed doors have arrays of the same shapes, and runs are cut into pieces of one TICK, so that a switch between two pieces compiles
nothing. Doors are looked at every TICK: an open door that ought to be closed waits until nobody stands in it.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from crowdlab import demand, geometry, navigation
from crowdlab.demand.ticks import first_look, tick
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor
from crowdlab.journeys import SHUT
from crowdlab.scenario.surroundings import Goal
from crowdlab.state import State, World

TIGHT = 1e-6  # a gap of exactly two radii lets a body through, as in geometry.Floor.free


@dataclasses.dataclass(frozen=True, eq=False)
class Doors:
    """All doors of a scenario. A set of closed doors is a number: bit i is set where door i is closed."""

    names: tuple[str, ...]
    lines: tuple[np.ndarray, ...]  # edges (E, 2, 2) m of each
    times: tuple[tuple[float, int, bool], ...]  # s, which door, whether it closes then; in order
    shut: World  # every door closed, whatever the ways
    make: Callable[[int], World]  # the world with a set of doors closed
    barred: Callable[[int], World]  # the same without ways for who has to wait for a door
    covered: Callable[
        [int], np.ndarray
    ]  # (G, Z) bool, goals that closed doors shut for a size of bodies, as an exit they lie on: one gets to them, not over
    known: dict[int, World] = dataclasses.field(default_factory=dict)

    def world(self, closed: int, base: World | None = None) -> World:
        """The world with a set of doors closed; computed once. `base` is `shut` with a table of walls, which is kept."""
        if closed not in self.known:
            self.known[closed] = self.make(closed)
        now = self.known[closed]
        if base is None:
            return now
        names = ("walls", "wall_vertices", "wall_directions", "wall_part", "goals", "ways", "journeys")
        return dataclasses.replace(base, **{name: getattr(now, name) for name in names})

    def asked(self, step: int, dt: float) -> int:
        """Which doors the file wants closed at a step."""
        closed = self._at_first()
        for time, door, closes in self.times:
            if first_look(time, dt) <= step:
                closed = closed | 1 << door if closes else closed & ~(1 << door)
        return closed

    def _at_first(self) -> int:
        """Before its first time a door is the opposite of what it becomes then."""
        first = {door: closes for _, door, closes in reversed(self.times)}
        return sum(1 << door for door, closes in first.items() if not closes)

    def _check_times(self, dt: float) -> None:
        """Refuse a door that moves twice between two looks: it would not be seen to. Raises ScenarioError."""
        for door, name in enumerate(self.names):
            own = [(time, "closes" if closes else "opens") for time, which, closes in self.times if which == door]
            for (early, first), (late, then) in itertools.pairwise(own):
                if first_look(early, dt) == first_look(late, dt):
                    raise ScenarioError(
                        f"doors.{name}: {first} at {early:g} s and {then} at {late:g} s: doors are looked at every {tick(dt) * dt:g} s, "
                        "so that this would not be seen. Give times farther apart."
                    )

    def moved(self, state: State, dt: float) -> State:
        """The state with the doors as they are from its step on; the same state between two looks."""
        step, closed, alive = int(state.step), int(state.closed), np.asarray(state.alive)
        if step % tick(dt):
            return state
        here, radius = np.asarray(state.position, float).T[alive], np.asarray(state.radius, float)[alive]
        now = self.after(closed, step, dt, here, radius)
        return state if now == closed else state.with_(closed=jnp.asarray(np.asarray(now, np.int32)))

    def after(self, closed: int, step: int, dt: float, here: np.ndarray, radius: np.ndarray) -> int:
        """The doors closed after a look at a step, with people at places (n, 2) m: no door closes on who stands in it."""
        wanted = self.asked(step, dt)
        for door, edges in enumerate(self.lines):
            if wanted & ~closed & 1 << door and (geometry.distances(here, edges) <= radius).any():
                wanted &= ~(1 << door)
        return wanted

    def closed_lines(self, closed: int) -> np.ndarray:
        """Edges (E, 2, 2) m of the doors of a set."""
        return np.concatenate([np.empty((0, 2, 2)), *(edges for door, edges in enumerate(self.lines) if closed >> door & 1)])

    def shuts(self, closed: int, goal: np.ndarray, radius: np.ndarray) -> np.ndarray:
        """Whether the goal of each person with a `radius` (N,) m lies on closed doors that leave no room to go over it, (N,) bool."""
        shut = np.concatenate([self.covered(closed), np.zeros((1, len(self.shut.ways_sizes) + 1), bool)])  # goal -1: none
        return np.asarray(shut[np.maximum(goal, -1), size_of(self.shut, radius)])

    def begun(self, state: State, dt: float, origin: tuple[float, float]) -> tuple[State, World, list[geometry.Finding]]:
        """The state and the world with the doors as they are at its step, and what there is to say of those held open.

        Raises:
            ScenarioError: a door moves twice between two looks.
        """
        self._check_times(dt)
        state = self.moved(state, dt)
        return state, self.world(int(state.closed)), self._held_open(state, dt, origin)

    def _held_open(self, state: State, dt: float, origin: tuple[float, float]) -> list[geometry.Finding]:
        """What there is to say of doors that ought to be closed from the start, and are not because somebody was placed in them."""
        held, alive = self.asked(int(state.step), dt) & ~int(state.closed), np.asarray(state.alive)
        here, who = np.asarray(state.position, float).T[alive], np.asarray(state.id)[alive]
        found = []
        for door, (name, edges) in enumerate(zip(self.names, self.lines, strict=True)):
            if held >> door & 1:
                nearest = int(geometry.distances(here, edges).argmin())
                what = f"open though it is closed from the start: agent {int(who[nearest])} was placed in it"
                repair = "It closes once nobody stands in it. Place people elsewhere, or close it later."
                x, y = (here[nearest] + origin).tolist()
                found.append(geometry.Finding(geometry.WARNING, f"doors.{name}", what, (x, y), math.nan, "", repair))
        return found


def with_doors(floor: Floor, lines: Sequence[np.ndarray], closed: int) -> Floor:
    """The floor with some doors closed: their lines are walls."""
    edges = [line for door, line in enumerate(lines) if closed >> door & 1]
    return (
        dataclasses.replace(floor, walls=geometry.wall_arrays(np.concatenate([floor.walls, *edges]))["walls"]) if edges else floor
    )


class _Exits:
    """The goals that people cross, as closed doors leave them open: an exit under a door is narrower, or shut."""

    def __init__(self, goals: Sequence[Goal], lines: Sequence[np.ndarray], sizes: Sequence[float]) -> None:
        self.goals, self.lines, self.sizes = goals, lines, sizes
        every = np.concatenate(lines)
        splits = [int(geometry.lying_on(goal.edges, every).sum()) if goal.crossed else 0 for goal in goals]
        self.most = max([1, *(len(goal.edges) + more for goal, more in zip(goals, splits, strict=True))])
        self.under = [more > 0 for more in splits]

    def left(self, closed: int) -> tuple[list[Goal], np.ndarray]:
        """Goals with the edges that are left, whole ones where nothing is, and which are shut for each size of bodies, (G, Z) bool."""
        found, shut = list(self.goals), np.zeros((len(self.goals), len(self.sizes)), bool)
        doors = np.concatenate([np.empty((0, 2, 2)), *(edges for door, edges in enumerate(self.lines) if closed >> door & 1)])
        for number, goal in enumerate(self.goals):
            if not self.under[number] or not geometry.lying_on(goal.edges, doors).any():
                continue
            stretches = geometry.left_open(goal.edges, doors)
            widths = np.array([np.hypot(*(edges[:, 1] - edges[:, 0]).T).sum() for edges in stretches])
            fits: np.ndarray = widths >= 2 * np.array(self.sizes)[:, None] * (1 - TIGHT)  # (Z, stretches)
            shut[number] = ~fits.any(1)
            wide = [stretches[index] for index in np.flatnonzero(fits.any(axis=0)).tolist()]
            if wide and not _closes(goal.edges):  # what lies in an area is told by the whole of its outline
                found[number] = dataclasses.replace(goal, edges=np.concatenate(wide))
        return found, shut


def _closes(edges: np.ndarray) -> bool:
    """Whether edges (E, 2, 2) m are the outline of an area."""
    return len(edges) > 2 and bool(np.abs((edges[:, 1] - edges[:, 0]).sum(0)).max() < 1e-6)


def doors_of(
    floor: Floor,
    edges_of: Mapping[str, np.ndarray],
    times: Sequence[tuple[float, int, bool]],
    goals: Sequence[Goal],
    radius: np.ndarray,
    world: World,
    open_ways: np.ndarray,
    ways: Callable[[Floor, Sequence[Goal]], np.ndarray],
) -> Doors | None:
    """The doors of a scenario, as `read_doors` gives them, for people of `radius` (N,) m; `world` has them all open, `ways` computes the
    ways for a floor and goals, `open_ways` are those of the open one.

    None where there are no doors.
    """
    if not edges_of:
        return None
    lines = list(edges_of.values())
    arrays = geometry.wall_arrays(with_doors(floor, lines, (1 << len(lines)) - 1).walls)
    owner = geometry.which_door(arrays["walls"], floor.walls, lines)
    exits = _Exits(goals, lines, stoutest_of(world, radius))

    def stand(closed: int, fields: np.ndarray) -> World:
        walls = geometry.standing(arrays, (owner < 0) | (closed >> np.maximum(owner, 0) & 1).astype(bool))
        edges = [goal.edges for goal in exits.left(closed)[0]]
        return dataclasses.replace(
            world,
            walls=demand.reals(walls["walls"]),
            wall_vertices=demand.reals(walls["wall_vertices"]),
            wall_directions=demand.reals(walls["wall_directions"]),
            wall_part=jnp.asarray(walls["wall_part"]),
            goals=demand.reals(navigation.pad_goals(edges, exits.most)),
            ways=demand.reals(fields[:, :3]),
            journeys=world.journeys and dataclasses.replace(world.journeys, lengths=demand.reals(fields[:, 3])),
        )

    def strictly(closed: int) -> np.ndarray:
        return ways(with_doors(floor, lines, closed), exits.left(closed)[0]) if closed else open_ways

    def covered(closed: int) -> np.ndarray:
        return exits.left(closed)[1]

    def barred(closed: int) -> World:
        return stand(closed, strictly(closed))

    def make(closed: int) -> World:
        fields = strictly(closed)
        nowhere = (fields[:, :2] == 0).all(1, keepdims=True)  # who has no way now walks to the door and waits
        fields = np.where(nowhere, open_ways, fields) if closed else open_ways.copy()
        behind = covered(closed).ravel()  # (G * Z,)
        fields[:, 3] += SHUT * ((nowhere[:, 0] & bool(closed)) | behind[:, None, None])
        return stand(closed, fields)

    return Doors(tuple(edges_of), tuple(lines), tuple(times), stand((1 << len(lines)) - 1, open_ways), make, barred, covered)


def stoutest_of(world: World, radius: np.ndarray) -> list[float]:
    """Radius, m, of the stoutest body of each of the Z sizes of people that a world has ways for."""
    sizes = size_of(world, radius) if len(radius) else np.zeros(1, int)
    radii = radius if len(radius) else np.array([demand.Body.radius])
    return [float(radii[sizes == number].max(initial=0.0)) for number in range(len(world.ways_sizes) + 1)]


def size_of(world: World, radius: np.ndarray) -> np.ndarray:
    """Which of the Z sizes that a world has ways for people of `radius` (N,) m have, (N,) int."""
    return np.searchsorted(np.asarray(world.ways_sizes), np.asarray(radius, np.float32), side="right")
