"""Whose turn it is to decide before a step, and the state once they have.

What follows an arrival is looked at before the next step, so nobody loses a step at a waypoint. All other changes (a stay is over, a
queue moves up, patience ends, another exit has become better) are looked at every BEAT.
"""

import jax.numpy as jnp
from jax import lax

from crowdlab.arithmetic import anywhere
from crowdlab.journeys.choices import Turn, decided
from crowdlab.journeys.intents import has_begun
from crowdlab.journeys.stops import at_own_place, is_past, seconds, stay_is_over, where_queue_is_joined
from crowdlab.params import Params
from crowdlab.state import Array, Journeys, State, Trip, World

BEAT = 0.1  # s, between two looks at who might change the goal


def proceed(state: State, params: Params, world: World, key: Array) -> State:
    """The state with the goals of this step: for those who begin, have arrived, were served, give up or find a better exit.

    `key` belongs to the run; (R,) are those of R runs abreast.
    """
    plan, trip = world.journeys, state.trip
    if plan is None or trip is None or not state.id.shape[0]:
        return state
    begins = (trip.stage >= 0) & (trip.set_out < 0) & has_begun(state, params)
    fresh = state.alive & (begins | (trip.stopped == state.step))
    beat = state.step % _steps_of_beat(params) == 0

    def looked(trip: Trip = trip) -> tuple[Array, Trip]:
        still: State
        still, law = lax.stop_gradient((state, params))
        turn = _turns(still, law, world, plan, trip, begins=begins & fresh, beat=beat)
        # A branch of its own, or it is worked out anew, and compiled anew, for each thing that is asked of it.
        turn = lax.cond(anywhere((turn > Turn.NOTHING).any()), lambda: turn, lambda: jnp.zeros_like(turn))
        return decided(still, law, world, plan, turn, key)

    goal, trip = lax.cond(anywhere(beat | fresh.any()), looked, lambda: (state.goal, trip))
    return state.with_(goal=goal, trip=trip)


def _steps_of_beat(params: Params) -> Array:
    """Steps from one beat to the next, () int32."""
    return jnp.maximum(jnp.round(BEAT / jnp.asarray(params.motion.dt)).astype(jnp.int32), 1)


def _turns(state: State, params: Params, world: World, plan: Journeys, trip: Trip, *, begins: Array, beat: Array) -> Array:
    """The Turn of everybody, (N,) int32. Between two beats only those have one who begin or have just arrived, since another run
    abreast may be the reason to look at all.
    """
    walks = state.alive & (trip.stage >= 0) & (trip.stopped < 0) & (trip.set_out >= 0)
    elapsed = seconds(state.step - trip.set_out, params)
    gives_up = beat & walks & (elapsed >= plan.patience[trip.stage])
    over = state.alive & (trip.stopped >= 0) & (beat | (trip.stopped == state.step)) & stay_is_over(state, trip, params, plan)
    moves_up = (trip.place >= 0) & (plan.ahead[trip.place] >= 0) & (at_own_place(state, world) | is_past(state, trip, plan))
    joins = where_queue_is_joined(state, world)
    rounds, before = (
        jnp.floor(time / plan.rethink[trip.stage]) for time in (elapsed, elapsed - _steps_of_beat(params) * params.motion.dt)
    )
    queues = (trip.place >= 0) & plan.queue[state.goal]  # who has joined stays in it
    again = ~queues & ((state.goal < 0) | (rounds > before))
    turn = jnp.full_like(state.goal, Turn.NOTHING)
    for flag, what in (
        (beat & walks & again, Turn.CHOOSES),
        (beat & walks & (moves_up | joins), Turn.STEPS_UP),
        (gives_up | over, Turn.GOES_ON),
        (begins, Turn.BEGINS),
    ):
        turn = jnp.where(flag, what, turn)
    return turn
