"""Who is near whom: agents sorted into grid cells, then a list of candidates that serves several steps.

The list holds everybody within the reach plus a skin, in the order of their ids; each step measures offsets and distances anew and
cuts hard at the reach. So no result depends on when a list was made, on how much room it has or on which row somebody stands in.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab import walls
from crowdlab.params import pytree
from crowdlab.state import Array, State, World

SMALLEST = walls.SMALLEST  # m; nearer pairs count as being on one point
TIES = 2**32 - 2  # number of the stream that tells people on one point apart; steps, which count from 0, have the others
FAR = 1e6  # m; where dead rows are kept for the measuring, beyond anybody's reach
FEW = 300  # people; up to here all are compared with all, and room for BLOCK neighbours costs less than compiling anew
BLOCK = 32  # neighbours that small crowds always have room for


class Grid(NamedTuple):
    """The static plan: the ONE place where array shapes are decided. Hashable, printable."""

    columns: int
    rows: int
    half: int  # cells looked at on either side; 0 compares all with all, which is faster for few people
    span: int  # candidates per row of cells
    capacity: int  # neighbours per agent, K
    walls: int  # wall features per agent, M
    reach: float  # m, how far any force looks for people
    wall_reach: float  # m, how far any force looks for walls
    skin: float  # m, how much farther the lists look
    refresh: int  # steps between two lists


@pytree
class NeighbourList:
    """Candidates of every agent, good until somebody has moved half the skin."""

    index: Array  # (K, N) int32, rows of candidates, ids rising; N marks an empty slot
    side: Array  # (2, K, N) unit, direction in which a coincident pair is told apart: antisymmetric, by the key only
    walls: Array  # (M, N) int32, wall features in rising order; W + V marks an empty slot
    start: Array  # (2, N) m, where everybody was when the list was made


@pytree
class Neighbours:
    """Up to K neighbours for each of N agents, and their walls. Forces read this and never the grid."""

    index: Array  # (K, N) int32, row of each neighbour; an empty slot points at the agent itself
    offset: Array  # (2, K, N) m, from me to the other
    distance: Array  # (K, N) m, floored at 1e-6 so that gradients stay finite
    normal: Array  # (2, K, N) unit, from the other to me
    mask: Array  # (K, N) bool, which slots are real
    walls: walls.Walls

    def at(self, values: Array) -> Array:
        """Per-agent values (N,) or (2, N) looked up for every neighbour: (K, N) or (2, K, N)."""
        return values[..., self.index]

    def total(self, terms: Array) -> Array:
        """Sum of per-pair terms (K, N) or (2, K, N) over real neighbours, always in the order of ids: (N,) or (2, N)."""
        return walls.ordered_sum(jnp.where(self.mask, terms, 0.0))


def find(state: State, world: World, grid: Grid | None, key: Array) -> tuple[Neighbours, NeighbourList]:
    """Make a list and measure it at once; `grid=None` means all pairs and all walls (tests, few agents). Pure."""
    listed, _ = make_list(state, world, grid, key)
    return measure(listed, state, world, grid), listed


class Need(NamedTuple):
    """How much room a list needed; more than the grid gives means that the list is incomplete."""

    neighbours: Array | int  # () int32
    span: Array | int  # () int32
    walls: Array | int  # () int32


def make_list(state: State, world: World, grid: Grid | None, key: Array) -> tuple[NeighbourList, Need]:
    """Everybody within reach plus skin of everybody, and every wall feature within its reach plus skin. Pure; never raises."""
    count = state.position.shape[1]
    if grid is None:
        by_id = jnp.argsort(state.id).astype(jnp.int32)[:, None]
        real = (by_id != jnp.arange(count, dtype=jnp.int32)) & state.alive[by_id] & state.alive
        index, need = jnp.where(real, by_id, count), Need(*jnp.zeros((3,), jnp.int32))
        features = walls.feature_count(world)
        wall_index = jnp.broadcast_to(jnp.arange(features, dtype=jnp.int32)[:, None], (features, count))
    else:
        index, neighbours, span = _candidates(state, world, grid)
        wall_index, near_walls = _wall_candidates(state.position, world, grid)
        need = Need(neighbours, span, near_walls)
    listed = NeighbourList(index=index, side=_sides(state.id, index, key), walls=wall_index, start=state.position)
    return listed, need


def measure(listed: NeighbourList, state: State, world: World, grid: Grid | None) -> Neighbours:
    """Offsets, distances and walls now, cut at the reach; dead rows see nobody and are seen by nobody."""
    count = state.position.shape[1]
    listed_slot = listed.index < count
    index = jnp.where(listed_slot, listed.index, jnp.arange(count, dtype=jnp.int32))
    if world.periodic:
        offset = world.offset(state.position[:, None], state.position[:, index])
        real = listed_slot & state.alive[index] & state.alive
    else:
        # Moving dead rows far away cuts them by distance, which saves looking up who is alive for every pair.
        position = jnp.where(state.alive, state.position, FAR * (1.0 + jnp.arange(count)))
        offset = position[:, index] - position[:, None]
        real = listed_slot
    square = walls.dot(offset, offset)
    coincident = square < SMALLEST**2
    offset = jnp.where(coincident, SMALLEST * listed.side, offset)
    # An empty slot points at the agent itself: one metre away it stays harmless to every law and its gradient.
    distance = jnp.where(real, jnp.sqrt(jnp.where(coincident, SMALLEST**2, square)), 1.0)
    mask = real & (distance < (math.inf if grid is None else grid.reach))
    return Neighbours(
        index=index,
        offset=offset,
        distance=distance,
        normal=-offset / distance,
        mask=mask,
        walls=walls.measure(state.position, listed.walls, world),
    )


def _sides(ids: Array, index: Array, key: Array) -> Array:
    """Direction (2, K, N) from me to the other for pairs on one point: difference of two unit vectors drawn by id."""
    tie = jax.random.fold_in(key, TIES)
    angle = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(tie, i), (), minval=0.0, maxval=2 * math.pi))(ids)
    unit = jnp.stack((jnp.cos(angle), jnp.sin(angle)))  # (2, N)
    apart = unit[:, jnp.minimum(index, ids.shape[0] - 1)] - unit[:, None]
    square = (apart**2).sum(0)
    same = square < 1e-12  # the same draw twice, or an empty slot
    return apart / jnp.sqrt(jnp.where(same, 1.0, square))


def _wall_candidates(position: Array, world: World, grid: Grid) -> tuple[Array, Array]:
    """Wall features (M, N) in rising order that may count while the list is good, and how many the busiest agent needed."""
    near = walls.candidates(position, world, grid.wall_reach, grid.skin / 2)
    return _compact(near, walls.feature_count(world), grid.walls)


def _compact(near: Array, blank: int, room: int) -> tuple[Array, Array]:
    """Row numbers (room, N) of the True entries of each column, rising, padded with `blank`; and the longest column's count."""
    place = jnp.cumsum(near, 0, dtype=jnp.int32) - 1
    me = jnp.broadcast_to(jnp.arange(near.shape[1]), near.shape)
    row = jnp.broadcast_to(jnp.arange(near.shape[0], dtype=jnp.int32)[:, None], near.shape)
    out = jnp.full((room, near.shape[1]), blank, jnp.int32)
    needed = near.sum(0, dtype=jnp.int32).max(initial=0)
    return out.at[jnp.where(near, place, room), me].set(row, mode="drop"), needed


def _cells(position: Array, world: World, grid: Grid) -> tuple[Array, Array]:
    """Column and row of the cell of each agent, (N,) int32; those outside a bounded box belong to its border cells."""
    place = world.wrap(position)
    column = jnp.floor((place[0] - world.lower[0]) * (grid.columns / world.size[0]))
    row = jnp.floor((place[1] - world.lower[1]) * (grid.rows / world.size[1]))
    return jnp.clip(column, 0, grid.columns - 1).astype(jnp.int32), jnp.clip(row, 0, grid.rows - 1).astype(jnp.int32)


def _pieces(column: Array, columns: int, half: int, periodic: bool) -> list[tuple[Array, Array]]:
    """Runs of columns [first, last] to look at round each agent: one, or two where a periodic box is cut by its edge."""
    if columns <= 2 * half + 1 and periodic:
        return [(jnp.zeros_like(column), jnp.full_like(column, columns - 1))]
    inner = (jnp.maximum(column - half, 0), jnp.minimum(column + half, columns - 1))
    if not periodic:
        return [inner]
    below, above = column - half < 0, column + half >= columns
    first = jnp.where(below, column - half + columns, 0)
    last = jnp.where(below, columns - 1, jnp.where(above, column + half - columns, -1))
    return [inner, (first, last)]


def _spans(state: State, world: World, grid: Grid) -> tuple[Array, list[tuple[Array, Array]]]:
    """Rows of agents sorted by cell, and the contiguous spans [first, last) of that order near each agent."""
    column, row = _cells(state.position, world, grid)
    count = grid.columns * grid.rows
    cell = jnp.where(state.alive, row * grid.columns + column, count)  # dead rows sort behind every cell
    order = jnp.argsort(cell).astype(jnp.int32)
    start = jnp.searchsorted(cell[order], jnp.arange(count + 1)).astype(jnp.int32)
    spans = []
    whole = world.periodic and grid.rows <= 2 * grid.half + 1
    for step in range(grid.rows) if whole else range(-grid.half, grid.half + 1):
        other = jnp.full_like(row, step) if whole else row + step
        inside = (other >= 0) & (other < grid.rows)
        other = other % grid.rows
        for first, last in _pieces(column, grid.columns, grid.half, world.periodic):
            valid = (last >= first) & (inside | world.periodic)
            low = start[other * grid.columns + first]
            high = start[other * grid.columns + jnp.maximum(last, 0) + 1]
            spans.append((jnp.where(valid, low, 0), jnp.where(valid, high, 0)))
    return order, spans


def _candidates(state: State, world: World, grid: Grid) -> tuple[Array, Array, Array]:
    """Candidates (K, N), ids rising, the most any agent needed and the longest span."""
    count = state.position.shape[1]
    me = jnp.arange(count, dtype=jnp.int32)
    far = (grid.reach + grid.skin) ** 2
    by_id = jnp.argsort(state.id).astype(jnp.int32)  # rows in the order of ids
    if not grid.half:
        apart = world.offset(state.position[:, None], state.position[:, by_id, None])
        near = ((apart**2).sum(0) <= far) & (by_id[:, None] != me) & state.alive[by_id, None] & state.alive
        out, needed = _compact(near, count, grid.capacity)
        return jnp.append(by_id, count)[out], needed, jnp.zeros((), jnp.int32)
    order, spans = _spans(state, world, grid)
    rank = jnp.zeros(count, jnp.int32).at[by_id].set(me)  # place of each row in the order of ids

    def append(first: Array, last: Array, i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        # One candidate of every agent at a time: no array of all candidates is ever made.
        out, used = carry
        other = order[jnp.minimum(first + i, count - 1)]
        apart = world.offset(state.position, state.position[:, other])
        near = (first + i < last) & ((apart**2).sum(0) <= far) & (other != me) & state.alive
        return out.at[jnp.where(near, used, grid.capacity), me].set(rank[other], mode="drop"), used + near

    out, used = jnp.full((grid.capacity, count), count, jnp.int32), jnp.zeros(count, jnp.int32)
    longest = jnp.zeros((), jnp.int32)
    for first, last in spans:
        longest = jnp.maximum(longest, (last - first).max(initial=0))
        out, used = lax.fori_loop(0, grid.span, lambda i, carry, first=first, last=last: append(first, last, i, carry), (out, used))
    return jnp.append(by_id, count)[jnp.sort(out, axis=0)], used.max(initial=0), longest


def plan_grid(
    world: World, state: State, reach: float, wall_reach: float, *, dt: float, fastest: float, slack: float = 1.05
) -> Grid:
    """Choose cells, capacities and refresh interval on the host, from concrete positions.

    `fastest`, m/s, is a speed that is seldom exceeded; whoever moves more than half the skin is noticed and the piece repeated. Room is
    planned tight, because the work goes with the room and not with the neighbours found (1 000 people at 2 per m2: 430 us a step with
    room for 40, 210 us with 24); a list that overflows is noticed too.
    """
    reach = max(reach, 0.1)
    skin = max(0.15 * reach, 0.2)
    refresh = int(np.clip(math.floor(skin / 2 / max(fastest * dt, 1e-9)), 1, 200))
    half = 2
    look = reach + skin
    columns, rows = (max(1, min(int(length // (look / half)), 2000)) for length in world.size)
    exact = Grid(columns, rows, half, 1, 1, 1, reach, wall_reach, skin, refresh)
    need = list_need(state, world, exact)
    people = int(state.position.shape[1])
    few = BLOCK if people <= FEW else 0
    return exact._replace(
        half=0 if few else half,
        span=min(people, max(few, int(need.span * slack) + 2)),
        capacity=min(people, max(few, _rounded(int(need.neighbours * slack) + 1))),
        walls=min(walls.feature_count(world), int(need.walls * slack) + 1),
    )


def enlarge(grid: Grid, need: Need, people: int, features: int, slack: float = 1.25) -> Grid:
    """The same grid with room for what was needed."""
    return grid._replace(
        span=max(grid.span, min(people, int(int(need.span) * slack) + 2)),
        capacity=max(grid.capacity, min(people, _rounded(int(int(need.neighbours) * slack) + 1))),
        walls=max(grid.walls, min(features, int(need.walls) + 1)),
    )


def _rounded(capacity: int) -> int:
    """Next multiple of 4: few sizes, so that few programs are compiled."""
    return -(-capacity // 4) * 4


def list_need(state: State, world: World, grid: Grid) -> Need:
    """Room that a list made now would need. Host: from concrete positions, by a tree of points."""
    from scipy.spatial import cKDTree

    alive = np.asarray(state.alive)
    place = np.asarray(world.wrap(state.position), float).T[alive] - np.asarray(world.lower)
    if len(place) == 0:
        return Need(0, 0, 0)
    tree = cKDTree(place, boxsize=world.size if world.periodic else None)
    neighbours = tree.query_ball_point(place, grid.reach + grid.skin, return_length=True).max() - 1
    cells = np.clip((place / world.size * (grid.columns, grid.rows)).astype(int), 0, (grid.columns - 1, grid.rows - 1))
    counts = np.zeros((grid.rows, grid.columns + 2 * grid.half), int)
    np.add.at(counts, (cells[:, 1], cells[:, 0] + grid.half), 1)
    width = 2 * grid.half + 1
    span = np.lib.stride_tricks.sliding_window_view(counts, width, axis=1).sum(-1).max()
    if world.periodic and grid.columns <= width:
        span = counts.sum(1).max()
    near = walls.candidates(jnp.asarray(state.position)[:, alive], world, grid.wall_reach, grid.skin / 2)
    return Need(int(neighbours), int(span), int(np.asarray(near.sum(0)).max(initial=0)))
