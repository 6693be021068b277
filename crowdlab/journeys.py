"""Which goal comes next, and what happens on arrival."""

import jax.numpy as jnp

from crowdlab.navigation import reached
from crowdlab.state import Array, State, World


def arrive(state: State, before: Array, world: World) -> State:
    """Mark who has reached the goal on the way from `before` (2, N) m; those at an exit leave, once, and become dead rows."""
    if world.goals.shape[0] == 0:
        return state
    now = state.alive & (state.arrived < 0) & (state.goal >= 0) & reached(state, before, world)
    leaves = world.goal_leaves[jnp.maximum(state.goal, 0)]
    return state.with_(arrived=jnp.where(now, state.step, state.arrived), alive=state.alive & ~(now & leaves))
