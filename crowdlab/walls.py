"""The nearest points of walls, on the device. One wall is one wall, however it is cut, bent or rounded.

A feature is a wall segment or a point where segments end or meet (a vertex). A segment counts where the foot of the perpendicular lies
between its ends, a vertex where the foot lies beyond the end on every segment that meets there: so a straight wall in pieces has one
nearest point, and so has an outward corner. On one connected wall the feet are then taken nearest first, and a further foot counts with
the weight 1 - max(0, n . n_k) over the normals n_k already counted: a flat or finely bent wall is one wall, a right-angled room corner two.
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from crowdlab.arithmetic import Field, Vector, cross, dot, ordered_sum, root, rounded, take
from crowdlab.state import Array, World
from crowdlab.trees import pytree

ON_END = 1e-5  # m; a foot this near an end belongs to both neighbours, and the weights keep the second copy from counting
SMALLEST = 1e-6  # m; distances are floored here so that gradients stay finite
WRITTEN_OUT = 16  # features that are compared without a loop


@pytree
class WallList:
    """Up to M wall features per agent that may count until a new list is made, looked up once: (M, N) each."""

    real: Array  # (M, N) bool, which slots hold a feature
    segment: Array  # (M, N) bool, True for a segment, False for a vertex
    start: Vector  # (M, N) m, one end of the segment, or the vertex
    end: Vector  # (M, N) m, the other end, or the vertex again
    along: Vector  # (M, N) m, from start to end
    square: Array  # (M, N) m^2, its squared length; 1 for a vertex
    leaving: Vector  # (D, M, N) unit, along each segment that meets at the vertex; zero pads and for a segment
    part: Array  # (M, N) int32, number of the connected wall


@pytree
class Walls:
    """Up to M wall features near each of N agents."""

    normal: Vector  # (M, N) unit, from the wall to the agent
    distance: Array  # (M, N) m
    weight: Array  # (M, N) 0 to 1; 0 where the feature does not count
    nearest: Array  # (N,) m, distance of the nearest wall on the list, also where it is beyond all reach; infinite without one

    def total(self, terms: Field) -> Any:
        """Weighted sum of per-feature terms (M, N), numbers or a Vector, over the features that count: (N,), or a Vector of it."""
        if isinstance(terms, Vector):
            return Vector(x=self.total(terms.x), y=self.total(terms.y))
        return ordered_sum(rounded(self.weight * terms))


def feature_count(world: World) -> int:
    """Number of wall features, W + V."""
    return int(world.walls.shape[0] + world.wall_vertices.shape[0])


def look_up(index: Array, world: World) -> WallList:
    """The wall features `index` (M, N); the index W + V marks an empty slot."""
    many, count, shape = world.walls.shape[0], feature_count(world), index.shape
    if not count or not index.shape[0]:
        empty, none = jnp.zeros(shape, world.walls.dtype), jnp.zeros(shape, bool)
        plane = Vector(x=empty, y=empty)
        return WallList(
            real=none,
            segment=none,
            start=plane,
            end=plane,
            along=plane,
            square=empty + 1,
            leaving=Vector(x=empty[None], y=empty[None]),
            part=jnp.zeros(shape, jnp.int32),
        )
    real, segment, safe = index < count, index < many, jnp.minimum(index, count - 1)

    def ends(side: int) -> Vector:
        points = jnp.concatenate((world.walls[:, side], world.wall_vertices))  # (W + V, 2)
        return Vector.of([take(points[:, axis], safe) for axis in (0, 1)])

    start, end = ends(0), ends(1)
    along = end - start
    rays = jnp.pad(world.wall_directions, ((many, 0), (0, 0), (0, 0))).transpose(1, 0, 2)  # (D, W + V, 2)
    return WallList(
        real=real,
        segment=segment,
        start=start,
        end=end,
        along=along,
        square=jnp.where(segment, dot(along, along), 1.0),
        leaving=Vector.of([jnp.stack([take(ray[:, axis], safe) for ray in rays]) for axis in (0, 1)]),
        part=take(world.wall_part, safe),
    )


def candidates(position: Vector, index: Array, world: World, reach: float, slack: float) -> Array:
    """Which wall features may count within `reach` m for an agent that moves at most `slack` m from `position`: (C, N) bool.

    `index` (C, N) or (C, 1) numbers the features to look at; W + V marks an empty slot. Most of what is near never counts (the far post
    of one's own wall, the corner of a room): it is left out here, since the weights compare every feature with every other.
    """
    listed = look_up(index, world)
    share, offset = _foot(position, listed, 0.0, 1.0)
    margin = slack / root(listed.square)
    may = jnp.where(listed.segment, (share > -margin) & (share < 1.0 + margin), _ahead(position, listed) <= slack + ON_END)
    return listed.real & may & (dot(offset, offset) <= (reach + slack) ** 2)


def _foot(position: Vector, listed: WallList, least: float, most: float) -> tuple[Array, Vector]:
    """Share (M, N) of the way along each feature where the perpendicular meets it, and the offset, m, from there to the agent.

    For the offset the share is held between `least` and `most`.
    """
    from_start = position - listed.start
    share = dot(from_start, listed.along) / listed.square
    return share, from_start - listed.along * jnp.clip(share, least, most)


def _ahead(position: Vector, listed: WallList) -> Array:
    """How far, (M, N) m, an agent stands beyond a vertex into the segment that goes farthest its way; 0 at a segment."""
    from_start = position - listed.start
    into = [dot(from_start, ray) for ray in zip(*listed.leaving, strict=True)]
    return functools.reduce(jnp.maximum, into)


def measure(position: Vector, listed: WallList, reach: float = math.inf) -> Walls:
    """Normals, distances and weights of the listed wall features for agents at `position`, (N,) m, cut at `reach` m."""
    share, offset = _foot(position, listed, -jnp.inf, jnp.inf)
    counts = listed.real & jnp.where(listed.segment, (share > 0.0) & (share < 1.0), _ahead(position, listed) <= ON_END)
    square = jnp.where(counts, dot(offset, offset), 1.0)
    distance = root(jnp.maximum(square, SMALLEST**2))
    nearest = jnp.where(counts, distance, jnp.inf).min(0, initial=jnp.inf)
    counts &= distance < reach
    normal = offset / distance
    return Walls(normal=normal, distance=distance, weight=_weights(normal, distance, listed.part, counts), nearest=nearest)


def _weights(normal: Vector, distance: Array, part: Array, counts: Array) -> Array:
    """Share (M, N) of each foot that no nearer foot of the same connected wall has pushed in the same direction."""
    if len(distance) < 2:
        return jnp.where(counts, 1.0, 0.0)
    slots = jnp.arange(distance.shape[0])[:, None]

    def weigh(k: Array | int, taken: Array) -> Array:
        earlier = (distance[k] < distance) | (
            (distance[k] == distance) & (k < slots)
        )  # the earlier slot goes first where distances tie
        alike = jnp.minimum(dot((normal.x[k], normal.y[k]), normal), 1.0)
        return jnp.maximum(taken, jnp.where(earlier & counts[k] & (part[k] == part), alike, 0.0))

    taken, many = jnp.zeros_like(distance), len(distance)
    if many <= WRITTEN_OUT:
        for k in range(many):
            taken = weigh(k, taken)
    else:
        taken = lax.scan(lambda so_far, k: (weigh(k, so_far), None), taken, jnp.arange(many))[0]
    return jnp.where(counts, 1.0 - taken, 0.0)


def crossed(before: Array, after: Array, listed: WallList) -> Array:
    """Who went through a wall, (N,) bool: whose way from `before` to `after` (2, N) cuts or ends on a listed segment."""
    if not listed.real.shape[0]:
        return jnp.zeros(before.shape[1], bool)
    way, here, there = Vector.of(after - before), before - listed.start, after - listed.start
    # To end exactly on a wall counts too, or whoever lands there would be through one step later without having cut it.
    from_side = cross(listed.along, here)
    splits = (from_side != 0) & (from_side * cross(listed.along, there) <= 0)
    # The sides of a vertex come from its own place, the same for all segments that end there: nothing slips in between.
    meets = cross(way, here) * cross(way, before - listed.end) <= 0
    return functools.reduce(jnp.logical_or, listed.real & listed.segment & splits & meets)
