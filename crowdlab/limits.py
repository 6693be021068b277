"""Limits that act: a cap on accelerations, and a pass that moves overlapping bodies apart. Off by default, and counted when they act."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab.arithmetic import Vector, anywhere, dot, root, rounded, where
from crowdlab.neighbours import Grid, NeighbourList, measure
from crowdlab.params import Limits
from crowdlab.state import Array, State, World


def used(limits: Limits) -> bool:
    """Whether any of the two acts at its present, concrete value; if not, a program may do without (see `Grid.with_limits`)."""
    return bool(np.isfinite(np.asarray(limits.acceleration)).any() or (np.asarray(limits.separation) > 0).any())


def _held(grid: Grid | None) -> bool:
    """Whether the program holds both; all pairs without a plan hold everything."""
    return grid is None or grid.with_limits


def cap(push: Vector, limits: Limits, grid: Grid | None) -> tuple[Vector, Array]:
    """Accelerations shortened to at most `limits.acceleration`, direction kept, and who is concerned, (N,) bool."""
    free = push, jnp.zeros(push.x.shape, bool)
    if not _held(grid):
        return free
    most = jnp.asarray(limits.acceleration, push.x.dtype)

    def shortened() -> tuple[Vector, Array]:
        square = dot(push, push)
        over = square > most**2
        # A little less, so that rounding takes nobody above the limit. A square that overflows must not become a rest.
        share = (1.0 - 2.0 * float(np.finfo(square.dtype).eps)) * jnp.where(over, most, 1.0) / root(jnp.where(over, square, 1.0))
        share = jnp.where(jnp.isinf(square), jnp.nan, share)
        return where(over, share * push, push), over

    return lax.cond(anywhere(jnp.isfinite(most).any()), shortened, lambda: free)


def separate(state: State, limits: Limits, listed: NeighbourList, world: World, grid: Grid | None) -> tuple[State, Array]:
    """The state with overlapping bodies moved apart by the share `limits.separation`, and how far each was moved, (N,) m.

    One pass, all at once, from the places after the step: two people part in inverse proportion to their masses, so that their centre of
    mass stays; a wall gives way to nobody. Nobody is moved nearer to a wall than to touch it. Velocities stay as they are.

    References:
        Mueller, Heidelberger, Hennix & Ratcliff, J. Vis. Commun. Image Represent. 18 (2007) 109, section 3.3 (masses as weights).
    """
    still = state.position, jnp.zeros_like(state.radius)
    if not _held(grid):
        return state, still[1]
    share = jnp.broadcast_to(jnp.asarray(limits.separation, state.radius.dtype), state.radius.shape)

    def apart() -> tuple[Array, Array]:
        near = measure(listed, state, world, grid)
        pairs, around = near.touching, near.walls
        overlap = jnp.maximum(state.radius + pairs.radius - pairs.distance, 0.0)  # (T, N) m
        mass = pairs.at(state.mass)
        own = jnp.minimum(share, pairs.at(share)) * (mass / (state.mass + mass))
        pushed = pairs.total(rounded(own * overlap) * pairs.normal)  # (N,) m
        towards, room = -dot(pushed, around.normal), jnp.maximum(around.distance - state.radius, 0.0)  # (M, N) m
        blocked = (around.weight > 0) & (towards > room)
        allowed = jnp.where(blocked, room / jnp.where(blocked, towards, 1.0), 1.0).min(0, initial=1.0)
        inside = jnp.maximum(state.radius - around.distance, 0.0)
        shift = pushed * allowed + around.total(rounded(share * inside) * around.normal)
        shift = where(state.alive, shift, (0.0, 0.0))
        place = where(state.alive, world.wrap(state.position + shift), state.position)
        return place.stacked, jnp.sqrt(dot(shift, shift))

    place, shift = lax.cond(anywhere((share > 0).any()), apart, lambda: still)
    return state.with_(position=place), shift
