"""The main loop. Read `step` first: it is the whole model on one screen."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab import commands as orders
from crowdlab.abreast import count, each, first_rows, fold
from crowdlab.arithmetic import Vector, rounded, where
from crowdlab.commands import CommandQueue
from crowdlab.forces import base
from crowdlab.guards import examine
from crowdlab.journeys import approaching, arrive, has_begun, intents, proceed
from crowdlab.limits import cap, separate
from crowdlab.neighbours import Grid, NeighbourList, Neighbours, make_list, measure, tie_directions
from crowdlab.observe import OBSERVABLES
from crowdlab.params import Params
from crowdlab.state import Array, Health, State, World
from crowdlab.trees import pytree
from crowdlab.zones import paced


@pytree
class Frames:
    """F saved instants, rows by agent id, public layout."""

    position: Array  # (F, N, 2) m
    velocity: Array  # (F, N, 2) m/s
    heading: Array  # (F, N, 2) unit
    alive: Array  # (F, N) bool
    intent: Array  # (F, N) int8, what each wants: a state.Intent
    step: Array  # (F,) int32
    closed: Array  # (F,) int32, which doors are closed, as State.closed

    @classmethod
    def of(cls, state: State, params: Params, world: World) -> Self:
        """One instant, without the leading axis."""
        turned = {name: getattr(state, name).T for name in ("position", "velocity", "heading")}
        return cls(**turned, alive=state.alive, intent=intents(state, params, world), step=state.step, closed=state.closed)

    @classmethod
    def at_start(cls, state: State, params: Params, world: World) -> Self:
        """The frame of a state from which a run starts; with the leading axis, in NumPy."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[None], _instant(state, params, world))


@jax.jit
def _instant(state: State, params: Params, world: World) -> Frames:
    return Frames.of(state, params, world)


@pytree
class Run:
    """What came out."""

    frames: Frames
    series: dict[str, Array]  # observable name -> (F, ...)
    final: State
    health: Health


def step(
    state: State, params: Params, world: World, listed: NeighbourList, grid: Grid | None, queue: CommandQueue, key: Array
) -> tuple[State, Health]:
    """One time step on one screen: orders, next goals, neighbours, forces, cap, motion, overlaps, guards, arrivals.

    Everybody reads the old state and all are written together. Randomness comes from `fold_in(key, state.step)`, so a run cut
    into chunks equals one long run. With keys (R,) the rows are those of R runs abreast.
    """
    old = proceed(orders.apply(queue, state, world), params, world, key)
    walkers = at_full_speed(old, params, world)  # limits of speed are those of who walks, for who stands and is pushed too
    old = wishing(walkers, params, world)

    def felt(now: State, near: Neighbours) -> tuple[Vector, Array]:
        return cap(base.total(params, now, near, world), params.limits, grid)

    near = measure(listed, old, world, grid)
    push, capped = felt(old, near)

    def again(now: State) -> Vector:  # the first place that a motion asks for is where `push` is known already
        if now is walkers:
            return push
        now = now.with_(desired_speed=old.desired_speed)
        return felt(now, measure(listed, now, world, grid))[0]

    draws = grid is None or grid.with_noise
    moved = params.motion(walkers, again, world, fold(key, old.step) if draws else None)
    moved = moved.with_(desired_speed=old.desired_speed)
    moved, shift = separate(moved, params.limits, listed, world, grid)
    stray = params.motion.stray(walkers)
    health = examine(old, moved, push, near, params, listed, world, capped=capped, shift=shift, stray=stray, runs=count(key))
    return arrive(moved, old.position, params, world), health


def with_people(state: State, params: Params, world: World) -> State:
    """The state with each person's own numbers as the parameters have them now, and here. Of those who are not there nothing is kept."""
    return wishing(at_full_speed(state, params, world), params, world)


def at_full_speed(state: State, params: Params, world: World) -> State:
    """The state with the speed at which each would walk here."""
    speed = jnp.asarray(params.people.desired_speed, state.position.dtype)
    return paced(state.with_(desired_speed=jnp.broadcast_to(speed, state.desired_speed.shape)), params.zones, world)


def wishing(walkers: State, params: Params, world: World) -> State:
    """The state with the speed that each wants now: who has not begun to walk wants to stand, who has come to his place too."""
    speed = jnp.where(~walkers.alive | has_begun(walkers, params), walkers.desired_speed, 0.0)
    if world.journeys is not None:
        speed = rounded(speed * approaching(walkers, params, world))
    return walkers.with_(desired_speed=speed)


def observed(
    names: tuple[str, ...], state: State, near: Neighbours, world: World, params: Params, runs: int | None
) -> dict[str, Array]:
    """Observables now, name -> (...), or (R, ...) of each run its own."""
    first = first_rows(runs, state.id.shape[0])
    touching = dataclasses.replace(near.touching, index=near.touching.index - first)
    near = dataclasses.replace(near, index=near.index - first, touching=touching)

    def values(state: State, near: Neighbours, params: Params) -> dict[str, Array]:
        return {name: OBSERVABLES[name](state, near, world, params) for name in names}

    return each(values, runs, state, near, params)


# A gradient keeps what goes into such a function, the state of each step, and computes again what happens on the way.
lean = partial(jax.checkpoint, prevent_cse=False)
Going = tuple[State, Health, NeighbourList]  # the list is not carried from step to step, or a gradient would keep a copy for each
Saved = tuple[Frames, dict[str, Array]]
Begun = tuple[State, Health]


@partial(jax.jit, static_argnames=("grid", "steps", "every", "observe"))
def rollout(
    world: World,
    params: Params,
    state: State,
    key: Array,
    queue: CommandQueue,
    *,
    grid: Grid | None,
    steps: int,
    every: int = 1,
    observe: tuple[str, ...] = (),
) -> Run:
    """Compiled core (`lax.scan`). Safe under jit, vmap and grad; never raises on data: trouble is in `Run.health`.

    Static: `grid`, which must do for the parameters (`planning.suffices`), `steps`, a multiple of `every`, and `observe`; all else is
    traced. With keys (R,) the rows are those of R runs abreast: series (F, R, ...) and health (R,) are then of each run.
    """
    ties, runs, (frames, per_list, rest) = tie_directions(state.id, key), count(key), _cut(steps, every, grid)

    def walk(going: Going, many: int) -> Going:
        @lean
        def one(now: Begun, _: None) -> tuple[Begun, None]:
            state, found = step(now[0], params, world, going[2], grid, queue, key)
            return (state, now[1].merge(lax.stop_gradient(found), listed=False)), None

        return (*lax.scan(one, going[:2], None, length=many)[0], going[2])

    def relist(state: State, health: Health) -> Going:
        listed, need = make_list(state, world, grid, ties, runs)
        return state, health.with_need(*need), listed

    @lean
    def save(state: State, listed: NeighbourList) -> Saved:
        near = measure(listed, state, world, grid)  # compiled away when nothing is observed
        return Frames.of(state, params, world), observed(observe, state, near, world, params, runs)

    def frames_of_one_list(start: Begun, _: None, many: int = per_list // every) -> tuple[Begun, Saved]:
        def frame(going: Going, _: None) -> tuple[Going, Saved]:
            going = walk(going, every)
            return going, save(going[0], going[2])

        going, saved = lax.scan(frame, relist(*start), None, length=many)
        return going[:2], saved

    def frame_of_many_lists(start: Begun, _: None) -> tuple[Begun, Saved]:
        def one_list(going: Going, _: None) -> tuple[Going, None]:
            return walk(relist(*going[:2]), per_list), None

        going, _ = lax.scan(one_list, (*start, _blank(relist, *start)), None, length=every // per_list)
        going = walk(relist(*going[:2]), rest) if rest else going
        return going[:2], save(going[0], going[2])

    start = _in_the_box(with_people(state, params, world), world), Health.good(runs)
    if per_list < every:
        end, saved = lax.scan(frame_of_many_lists, start, None, length=frames)
        return Run(frames=saved[0], series=saved[1], final=end[0], health=end[1])
    end, lists = lax.scan(frames_of_one_list, start, None, length=frames * every // per_list)
    end, more = frames_of_one_list(end, None, rest // every) if rest else (end, jax.tree.map(lambda leaf: leaf[:0, 0], lists))
    saved = jax.tree.map(_in_turn, lists, more)
    return Run(frames=saved[0], series=saved[1], final=end[0], health=end[1])


def _in_the_box(state: State, world: World) -> State:
    """Nobody alive beyond the edges of a periodic box, where no way, no wall and no goal is."""
    return state.with_(position=where(state.alive, world.wrap(state.position), state.position).stacked) if world.periodic else state


def _blank(make: Callable[[State, Health], Going], state: State, health: Health) -> NeighbourList:
    """A list of the shapes that `make` would give, for a place where nobody looks at it."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(make, state, health)[2])


def _in_turn(lists: Array, more: Array) -> Array:
    """What was saved list by list, (L, F, ...), and after the last of them, (G, ...), as one: (L F + G, ...)."""
    return jnp.concatenate((lists.reshape(lists.shape[0] * lists.shape[1], *lists.shape[2:]), more))


def _cut(steps: int, every: int, grid: Grid | None) -> tuple[int, int, int]:
    """Frames in all, steps per list, and the steps that are left for a last, shorter list of each frame, or of the run.

    A list serves whole frames, or a frame has several lists. When a list is made changes no bit. A rest is a second program to compile,
    so it is taken only where no number of steps near `refresh` comes out even.
    """
    frames, refresh = steps // every, 1 if grid is None else grid.refresh
    unit, whole, most = (1, every, refresh) if refresh < every else (every, frames, refresh // every)
    even = max((n for n in range(1, max(1, most) + 1) if whole % n == 0), default=1)
    lists = -(-whole // most) if whole else 1
    near = -(-whole // lists) if whole else 1
    if not whole or 2 * even >= near:
        return frames, even * unit, 0
    return frames, near * unit, whole % near * unit
