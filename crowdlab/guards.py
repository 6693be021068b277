"""What would rather stop than be wrong: every step is watched inside the compiled loop, and what was seen is judged outside it."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab import walls
from crowdlab.arithmetic import Vector, anywhere, dot
from crowdlab.errors import NonFiniteError, RunError, UnstableError
from crowdlab.forces import base
from crowdlab.neighbours import Grid, NeighbourList, find, measure
from crowdlab.params import Params
from crowdlab.stability import longest_step
from crowdlab.state import MOST, Array, Health, State, World

# Who takes a step is looked at closely, which costs about as much as a step, before those whose number is a multiple of EVERY, however a
# run is cut (contacts last longer, at 1 ms a step), and before those in which the forces are FIRM with somebody.
EVERY = 50
FIRM = 0.5  # m/s, change of velocity in one step; people who flee at 8 m/s reach 0.3 m/s at 1 ms a step
HARDEST = 1000.0  # m/s, change of velocity in one step that no force in its right mind asks for

LOST, WALL, THROWN, UNSTABLE, PRESSED = range(1, 6)  # reasons, the gravest first


class Seen(NamedTuple):
    """One close look at everybody."""

    step_ratio: Array  # () largest ratio of the step to the longest that is surely stable
    strain: Array  # () deepest overlap against a force that resists it, as a share of the radii
    reason: Array  # () int32, UNSTABLE, PRESSED, or 0
    row: Array  # () int32, of whom


def examine(
    old: State,
    new: State,
    push: Vector,
    params: Params,
    listed: NeighbourList,
    world: World,
    grid: Grid | None,
    *,
    capped: Array,
    shift: Array,
) -> Health:
    """What went wrong in this step, if anything: facts only, judged outside the compiled loop.

    `push` is what everybody felt in the old state, `capped`, (N,) bool, who felt less than the forces said, and `shift`, (N,) m, how far
    each was moved out of overlaps.
    """
    if not old.id.shape[0]:
        return Health.good()
    old, new, push, params, shift = lax.stop_gradient((old, new, push, params, shift))
    moved = world.offset(listed.start, new.position)
    stray = params.motion.stray(old) + shift
    way = (world.offset(old.position, new.position) + old.position).stacked
    lost = old.alive & ~(jnp.isfinite(new.position).all(0) & jnp.isfinite(new.velocity).all(0))
    through = old.alive & walls.crossed(old.position, way, listed.walls)
    kick = params.motion.dt * jnp.sqrt(dot(push, push))
    reasons = jnp.select([lost, through, old.alive & (kick > HARDEST)], [LOST, WALL, THROWN], 0)
    beat = new.step % EVERY == 0
    due = beat | (old.alive & (kick > FIRM)).any()
    nothing = Seen(*jnp.zeros((2,), kick.dtype), *jnp.zeros((2,), jnp.int32))
    seen = lax.cond(anywhere(due), lambda: look(old, params, listed, world, grid, beat=beat), lambda: nothing)
    seen = Seen(*(jnp.where(due, one, none) for one, none in zip(seen, nothing, strict=True)))
    row = first_of(reasons > 0, old.id)
    reason = jnp.where(reasons[row] > 0, reasons[row], seen.reason)
    who = jnp.where(reasons[row] > 0, row, seen.row)
    amount = jnp.select([reason == THROWN, reason == UNSTABLE, reason == PRESSED], [kick[who], seen.step_ratio, seen.strain], 0.0)
    return Health.good().with_(
        largest_move=jnp.where(old.alive & ~lost, jnp.sqrt(dot(moved, moved)) + stray, 0.0).max(initial=0.0),
        first_bad_step=jnp.where(reason > 0, new.step, -1),
        bad_agent=jnp.where(reason > 0, old.id[who], -1),
        bad_place=jnp.where(reason > 0, old.position[:, who], 0.0),
        bad_reason=reason,
        bad_amount=amount,
        looks=due.astype(jnp.int32),
        long_looks=(seen.step_ratio > 1).astype(jnp.int32),
        step_ratio=seen.step_ratio,
        strain=seen.strain,
        capped=(old.alive & capped).sum(dtype=jnp.int32),
        separated=(old.alive & (shift > 0)).sum(dtype=jnp.int32),
    )


def look(state: State, params: Params, listed: NeighbourList, world: World, grid: Grid | None, *, beat: Array) -> Seen:
    """How long the step is for the forces as people stand now, and on the beat how deep they overlap.

    Off the beat overlaps are left out: who starts on one point with others is thrown apart at once, and not deep in anybody by the time
    of the first look.
    """
    near = measure(listed, state, world, grid)
    ratio = jnp.where(state.alive, params.motion.dt / longest_step(params, state, near), 0.0)
    strain = jnp.where(beat, base.strain(params, state, near), 0.0)
    # Who is worst, each by the limit of their own.
    unstable = ratio / jnp.asarray(params.limits.step_ratio)
    pressed = strain / jnp.asarray(params.limits.overlap)
    reason = jnp.where(unstable.max() > 1, UNSTABLE, jnp.where(pressed.max() > 1, PRESSED, 0)).astype(jnp.int32)
    worst = jnp.where(reason == UNSTABLE, unstable == unstable.max(), pressed == pressed.max())
    return Seen(ratio.max(), strain.max(), reason, first_of(worst, state.id))


def first_of(them: Array, ids: Array) -> Array:
    """Row, () int32, of the one among `them`, (N,) bool, with the smallest id, so that it does not hang on who stands in which row."""
    return jnp.argmin(jnp.where(them, ids, MOST)).astype(jnp.int32)


def broken(name: str, health: Health, kept: State, params: Params, world: World, grid: Grid | None) -> RunError:
    """The error for a run that `health` says cannot be trusted; `kept` is the last good state."""
    reason, amount, dt = int(health.bad_reason), float(health.bad_amount), float(np.max(params.motion.dt))
    step, agent = int(health.first_bad_step), int(health.bad_agent)
    x, y = (float(c) for c in np.asarray(health.bad_place))
    allowed = {UNSTABLE: params.limits.step_ratio, PRESSED: params.limits.overlap}.get(reason, 0.0)
    most = float(np.max(np.asarray(allowed)))
    what = {
        LOST: "left the finite numbers",
        WALL: "went through a wall",
        THROWN: f"was to change its velocity by {amount:.3g} m/s (allowed are {HARDEST:g})",
        UNSTABLE: f"was pressed so hard that the step is {amount:.3g} times the longest surely stable one (limits.step_ratio = {most:g})",
        PRESSED: f"overlapped by {amount:.3g} of the radii (limits.overlap = {most:g})",
    }[reason]
    stable = float(np.min(np.asarray(_stable(params, kept, world, grid)), initial=np.inf))
    stable = min(stable, dt / amount) if reason == UNSTABLE else stable
    below = f"; less than {stable:.2g} s is surely stable there" if stable < dt else ""
    message = (
        f"{name}: agent {agent} {what} at step {step}; the last good state is that of step {int(kept.step)}, where it stood at "
        f"({x:.2f}, {y:.2f}) m. Usual cures: a smaller motion.dt (now {dt:g} s{below}), weaker forces or a lower motion.top_speed."
    )
    kind = NonFiniteError if reason in (LOST, WALL) else UnstableError
    return kind(message, state=kept, step=step, agent=agent, place=(x, y))


@partial(jax.jit, static_argnames="grid")
def _stable(params: Params, state: State, world: World, grid: Grid | None) -> Array:
    """Longest surely stable step of each, (N,) s, in a state."""
    return longest_step(params, state, find(state, world, grid, jax.random.key(0))[0])
