"""The neighbour plan of a run: made before it, enlarged when it turns out too small, tightened when it has become too large."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from crowdlab import limits, muster, walls, zones
from crowdlab.abreast import rows_of
from crowdlab.errors import ParamError
from crowdlab.forces import base
from crowdlab.neighbours import Grid, Need, enlarge, has_all, list_need, packed, plan_grid, roomy
from crowdlab.neighbours.sizing import CLOSE_ROOM, FEW, ROOM
from crowdlab.params import Params, spec_of
from crowdlab.scenario import Scenario
from crowdlab.state import OUTSIDE, Health, State

# Agent-steps that could be run while a program is compiled (3 s at 5 million a second): another plan has to save more than that.
COMPILING = 1.5e7
JAMS = 2  # compilations that room for a jam saves, and may cost in steps that take longer: twice as long, where it is not needed


def plan(scenario: Scenario, params: Params, state: State, *, sliders: bool = False) -> Grid:
    """Grid for a run that starts here: reaches from the parameters, room from the positions.

    With `sliders` it leaves room for what a slider may reasonably do (a falloff doubled, the fastest desired speed), so that moving
    one compiles nothing.
    """
    radius = _stoutest(state)
    people, around = base.reaches(params.forces, radius)
    fast = base.largest(params.people.desired_speed) * zones.fastest(params.zones)
    if sliders:
        half = min(scenario.world.size) / 2 if scenario.world.periodic else math.inf  # no farther, see plan_grid
        people, around = max(people, min(2 * (people - radius) + radius, half)), 2 * around
        fast = max(fast, spec_of(params, "people.desired_speed").high * zones.fastest(params.zones))
    expected = min(params.motion.fastest(fast), fast) if sliders else _expected(params)
    everybody = int(state.id.shape[0])
    many, whole = muster.size(sum(_present(state)), everybody), state
    if many < everybody:
        state = rows_of(state, np.argsort(~np.asarray(state.alive), kind="stable")[:many])
    grid = plan_grid(scenario.walled, state, people, around, dt=params.time_step, fastest=expected)
    if many <= FEW:  # for the walls near any place there is always room
        near_walls = packed(scenario.walled, state, grid)[3]
        grid = roomy(grid, (0, 0, 0, near_walls), many, walls.feature_count(scenario.walled))
    return _with_more_to_come(scenario, whole, grid, many)._replace(copy_rows=many)


def _with_more_to_come(scenario: Scenario, state: State, grid: Grid, rows: int) -> Grid:
    """The plan with as much room in lists as a small crowd always has, and for the walls where people come in, if some wait outside."""
    if not _present(state)[1]:
        return grid
    everybody = state.with_(alive=jnp.asarray(np.asarray(state.alive) | (np.asarray(state.entered) == OUTSIDE)))
    around = int(list_need(everybody, scenario.walled, grid).walls) + 1
    return grid._replace(
        span=max(grid.span, min(rows, ROOM)),
        capacity=max(grid.capacity, min(rows, ROOM)),
        touching=max(grid.touching, min(rows, CLOSE_ROOM)),
        walls=max(grid.walls, min(walls.feature_count(scenario.walled), around)),
    )


def parts(*params: Params) -> dict[str, bool]:
    """Which parts a program must hold for any of these concrete parameters, by the names they have in Grid."""
    return {
        "with_limits": any(limits.used(one.limits) for one in params),
        "with_noise": any(getattr(one.motion, "random", lambda: True)() for one in params),  # who does not say so may draw
    }


def bare(grid: Grid, *params: Params) -> Grid:
    """The plan without the parts that none of these parameters asks for: right for runs with just these."""
    return grid._replace(**parts(*params))


def plan_for_all(scenario: Scenario, members: Sequence[tuple[Params, State]]) -> Grid:
    """One grid for runs of these parameters and states; tight even for few people, because the runs are many."""
    looks = [base.reaches(params.forces, _stoutest(state)) for params, state in members]
    people, around = (max(look) for look in zip(*looks, strict=True))
    expected = max(_expected(params) for params, _ in members)
    dt = members[0][0].time_step
    plans = [
        plan_grid(scenario.walled, state, people, around, dt=dt, fastest=expected, slack=1.25, tight=True) for _, state in members
    ]
    names = ("capacity", "touching", "span", "walls")
    room = {name: max(sizes) for name, sizes in zip(names, zip(*map(room_of, plans), strict=True), strict=True)}
    half, rows = max(plan.half for plan in plans), max(int(state.id.shape[0]) for _, state in members)
    return bare(plans[0]._replace(half=half, copy_rows=rows, **room), *(params for params, _ in members))


def _expected(params: Params) -> float:
    """Speed, m/s, that is seldom exceeded: who is pushed walks faster than desired.

    A wrong guess costs one repeated piece, never a wrong result.
    """
    fast = base.largest(params.people.desired_speed) * zones.fastest(params.zones)
    return float(min(params.motion.fastest(fast), 1.5 * fast + 0.3))


def _stoutest(state: State) -> float:
    """Largest radius, body or social, m."""
    return float(jnp.maximum(state.radius, state.social_radius).max(initial=0.0))


def repaired(scenario: Scenario, grid: Grid, health: Health, state: State, ahead: int, runs: int = 1) -> Grid | None:
    """A grid with enough room when `health` shows that this one had too little for `state`, of `runs` abreast; None when it was enough.

    Who misses room for people once is likely to miss more, in a jam at a door, and who misses room for walls comes to others. So there is
    room for all that then, unless in `ahead` more steps it would cost more than it saves.
    """
    need, people, features = needed(health), state.id.size // runs, walls.feature_count(scenario.world)
    better = grid
    *crowded, walled = (wanted > room for wanted, room in zip(need, room_of(grid), strict=True))
    if any(crowded) or walled:
        better = enlarge(grid, need, people, features)
        if state.id.size * ahead < JAMS * COMPILING:
            *jam, around = packed(scenario.walled, state, grid)
            better = roomy(better, (*(jam if any(crowded) else (0, 0, 0)), around), people, features)
    move = float(health.largest_move)
    if math.isfinite(move) and move > grid.skin / 2:
        refresh = int(0.8 * grid.refresh * (grid.skin / 2) / move)  # as often as the move asks for, and a fifth to spare
        better = better._replace(refresh=refresh) if refresh >= 1 else better._replace(refresh=1, skin=2.5 * move)
    return None if better == grid else better


def needed(health: Health) -> Need:
    """The room that was needed."""
    return Need(health.peak_neighbours, health.peak_touching, health.peak_span, health.peak_walls)


def room_of(grid: Grid) -> tuple[int, int, int, int]:
    """The room that there is, in the order of Need."""
    return grid.capacity, grid.touching, grid.span, grid.walls


def thinned(scenario: Scenario, params: Params, state: State, grid: Grid, ahead: int) -> Grid:
    """The plan with fewer rows, when so many are not there that in `ahead` more steps they would cost more than a compilation.

    Each time at least half of the rows go, and while people wait outside there is room for twice as many as are there, so that this
    happens a few times in a run at most. Where more have come in than there are rows, the plan is a new one.
    """
    everybody, (living, waiting) = int(state.id.shape[0]), _present(state)
    rows = min(grid.copy_rows or everybody, everybody)
    if living > rows:
        grid = plan(scenario, params, state)._replace(with_limits=grid.with_limits, with_noise=grid.with_noise)
        rows = grid.copy_rows
    fewer = muster.size(min(2 * living, living + waiting) if waiting else living, everybody)
    if (rows - fewer) * ahead <= COMPILING:
        return grid
    return grid._replace(
        copy_rows=fewer,
        half=grid.half if fewer > FEW else 0,
        span=min(grid.span, fewer),
        capacity=min(grid.capacity, fewer),
        touching=min(grid.touching, fewer),
    )


def _present(state: State) -> tuple[int, int]:
    """How many are in the scene, and how many may yet come in."""
    return int(np.sum(np.asarray(state.alive))), int(np.sum(np.asarray(state.entered) == OUTSIDE))


def tightened(grid: Grid, health: Health, features: int, ahead: int) -> Grid:
    """The plan with less room, when `health` shows that in a whole piece less than half was needed, now with a quarter to spare.

    Only where `ahead` more steps make up for the compilation, if a quarter of the work is saved.
    """
    people = grid.copy_rows
    if people * ahead / 4 <= COMPILING:
        return grid
    room = room_of(grid)
    least = grid._replace(span=1, capacity=1, touching=1, walls=0)
    if not grid.half:  # few people: there is always room for some neighbours, and there are no spans
        least = least._replace(span=grid.span, capacity=min(people, ROOM), touching=min(people, CLOSE_ROOM))
    capacity, touching, span, features = map(min, room_of(enlarge(least, needed(health), people, features)), room)
    touching = grid.touching if has_all(grid, people) else touching  # nobody counted
    if not any(2 * new <= old for new, old in zip((capacity, touching, span, features), room, strict=True)):
        return grid
    return grid._replace(capacity=capacity, touching=touching, span=span, walls=features)


def larger(grid: Grid, than: Grid) -> bool:
    """Whether this plan has more room of any kind."""
    return any(one > other for one, other in zip(room_of(grid), room_of(than), strict=True))


def suffices(grid: Grid, params: Params, state: State) -> bool:
    """Whether this plan looks as far as every force does now, and holds what acts of limits and noise."""
    people, around = base.reaches(params.forces, _stoutest(state))
    return people <= grid.reach and around <= grid.wall_reach and not _lacking(grid, params)


def _lacking(grid: Grid, *params: Params) -> list[str]:
    return [part for part, asked in parts(*params).items() if asked and not getattr(grid, part)]


def check_parts(name: str, grid: Grid, params: Sequence[Params]) -> None:
    """Raises ParamError where a grid that the user gave is for programs without something that acts in a run."""
    lacking = _lacking(grid, *params)
    if lacking:
        what = {"with_limits": "limits.acceleration or limits.separation acts", "with_noise": "the motion draws random numbers"}
        cure = ", ".join(f"{part}=True" for part in lacking)
        raise ParamError(
            f"{name}: {' and '.join(what[part] for part in lacking)} in this run, and the grid given is for programs without. "
            f"Pass grid=grid._replace({cure}), or leave grid out."
        )


def sufficient(scenario: Scenario, params: Params, state: State, grid: Grid | None, given: Grid | None) -> Grid:
    """The grid if the present parameters can do with it, else a new plan. Raises ParamError for a grid that the user gave."""
    if grid is not None and suffices(grid, params, state):
        return grid
    if grid is not None and given is not None:
        people, around = base.reaches(params.forces, _stoutest(state))
        raise ParamError(
            f"{scenario.name}: the forces look {people:.3g} m for people and {around:.3g} m for walls; the grid given was planned for "
            f"{grid.reach:.3g} m and {grid.wall_reach:.3g} m. Plan another with simulation.plan, or leave grid out."
        )
    return plan(scenario, params, state)
