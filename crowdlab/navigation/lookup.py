"""Device half: where an agent wants to go now, and whether it has arrived. Pure, for jit, vmap and grad.

Soundness at thin walls: a node nearer than cell / sqrt(2) to a wall is marked and left out wherever another node of its square
is at hand. Of the unmarked corners of a square that a straight wall cuts, all lie on one side (two on different sides would be more
than the square's diagonal apart), and if the agent is farther than cell / sqrt(2) from that wall, one of them lies on its side. The
raster is chosen so that bodies keep that distance (see fields.choose_cell).
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from crowdlab.arithmetic import Vector, cross, dot, root, rounded, take, where
from crowdlab.state import Array, State, World

BACK = 0.6  # m; who waits and was pushed away no farther than this walks back to the own place
TINY = 1e-12  # m^2, guards square roots and divisions for gradients: a shorter vector has no direction
SEEN, MARKED = 0.5, -0.5  # third channel of World.ways: 1 goal in plain sight, 0 not, -1 too near a wall to be trusted


def desired_direction(state: State, world: World) -> Vector:
    """Unit vector towards each agent's goal, a Vector of (N,); zero without a goal, after arrival and on dead rows.

    Straight to the nearest point of the goal where all four nodes round the agent see it, else by the travel-time field. Who has a place
    of his own there goes straight to it, in a queue or once in the waiting area, and back to it.
    """
    walks = state.alive & (state.goal >= 0) & (state.arrived < 0)
    walks = walks if state.trip is None else walks & (state.trip.stopped < 0)
    if world.goals.shape[0] == 0:
        return Vector.of(jnp.zeros_like(state.position))
    straight, far = _to_goal(state, world)
    way, seen = _interpolate(state, world)
    # Nothing fits between a body and a goal that is nearer than a square's diagonal.
    to_goal = where(walks, _unit(where(seen | (far < 2 * world.ways_cell**2), straight, way)), (0.0, 0.0))
    plan, trip = world.journeys, state.trip
    if plan is None or trip is None or not plan.places.shape[0]:
        return to_goal
    gap = to_own_place(state, world)
    back = ((trip.stopped >= 0) | (state.arrived >= 0)) & (dot(gap, gap) < BACK**2)
    near = jnp.where(walks, plan.queue[state.goal] | inside_goal(state, world), back)
    return where(state.alive & (trip.place >= 0) & near, _unit(gap), to_goal)


def inside_goal(state: State, world: World) -> Array:
    """Whether each agent is inside the area that is its goal, or so near to it that nothing fits between, (N,) bool."""
    at_edge = _to_goal(state, world)[1] < 2 * world.ways_cell**2
    return (state.goal >= 0) & (at_edge | inside(state.position, _edges(state, world)))


def to_own_place(state: State, world: World) -> Vector:
    """Offset, m, to each agent's own place in a queue or a waiting area, a Vector of (N,); means nothing without one."""
    plan: Any = world.journeys
    trip: Any = state.trip
    return Vector.of(plan.places[jnp.maximum(trip.place, 0)].T) - state.position


def way_lengths(state: State, goals: Array, world: World) -> Array:
    """Length of the way, m, from each agent to each of its goals (B, N), -1 for none: (B, N); infinite where there is no way.

    By way of the best of the four nodes round the agent, so at most a cell too long.
    """
    plan: Any = world.journeys
    lengths: Array = plan.lengths
    fields, rows, columns = lengths.shape
    corner = jnp.arange(4, dtype=jnp.int32)[:, None]
    row, column, up, right = _square(state, world, rows, columns)
    x, y = right - corner % 2, up - corner // 2  # (4, N)
    node = (row + corner // 2) * columns + column + corner % 2
    sizes = world.ways_sizes.shape[0] + 1
    field = jnp.clip(jnp.maximum(goals, 0) * sizes + _size(state, world), 0, fields - 1)  # (B, N)
    there = take(lengths.reshape(-1), field[:, None] * (rows * columns) + node)  # (B, 4, N)
    return (there + world.ways_cell * jnp.sqrt(x * x + y * y)).min(1)


def distance_to_goal_in_sight(state: State, world: World) -> Array:
    """Distance to the nearest point of the goal, (N,) m; infinite where it is not in plain sight or there is none."""
    if world.goals.shape[0] == 0:
        return jnp.full_like(state.radius, math.inf)
    square = _to_goal(state, world)[1]
    away = square > TINY
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 0.0)
    visible = _interpolate(state, world)[1] | (square < 2 * world.ways_cell**2)
    return jnp.where(visible & (state.goal >= 0), distance, math.inf)


def reached(state: State, before: Array, world: World) -> Array:
    """Whether each agent reaches its goal in the step from `before`, (2, N) m, to its position, (N,) bool.

    An exit, or a line to be crossed, counts when the step crosses or touches one of its edges, or ends inside it; a target when it is
    near enough.
    Nobody who is dead, has arrived or has no goal reaches anything. Who goes over an edge of a periodic box crosses what lies there, on
    either side, and not what lies between.
    """
    if world.goals.shape[0] == 0:
        return jnp.zeros_like(state.alive)
    crossed, reach = _of_goal(_crossed(world), state), _of_goal(world.goal_reach, state)
    hit, squares = [], []
    edges = _edges(state, world)
    legs = _legs(before, state.position, world)
    for start, end in edges:
        square = _closest(state.position, start, end, 0.0)[1]
        squares.append(square)
        hit += [square < TINY, *(_crosses(first, last, start, end) for first, last in legs)]
    close = functools.reduce(jnp.minimum, squares) <= reach**2
    within = inside(state.position, edges)
    return (
        (jnp.where(crossed, functools.reduce(jnp.logical_or, hit), close) | within)
        & state.alive
        & (state.arrived < 0)
        & (state.goal >= 0)
    )


def outlet_crossed(state: State, before: Array, world: World) -> Array:
    """The exit on the outline by which each agent goes out in the step from `before`, (2, N) m, whatever its goal: (N,) int32, or -1."""
    out = jnp.full_like(state.goal, -1)
    for outlet in range(world.outlets.shape[0]):
        start, end = (Vector.of(world.outlets[outlet, side]) for side in (0, 1))
        for first, last in _legs(before, state.position, world):
            beyond = cross(end - start, last - start) < 0  # who comes in over it crosses it too
            out = jnp.where(beyond & _crosses(first, last, start, end), world.outlet_goal[outlet], out)
    return jnp.where(state.alive, out, -1)


def _unit(vector: Vector) -> Vector:
    """Vectors of length one; shorter than a micrometre gives zero."""
    square = dot(vector, vector)
    some = square > TINY
    return where(some, vector / root(jnp.where(some, square, 1.0)), (0.0, 0.0))


def _of_goal(values: Array, state: State) -> Array:
    """What belongs to each agent's goal, (G,) -> (N,); nothing is looked up where there is one goal only."""
    return values[0] if values.shape[0] == 1 else take(values, jnp.maximum(state.goal, 0))


def _edges(state: State, world: World) -> list[tuple[Vector, Vector]]:
    """Start and end, m, of each edge of each agent's goal."""
    return [
        (
            Vector.of([_of_goal(world.goals[:, edge, 0, axis], state) for axis in (0, 1)]),
            Vector.of([_of_goal(world.goals[:, edge, 1, axis], state) for axis in (0, 1)]),
        )
        for edge in range(world.goals.shape[1])
    ]


def _closest(position: Array, start: Vector, end: Vector, margin: Array | float) -> tuple[Vector, Array]:
    """Offset, m, to the nearest point of an edge shortened by `margin` m at both ends, and its square, (N,) m^2.

    An edge shorter than both margins leaves its middle. The edges of no length that pad a goal lie in the middle of a true edge, so
    they never win.
    """
    along, offset = end - start, start - position
    square = dot(along, along)
    some = square > TINY
    safe = jnp.where(some, square, 1.0)
    least = jnp.where(some, jnp.minimum(margin / root(safe), 0.5), 0.5)
    fraction = jnp.where(some, -dot(offset, along) / safe, 0.5)
    offset = offset + along * jnp.clip(fraction, least, 1.0 - least)
    return offset, dot(offset, offset)


def _to_goal(state: State, world: World) -> tuple[Vector, Array]:
    """Offset, m, to the nearest point of each agent's goal that its body can pass, and its square, (N,) m^2."""
    margin = jnp.where(_of_goal(_crossed(world), state), state.radius, 0.0)
    nearest, least = None, None
    for start, end in _edges(state, world):
        offset, square = _closest(state.position, start, end, margin)
        if nearest is None or least is None:
            nearest, least = offset, square
        else:
            nearest, least = where(square < least, offset, nearest), jnp.minimum(square, least)
    assert nearest is not None
    assert least is not None
    return nearest, least


def _interpolate(state: State, world: World) -> tuple[Vector, Array]:
    """Way, a Vector of (N,), not of unit length, between the four nodes round each agent, and whether all four see the goal, (N,)."""
    fields, channels, rows, columns = world.ways.shape
    row, column, up, right = _square(state, world, rows, columns)
    corner = jnp.arange(4, dtype=jnp.int32)[:, None]  # (4, 1): from lower left to upper right
    weights = jnp.where(corner % 2 == 1, right, 1 - right) * jnp.where(corner >= 2, up, 1 - up)  # (4, N)
    # One number per node into one flat table is looked up several times faster than four into a table of four dimensions.
    field = jnp.zeros_like(row) if fields == 1 else _field(state, world)
    node = (field * channels * rows + row) * columns + column + corner % 2 + corner // 2 * columns
    # In a branch of its own, or it is worked out anew for each look-up (1 000 people: 23 us for the drive, not 29).
    node = lax.cond(state.step >= 0, lambda: node, lambda: jnp.zeros_like(node))
    table = world.ways.reshape(-1)
    ways_x, ways_y, marks = (take(table, node + channel * rows * columns) for channel in range(3))  # (4, N) each
    trusted = jnp.where(marks > MARKED, weights, 0.0)
    some = _sum(trusted) > 1e-4
    weights = jnp.where(some, trusted, weights)
    way = Vector(x=_sum(weights * ways_x), y=_sum(weights * ways_y))
    # Ways that cancel (between two equally long ways round) must not leave an agent standing: the heaviest node decides.
    best, heaviest = Vector(x=ways_x[0], y=ways_y[0]), weights[0]
    for k in range(1, 4):
        best = where(weights[k] > heaviest, (ways_x[k], ways_y[k]), best)
        heaviest = jnp.maximum(weights[k], heaviest)
    faint = dot(way, way) < 1e-2 * _sum(weights) ** 2
    return where(faint, best, way), functools.reduce(jnp.minimum, marks) > SEEN


def _field(state: State, world: World) -> Array:
    """Which of World.ways belongs to each agent's goal and size, (N,)."""
    goal, sizes = jnp.maximum(state.goal, 0), world.ways_sizes.shape[0] + 1
    return goal if sizes == 1 else goal * sizes + _size(state, world)


def _size(state: State, world: World) -> Array:
    """Which of the sizes each agent has, (N,) or ()."""
    larger = [(state.radius >= world.ways_sizes[size]).astype(jnp.int32) for size in range(world.ways_sizes.shape[0])]
    return functools.reduce(jnp.add, larger) if larger else jnp.zeros((), jnp.int32)


def _square(state: State, world: World, rows: int, columns: int) -> tuple[Array, Array, Array, Array]:
    """Row and column of the square of nodes round each agent, (N,), and how far up and right in it, in cells."""
    x, y = (
        jnp.clip((here - lower) / world.ways_cell, 0.0, most - 1.0)
        for here, lower, most in zip(state.position, world.lower, (columns, rows), strict=True)
    )
    column = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, columns - 2)
    row = jnp.clip(jnp.floor(y).astype(jnp.int32), 0, rows - 2)
    return row, column, y - row, x - column


def _crossed(world: World) -> Array:
    """Which goals are reached by going over an edge, (G,) bool: exits, and lines that a journey crosses; without one exits alone."""
    return world.goal_leaves if world.journeys is None else world.journeys.crossed


def _sum(four: Array) -> Array:
    """Sum of four rows, each a rounded product."""
    one, two, three, four = rounded(four)
    return one + two + three + four


def _legs(before: Array, after: Array, world: World) -> list[tuple[Vector, Vector]]:
    """A step from its start on and, in a periodic box, up to its end."""
    first, last = Vector.of(before), Vector.of(after)
    if not world.periodic:
        return [(first, last)]
    step = world.offset(first, last)
    return [(first, first + step), (last - step, last)]


def _crosses(first: Vector, last: Vector, start: Vector, end: Vector) -> Array:
    """Whether steps from `first` to `last`, m, cross or touch an edge, (N,) bool; steps along an edge do not."""
    step, along, offset = last - first, end - start, start - first
    across = cross(step, along)
    # Both fractions are compared after multiplying by `across`, so that nothing is divided.
    sign = jnp.where(across < 0, -1.0, 1.0)
    on_step, on_edge, size = sign * cross(offset, along), sign * cross(offset, step), jnp.abs(across)
    slack = 1e-5 * size  # a step through the common corner of two edges must not slip between them
    hit = (on_step >= 0) & (on_step <= size) & (on_edge >= -slack) & (on_edge <= size + slack)
    return hit & (size > 0)


def inside(position: Array, edges: list[tuple[Vector, Vector]]) -> Array:
    """Even-odd rule: whether (2, N) m lies inside the ring of edges, (N,) bool; never for an open line or a point."""
    if len(edges) < 3:
        return jnp.zeros(position.shape[1], bool)
    x, y = position
    zero, inside = jnp.zeros_like(x), jnp.zeros(x.shape, bool)
    gap, length = Vector(x=zero, y=zero), zero
    for start, end in edges:
        gap = gap + (end - start)
        length = length + jnp.abs(end.x - start.x) + jnp.abs(end.y - start.y)
        spans = (start.y > y) != (end.y > y)
        rise = jnp.where(spans, end.y - start.y, 1.0)
        inside ^= spans & (x < start.x + (y - start.y) * (end.x - start.x) / rise)
    return (jnp.abs(gap.x) + jnp.abs(gap.y) <= 1e-5 * length) & inside
