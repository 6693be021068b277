"""The nearest points of walls, on the device. One wall is one wall, however it is cut, bent or rounded.

A feature is a wall segment or a point where segments end or meet (a vertex). A segment counts where the foot of the perpendicular lies
between its ends, a vertex where the foot lies beyond the end on every segment that meets there: so a straight wall in pieces has one
nearest point, and so has an outward corner. On one connected wall the feet are then taken nearest first, and a further foot counts with
the weight 1 - max(0, n . n_k) over the normals n_k already counted: a flat or finely bent wall is one wall, a right-angled room corner two.
"""

import jax.numpy as jnp
from jax import lax

from crowdlab.params import pytree
from crowdlab.state import Array, World

ON_END = 1e-5  # m; a foot this near an end belongs to both neighbours, and the weights keep the second copy from counting
SMALLEST = 1e-6  # m; distances are floored here so that gradients stay finite


@pytree
class Walls:
    """Up to M wall features near each of N agents."""

    normal: Array  # (2, M, N) unit, from the wall to the agent
    distance: Array  # (M, N) m
    weight: Array  # (M, N) 0 to 1; 0 where the feature does not count

    def total(self, terms: Array) -> Array:
        """Weighted sum of per-feature terms (M, N) or (2, M, N) over the features that count: (N,) or (2, N)."""
        return ordered_sum(self.weight * terms)


def rounded(products: Array) -> Array:
    """The same values, rounded here: a product that is added later must not melt into the sum.

    Processors multiply and add in one go, with one rounding less. Whether the compiler uses that depends on the shapes of the whole
    program, so that room for more neighbours could change a last bit (seen with JAX 0.12 on a CPU).
    """
    return lax.optimization_barrier(products)  # type: ignore[no-untyped-call]


def ordered_sum(terms: Array) -> Array:
    """Sum over the last axis but one, strictly from first to last, so that zeros in between change no bit.

    A scan, because XLA on CPU compiles a plain sum differently from program to program: those longer than 32 are split, and shorter
    ones change their last bit with the program they are fused into. It costs a sixth of a step (1 000 people: 223 us, not 190).
    """
    rows = rounded(jnp.moveaxis(terms, -2, 0))
    return lax.scan(lambda so_far, row: (so_far + row, None), jnp.zeros_like(rows, shape=rows.shape[1:]), rows)[0]


def dot(one: Array, other: Array) -> Array:
    """Sum of products over the first axis, the two components, each rounded."""
    products = rounded(one * other)
    return products[0] + products[1]


def feature_count(world: World) -> int:
    """Number of wall features, W + V."""
    return int(world.walls.shape[0] + world.wall_vertices.shape[0])


def candidates(position: Array, world: World, reach: float, slack: float) -> Array:
    """Which wall features may count within `reach` m for an agent that moves at most `slack` m from `position`: (W + V, N) bool.

    Most of what is near never counts (the far post of one's own wall, the corner of a room): it is left out here, since the weights
    compare every feature with every other.
    """
    if not feature_count(world):
        return jnp.zeros((0, position.shape[1]), bool)
    start, end = world.walls[:, 0, :, None], world.walls[:, 1, :, None]  # (W, 2, 1)
    along = end - start
    square = (along**2).sum(1)
    share = ((position - start) * along).sum(1) / square  # (W, N)
    margin = slack / jnp.sqrt(square)
    to_segments = position - start - jnp.clip(share, 0.0, 1.0)[:, None] * along  # (W, 2, N)
    from_vertices = position - world.wall_vertices[:, :, None]  # (V, 2, N)
    ahead = (from_vertices[:, None] * world.wall_directions[..., None]).sum(2).max(1)  # (V, N) m into the wall that goes farthest
    may = jnp.concatenate(((share > -margin) & (share < 1.0 + margin), ahead <= slack + ON_END))
    return may & ((jnp.concatenate((to_segments, from_vertices)) ** 2).sum(1) <= (reach + slack) ** 2)


def measure(position: Array, index: Array, world: World) -> Walls:
    """Normals, distances and weights of the wall features `index` (M, N); the index W + V marks an empty slot."""
    count, many = feature_count(world), world.walls.shape[0]
    if not index.shape[0] or not count:
        empty = jnp.zeros(index.shape, position.dtype)
        return Walls(normal=jnp.zeros((2, *index.shape), position.dtype), distance=empty, weight=empty)
    is_segment, real = index < many, index < count
    here = position[:, None]  # (2, 1, N)
    segment = jnp.minimum(index, many - 1)
    start = world.walls[:, 0].T[:, segment]  # (2, M, N)
    along = (world.walls[:, 1] - world.walls[:, 0]).T[:, segment]
    share = dot(here - start, along) / dot(along, along)
    vertex = jnp.clip(index - many, 0, world.wall_vertices.shape[0] - 1)
    corner = world.wall_vertices.T[:, vertex]
    leaving = world.wall_directions.transpose(2, 1, 0)[:, :, vertex]  # (2, D, M, N)
    beyond = dot((here - corner)[:, None], leaving).max(0) <= ON_END  # (M, N)
    offset = here - jnp.where(is_segment, start + rounded(share * along), corner)
    counts = real & jnp.where(is_segment, (share > 0.0) & (share < 1.0), beyond)
    square = jnp.where(counts, dot(offset, offset), 1.0)
    distance = jnp.sqrt(jnp.maximum(square, SMALLEST**2))
    normal = offset / distance
    part = world.wall_part[jnp.minimum(index, count - 1)]
    return Walls(normal=normal, distance=distance, weight=_weights(normal, distance, part, counts))


def _weights(normal: Array, distance: Array, part: Array, counts: Array) -> Array:
    """Share (M, N) of each foot that no nearer foot of the same connected wall has pushed in the same direction."""
    slots = jnp.arange(distance.shape[0])
    first = (slots[:, None] < slots)[:, :, None]  # (M, M, 1): the earlier slot goes first where distances tie
    nearer = (distance[:, None] < distance) | ((distance[:, None] == distance) & first)  # (M, M, N)
    same = (part[:, None] == part) & counts[:, None]
    alike = jnp.maximum(dot(normal[:, :, None], normal[:, None]), 0.0)
    taken = jnp.where(nearer & same, jnp.minimum(alike, 1.0), 0.0).max(0)
    return jnp.where(counts, 1.0 - taken, 0.0)


def crossed(before: Array, after: Array, index: Array, world: World) -> Array:
    """Who went through a wall, (N,) bool: whose way from `before` to `after` (2, N) cuts or ends on a segment of `index` (M, N)."""
    many = world.walls.shape[0]
    if not index.shape[0] or not many:
        return jnp.zeros(before.shape[1], bool)
    segment = jnp.minimum(index, many - 1)
    a, b = world.walls[:, 0].T[:, segment], world.walls[:, 1].T[:, segment]  # (2, M, N)
    p, q = before[:, None], after[:, None]

    def side(start: Array, end: Array, point: Array) -> Array:
        return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])

    # To end exactly on a wall counts too, or whoever lands there would be through one step later without having cut it.
    from_side = side(a, b, p)
    splits = (from_side != 0) & (from_side * side(a, b, q) <= 0)
    meets = side(p, q, a) * side(p, q, b) <= 0
    return ((index < many) & splits & meets).any(0)
