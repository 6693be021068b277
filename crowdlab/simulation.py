"""Runs that can be trusted: the core in `stepping` reports, this shell plans, judges, repeats and raises."""

import dataclasses
import functools
import gc
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import walls
from crowdlab.checks import check_counts, check_key, check_run, check_steps
from crowdlab.commands import Command, CommandQueue, Kind, in_order, refuse
from crowdlab.demand.ticks import next_look, tick, to_frame
from crowdlab.errors import CapacityError, CommandError, CrowdlabError
from crowdlab.guards import broken
from crowdlab.muster import muster
from crowdlab.neighbours import Grid, with_wall_table
from crowdlab.params import Params, as_arrays, moved
from crowdlab.planning import bare, check_parts, larger, plan, repaired, suffices, sufficient, thinned, tightened
from crowdlab.scenario import Scenario
from crowdlab.state import MOST, Array, Health, State, World
from crowdlab.stepping import Frames, Run, rollout, step

# Compiled loops that are kept at a time. Each takes about 800 of the 65 530 memory maps that Linux allows a process, which dies without a
# word when it wants more: seen after 80 programs.
PROGRAMS = 40
PIECE = 2000  # steps that `simulate` runs before it looks at their health

__all__ = ["Frames", "Run", "between", "chunks", "plan", "rollout", "simulate", "step", "suffices", "trusted"]


def forget_programs() -> None:
    """Give up the compiled loops when there are too many of them; those still needed are compiled again."""
    compiled: Any = rollout
    if compiled._cache_size() >= PROGRAMS:  # JAX has no public name for it
        compiled.clear_cache()
        gc.collect()


def steps_of_piece(every: int) -> int:
    """Steps that are run before their health is looked at: whole frames of `every` steps, about PIECE of them."""
    return max(every, PIECE - PIECE % every)


def laid(scenario: Scenario, state: State, grid: Grid) -> World:
    """The world with its table of walls, and its doors as they are in the state."""
    if scenario.doors is None:
        return with_wall_table(scenario.world, grid)
    return scenario.doors.world(int(state.closed), with_wall_table(scenario.walled, grid))


def looks(scenario: Scenario, params: Params) -> int:
    """Steps from one look at doors and at people outside to the next; 0 where there are none."""
    return 0 if scenario.doors is None and scenario.sources is None else tick(params.time_step)


def between(scenario: Scenario, params: Params, state: State) -> tuple[State, int]:
    """The state with doors as they are from its step on and with those who come in then, and the step of the next look."""
    if not looks(scenario, params):
        return state, MOST
    dt, shut = params.time_step, np.empty((0, 2, 2))
    if scenario.doors is not None:
        state = scenario.doors.moved(state, dt)
        shut = scenario.doors.closed_lines(int(state.closed))
    if scenario.sources is not None:
        state = scenario.sources.admitted(state, params, scenario.around(state), shut)
    return state, next_look(int(state.step), dt)


def trusted(
    scenario: Scenario,
    params: Params,
    state: State,
    key: Array,
    queue: CommandQueue,
    grid: Grid,
    *,
    steps: int,
    every: int,
    observe: tuple[str, ...] = (),
    may_repair: bool = True,
    ahead: int | None = None,
) -> tuple[Run, Grid]:
    """One rollout that can be trusted, and the grid it took: repeated with a larger plan where the first was too small.

    It runs on a copy of those who still take part; the Run has everybody. `ahead` is how many steps may follow, these included: the
    more, the sooner a smaller copy is worth a compilation.

    Raises:
        CapacityError: the grid was too small and `may_repair` is False.
        NonFiniteError: somebody left the finite numbers or went through a wall; `error.state` is the last good state.
        UnstableError: the step was too long for the forces, or bodies overlapped deeper than allowed; the same.
    """
    forget_programs()
    ahead = steps if ahead is None else ahead
    if may_repair:
        grid = thinned(scenario, params, state, grid, ahead)
    present = muster(params, state, scenario.world, grid)
    start = (present.params, present.state, key, queue)
    while True:
        world = laid(scenario, state, grid)
        run = rollout(world, *start, grid=grid, steps=steps, every=every, observe=observe)
        health = jax.device_get(run.health)
        better = repaired(scenario, grid, health, present.state, ahead)
        if better is None:
            break
        if not may_repair:
            raise CapacityError(
                f"{scenario.name}: lists needed {health.peak_neighbours} neighbours, {health.peak_touching} touching, spans of "
                f"{health.peak_span} and {health.peak_walls} walls and somebody moved {health.largest_move:.3g} m; the grid given has room "
                f"for {grid.capacity}, {grid.touching}, {grid.span}, {grid.walls} and {grid.skin / 2:.3g} m. Pass grid={better}, "
                "or leave grid out to have it planned."
            )
        grid = better
    if health.first_bad_step >= 0:
        good = int(health.first_bad_step) - 1 - int(state.step)
        kept = present.restored(rollout(world, *start, grid=grid, steps=good, every=max(good, 1)).final)
        raise broken(scenario.name, health, kept, params, world, grid, scenario.origin)
    return present.reported(run), grid


def chunks(
    scenario: Scenario,
    params: Params,
    key: Array,
    steps: int,
    *,
    chunk: int,
    every: int = 1,
    observe: tuple[str, ...] = (),
    commands: Sequence[Command] = (),
    grid: Grid | None = None,
    state: State | None = None,
) -> Iterator[Run]:
    """Run a scenario piece by piece and yield each piece once it can be trusted; raises as `simulate` does.

    A piece has at most `chunk` steps (rounded down to whole frames) and ends where a parameter is set. A frame is saved after every
    `every` steps counted from the start; a piece in which none falls due has empty frames. Cutting changes no bit. `state` is where to
    start instead of the scenario's, with the same people.
    """
    state = scenario.state if state is None else state
    params = as_arrays(params)
    check_key(scenario.name, key)
    check_run(scenario, params, steps, every, observe, state)
    observe, first = tuple(observe), int(state.step)
    moves, people_orders = _sorted_orders(scenario, params, commands, first)
    if chunk < 1:
        raise CrowdlabError(f"{scenario.name}: chunk = {chunk} steps: allowed are 1 and more. Give such a number.")
    given, now, last = grid, first, first + steps
    stages = _stages(params, moves)
    if given is not None:
        check_parts(scenario.name, given, stages)
    loose, tight = given is None, False  # whether room may be taken away: not from a grid given, nor again after it was missed
    while now < last:
        for move in moves.pop(now, ()):
            params = moved(params, move.path, move.value[0])
        state, until = between(scenario, params, state)
        grid = sufficient(scenario, params, state, grid, given)
        grid = bare(grid, *stages) if given is None else grid
        ahead = min([last, now + chunk, *moves, until]) - now
        ahead, stride, due = to_frame(ahead, (now - first) % every, every, looks(scenario, params))
        due_orders = [c for c in people_orders if now <= c.step < now + ahead]
        queue = CommandQueue.of(due_orders, capacity=8 if people_orders else 0, origin=scenario.origin)
        run, used = trusted(
            *(scenario, params, state, key, queue, grid),
            steps=ahead,
            every=stride,
            observe=observe,
            may_repair=given is None,
            ahead=last - now,
        )
        loose = loose and not (tight and larger(used, grid))
        state, now, grid = run.final, now + ahead, used
        if loose:
            grid = tightened(used, run.health, walls.feature_count(scenario.world), last - now)
            tight = tight or grid != used
        yield run if due else without_frames(run)


def _stages(params: Params, moves: dict[int, list[Command]]) -> list[Params]:
    """The parameters at the start and after each of the moves."""
    stages = [params]
    for when in sorted(moves):
        for move in moves[when]:
            stages.append(moved(stages[-1], move.path, move.value[0]))
    return stages


def without_frames(run: Run) -> Run:
    """The piece of a run in which no frame falls due."""
    return dataclasses.replace(run, **jax.tree.map(lambda leaf: leaf[:0], {"frames": run.frames, "series": run.series}))


def _sorted_orders(
    scenario: Scenario, params: Params, commands: Sequence[Command], first: int
) -> tuple[dict[int, list[Command]], list[Command]]:
    """Parameter moves by step and orders to people in order, all checked. Raises CommandError or ParamError."""
    moves: dict[int, list[Command]] = {}
    others = []
    for command in commands:
        check_order(scenario, params, command, first)
    for command in in_order(commands):
        if command.kind == Kind.SET:
            moves.setdefault(command.step, []).append(command)
        else:
            others.append(command)
    return moves, others


def check_order(scenario: Scenario, params: Params, command: Command, now: int) -> None:
    """Refuse an order that comes too late or names what does not exist. Raises CommandError or ParamError."""
    refuse(
        command,
        now,
        params,
        scenario=scenario.name,
        goals=scenario.goals,
        groups=scenario.groups,
        journeys=scenario.journeys,
        placed=scenario.placed,
        people=scenario.state.id.shape[0],
    )


def simulate(
    scenario: Scenario,
    params: Params | None,
    key: Array,
    steps: int,
    *,
    every: int = 1,
    observe: tuple[str, ...] = (),
    commands: Sequence[Command] = (),
    grid: Grid | None = None,
) -> Run:
    """Run a scenario; raise rather than return something that cannot be trusted.

    Args:
        scenario: where and who.
        params: usually `scenario.params`, perhaps changed with `params.replace`; None takes the scenario's.
        key: from `jax.random.key(seed)`; the only source of randomness.
        steps: number of time steps; a multiple of `every`.
        every: save a frame and the observables every so many steps.
        observe: names in OBSERVABLES.
        commands: orders, carried out at their absolute step.
        grid: leave out to have it planned, and enlarged and re-run if a list overflows. A given one must hold what acts in the run.

    Returns:
        Run with `steps // every` frames.

    Raises:
        ParamError: a value outside its bounds, a step too long for a drive, a force that looks farther than the grid given, or noise
            or limits that act where it is for programs without.
        CrowdlabError: `steps` is no multiple of `every` or beyond what can be counted, an unknown observable, or people placed in another
            precision.
        CommandError: an order that names what does not exist, or that the run would end before.
        CapacityError: a given `grid` overflowed (a planned one is enlarged instead).
        NonFiniteError: a position or velocity became NaN or infinite, or somebody went through a wall; names agent, step and place.
        UnstableError: the step was too long for the forces, or bodies overlapped deeper than allowed; the same.
        RunError: the root of both; or somebody so far from the origin that steps are lost in rounding.
    """
    params = scenario.params if params is None else params
    check_counts(scenario.name, steps, every)
    check_steps(scenario.name, scenario.state, steps)
    last = int(scenario.state.step) + steps
    for command in commands:
        check_order(scenario, params, command, last - steps)
        if command.step >= last:
            raise CommandError(
                f"{scenario.name}: order {Kind(command.kind).name} at step {command.step}: the run ends before it, at step {last}. "
                "Give an earlier step, or run longer."
            )
    piece = steps_of_piece(every)
    parts = list(chunks(scenario, params, key, steps, chunk=piece, every=every, observe=observe, commands=commands, grid=grid))
    if not parts:
        parts = [
            rollout(
                scenario.world, as_arrays(params), scenario.state, key, CommandQueue.of((), 0), grid=None, steps=0, observe=observe
            )
        ]
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[(part.frames, part.series) for part in parts])
    health = functools.reduce(Health.merge, [part.health for part in parts])
    return Run(frames=joined[0], series=joined[1], final=parts[-1].final, health=health)
