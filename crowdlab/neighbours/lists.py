"""The list of candidates: made from the grid every so many steps, complete until somebody has moved half the skin."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crowdlab import walls
from crowdlab.abreast import each, first_rows, joined, keys_by_id
from crowdlab.arithmetic import Vector, dot, root, take
from crowdlab.neighbours.cells import Grid, cells_of, spans
from crowdlab.state import Array, State, World
from crowdlab.trees import pytree

TIES = 2**32 - 2  # from here down, by id, run the numbers of the draws that tell people on one point apart; steps count up from 0
AT_ONCE = 16  # candidates that are looked through in one go
UNROLLED = 40  # slots that are put in order without a loop


@pytree
class Slots:
    """Up to K candidates of every agent, in the order of their ids."""

    index: Array  # (K, N) int32, row of each candidate; an empty slot points at the agent itself
    real: Array  # (K, N) bool, which slots are not empty
    side: Vector  # (K, N) unit, direction in which a coincident pair is told apart: antisymmetric, by the key only
    radius: Array  # (K, N) m, the candidate's body: looked up here once, because looking up is what a step spends its time on
    social_radius: Array  # (K, N) m, the candidate's personal space


@pytree
class NeighbourList:
    """Candidates of every agent, good until somebody has moved half the skin."""

    people: Slots  # K slots: within the reach of some force
    touching: Slots | None  # T slots: whose bodies may touch; None where `people` has room for everybody and serves for them too
    walls: walls.WallList
    start: Array  # (2, N) m, where everybody was when the list was made


class Need(NamedTuple):
    """How much room a list needed; more than the grid gives means that the list is incomplete."""

    neighbours: Array | int  # () int32
    touching: Array | int  # () int32
    span: Array | int  # () int32
    walls: Array | int  # () int32


def tie_directions(ids: Array, key: Array) -> Array:
    """A unit vector (2, N) for each agent, by key and id: the difference of two tells people on one point apart.

    23 bits of each key are drawn, so that double precision tells them apart in the same direction.
    """
    words = jax.random.key_data(keys_by_id(key, jnp.uint32(TIES) - ids.astype(jnp.uint32)))[:, 0] >> 9
    angle = words.astype(float) * (2 * math.pi * 2.0**-23)
    return jnp.stack((jnp.cos(angle), jnp.sin(angle)))


def make_list(state: State, world: World, grid: Grid | None, ties: Array, runs: int | None = None) -> tuple[NeighbourList, Need]:
    """Everybody within reach plus skin of everybody, and every wall feature within its reach plus skin. Pure; never raises.

    `ties` comes from `tie_directions`. Who is on the list changes no force: the choice has no slope, what is looked up for it has.
    Of `runs` abreast each lists its own people only; the room needed is that of the neediest.
    """
    fixed, ground = lax.stop_gradient((state, world))
    skin = math.inf if grid is None else grid.skin

    def own(people: State) -> tuple[Array, Array, Array, Array]:
        return _everybody(people, ground, grid) if grid is None or not grid.half else _by_cells(people, ground, grid)

    index, real, need, span = each(own, runs, fixed)
    index, real = joined((index, real), runs)
    index = index + first_rows(runs, index.shape[1])
    people = _slots(index, real, state, ties)
    touching, most = None, jnp.zeros((), jnp.int32)
    if grid is not None and not has_all(grid, index.shape[1] // (runs or 1)):
        close = real & (_apart(fixed, ground, index) <= (fixed.radius + people.radius + skin) ** 2)
        place, filled, most = pick(close, min(grid.touching, index.shape[0]))
        touching = _slots(_along(index, place, filled, fixed), filled, state, ties)
    wall_index, near_walls = wall_candidates(fixed.position, fixed.alive, ground, grid)
    listed = NeighbourList(people=people, touching=touching, walls=walls.look_up(wall_index, world), start=fixed.position)
    return listed, Need(need.max(), most, span.max(), near_walls)


def _slots(index: Array, real: Array, state: State, ties: Array) -> Slots:
    """The people at rows `index` with all that does not change while the list is good."""
    apart = take(ties, index) - ties[:, None]
    square = dot(apart, apart)
    same = square < 1e-12  # the same draw twice, or an empty slot
    side = apart / root(jnp.where(same, 1.0, square))
    return Slots(
        index=index, real=real, side=side, radius=take(state.radius, index), social_radius=take(state.social_radius, index)
    )


def _apart(state: State, world: World, index: Array) -> Array:
    """Squared distances, m^2, from everybody to the agents at rows `index` (C, N)."""
    between = world.offset(state.position, take(state.position, index))
    return dot(between, between)


def has_all(grid: Grid | None, people: int) -> bool:
    """Whether all are compared with all and everybody has room for everybody: then all are listed, and nothing is counted."""
    return grid is None or (not grid.half and grid.capacity >= people)


def _everybody(state: State, world: World, grid: Grid | None) -> tuple[Array, Array, Array, Array]:
    """All against all: rows (K, N) in the order of ids, which are real, the most that any agent needed, and no span."""
    people = state.position.shape[1]
    me, none = jnp.arange(people, dtype=jnp.int32), jnp.zeros((), jnp.int32)
    order = jnp.argsort(state.id).astype(jnp.int32)
    other = jnp.broadcast_to(order[:, None], (people, people))
    real = (other != me) & take(state.alive, order)[:, None] & state.alive
    if grid is None or has_all(grid, people):
        return jnp.where(real, other, me), real, none + max(people - 1, 0), none
    near = real & (_apart(state, world, other) <= (grid.reach + grid.skin) ** 2)
    place, filled, need = pick(near, min(grid.capacity, people))
    return jnp.where(filled, take(order, jnp.minimum(place, people - 1)), me), filled, need, none


def _by_cells(state: State, world: World, grid: Grid) -> tuple[Array, Array, Array, Array]:
    """The same from the cells round each agent, and the longest span."""
    people = state.position.shape[1]
    me = jnp.arange(people, dtype=jnp.int32)
    order, first, last = spans(state, world, grid)
    in_order = take(state.position, order)
    mine = jnp.zeros(people, jnp.int32).at[order].set(me)  # where each row stands in that order
    room = jnp.arange(grid.span, dtype=jnp.int32)[:, None]
    at = (first[:, None] + room).reshape(-1, people)  # (S x span, N) places in the order
    between = world.offset(state.position, take(in_order, jnp.minimum(at, people - 1)))
    near = (dot(between, between) <= (grid.reach + grid.skin) ** 2) & (at != mine) & state.alive
    near &= (room < (last - first)[:, None]).reshape(-1, people)
    place, filled, need = pick(near, min(grid.capacity, near.shape[0]))
    span = jnp.minimum(place // grid.span, first.shape[0] - 1)
    found = take(order, jnp.minimum(_of_column(first, span) + place % grid.span, people - 1))
    return *_by_id(jnp.where(filled, found, me), filled, state.id), need, (last - first).max(initial=0)


def pick(near: Array, room: int) -> tuple[Array, Array, Array]:
    """Row numbers of the first `room` True entries of each column, (room, N), which of them there are, and the longest column's count.

    The k-th entry stands behind all rows at which no more than k have been met, so counting those rows finds it: a few cheap operations
    for each row and slot, without a scatter (10 000 people: a list in 2 ms, 7 ms with one).
    """
    rows, columns = near.shape
    kind = jnp.int8 if rows < 127 - AT_ONCE else jnp.int16 if rows < 32767 - AT_ONCE else jnp.int32
    blocks = jnp.pad(near, ((0, -rows % AT_ONCE), (0, 0))).reshape(-(-rows // AT_ONCE), AT_ONCE, columns)
    slot = jnp.arange(room, dtype=kind)[:, None]

    def look(carry: tuple[Array, Array], block: Array) -> tuple[tuple[Array, Array], None]:
        met, place = carry
        for row in block:
            met = met + row
            place = place + (met <= slot)
        return (met, place), None

    start = (jnp.zeros(columns, kind), jnp.zeros((room, columns), kind))
    (met, place), _ = lax.scan(look, start, blocks)
    return place.astype(jnp.int32), slot < met, met.max(initial=0).astype(jnp.int32)


def _of_column(values: Array, row: Array) -> Array:
    """Entry `row` (K, N) of each column of `values` (C, N): (K, N)."""
    columns = values.shape[1]
    return take(values.reshape(-1), row * columns + jnp.arange(columns, dtype=jnp.int32))


def _by_id(index: Array, filled: Array, ids: Array) -> tuple[Array, Array]:
    """The same slots in the order of ids, empty ones last. By counting who goes first: quicker than a sort of so few."""
    last = 2**31 - 1
    label = jnp.where(filled, take(ids, index), last)

    # Written out for the usual sizes: 10 000 people with 24 slots take 0.45 ms so, 0.9 ms in a loop, 2.7 ms by a sort.
    unroll = max(1, index.shape[0]) if index.shape[0] <= UNROLLED else 1
    room = jnp.arange(index.shape[0], dtype=jnp.int32)[:, None]
    rank = lax.scan(lambda rank, one: (rank + (one < label), None), jnp.zeros_like(index), label, unroll=unroll)[0]
    rank = jnp.where(filled, rank, last)
    me = jnp.broadcast_to(jnp.arange(index.shape[1], dtype=jnp.int32), index.shape)
    ordered = lax.scan(lambda out, one: (jnp.where(one[1] == room, one[0], out), None), me, (index, rank), unroll=unroll)[0]
    return ordered, room < filled.sum(0, dtype=jnp.int32)


def _along(index: Array, place: Array, filled: Array, state: State) -> Array:
    """Rows at the slots `place` (T, N) of `index` (K, N); the agent's own where none."""
    me = jnp.arange(state.position.shape[1], dtype=jnp.int32)
    if not index.shape[0]:
        return jnp.zeros_like(place)
    return jnp.where(filled, _of_column(index, jnp.minimum(place, index.shape[0] - 1)), me)


def wall_candidates(position: Array, alive: Array, world: World, grid: Grid | None) -> tuple[Array, Array]:
    """Wall features (M, N) in rising order that may count while the list is good, and how many the busiest agent needed."""
    features, people = walls.feature_count(world), position.shape[1]
    every = jnp.arange(features, dtype=jnp.int32)[:, None]
    if grid is None:
        return jnp.broadcast_to(every, (features, people)), jnp.zeros((), jnp.int32)
    slack = grid.skin / 2
    if world.near_walls_reach >= grid.wall_reach + slack:
        _, rows, columns = world.near_walls_cells.shape
        column, row = cells_of(position, world, columns, rows)
        cell = row * columns + column
        first, count = (take(table.reshape(-1), cell) for table in world.near_walls_cells)
        room = jnp.arange(world.near_walls_most, dtype=jnp.int32)[:, None]
        entry = jnp.where(room < count, first + room, world.near_walls.shape[0] - 1)  # the last one stands for no feature
        every = take(world.near_walls, entry)  # (C, N)
    places = _places(position, world, slack)
    may = [walls.candidates(place, every, world, grid.wall_reach, slack) for place in places]
    near = functools.reduce(jnp.logical_or, may) & alive
    place, filled, need = pick(near, min(grid.walls, near.shape[0]))
    every = jnp.broadcast_to(every, near.shape)
    return jnp.where(filled, _of_column(every, jnp.minimum(place, len(every) - 1)), features), need


def _places(position: Array, world: World, slack: float) -> list[Vector]:
    """Where somebody is, m, who is measured at `position` now or after moving up to `slack` m: in a periodic box also across an edge."""
    here = world.wrap(position)
    if not world.periodic:
        return [here]
    both = [
        (at, jnp.where(at - lower < 2 * slack, at + size, jnp.where(lower + size - at < 2 * slack, at - size, at)))
        for at, lower, size in zip(here, world.lower, world.size, strict=True)
    ]
    return [Vector(x=x, y=y) for x in both[0] for y in both[1]]
