"""What there is to do at goals: how people come up to them, what follows an arrival, and when it is over."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from crowdlab.arithmetic import anywhere, dot
from crowdlab.errors import ParamError
from crowdlab.journeys.choices import left_to_visit
from crowdlab.navigation import distance_to_goal_in_sight, inside_goal, outlet_crossed, reached, to_own_place
from crowdlab.params import Params
from crowdlab.state import PUSHED_OUT, Array, Journeys, State, Trip, World
from crowdlab.trees import param, pytree

CLOSE = 0.3  # m; who is this near to the own place in a queue or a waiting area has come there, and slows down on these last steps
# Who has been on the way longer than HELD, s, and is slower than SLOW, m/s, in the waiting area, is held up by those who wait there.
HELD, SLOW = 2.0, 0.05


@pytree
class Stop:
    """What there is to do at a goal, and how people come up to it."""

    stay: Any = param(
        default=0.0,
        unit="s",
        low=0.0,
        high=120.0,
        doc="time that somebody spends at a goal before going on; at a queue of each who is served",
        source="our choice: off",
    )
    brake: Any = param(
        default=0.0,
        unit="m",
        low=0.0,
        high=5.0,
        doc="distance to a goal in sight from which on the desired speed falls in proportion, beside the braking of the drive; 0 is none",
        source="our choice: off; the law is that of arrival in Reynolds, Game Developers Conference 1999",
    )


def approaching(state: State, params: Params, world: World) -> Array:
    """Share of the desired speed, (N,), that is left to those who come up to a goal or to their place; 1 on dead rows."""
    plan, share = world.journeys, jnp.ones_like(state.radius)
    if plan is None or state.trip is None:
        return share
    if params.stops or plan.stops:
        share = _braked(state, params, world, plan)
    if plan.places.shape[0]:
        gap = to_own_place(state, world)
        square = jnp.minimum(dot(gap, gap) / CLOSE**2, 1.0)
        slow = jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)
        share = jnp.where(state.trip.place >= 0, slow, share)
        waits = where_queue_is_joined(state, world)
        share = jnp.where(waits & (state.trip.stopped < 0), 0.0, share)  # until the last place is free, not to push who has it
    return jnp.where(state.alive, share, 1.0)


def _braked(state: State, params: Params, world: World, plan: Journeys) -> Array:
    """Share of the desired speed, (N,), that those have who brake for a goal."""
    brake = of_stop("brake", state, params, plan)

    def slower() -> Array:
        away = distance_to_goal_in_sight(state, world)
        near = away < brake
        return jnp.where(near, jnp.where(near, away, 0.0) / jnp.where(brake > 0, brake, 1.0), 1.0)  # no infinity for gradients

    return lax.cond(anywhere((brake > 0).any()), slower, lambda: jnp.ones_like(brake))


def arrive(state: State, before: Array, params: Params, world: World) -> State:
    """Mark who has reached the goal on the way from `before` (2, N) m; those at an exit leave, once, and become dead rows.

    Who has more to do on a journey has only stopped. Who is pushed out by another exit is gone too.
    """
    if world.goals.shape[0] == 0:
        return state
    plan, trip = world.journeys, state.trip
    here = reached(state, before, world)
    if plan is not None and trip is not None:
        served = at_own_place(state, world) & (plan.ahead[trip.place] < 0)
        served = served | _waits_where_it_is(state, params, world, plan, trip)
        here = jnp.where(plan.tail[state.goal] >= 0, served, here) & (trip.stopped < 0)
    now = state.alive & (state.arrived < 0) & (state.goal >= 0) & here
    if plan is not None and trip is not None:
        more = (trip.stage >= 0) & ((plan.following[trip.stage] >= 0) | left_to_visit(plan, trip))
        trip = trip.with_(stopped=jnp.where(now & more, state.step, trip.stopped), stage=jnp.where(now & ~more, -1, trip.stage))
        now = now & ~more
    leaves = world.goal_leaves[jnp.maximum(state.goal, 0)]
    state = state.with_(arrived=jnp.where(now, state.step, state.arrived), alive=state.alive & ~(now & leaves), trip=trip)
    return _pushed_out(state, before, world) if world.outlets.shape[0] else state


def _pushed_out(state: State, before: Array, world: World) -> State:
    """The state without those who went out over an exit that was not their goal: beyond it nobody can be followed.

    They count as removed, also who stood at a target: a dead row with an arrival has left by an exit that was the goal.
    """
    out = outlet_crossed(state, before, world)
    gone, trip = out >= 0, state.trip
    if trip is not None:
        trip = trip.with_(stage=jnp.where(gone, -1, trip.stage), place=jnp.where(gone, -1, trip.place))
    return state.with_(
        goal=jnp.where(gone, PUSHED_OUT - out, state.goal),
        arrived=jnp.where(gone, -1, state.arrived),
        alive=state.alive & ~gone,
        trip=trip,
    )


def stay_is_over(state: State, trip: Trip, params: Params, plan: Journeys) -> Array:
    """Whether those who stopped may go on, (N,) bool: after their stay, at one of the times of the goal."""
    now, since = seconds(state.step, params), seconds(trip.stopped - 1, params)  # a call of the very step of the arrival is heard
    until = plan.until[state.goal].T  # (U, N)
    called = ((until >= since) & (until <= now)).any(0) | jnp.isnan(until[0])
    return (seconds(state.step - trip.stopped, params) >= of_stop("stay", state, params, plan)) & called


def of_stop(name: str, state: State, params: Params, plan: Journeys) -> Array:
    """A parameter of the stop at each one's goal, (N,); 0 where there is none.

    Raises:
        ParamError: the parameters are of other goals than the world, while the program is made.
    """
    if set(params.stops) != set(plan.stops):
        raise ParamError(
            f"stops: parameters of {', '.join(sorted(params.stops)) or 'none'} for a world with {', '.join(plan.stops) or 'none'}: allowed "
            "is one set for each. Take the parameters of the same scenario."
        )
    own, stop = jnp.zeros_like(state.radius), jnp.where(state.goal >= 0, plan.stop[state.goal], -1)
    for number, goal in enumerate(plan.stops):
        own = jnp.where(stop == number, getattr(params.stops[goal], name), own)
    return own


def at_own_place(state: State, world: World) -> Array:
    """Whether each has come to the own place in a queue or a waiting area, (N,) bool; never without one."""
    gap = to_own_place(state, world)
    trip: Any = state.trip
    return (trip.place >= 0) & (dot(gap, gap) <= CLOSE**2)


def where_queue_is_joined(state: State, world: World) -> Array:
    """Who has come to the end of a queue and has no place in it, (N,) bool; it is the last one's as soon as that is free."""
    trip, plan = state.trip, world.journeys
    assert trip is not None
    assert plan is not None
    return (trip.place < 0) & plan.queue[state.goal] & reached(state, state.position, world)


def is_past(state: State, trip: Trip, plan: Journeys) -> Array:
    """Whether each is as near to the next place of the queue as the own place is, (N,) bool; means nothing elsewhere."""
    own, ahead = plan.places[trip.place].T, plan.places[plan.ahead[trip.place]].T
    gap, spacing = ahead - state.position, ahead - own
    return dot(gap, gap) <= dot(spacing, spacing)


def _waits_where_it_is(state: State, params: Params, world: World, plan: Journeys, trip: Trip) -> Array:
    """Who stands inside a waiting area because others stand before the own place, (N,) bool."""
    late = (trip.set_out >= 0) & (seconds(state.step - trip.set_out, params) > HELD)
    slow = dot(state.velocity, state.velocity) < SLOW**2
    return (trip.place >= 0) & ~plan.queue[state.goal] & late & slow & inside_goal(state, world)


def seconds(steps: Array, params: Params) -> Array:
    """Time, s, that so many steps take, and half a step more, so that rounding misses no whole time."""
    return (steps.astype(jnp.result_type(float)) + 0.5) * params.motion.dt
