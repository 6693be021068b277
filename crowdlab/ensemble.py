"""Many runs of one scenario: other keys, other parameters, other people, side by side in one compiled loop (see abreast.py).

Each run has the bits that it would have alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.abreast import each, peoples, rows_of
from crowdlab.checks import check_counts, check_key, check_run, check_start, check_steps, check_still
from crowdlab.commands import CommandQueue
from crowdlab.demand.ticks import to_frame
from crowdlab.errors import CrowdlabError, ParamError
from crowdlab.guards import broken
from crowdlab.neighbours import Grid, with_wall_table
from crowdlab.params import Params, as_arrays, check, replace, values
from crowdlab.planning import plan_for_all, repaired
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, between, forget_programs, looks, rollout, steps_of_piece, without_frames
from crowdlab.state import MOST, NOBODY, Array, State, Trip

# Rows of all runs in one loop. Measured with 200 people a run on two cores, in million agent-steps per second: 4.0 for one run, 6.9 for
# 16 runs, 8.0 for 32, 6.9 for 64, whose arrays no longer fit into the caches.
ROWS = 6400
# What a row has that fills up and is never alive: sizes that no law divides by zero with, and 0 in all other fields.
EMPTY_ROW: dict[str, Any] = {
    "heading": (1.0, 0.0),
    "radius": 0.1,
    "social_radius": 0.1,
    "mass": 1.0,
    "goal": -1,
    "arrived": -1,
    "entered": NOBODY,
    "trip": -1,
}


class Member(NamedTuple):
    """One run."""

    number: int
    params: Params
    state: State
    key: Array


class Group(NamedTuple):
    """Runs that go abreast: R members with N rows each."""

    members: Sequence[Member]
    params: Params  # leaves () or (R N,)
    state: State  # leaves (..., R N)
    keys: Array  # (R,)


def simulate_many(
    scenario: Scenario,
    keys: Array,
    steps: int,
    *,
    params: Params | Sequence[Params] | None = None,
    states: Sequence[State] | None = None,
    every: int = 1,
    observe: tuple[str, ...] = (),
) -> Run:
    """Run a scenario R times; run r is, to the last bit, what `simulate` gives for the r-th key, parameters and state.

    There are no orders on the way, and the room in neighbour lists that `health` speaks of is that of the lists which runs share.

    Args:
        scenario: where, and who if no `states` are given.
        keys: (R,) from `jax.random.split(key, R)`.
        steps: number of time steps; a multiple of `every`.
        params: one for all or R of them, which may differ in every number but `motion.dt`; None takes the scenario's.
        states: R of them, at the same step; they may have different numbers of people.
        every: save a frame and the observables every so many steps.
        observe: names in OBSERVABLES.

    Returns:
        Run whose leaves have a leading axis of runs: positions (R, F, N, 2), an observable (R, F, ...), health (R,). N is the largest
        number of people; the rows that fill up smaller crowds are never alive.

    Raises:
        ParamError: a value outside its bounds, another `motion.dt`, other forces, or not as many parameters as keys.
        CrowdlabError: not as many states as keys, at different steps, or in another precision; what cannot be cut into frames or observed.
        RunError: as for `simulate`, with the number of the run.
    """
    check_counts(scenario.name, steps, every)
    check_still(scenario, "runs side by side", comes=True)
    members = _members(scenario, keys, params, states)
    for one in members:
        check_run(scenario, one.params, steps, every, observe, one.state)
    observe = tuple(observe)
    grid, runs = plan_for_all(scenario, [(one.params, one.state) for one in members]), []
    piece, watch = steps_of_piece(every), looks(scenario, members[0].params) if members else 0
    for number, group in enumerate(made := groups(members)):
        parts: list[Run] = []
        going = group
        done = 0
        while done < steps or not parts:
            going, until = _between(scenario, going)
            ahead = min(piece, steps - done, until - int(going.state.step))
            ahead, stride, due = to_frame(ahead, done % every, every, watch) if steps else (0, every, True)
            run, grid = advance(
                scenario, going, grid, steps=ahead, every=stride, observe=observe, ahead=(len(made) - number) * steps - done
            )
            going, done = going._replace(state=run.final), done + ahead
            parts.append(run if due else without_frames(run))
        runs.append(_apart(parts, len(group.members)))
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *runs)
    return jax.tree.map(lambda leaf: leaf[: len(members)], joined)


def groups(members: Sequence[Member]) -> list[Group]:
    """The members in groups of one size, so that one program serves all; the last one is filled up with copies of the last member."""
    rows = max(one.state.id.shape[0] for one in members)
    many = -(-len(members) * rows // ROWS) or 1
    size = -(-len(members) // many)
    made = []
    for first in range(0, len(members), size):
        own = [members[min(number, len(members) - 1)] for number in range(first, first + size)]
        state = jax.tree.map(_side_by_side, *[filled(one.state, rows) for one in own])
        made.append(Group(own, _merged(own, rows), state, jnp.stack([one.key for one in own])))
    return made


def advance(
    scenario: Scenario,
    group: Group,
    grid: Grid,
    *,
    steps: int,
    every: int,
    observe: tuple[str, ...] = (),
    ahead: int | None = None,
) -> tuple[Run, Grid]:
    """One piece of all runs of a group, and the plan it took. Raises as `simulate` does, with the number of the run.

    `ahead` is how many steps of groups of this size may follow, these included.
    """
    runs, ahead = len(group.members), steps if ahead is None else ahead
    rows = group.state.id.shape[0] // runs
    given: Any = (group.params, group.state, group.keys, CommandQueue.of((), 0))
    forget_programs()
    while True:
        world = with_wall_table(scenario.world, grid)
        run = rollout(world, *given, grid=grid, steps=steps, every=every, observe=observe)
        health = jax.device_get(run.health)
        better = repaired(scenario, grid, jax.tree.map(np.max, health), group.state, ahead, runs)
        if better is None:
            break
        grid = better
    bad = np.flatnonzero(health.first_bad_step >= 0)
    if bad.size:
        one = group.members[bad[0]]
        health = jax.tree.map(lambda leaf: leaf[bad[0]], health)
        good = int(health.first_bad_step) - 1 - int(group.state.step)
        own = rows_of(group.state, np.arange(one.state.id.shape[0]) + rows * bad[0])  # without those that fill up
        kept = rollout(world, as_arrays(one.params), own, one.key, given[-1], grid=grid, steps=good, every=max(good, 1)).final
        raise broken(f"{scenario.name}, run {one.number}", health, kept, one.params, world, grid, scenario.origin)
    return run, grid


def _between(scenario: Scenario, group: Group) -> tuple[Group, int]:
    """The group with those who come in now in each run, and the step of the next look."""
    state, rows = group.state, group.state.id.shape[0] // len(group.members)
    if scenario.sources is None:
        return group, MOST
    fields: dict[str, np.ndarray] = {}
    for number, one in enumerate(group.members):
        own = rows_of(state, np.arange(one.state.id.shape[0]) + rows * number)  # without those that fill up
        now, until = between(scenario, one.params, own)
        for name in ("position", "velocity", "heading", "alive", "entered") if now is not own else ():
            values = fields.setdefault(name, np.array(getattr(state, name)))
            values[..., rows * number : rows * number + own.id.shape[0]] = np.asarray(getattr(now, name))
    state = state.with_(**{name: jnp.asarray(values) for name, values in fields.items()})
    return group._replace(state=state), until


def _members(
    scenario: Scenario, keys: Array, params: Params | Sequence[Params] | None, states: Sequence[State] | None
) -> list[Member]:
    """The runs, each with its own key, parameters and state. Raises as `simulate_many` says."""
    check_key(scenario.name, keys, many=True)
    runs = keys.size
    every = [scenario.params if params is None else params] * runs if params is None or isinstance(params, Params) else list(params)
    people = [scenario.state] * runs if states is None else list(states)
    for what, found, kind in (("parameters", every, ParamError), ("states", people, CrowdlabError)):
        if len(found) != runs:
            raise kind(f"{scenario.name}: {len(found)} {what} for {runs} keys: allowed is one for each key. Give so many.")
    for number, state in enumerate(people):
        if not isinstance(state, State):
            raise CrowdlabError(
                f"{scenario.name}: run {number} starts from a {type(state).__name__}: allowed is a State. Give one."
            )
        check_steps(f"{scenario.name}, run {number}", state, 0)
        check_start(f"{scenario.name}, run {number}", state, scenario.world)
        if int(state.step) != int(people[0].step):
            raise CrowdlabError(
                f"{scenario.name}: run {number} starts at step {int(state.step)}, run 0 at {int(people[0].step)}: runs go abreast. "
                "Give states of one step."
            )
    shape: Any = jax.tree.structure(every[0])
    for number, one in enumerate(every):
        if not isinstance(one, Params):
            raise ParamError(
                f"{scenario.name}: run {number} has a {type(one).__name__} for parameters: allowed is Params. Give such."
            )
        check(one)
        dt = every[0].time_step
        if jax.tree.structure(one) != shape:
            raise ParamError(
                f"{scenario.name}: run {number} has other forces or another motion than run 0: runs go abreast. Give all the same, "
                "switched off where they shall not count, or run it apart."
            )
        if one.time_step != dt:
            raise ParamError(
                f"{scenario.name}: run {number} has motion.dt = {one.time_step:g} s, run 0 {dt:g} s: runs go abreast. Give all one step."
            )
    return [Member(number, as_arrays(every[number]), people[number], keys[number]) for number in range(runs)]


def filled(state: State, rows: int) -> State:
    """The same people, and rows that were never alive after them, `rows` in all."""
    more = rows - state.id.shape[0]
    if not more:
        return state
    ids = int(np.max(np.asarray(state.id), initial=-1)) + 1 + np.arange(more)

    def longer(name: str, values: Any) -> Any:
        if isinstance(values, Trip):
            return Trip(**{part.name: longer("trip", getattr(values, part.name)) for part in peoples(values)})
        if values is None:
            return None
        rest = np.zeros((*values.shape[:-1], more))
        rest.T[:] = ids if name == "id" else EMPTY_ROW.get(name, 0)
        return jnp.concatenate((values, jnp.asarray(rest, values.dtype)), -1)

    return state.with_(**{field.name: longer(field.name, getattr(state, field.name)) for field in peoples(state)})


def _merged(members: Sequence[Member], rows: int) -> Params:
    """One set of parameters for the rows of all: () where all agree, else a number for each row."""
    tree = members[0].params
    for path in values(tree):
        own = [np.asarray(values(one.params)[path]) for one in members]
        if any(one.ndim for one in own) or len({float(one) for one in own}) > 1:
            anything = max(one.max(initial=0.0) for one in own)  # as good as any for rows that are never alive
            table = np.full((len(own), rows), anything)
            for row, one, member in zip(table, own, members, strict=True):
                row[: member.state.id.shape[0]] = one
            tree = replace(tree, path, jnp.asarray(table.reshape(-1), own[0].dtype))
    return tree


def _side_by_side(*leaves: Array) -> Array:
    """Rows of one run after those of the other; what is not of people is the same for all."""
    return jnp.concatenate(leaves, -1) if leaves[0].ndim else leaves[0]


def _apart(parts: Sequence[Run], runs: int) -> Run:
    """The pieces of a group as one Run with a leading axis of runs."""

    def own(leaf: Array) -> Array:  # (F, R N, ...) to (R, F, N, ...)
        return jnp.moveaxis(leaf.reshape(len(leaf), runs, leaf.shape[1] // runs, *leaf.shape[2:]), 1, 0)

    frames, series = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[(part.frames, part.series) for part in parts])
    frames = type(frames)(
        **{name: own(getattr(frames, name)) for name in ("position", "velocity", "heading", "alive", "intent")},
        **{name: jnp.broadcast_to(getattr(frames, name), (runs, *frames.step.shape)) for name in ("step", "closed")},
    )
    health = parts[0].health
    for part in parts[1:]:
        health = health.merge(part.health)
    series = {name: jnp.moveaxis(values, 1, 0) for name, values in series.items()}
    return Run(frames=frames, series=series, final=each(lambda state: state, runs, parts[-1].final), health=health)
