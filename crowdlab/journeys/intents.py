"""What each wants at an instant, in a word: so that who stands by plan is told from who is stuck."""

import jax.numpy as jnp

from crowdlab.journeys.stops import at_own_place, seconds, where_queue_is_joined
from crowdlab.params import Params
from crowdlab.state import Array, Intent, State, World


def has_begun(state: State, params: Params) -> Array:
    """Who has spent his time before walking, counted from coming in, (N,) bool: to the nearest step. The only place where this is said."""
    return seconds(state.step - jnp.maximum(state.entered, 0), params) >= jnp.asarray(params.people.pre_movement)


def intents(state: State, params: Params, world: World) -> Array:
    """An Intent of everybody, (N,) int8."""
    kind, plan, trip = jnp.int8, world.journeys, state.trip
    wants = state.alive & (state.goal >= 0) & (state.arrived < 0) & (jnp.asarray(params.people.desired_speed) > 0)
    walks = wants & has_begun(state, params)
    intent = jnp.where(walks, Intent.WALKS, Intent.RESTS).astype(kind)
    if plan is None or trip is None:
        return intent
    queues = (plan.queue[state.goal] & at_own_place(state, world)) | where_queue_is_joined(state, world)
    intent = jnp.where(walks & queues, Intent.QUEUES, intent)
    return jnp.where(wants & (trip.stopped >= 0), Intent.STAYS, intent).astype(kind)
