"""What would rather stop than be wrong: every step is watched inside the compiled loop, and what was seen is judged outside it."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab import walls
from crowdlab.abreast import each
from crowdlab.arithmetic import Vector, anywhere, dot
from crowdlab.errors import NonFiniteError, RunError, UnstableError
from crowdlab.forces import base
from crowdlab.neighbours import Grid, NeighbourList, Neighbours, find
from crowdlab.params import Limits, Params
from crowdlab.stability import longest_step
from crowdlab.state import MOST, Array, Health, State, World

# A close look costs about as much as a step. So people are looked at before each step whose number is a multiple of EVERY, the same ones
# however a run is cut (at 1 ms a step contacts last longer than that), and before a step in which the forces are FIRM with somebody.
EVERY = 50  # steps
FIRM = 0.5  # m/s, change of velocity in one step; people who flee at 8 m/s reach 0.3 m/s at 1 ms a step
CLOSE = 1e-3  # m, more than coordinates are rounded by
HARDEST = 1000.0  # m/s, change of velocity in one step that no force in its right mind asks for
# Far from the origin a coordinate has few digits left for a step: single precision adds up 1 ms at 1.34 m/s exactly at 100 m, and a third
# too slow at 10 km. Who is slower than this, m/s, would stand still there.
CREEP = 0.1
NEARER = "an origin nearer to the people, a longer motion.dt or double precision (use_precision)"

LOST, WALL, THROWN, FAR, UNSTABLE, PRESSED = range(1, 7)  # reasons, the gravest first; 0 is none


def farthest(dt: Any, real: Any) -> Any:
    """How large a coordinate, m, may be in the float type `real` with steps of `dt` s: there rounding takes up to CREEP from a speed."""
    return 2 * CREEP * dt / float(np.finfo(real).eps)


def examine(
    old: State,
    new: State,
    push: Vector,
    near: Neighbours,
    params: Params,
    listed: NeighbourList,
    world: World,
    *,
    capped: Array,
    shift: Array,
    stray: Array | float,
    runs: int | None = None,
) -> Health:
    """Health of this step, () or (R,): what went wrong, if anything. Facts only, judged outside the compiled loop.

    `push` is what everybody felt in the old state from those `near`, `capped`, (N,) bool, who felt less than the forces said, and `shift`,
    (N,) m, how far each was moved out of overlaps; `stray` is as in Motion. Of `runs` abreast each has a health of its own.
    """
    if not old.id.shape[0]:
        return Health.good(runs)
    old, new, push, near, params, shift, stray = lax.stop_gradient((old, new, push, near, params, shift, stray))
    moved = world.offset(listed.start, new.position)
    there = (world.offset(old.position, new.position) + old.position).stacked
    lost = old.alive & ~(jnp.isfinite(new.position).all(0) & jnp.isfinite(new.velocity).all(0))
    through = old.alive & _through(old.position, there, near, listed)
    far = old.alive & (jnp.abs(new.position).max(0) > farthest(params.motion.dt, new.position.dtype))
    kick = jnp.where(old.alive, params.motion.dt * jnp.sqrt(dot(push, push)), 0.0)
    step_ratio, strain = look(old, near, params, kick)
    signs = Signs(
        id=old.id,
        alive=old.alive,
        position=old.position,
        reason=gravest((lost, LOST), (through, WALL), (kick > HARDEST, THROWN), (far, FAR)),
        move=jnp.where(old.alive & ~lost, jnp.sqrt(dot(moved, moved)) + stray + shift, 0.0),
        kick=kick,
        step_ratio=step_ratio,
        strain=strain,
        capped=old.alive & capped,
        separated=old.alive & (shift > 0),
    )
    return each(partial(_summed_up, new.step), runs, signs, params.limits)


def _through(before: Array, after: Array, near: Neighbours, listed: NeighbourList) -> Array:
    """Who went through a wall, (N,) bool. Nobody is asked as long as all walls are farther away than anybody goes in the step."""
    way = jnp.sqrt(dot(after - before, after - before))
    close = (near.walls.nearest <= way + CLOSE).any()
    return lax.cond(anywhere(close), lambda: walls.crossed(before, after, listed.walls), lambda: jnp.zeros(way.shape, bool))


class Signs(NamedTuple):
    """What was seen of everybody in one step."""

    id: Array  # (N,) int32
    alive: Array  # (N,) bool, before the step
    position: Array  # (2, N) m, before the step
    reason: Array  # (N,) int32, LOST, WALL, THROWN, FAR or 0
    move: Array  # (N,) m, since the list was made
    kick: Array  # (N,) m/s, change of velocity
    step_ratio: Array  # (N,) the step as a share of the longest at which springs and drags are stable; 0 where nobody looked
    strain: Array  # (N,) deepest overlap against a force that resists it, as a share of the radii; 0 where nobody looked
    capped: Array  # (N,) bool
    separated: Array  # (N,) bool


def look(state: State, near: Neighbours, params: Params, kick: Array) -> tuple[Array, Array]:
    """How long the step is for the forces as people stand now, and on the beat how deep they overlap: two (N,), see Signs.

    Off the beat overlaps are left out: who starts on one point with others is thrown apart at once, and not deep in anybody by the time
    of the first look.
    """
    beat = _beat(state.step + 1)

    def closely() -> tuple[Array, Array]:
        ratio = jnp.where(state.alive, params.motion.dt / longest_step(params, state, near), 0.0)
        return ratio, jnp.where(beat, base.strain(params, state, near), 0.0)

    return lax.cond(anywhere(beat | (kick > FIRM).any()), closely, lambda: (jnp.zeros_like(kick), jnp.zeros_like(kick)))


def _beat(step: Array) -> Array:
    """Whether everybody is looked at before this step, () bool."""
    return step % EVERY == 0


def _summed_up(step: Array, signs: Signs, limits: Limits) -> Health:
    """The health of one run in the step that leads to number `step`."""
    due = (_beat(step) & signs.alive.any()) | (signs.kick > FIRM).any()  # another run may have been the reason to look
    step_ratio, strain = jnp.where(due, signs.step_ratio, 0.0), jnp.where(due, signs.strain, 0.0)
    # Who is worst, each by the limit of their own. A 1 stands for what was seen in single persons, who keep their own reasons.
    unstable, pressed = _share(step_ratio, limits.step_ratio), _share(strain, limits.overlap)
    reason = gravest(((signs.reason > 0).any(), 1), (unstable.max() > 1, UNSTABLE), (pressed.max() > 1, PRESSED))
    worst = jnp.where(reason == UNSTABLE, unstable, pressed)
    them = jnp.where(reason == 1, signs.reason > 0, worst == worst.max())
    who = first_of(them, signs.id)
    reason = jnp.where(reason == 1, signs.reason[who], reason)
    return Health.good().with_(
        largest_move=signs.move.max(initial=0.0),
        first_bad_step=jnp.where(reason > 0, step, -1),
        bad_agent=jnp.where(reason > 0, signs.id[who], -1),
        bad_place=jnp.where(reason > 0, signs.position[:, who], 0.0),
        bad_reason=reason,
        bad_amount=gravest(
            (reason == THROWN, signs.kick[who]), (reason == UNSTABLE, step_ratio[who]), (reason == PRESSED, strain[who])
        ),
        looks=due.astype(jnp.int32),
        long_looks=(step_ratio.max() > 1).astype(jnp.int32),
        step_ratio=step_ratio.max(),
        strain=strain.max(),
        capped=signs.capped.sum(dtype=jnp.int32),
        separated=signs.separated.sum(dtype=jnp.int32),
    )


def gravest(*cases: tuple[Array, Any]) -> Array:
    """The value of the first case, flag and value of one shape, whose flag is set; 0 where none is."""
    # jnp.select would look for the first flag by a reduction, one more kernel to compile.
    found = jnp.zeros_like(cases[0][1])
    for flag, value in reversed(cases):
        found = jnp.where(flag, value, found)
    return found


def _share(values: Array, limit: Array) -> Array:
    """Values as a share of their limits: who has nothing has no share, of a limit of 0 either; more than nothing is infinitely more."""
    return jnp.where(values > 0, values / jnp.asarray(limit), 0.0)


def first_of(them: Array, ids: Array) -> Array:
    """Row, () int32, of the one among `them`, (N,) bool, with the smallest id, so that it does not hang on who stands in which row."""
    return jnp.argmin(jnp.where(them, ids, MOST)).astype(jnp.int32)


def broken(
    name: str,
    health: Health,
    kept: State,
    params: Params,
    world: World,
    grid: Grid | None,
    origin: tuple[float, float] = (0.0, 0.0),
) -> RunError:
    """The error for a run that `health` says cannot be trusted; `kept` is the last good state, or that in which a bound was broken.

    Its place gets the `origin`, m, back.
    """
    reason, amount, dt = int(health.bad_reason), float(health.bad_amount), params.time_step
    step, agent = int(health.first_bad_step), int(health.bad_agent)
    x, y = (float(here) + off for here, off in zip(np.asarray(health.bad_place), origin, strict=True))
    allowed = {UNSTABLE: params.limits.step_ratio, PRESSED: params.limits.overlap}.get(reason, 0.0)
    own = np.broadcast_to(np.asarray(allowed), np.shape(kept.id))[np.asarray(kept.id) == agent]
    most = float(own.max(initial=0.0))
    what = {
        LOST: "left the finite numbers",
        WALL: "went through a wall",
        THROWN: f"was to change its velocity by {amount:.3g} m/s (allowed are {HARDEST:g})",
        FAR: f"came so far from the origin that {too_coarse(dt, kept)}",
        UNSTABLE: f"was pressed so hard that the step is {amount:.3g} times the longest at which springs and drags are stable "
        f"(limits.step_ratio = {most:g})",
        PRESSED: f"overlapped by {amount:.3g} of the radii (limits.overlap = {most:g})",
    }[reason]
    stable = float(np.min(np.asarray(_stable(params, kept, world, grid)), initial=np.inf))
    stable = min(stable, dt / amount) if reason == UNSTABLE else stable
    below = f"; springs and drags are stable below {stable:.2g} s there" if stable < dt else ""
    found_in = "it was seen in the state" if reason in (UNSTABLE, PRESSED) else "the last good state is that"
    cures = f"a smaller motion.dt (now {dt:g} s{below}), weaker forces or a lower motion.top_speed"
    message = (
        f"{name}: agent {agent} {what} at step {step}; {found_in} of step {int(kept.step)}, where it stood at "
        f"({x:.2f}, {y:.2f}) m. Usual cures: {NEARER if reason == FAR else cures}."
    )
    kind = {LOST: NonFiniteError, WALL: NonFiniteError, FAR: RunError}.get(reason, UnstableError)
    return kind(message, state=kept, step=step, agent=agent, place=(x, y))


def too_coarse(dt: float, state: State) -> str:
    """Why nobody may be farther out, in words."""
    real = state.position.dtype
    return f"{real} rounds away speeds of {CREEP:g} m/s (with steps of {dt:g} s allowed are {farthest(dt, real):.4g} m in x and y)"


@partial(jax.jit, static_argnames="grid")
def _stable(params: Params, state: State, world: World, grid: Grid | None) -> Array:
    """Longest step, (N,) s, at which springs and drags are stable for each in a state."""
    # Any key does: it says only in which direction people on one point are told apart.
    return longest_step(params, state, find(state, world, grid, jax.random.key(0))[0])
