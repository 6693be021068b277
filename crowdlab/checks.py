"""What can be known to be wrong with a run before its first step."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.abreast import peoples, rows_of
from crowdlab.errors import CrowdlabError, NonFiniteError, ParamError, RunError, nearest
from crowdlab.geometry import at
from crowdlab.guards import NEARER, farthest, too_coarse
from crowdlab.observe import OBSERVABLES, Observable
from crowdlab.params import Params, check, values
from crowdlab.precision import same_precision
from crowdlab.scenario import Scenario
from crowdlab.stability import alone, pressed
from crowdlab.state import MOST, OUTSIDE, Array, State, World


def check_still(scenario: Scenario, what: str, *, comes: bool = False) -> None:
    """Refuse doors that move, and for a gradient people who come in, where runs cannot follow them. Raises CrowdlabError."""
    if scenario.sources is not None and not comes:
        raise CrowdlabError(
            f"{scenario.name}: people come in over time, which {what} cannot follow. Take the sources out, or run it by simulate."
        )
    if scenario.doors is not None:
        raise CrowdlabError(
            f"{scenario.name}: doors.{scenario.doors.names[0]} opens or closes, which {what} cannot follow. "
            "Take the doors out, or run it by simulate."
        )


def check_run(
    scenario: Scenario, params: Params, steps: int, every: int, observe: Sequence[str], state: State | None = None
) -> None:
    """Refuse all that can be known before the first step; `state` is where a run starts instead of the scenario's.

    Raises:
        ParamError: a value out of its bounds or of a wrong shape, or a step that no force is stable at.
        CrowdlabError: counts of steps, observables, or people placed in another precision.
        NonFiniteError: somebody starts nowhere.
        RunError: somebody starts so far out that steps are lost in rounding.
    """
    state = scenario.state if state is None else state
    check_counts(scenario.name, steps, every)
    check_steps(scenario.name, state, steps)
    check_start(scenario.name, state, scenario.world)
    check(params)
    people = state.id.shape[0]
    for path, value in values(params).items():
        if np.shape(value) not in ((), (people,)) or (path == "motion.dt" and np.ndim(value)):
            raise ParamError(
                f"{path}: an array of shape {np.shape(value)}: allowed are one number{'' if path == 'motion.dt' else ' for everybody'}"
                f"{'' if path == 'motion.dt' else f' or {people}, one per person'}. Give such a value."
            )
    dt = params.time_step
    check_near(scenario.name, state, dt, scenario.origin)
    _check_sources(scenario, state)
    for row in alone(params, state):
        if dt >= row.step * (1 - 1e-6):  # both are in single precision
            raise ParamError(f"motion.dt = {dt:g} s: forces.{row.force} is stable below {row.step:g} s only. Give a smaller step.")
    check_observed(scenario, params, state, observe)


def _check_sources(scenario: Scenario, state: State) -> None:
    """Refuse people outside for whom there is no source, or who are alive out there. Raises CrowdlabError."""
    ids, outside = np.asarray(state.id), np.asarray(state.entered) == OUTSIDE
    known = np.zeros(0, bool) if scenario.sources is None else scenario.sources.source >= 0
    wrong = np.flatnonzero(outside & ~np.isin(ids, np.flatnonzero(known)))
    if wrong.size:
        raise CrowdlabError(
            f"{scenario.name}: agent {ids[wrong[0]]} waits outside (state.entered = {OUTSIDE}), and there is no source to come in by: "
            "allowed is the step of coming in, 0 for the start. Correct the state."
        )
    wrong = np.flatnonzero(np.asarray(state.alive) & (np.asarray(state.entered) < 0))
    if wrong.size:
        raise CrowdlabError(
            f"{scenario.name}: agent {ids[wrong[0]]} is alive with state.entered = {np.asarray(state.entered)[wrong[0]]}: allowed is the "
            "step of coming in, 0 for the start. Correct the state."
        )


def check_counts(name: str, steps: int, every: int) -> None:
    """Refuse what is no whole number of frames. Raises CrowdlabError."""
    whole = all(isinstance(count, int | np.integer) for count in (steps, every))
    if not whole or every < 1 or steps < 0 or steps % every:
        raise CrowdlabError(
            f"{name}: steps = {steps!r}, every = {every!r}: allowed are whole frames. Make steps a multiple of every (at least 1)."
        )


def check_steps(name: str, state: State, steps: int) -> None:
    """Refuse a start from which the steps cannot be counted on. Raises CrowdlabError."""
    _check_array(name, "step", state.step, np.int32, ())
    first = int(state.step)
    if not 0 <= first <= MOST - steps:
        raise CrowdlabError(
            f"{name}: {steps} steps from step {first}: allowed are steps 0 to {MOST}. Give fewer steps, or a state with another step."
        )


def check_near(name: str, state: State, dt: float, origin: tuple[float, float] = (0.0, 0.0)) -> None:
    """Refuse people so far from the origin that steps of `dt` s are lost in rounding. Raises RunError.

    Its place gets the `origin`, m, back.
    """
    place = np.asarray(state.position)
    far = np.flatnonzero(np.asarray(state.alive) & (np.abs(place).max(0) > farthest(dt, place.dtype)))
    if far.size:
        agent, step = int(np.asarray(state.id)[far[0]]), int(state.step)
        x, y = (here + off for here, off in zip(place[:, far[0]].tolist(), origin, strict=True))
        seat = f" {at(origin)}" if any(origin) else ""
        raise RunError(
            f"{name}: agent {agent} starts at {at((x, y))} at step {step}, so far from the origin{seat} that {too_coarse(dt, state)}. "
            f"Give {NEARER}.",
            state=state,
            step=step,
            agent=agent,
            place=(x, y),
        )


def check_key(name: str, key: Any, *, many: bool = False) -> None:
    """Refuse what is no random key, or not one key for each of many runs. Raises CrowdlabError."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed or key.ndim != many or not key.size:
        found = f"keys of shape {key.shape}" if typed else f"a {type(key).__name__} for a key"
        wanted = "(R,), as jax.random.split(jax.random.key(seed), R) gives" if many else "one, as jax.random.key(seed) gives"
        raise CrowdlabError(f"{name}: {found}: allowed is {wanted}. Give such.")


def check_start(name: str, state: State, world: World) -> None:
    """Refuse arrays of another kind or length, and people placed in another precision or nowhere, without a size or on the way to what
    does not exist. Raises CrowdlabError or NonFiniteError.
    """
    people, real = np.shape(state.id)[-1:], jnp.result_type(float)
    _check_array(name, "position", state.position, np.asarray(state.position).dtype, (2, *people))
    same_precision(state, name)
    _check_trip(name, state, world)
    for field in peoples(state):
        if field.name == "trip":
            continue
        kind = bool if field.name == "alive" else np.int32 if field.name in ("id", "group", "goal", "arrived", "entered") else real
        shape = (2, *people) if field.name in ("position", "velocity", "heading") else people
        _check_array(name, field.name, getattr(state, field.name), kind, shape)
    ids, goals = np.asarray(state.id), world.goals.shape[0]
    if len(np.unique(ids)) < len(ids) or ids.min(initial=0) < 0:
        raise CrowdlabError(f"{name}: ids {ids.tolist()[:9]} ...: allowed is one for each, not negative. Number the people anew.")
    body, space, mass, goal = (np.asarray(field) for field in (state.radius, state.social_radius, state.mass, state.goal))
    for what, unit, own, wrong, allowed in (
        ("radius", "m", body, ~((body >= 0) & np.isfinite(body)), "0 to any finite size"),
        ("social_radius", "m", space, ~((space >= 0) & np.isfinite(space)), "0 to any finite size"),
        ("mass", "kg", mass, ~((mass > 0) & np.isfinite(mass)), "more than 0 to any finite size"),
        ("goal", "", goal, (goal < -1) | (goal >= goals), f"0 to {goals - 1}, and -1 for none" if goals else "-1, for none"),
    ):
        bad = np.flatnonzero(np.asarray(state.alive) & wrong)
        if bad.size:
            said = f"{own[bad[0]]:g} {unit}".rstrip()
            raise CrowdlabError(f"{name}: agent {ids[bad[0]]} has the {what} {said}: allowed is {allowed}. Correct the state.")
    finite = np.isfinite(np.asarray(state.position)).all(0) & np.isfinite(np.asarray(state.velocity)).all(0)
    lost = np.flatnonzero(np.asarray(state.alive) & ~finite)
    if lost.size:
        agent, step = int(np.asarray(state.id)[lost[0]]), int(state.step)
        (x, y), (vx, vy) = (np.asarray(values)[:, lost[0]].tolist() for values in (state.position, state.velocity))
        raise NonFiniteError(
            f"{name}: agent {agent} starts at ({x:g}, {y:g}) m with ({vx:g}, {vy:g}) m/s at step {step}: allowed are finite numbers. "
            "Place it somewhere.",
            state=state,
            step=step,
            agent=agent,
            place=(x, y),
        )


def _check_trip(name: str, state: State, world: World) -> None:
    """Refuse people without the journeys that there are, or on a stage that does not exist. Raises CrowdlabError."""
    if (state.trip is None) != (world.journeys is None):
        found, wanted = ("no trip", "state.trip = Trip.begun(...)") if state.trip is None else ("a trip", "state.trip = None")
        raise CrowdlabError(
            f"{name}: the state has {found}, the world {'' if state.trip is None else 'no '}journeys. Give {wanted}."
        )
    if state.trip is None or world.journeys is None:
        return
    for field in dataclasses.fields(state.trip):
        _check_array(name, f"trip.{field.name}", getattr(state.trip, field.name), np.int32, np.shape(state.id))
    stages, places = world.journeys.rule.shape[0], world.journeys.places.shape[0]
    for what, own, most in (("stage", state.trip.stage, stages), ("place", state.trip.place, places)):
        bad = np.flatnonzero((np.asarray(own) < -1) | (np.asarray(own) >= most))
        if bad.size:
            raise CrowdlabError(
                f"{name}: agent {int(np.asarray(state.id)[bad[0]])} has the trip.{what} {int(np.asarray(own)[bad[0]])}: allowed are "
                f"0 to {most - 1}, and -1 for none. Correct the state."
            )


def _check_array(name: str, field: str, value: Any, kind: Any, shape: tuple[int, ...]) -> None:
    """Refuse a field of a state that is no array of this kind and shape. Raises CrowdlabError."""
    array = isinstance(value, jax.Array | np.ndarray | np.generic)
    if not array or value.dtype != kind or value.shape != shape:
        found = f"{value.dtype} of shape {value.shape}" if array else f"a {type(value).__name__}"
        raise CrowdlabError(f"{name}: state.{field} is {found}: allowed is {np.dtype(kind)} of shape {shape}. Give such an array.")


def check_observed(scenario: Scenario, params: Params, state: State, names: Sequence[str]) -> None:
    """Refuse names of observables that are unknown, or whose values are not of the scene but of rows. Raises CrowdlabError."""
    if isinstance(names, str):
        raise CrowdlabError(f"{scenario.name}: observe = '{names}': allowed are several names. Give ('{names}',).")
    for name in names:
        if name not in OBSERVABLES:
            raise CrowdlabError(f"{scenario.name}: unknown observable '{name}'. {nearest(name, list(OBSERVABLES))}")
    people = int(state.id.shape[0])
    if not names or not people:
        return
    crowds = [
        (rows_of(state, rows), rows_of(params, rows), scenario.world)
        for rows in (np.arange(people), np.arange(people + 1) % people)
    ]

    def shape(name: str, state: State, params: Params, world: World) -> tuple[int, ...]:
        return tuple(jax.eval_shape(partial(_observed, OBSERVABLES[name]), state, params, world).shape)

    for name in names:
        found = shape(name, *crowds[0])
        try:
            other: Any = shape(name, *crowds[1])
        except (TypeError, ValueError, IndexError):
            other = "none"
        if other != found:
            raise CrowdlabError(
                f"{scenario.name}: observable '{name}' has the shape {found} for {people} people and {other} for {people + 1}: allowed is "
                "one that does not hang on how many there are, since rows mean nothing (who has left has none). Take a sum with "
                "observe.total, a count or an extreme; what belongs to single persons is in the frames."
            )


@partial(jax.jit, static_argnums=0)  # traced once, never compiled
def _observed(law: Observable, state: State, params: Params, world: World) -> Array:
    """The value for people who have as many neighbours as there are rows."""
    return law(state, pressed(state, state.id.shape[0], 1, 1, 0.0), world, params)
