"""What a run knows: agents, surroundings, and how healthy it was.

Inside, arrays are component-leading and agent-last, so that a parameter leaf of shape () or (N,) broadcasts alike.
Letters: N agents, K neighbours, T touching ones, C candidates, W wall segments, V wall vertices, D directions at a vertex, M wall
candidates, G goals, E goal edges, O outlets, J journeys, S stages, B options of a stage, P places, A zones, F frames, R runs abreast (see
abreast.py).
"""

import dataclasses
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.arithmetic import Vector, rounded
from crowdlab.trees import pytree, single, static

Array = jax.Array
MOST = 2**31 - 1  # counts stay there rather than start anew
OUTSIDE = -1  # State.entered of who waits outside
TURNED_AWAY = -2  # less the step: State.entered of who was refused
PUSHED_OUT = -2  # less the goal: State.goal of who went out over that exit on the outline and wanted elsewhere
NOBODY = -(2**31)  # State.entered of a row that is nobody's and fills up (see ensemble.py)
COUNTED = ("looks", "long_looks", "capped", "separated")  # fields of Health that add up
NEEDS = ("peak_neighbours", "peak_touching", "peak_span", "peak_walls")  # room for lists, as in neighbours.Need; the largest counts
MEASURED = ("step_ratio", "strain", "largest_move")  # what recordings keep beside those that add up; the largest counts


class Intent(IntEnum):
    """What somebody wants at an instant; Frames keep it."""

    RESTS = 0  # nothing: is not there, has no goal, has arrived, has not begun to walk
    WALKS = 1  # wants to get on
    QUEUES = 2  # stands in a queue of a journey, on the own place or where it is joined
    STAYS = 3  # at a goal on the way, until the stay is over, the call comes, or the service is done


def nobody() -> Array:
    """No people, () int32; made on the host, for no program shall be compiled for it."""
    return jnp.asarray(np.zeros((), np.int32))


@pytree
class Trip:
    """How far everybody is on a journey; see the room journeys."""

    stage: Array  # (N,) int32, index into Journeys.options; -1 has no journey, or has come to its end
    stopped: Array  # (N,) int32, step at which a goal that is not the last was reached; -1 on the way
    set_out: Array  # (N,) int32, step at which the stage began; -1 at the start of a journey
    place: Array  # (N,) int32, own place in a waiting area or a queue, index into Journeys.places; -1 has none
    visited: Array  # (N,) int32, bit b is set for option b of a list to visit where one was, or which is not on the own list

    @classmethod
    def begun(cls, stage: Any) -> "Trip":
        """Everybody at the start of a journey, or with none, -1."""
        stage = jnp.asarray(stage, jnp.int32)
        nothing = jnp.full_like(stage, -1)
        return cls(stage=stage, stopped=nothing, set_out=nothing, place=nothing, visited=jnp.zeros_like(stage))

    def with_(self, **changes: Any) -> "Trip":
        """Copy with some fields replaced."""
        return dataclasses.replace(self, **changes)


@pytree
class State:
    """All agents at one instant."""

    id: Array  # (N,) int32, for ever
    position: Array  # (2, N) m
    velocity: Array  # (2, N) m/s
    heading: Array  # (2, N) unit, kept at rest
    radius: Array  # (N,) m, body
    social_radius: Array  # (N,) m, personal space; the reach of the social force is counted from here
    mass: Array  # (N,) kg
    desired_speed: Array  # (N,) m/s in force now; set from Params.people at every step
    group: Array  # (N,) int32, index into Scenario.groups
    goal: Array  # (N,) int32, index into World.goals; -1 has none, PUSHED_OUT - exit went out there
    alive: Array  # (N,) bool; a dead row feels nothing and exerts nothing
    arrived: Array  # (N,) int32, step at which the goal was reached, the last one of a journey; -1 before
    # (N,) int32, step at which somebody came in; OUTSIDE before, TURNED_AWAY - step for who was refused then. Who is not in is dead.
    entered: Array
    trip: Trip | None = None  # where goals are just walked to there is none
    step: Array = single()  # () int32, absolute: continues across chunks
    # Those who are not there and have no row here: in the loop only (see muster.py), all 0 wherever everybody has a row.
    left: Array = single(default=nobody)  # () int32, by an exit
    removed: Array = single(default=nobody)  # () int32, by an order
    waiting: Array = single(default=nobody)  # () int32, outside; and the same for those who never came in
    refused: Array = single(default=nobody)  # () int32, for whom there was no room
    closed: Array = single(default=nobody)  # () int32, which doors are closed: bit i for door i (see scenario.doors)

    def with_(self, **changes: Any) -> "State":
        """Copy with some fields replaced."""
        return dataclasses.replace(self, **changes)


INSIDE, STANDING, LEFT, REMOVED, WAITING, REFUSED = "inside", "standing", "left", "removed", "waiting", "refused"


def whereabouts(alive: Any, arrived: Any, entered: Any, step: Any = None) -> dict[str, Any]:
    """Who is inside and walking, stands at the target, left by an exit, was removed by an order, waits outside, was refused.

    The only place where this is decided: everybody is in exactly one of the six, each (..., N) bool. `alive` and `arrived` (..., N)
    bool are of one instant; `entered` (N,) is State.entered, of the same instant or, where `step` (..., 1) says which one that is, of
    any later one.
    """
    late = step is not None  # whoever comes in or is turned away at a step was still outside in the frame of that step
    came = (entered >= 0) & (entered < step) if late else entered >= 0
    refused = (entered <= TURNED_AWAY) & (entered > NOBODY) & (entered > TURNED_AWAY - step if late else True)
    gone = ~alive & ~arrived
    return {
        INSIDE: alive & ~arrived,
        STANDING: alive & arrived,
        LEFT: ~alive & arrived,
        REMOVED: gone & came,
        WAITING: gone & ~came & ~refused & (entered > NOBODY),
        REFUSED: gone & refused,
    }


@pytree
class Journeys:
    """What there is to do at goals, and in which order; the laws are in the room journeys."""

    first: Array  # (J,) int32, stage with which each journey begins
    following: Array  # (S,) int32, stage after each; -1 where the journey ends
    rule: Array  # (S,) int32, how one of the options is chosen (journeys.Rule)
    options: Array  # (S, B) int32, goals; -1 pads
    weights: Array  # (S, B), how often each is taken where chance decides
    wanted: Array  # (S,) int32, how many options are on each one's list to visit
    patience: Array  # (S,) s, after which somebody on the way goes on to the next stage; inf never does
    rethink: Array  # (S,) s, after which somebody on the way chooses again; inf never does
    crossed: Array  # (G,) bool, a goal that is reached by going over one of its edges
    until: Array  # (G, U) s, times at which those who wait at a goal may go; inf pads, NaN where they may at any time
    stop: Array  # (G,) int32, index into `stops`; -1 has nothing there
    headway: Array  # (G,) s, between two who go through a line where people queue for it; 0 for other goals
    queue: Array  # (G,) bool, whether the places of a goal are taken from the last to the first
    tail: Array  # (G,) int32, the last of the places of a goal; -1 has none
    places: Array  # (P, 2) m
    place_goal: Array  # (P,) int32, whose place it is
    ahead: Array  # (P,) int32, the place before it in a queue; -1 for the first and in waiting areas
    lengths: Array  # (G * Z, rows, columns) m, way to each goal from the nodes of World.ways
    stops: tuple[str, ...] = static(default=())  # names in Params.stops


@pytree
class World:
    """The fixed surroundings."""

    walls: Array  # (W, 2, 2) m, segments (start, end)
    wall_vertices: Array  # (V, 2) m, each point where segments end or meet, once
    wall_directions: Array  # (V, D, 2) unit, from the vertex along each segment that meets there; zero rows pad
    wall_part: Array  # (W + V,) int32, which connected wall each segment and then each vertex belongs to
    goals: Array  # (G, E, 2, 2) m, edges of each goal; a point is one of no length; padded by such in the middle of the last
    goal_leaves: Array  # (G,) bool: people who reach it leave the scene (exit) or stand (target)
    goal_reach: Array  # (G,) m, arrival distance of a target; an exit is left by crossing it
    ways: Array  # (G * Z, 3, rows, columns): unit vector towards the goal, for each size; 1 where it is in plain sight, -1 at walls
    ways_cell: Array  # () m, spacing of the nodes of `ways`; node (0, 0) lies at `lower`
    journeys: Journeys | None = None  # where goals are just walked to there are none
    # (Z - 1,) m: radius from which on a body has the next of Z sizes; people of one size fit through the same doors
    ways_sizes: Any = dataclasses.field(default_factory=lambda: np.zeros((0,)))
    # (entries,) int32: wall features near each cell of a raster, cell after cell
    near_walls: Any = dataclasses.field(default_factory=lambda: np.zeros((1,), np.int32))
    # (2, rows, columns) int32: for each cell, where its entries begin and how many they are
    near_walls_cells: Any = dataclasses.field(default_factory=lambda: np.zeros((2, 1, 1), np.int32))
    near_walls_most: int = static(default=0)  # entries of the fullest cell
    near_walls_reach: float = static(default=0.0)  # m; features this near each cell of the box are listed; 0: there is no table
    # (O, 2, 2) m: stretches of the outline where an exit is instead of a wall, inside to the left; (O,) int32: that exit
    outlets: Any = dataclasses.field(default_factory=lambda: np.zeros((0, 2, 2)))
    outlet_goal: Any = dataclasses.field(default_factory=lambda: np.zeros((0,), np.int32))
    # (A, E, 2, 2) m: edges of each zone, sorted by name and padded as `goals`; (A, 2) unit: which way stairs go up, else zero
    zones: Any = dataclasses.field(default_factory=lambda: np.zeros((0, 1, 2, 2)))
    zone_up: Any = dataclasses.field(default_factory=lambda: np.zeros((0, 2)))
    lower: tuple[float, float] = static(default=(0.0, 0.0))  # m, corner of the box
    size: tuple[float, float] = static(default=(1.0, 1.0))  # m
    periodic: bool = static(default=False)  # opposite sides are joined; walls go on beyond them (see geometry.wall_arrays)

    def offset(self, start: Any, end: Any) -> Vector:
        """Vector, m, from `start` to `end`, each a Vector or component-leading; shortest way round when periodic."""
        x, y = end[0] - start[0], end[1] - start[1]
        if self.periodic:
            wide, high = self.size
            x, y = x - rounded(wide * jnp.round(x / wide)), y - rounded(high * jnp.round(y / high))
        return Vector(x=x, y=y)

    def wrap(self, position: Any) -> Vector:
        """Positions, m, brought back into a periodic box; who is inside stays to the bit, and so does everybody where it is bounded."""
        if not self.periodic:
            return Vector.of(position)

        def inside(here: Array, lower: float, size: float) -> Array:
            back = lower + (here - lower) % size
            back = jnp.where(back >= lower + size, lower, back)  # rounding of a tiny negative may land on the far edge
            return jnp.where((here >= lower) & (here < lower + size), here, back)

        x, y = (inside(*axis) for axis in zip(position, self.lower, self.size, strict=True))
        return Vector(x=x, y=y)


@pytree
class Health:
    """Facts gathered inside the compiled loop and judged outside it. Shapes are those of one run; R abreast have a leading axis (R,)."""

    # () int32, most list entries any agent ever needed (capacity is Grid.capacity); where all are listed these are all others
    peak_neighbours: Array
    # () int32, most entries of the short list of touching people (room is Grid.touching); 0 where there is no such list
    peak_touching: Array
    peak_span: Array  # () int32, most agents ever seen in one span of cells (room is Grid.span)
    peak_walls: Array  # () int32, most wall candidates any agent ever needed (room is Grid.walls)
    largest_move: Array  # () m, since the list in use was made; beyond half the skin the chunk is repeated with a larger plan
    first_bad_step: Array  # () int32, first step after which something was wrong with somebody; -1 before
    bad_agent: Array  # () int32, id of that agent, -1 before
    bad_place: Array  # (2,) m, where it stood one step earlier
    bad_reason: Array  # () int32, number of what was wrong (see guards.py); 0 before
    bad_amount: Array  # () by how much, in the unit of that reason
    looks: Array  # () int32, steps before which people were looked at closely (see guards.EVERY)
    long_looks: Array  # () int32, those among them in which the step was too long for somebody's springs and drags
    step_ratio: Array  # () largest ratio of the step to the longest at which springs and drags are stable
    strain: Array  # () deepest overlap against a force that resists it, as a share of the radii
    capped: Array  # () int32, agent-steps in which the cap on accelerations acted
    separated: Array  # () int32, agent-steps in which somebody was moved out of an overlap

    @classmethod
    def good(cls, runs: int | None = None) -> "Health":
        """The health of a run of no steps, or of `runs` abreast, which have a leading axis."""
        shape = () if runs is None else (runs,)
        zero = jnp.zeros(shape, jnp.int32)
        none = jnp.zeros(shape, jnp.result_type(float))
        return cls(
            peak_neighbours=zero,
            peak_touching=zero,
            peak_span=zero,
            peak_walls=zero,
            largest_move=none,
            first_bad_step=zero - 1,
            bad_agent=zero - 1,
            bad_place=jnp.zeros((*shape, 2), none.dtype),
            bad_reason=zero,
            bad_amount=none,
            looks=zero,
            long_looks=zero,
            step_ratio=none,
            strain=none,
            capped=zero,
            separated=zero,
        )

    def with_(self, **changes: Any) -> "Health":
        """Copy with some fields replaced."""
        return dataclasses.replace(self, **changes)

    def with_need(self, *rooms: Array | int) -> "Health":
        """With the room that one more list needed, () each, in the order of the fields; runs abreast share their lists."""
        return self.with_(**{name: jnp.maximum(getattr(self, name), room) for name, room in zip(NEEDS, rooms, strict=True)})

    def merge(self, later: "Health", *, listed: bool = True) -> "Health":
        """Worst of both, sums of what is counted; the first bad step is the earlier one.

        If no list was made in what is later (`listed`), nothing is asked about room: each comparison is one more kernel to compile.
        """
        mine = self.first_bad_step >= 0
        merged = {}
        for field in dataclasses.fields(self):
            one, other = getattr(self, field.name), getattr(later, field.name)
            if field.name in NEEDS and not listed:
                merged[field.name] = one
                continue
            if field.name == "first_bad_step" or field.name.startswith("bad_"):
                merged[field.name] = jnp.where(mine.reshape(*mine.shape, *[1] * (one.ndim - mine.ndim)), one, other)
            elif field.name in COUNTED:
                merged[field.name] = jnp.where(one > MOST - other, MOST, one + other)
            elif field.name == "largest_move":  # what is not finite any more says nothing about the list
                merged[field.name] = jnp.where(mine, one, jnp.maximum(one, other))
            else:
                merged[field.name] = jnp.maximum(one, other)
        return Health(**merged)
