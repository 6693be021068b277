"""Device half: where an agent wants to go now, and whether it has arrived. Pure, for jit, vmap and grad.

Soundness at thin walls: a node nearer than cell / sqrt(2) to a wall is marked and left out wherever another node of its square
is at hand. Of the unmarked corners of a square that a straight wall cuts, all lie on one side (two on different sides would be more
than the square's diagonal apart), and if the agent is farther than cell / sqrt(2) from that wall, one of them lies on its side. The
raster is chosen so that bodies keep that distance (see fields.choose_cell).
"""

import math

import jax.numpy as jnp

from crowdlab.state import Array, State, World

TINY = 1e-12  # m^2, guards square roots and divisions for gradients: a shorter vector has no direction
SEEN, MARKED = 0.5, -0.5  # third channel of World.ways: 1 goal in plain sight, 0 not, -1 too near a wall to be trusted


def desired_direction(state: State, world: World) -> Array:
    """Unit vector towards each agent's goal, (2, N); zero without a goal, after arrival and on dead rows.

    Straight to the nearest point of the goal where all four nodes round the agent see it, else by the travel-time field.
    """
    walks = state.alive & (state.goal >= 0) & (state.arrived < 0)
    if world.goals.shape[0] == 0:
        return jnp.zeros_like(state.position)
    straight = _nearest_point(state, world) - state.position
    far = (straight**2).sum(0)
    way, seen = _interpolate(state, world)
    # Nothing fits between a body and a goal that is nearer than a square's diagonal.
    direct = seen | (far < 2 * world.ways_cell**2)
    return jnp.where(walks, _unit(jnp.where(direct, straight, way)), 0.0)


def distance_to_goal_in_sight(state: State, world: World) -> Array:
    """Distance to the nearest point of the goal, (N,) m; infinite where it is not in plain sight or there is none."""
    if world.goals.shape[0] == 0:
        return jnp.full_like(state.radius, math.inf)
    square = ((_nearest_point(state, world) - state.position) ** 2).sum(0)
    away = square > TINY
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 0.0)
    visible = _interpolate(state, world)[1] | (square < 2 * world.ways_cell**2)
    return jnp.where(visible & (state.goal >= 0), distance, math.inf)


def reached(state: State, before: Array, world: World) -> Array:
    """Whether each agent reaches its goal in the step from `before`, (2, N) m, to its position, (N,) bool.

    An exit counts when the step crosses or touches one of its edges, or ends inside it; a target when it is near enough.
    Nobody who is dead, has arrived or has no goal reaches anything.
    """
    if world.goals.shape[0] == 0:
        return jnp.zeros_like(state.alive)
    goal = jnp.maximum(state.goal, 0)
    start, end = _edges(world, goal)  # (2, E, N)
    position = state.position[:, None]
    _, square = _closest(position, start, end, jnp.zeros_like(state.radius))
    touches = _crosses(before[:, None], position, start, end).any(0) | (square.min(0) < TINY)
    close = square.min(0) <= world.goal_reach[goal] ** 2
    inside = _inside(position, start, end)
    hit = jnp.where(world.goal_leaves[goal], touches | inside, close | inside)
    return hit & state.alive & (state.arrived < 0) & (state.goal >= 0)


def _unit(vector: Array) -> Array:
    """Vectors (2, ...) of length one; shorter than a micrometre gives zero."""
    square = (vector**2).sum(0)
    some = square > TINY
    return jnp.where(some, vector / jnp.sqrt(jnp.where(some, square, 1.0)), 0.0)


def _edges(world: World, goal: Array) -> tuple[Array, Array]:
    """Starts and ends of the edges of each agent's goal, (2, E, N) m each."""
    edges = jnp.moveaxis(world.goals[goal], 0, -1)  # (E, 2, 2, N)
    return jnp.swapaxes(edges[:, 0], 0, 1), jnp.swapaxes(edges[:, 1], 0, 1)


def _closest(position: Array, start: Array, end: Array, margin: Array) -> tuple[Array, Array]:
    """Nearest points (2, E, N) m of edges shortened by `margin` (N,) m at both ends, and squared distances (E, N) m^2.

    An edge shorter than both margins leaves its middle. The edges of no length that pad a goal lie in the middle of a true edge, so
    they never win.
    """
    along = end - start
    square = (along**2).sum(0)
    some = square > TINY
    safe = jnp.where(some, square, 1.0)
    least = jnp.where(some, jnp.minimum(margin / jnp.sqrt(safe), 0.5), 0.5)
    fraction = jnp.where(some, ((position - start) * along).sum(0) / safe, 0.5)
    point = start + jnp.clip(fraction, least, 1.0 - least) * along
    return point, ((point - position) ** 2).sum(0)


def _nearest_point(state: State, world: World) -> Array:
    """Nearest point of each agent's goal that its body can pass, (2, N) m."""
    goal = jnp.maximum(state.goal, 0)
    start, end = _edges(world, goal)
    point, square = _closest(state.position[:, None], start, end, jnp.where(world.goal_leaves[goal], state.radius, 0.0))
    return jnp.take_along_axis(point, square.argmin(0)[None, None], axis=1)[:, 0]


def _interpolate(state: State, world: World) -> tuple[Array, Array]:
    """Way (2, N), not of unit length, between the four nodes round each agent, and whether all four see the goal, (N,)."""
    rows, columns = world.ways.shape[2:]
    lower = jnp.asarray(world.lower, state.position.dtype)[:, None]
    x, y = (state.position - lower) / world.ways_cell
    x, y = jnp.clip(x, 0.0, columns - 1.0), jnp.clip(y, 0.0, rows - 1.0)
    column = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, columns - 2)
    row = jnp.clip(jnp.floor(y).astype(jnp.int32), 0, rows - 2)
    right, up = x - column, y - row
    weight = jnp.stack(((1 - right) * (1 - up), right * (1 - up), (1 - right) * up, right * up))  # (4, N)
    goal = jnp.maximum(state.goal, 0)
    at_row = row + jnp.asarray([0, 0, 1, 1])[:, None]  # (4, N)
    at_column = column + jnp.asarray([0, 1, 0, 1])[:, None]
    node = jnp.stack([world.ways[goal, channel, at_row, at_column] for channel in range(3)])  # (3, 4, N)
    trusted = jnp.where(node[2] > MARKED, weight, 0.0)
    weight = jnp.where(trusted.sum(0) > 1e-4, trusted, weight)
    way = (weight * node[:2]).sum(1)
    # Ways that cancel (between two equally long ways round) must not leave an agent standing: the heaviest node decides.
    best = jnp.take_along_axis(node[:2], weight.argmax(0)[None, None], axis=1)[:, 0]
    faint = (way**2).sum(0) < 1e-2 * weight.sum(0) ** 2
    return jnp.where(faint, best, way), (node[2] > SEEN).all(0)


def _crosses(first: Array, last: Array, start: Array, end: Array) -> Array:
    """Whether steps from `first` to `last`, (2, 1, N) m, cross or touch edges, (E, N) bool; steps along an edge do not."""
    step, along, offset = last - first, end - start, start - first
    across = step[0] * along[1] - step[1] * along[0]
    # Both fractions are compared after multiplying by `across`, so that nothing is divided.
    sign = jnp.where(across < 0, -1.0, 1.0)
    on_step = sign * (offset[0] * along[1] - offset[1] * along[0])
    on_edge = sign * (offset[0] * step[1] - offset[1] * step[0])
    size = jnp.abs(across)
    slack = 1e-5 * size  # a step through the common corner of two edges must not slip between them
    hit = (on_step >= 0) & (on_step <= size) & (on_edge >= -slack) & (on_edge <= size + slack)
    return hit & (size > 0)


def _inside(position: Array, start: Array, end: Array) -> Array:
    """Even-odd rule: whether (2, 1, N) m lies inside the ring of edges, (N,) bool; never for an open line or a point."""
    gap = jnp.abs((end - start).sum(1)).sum(0)
    closed = gap <= 1e-5 * jnp.abs(end - start).sum((0, 1))
    spans = (start[1] > position[1]) != (end[1] > position[1])
    rise = jnp.where(spans, end[1] - start[1], 1.0)
    crossing = start[0] + (position[1] - start[1]) * (end[0] - start[0]) / rise
    return closed & ((spans & (position[0] < crossing)).sum(0) % 2 == 1)
