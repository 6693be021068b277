"""Pairs of neighbours as forces see them: measured anew at each step from a list, cut hard at the reach."""

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from crowdlab import walls
from crowdlab.arithmetic import Field, Vector, dot, ordered_sum, take, where
from crowdlab.neighbours.cells import Grid
from crowdlab.neighbours.lists import NeighbourList, Slots, make_list, tie_directions
from crowdlab.state import Array, State, World
from crowdlab.trees import pytree

SMALLEST = walls.SMALLEST  # m; nearer pairs count as being on one point
FAR = 1e6  # m; where dead rows are kept for the measuring, beyond anybody's reach


@pytree
class Pairs:
    """Up to K neighbours for each of N agents."""

    index: Array  # (K, N) int32, row of each neighbour; an empty slot points at the agent itself
    offset: Vector  # (K, N) m, from me to the other
    distance: Array  # (K, N) m, floored at 1e-6 so that gradients stay finite
    normal: Vector  # (K, N) unit, from the other to me
    mask: Array  # (K, N) bool, which slots are real
    radius: Array  # (K, N) m, the neighbour's body
    social_radius: Array  # (K, N) m, the neighbour's personal space

    def at(self, values: Any) -> Any:
        """Per-agent values (N,) looked up for every neighbour, (K, N); a vector (2, N) gives a Vector of (K, N)."""
        return take(values, self.index)

    def total(self, terms: Field) -> Any:
        """Sum of per-pair terms (K, N), numbers or a Vector, over real neighbours, always in the order of ids: (N,), or a Vector of it."""
        if isinstance(terms, Vector):
            return Vector(x=self.total(terms.x), y=self.total(terms.y))
        return ordered_sum(jnp.where(self.mask, terms, 0.0))


@pytree
class Neighbours(Pairs):
    """Everybody within the reach, those who touch once more, and the walls. Forces read this and never the grid."""

    touching: Pairs  # only those whose bodies overlap, for laws of contact: a shorter list, or the same (see NeighbourList)
    walls: walls.Walls


def find(state: State, world: World, grid: Grid | None, key: Array) -> tuple[Neighbours, NeighbourList]:
    """Make a list and measure it at once; `grid=None` means all pairs and all walls (tests, few agents). Pure."""
    listed, _ = make_list(state, world, grid, tie_directions(state.id, key))
    return measure(listed, state, world, grid), listed


def measure(listed: NeighbourList, state: State, world: World, grid: Grid | None) -> Neighbours:
    """Offsets, distances and walls now, cut at the reach; dead rows see nobody and are seen by nobody."""
    seen = _places(state, world)
    people = _pairs(listed.people, state, seen, world)
    touching = people if listed.touching is None else _pairs(listed.touching, state, seen, world)
    reach, wall_reach = (FAR / 2, math.inf) if grid is None else (grid.reach, grid.wall_reach)
    return Neighbours(
        **_within(people, people.distance < reach),
        touching=Pairs(**_within(touching, touching.distance < state.radius + touching.radius)),
        walls=walls.measure(world.wrap(state.position), listed.walls, wall_reach),
    )


def _within(pairs: Pairs, near: Array) -> dict[str, Any]:
    """The fields of `pairs`, with only those slots real that are `near` too."""
    return {**vars(pairs), "mask": pairs.mask & near}


def _places(state: State, world: World) -> Vector:
    """Where everybody is for the others, m. Dead rows are moved far away, one by one: that cuts them by distance.

    It saves looking up who is alive for every pair. A periodic box has nothing far away. The branch keeps XLA from choosing anew
    for every pair, and costs nothing as long as all rows live.
    """
    here = Vector.of(state.position)
    if world.periodic:
        return here
    far = FAR * (1.0 + jnp.arange(here.x.shape[0], dtype=here.x.dtype))
    return lax.cond(state.alive.all(), lambda: here, lambda: where(state.alive, here, (far, far)))


def _pairs(slots: Slots, state: State, seen: Vector, world: World) -> Pairs:
    real = slots.real
    if world.periodic:
        real = real & take(state.alive, slots.index) & state.alive
    apart = world.offset(seen, take(seen, slots.index))
    square = dot(apart, apart)
    coincident = square < SMALLEST**2
    offset = where(coincident, SMALLEST * slots.side, apart)
    # An empty slot points at the agent itself: one metre away it stays harmless to every law and its gradient.
    distance = jnp.where(real, jnp.sqrt(jnp.where(coincident, SMALLEST**2, square)), 1.0)
    inverse = 1.0 / distance
    return Pairs(
        index=slots.index,
        offset=offset,
        distance=distance,
        normal=Vector(x=-offset.x * inverse, y=-offset.y * inverse),
        mask=real,
        radius=slots.radius,
        social_radius=slots.social_radius,
    )
