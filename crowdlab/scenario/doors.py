"""Doors that open and close while people walk.

A closed door is a wall and shuts the ways through it; people who have no other way walk to it and wait. The surroundings of every set of
closed doors have arrays of the same shapes, and runs are cut into pieces of one TICK, so that a switch between two pieces compiles
nothing. Doors are looked at every TICK: an open door that ought to be closed waits until nobody stands in it.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np

from crowdlab import demand, geometry
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor
from crowdlab.scenario.tables import DoorTable
from crowdlab.state import State, World

TICK = 0.2  # s, how often doors are looked at
MOST = 30  # doors; their states are the bits of one number


@dataclasses.dataclass(frozen=True, eq=False)
class Doors:
    """All doors of a scenario. A set of closed doors is a number: bit i is set where door i is closed."""

    names: tuple[str, ...]
    lines: tuple[np.ndarray, ...]  # edges (E, 2, 2) m of each
    times: tuple[tuple[float, int, bool], ...]  # s, which door, whether it closes then; in order
    shut: World  # every door closed, whatever the ways
    make: Callable[[int], World]  # the world with a set of doors closed
    known: dict[int, World] = dataclasses.field(default_factory=dict)

    def world(self, closed: int, base: World | None = None) -> World:
        """The world with a set of doors closed; computed once. `base` is `shut` with a table of walls, which is kept."""
        if closed not in self.known:
            self.known[closed] = self.make(closed)
        now = self.known[closed]
        if base is None:
            return now
        names = ("walls", "wall_vertices", "wall_directions", "wall_part", "ways")
        return dataclasses.replace(base, **{name: getattr(now, name) for name in names})

    def asked(self, step: int, dt: float) -> int:
        """Which doors the file wants closed at a step."""
        closed = self._at_first()
        for time, door, closes in self.times:
            if _step(time, dt) <= step:
                closed = closed | 1 << door if closes else closed & ~(1 << door)
        return closed

    def _at_first(self) -> int:
        """Before its first time a door is the opposite of what it becomes then."""
        first = {door: closes for _, door, closes in reversed(self.times)}
        return sum(1 << door for door, closes in first.items() if not closes)

    def moved(self, state: State, dt: float) -> State:
        """The state with the doors as they are from its step on; the same state between two looks."""
        step, closed = int(state.step), int(state.closed)
        if step % _tick(dt):
            return state
        wanted = self.asked(step, dt)
        for door, edges in enumerate(self.lines):
            if wanted & ~closed & 1 << door and self._taken(state, edges):
                wanted &= ~(1 << door)
        return state if wanted == closed else state.with_(closed=jnp.asarray(np.asarray(wanted, np.int32)))

    def _taken(self, state: State, edges: np.ndarray) -> bool:
        """Whether somebody stands in a door."""
        here = np.asarray(state.position, float).T[np.asarray(state.alive)]
        return bool((geometry.distances(here, edges) <= np.asarray(state.radius, float)[np.asarray(state.alive)]).any())

    def until(self, step: int, dt: float) -> int:
        """The next step after this one at which doors are looked at."""
        return (step // _tick(dt) + 1) * _tick(dt)


def _tick(dt: float) -> int:
    """Steps between two looks at the doors."""
    return max(1, round(TICK / dt))


def _step(time: float, dt: float) -> int:
    """The step of the first look at or after a time."""
    return math.ceil(time / dt / _tick(dt) - 1e-6) * _tick(dt)


def read_doors(tables: dict[str, DoorTable]) -> tuple[list[np.ndarray], list[tuple[float, int, bool]]]:
    """Edges (E, 2, 2) m of each line, and times in order. Raises ScenarioError naming the door."""
    lines, times = [], []
    if len(tables) > MOST:
        raise ScenarioError(f"doors: {len(tables)} of them: allowed are {MOST}. Take some out, or give them one line.")
    for number, (name, table) in enumerate(tables.items()):
        lines.append(geometry.edges_of(geometry.read_place(f"doors.{name}", line=table.line)))
        both = sorted([(time, number, True) for time in table.closes] + [(time, number, False) for time in table.opens])
        if not both:
            raise ScenarioError(
                f"doors.{name}: never opens nor closes. Give opens or closes, lists of times in s, or leave it out."
            )
        for time, *_ in both:
            if not math.isfinite(time):
                raise ScenarioError(f"doors.{name}: a time of {time} s: allowed are finite numbers of 0 and more.")
        same = set(table.opens) & set(table.closes)
        if same:
            raise ScenarioError(f"doors.{name}: opens and closes at {min(same):g} s. Give two different times.")
        times += both
    return lines, sorted(times)


def with_doors(floor: Floor, lines: Sequence[np.ndarray], closed: int) -> Floor:
    """The floor with some doors closed: their lines are walls."""
    edges = [line for door, line in enumerate(lines) if closed >> door & 1]
    return (
        dataclasses.replace(floor, walls=geometry.wall_arrays(np.concatenate([floor.walls, *edges]))["walls"]) if edges else floor
    )


def doors_of(floor: Floor, tables: dict[str, DoorTable], world: World, ways: Callable[[Floor], np.ndarray]) -> Doors | None:
    """The doors of a scenario; `world` has them all open, `ways` computes World.ways for a floor. None where there are none."""
    if not tables:
        return None
    lines, times = read_doors(tables)
    inside = geometry.Notes(floor.origin).inside
    lines = [inside(edges.reshape(-1, 2)).reshape(edges.shape) for edges in lines]
    arrays = geometry.wall_arrays(with_doors(floor, lines, (1 << len(lines)) - 1).walls)
    owner = geometry.which_door(arrays["walls"], floor.walls, lines)
    for number, name in enumerate(tables):
        if not (owner == number).any():
            raise ScenarioError(f"doors.{name}.line: lies on a wall. Draw it across a gap, or along an exit.")
    open_ways = np.asarray(world.ways)

    def stand(closed: int, fields: np.ndarray) -> World:
        walls = geometry.standing(arrays, (owner < 0) | (closed >> np.maximum(owner, 0) & 1).astype(bool))
        return dataclasses.replace(
            world,
            walls=demand.reals(walls["walls"]),
            wall_vertices=demand.reals(walls["wall_vertices"]),
            wall_directions=demand.reals(walls["wall_directions"]),
            wall_part=jnp.asarray(walls["wall_part"]),
            ways=demand.reals(fields),
        )

    def make(closed: int) -> World:
        if not closed:
            return stand(closed, open_ways)
        fields = ways(with_doors(floor, lines, closed))
        nowhere = (fields[:, :2] == 0).all(1, keepdims=True)  # who has no way now walks to the door and waits
        return stand(closed, np.where(nowhere, open_ways, fields))

    return Doors(tuple(tables), tuple(lines), tuple(times), stand((1 << len(lines)) - 1, open_ways), make)
