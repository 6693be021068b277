"""Why people did not arrive: everybody who is not at the goal when a recorded run is over, each with a reason."""

import dataclasses
import functools
import math
from enum import StrEnum
from typing import NamedTuple

import jax
import numpy as np

from crowdlab import geometry
from crowdlab.forces import base
from crowdlab.journeys.intents import has_begun
from crowdlab.measures.contact import in_force
from crowdlab.measures.tracks import Tracks, offset
from crowdlab.measures.travel import LATELY, moved, stuck
from crowdlab.navigation import desired_direction
from crowdlab.neighbours import Grid, find
from crowdlab.params import Params, as_arrays
from crowdlab.record import Recording
from crowdlab.scenario import Scenario
from crowdlab.simulation import laid, plan
from crowdlab.state import INSIDE, PUSHED_OUT, REFUSED, REMOVED, TURNED_AWAY, WAITING, Array, Intent, State, World
from crowdlab.stepping import with_people
from crowdlab.zones import halting

# Thresholds, each declared here and nowhere else.
AHEAD = 1.0  # m, from centre to centre: who is no farther ahead than this is in the way; our choice
HELD = 0.9  # share of the drive with which walls push back where somebody stands because of them: all, less some rest of motion


class Reason(StrEnum):
    """Kinds of reasons not to arrive."""

    REMOVED = "removed"  # by an order
    PUSHED_OUT = "pushed out"  # over an exit that was not the goal
    REFUSED = "refused"  # no room to come in for longer than the patience
    NO_ROOM = "no room to come in"
    NOT_DUE = "not due"
    NO_GOAL = "no goal"
    NO_ROUTE = "no route"  # to the goal for this body, were all doors open
    CLOSED_DOOR = "waiting at a closed door"  # or on the way to it: there is no way but through it
    NOT_SET_OUT = "not set out"  # the time before walking is running
    NO_SPEED = "not walking"  # the desired speed is 0
    FULL = "waiting for a place"  # where the journey leads next all are taken
    QUEUEING = "queueing"
    STAYING = "staying"  # at a goal on the way
    BLOCKED = "blocked"  # hardly moved, and somebody else is in the way
    WALLED = "held by a wall"  # hardly moved, nobody in the way, and walls push back as hard as the drive pushes on
    STUCK = "stuck"  # hardly moved, and neither of the two
    WALKING = "still walking"


class Missing(NamedTuple):
    """Somebody who did not arrive."""

    id: int
    outcome: str  # inside, waiting, refused or removed
    group: str
    goal: str | None  # None: has none
    position: tuple[float, float]  # m, in the coordinates of the plan; of who never came in the place tried first
    kind: Reason
    reason: str  # in a sentence, with what is known of this one


def not_arrived(recording: Recording) -> list[Missing]:
    """Everybody who did not arrive, by id, with place and reason.

    Raises:
        RecordingError: somebody is still inside or outside, and the scenario, which knows the ways, cannot be built again.
    """
    people = recording.people
    rows = np.flatnonzero(np.isin(people["outcome"], (INSIDE, WAITING, REFUSED, REMOVED)))
    if not len(rows):
        return []
    inside = _inside(recording) if (people["outcome"][rows] == INSIDE).any() else {}
    groups, goals = recording.manifest["groups"], recording.manifest["goals"]
    places = np.asarray(recording.frames.position[-1], float) + recording.origin
    found = []
    for row in rows.tolist():
        goal, outcome = int(people["goal"][row]), str(people["outcome"][row])
        x, y = (round(float(value), 3) for value in places[row])
        why = inside[row] if outcome == INSIDE else _outside(recording, row, outcome)
        group = groups[people["group"][row]]
        found.append(Missing(int(people["id"][row]), outcome, group, goals[goal] if goal >= 0 else None, (x, y), *why))
    return found


def _outside(recording: Recording, row: int, outcome: str) -> tuple[Reason, str]:
    """Why somebody is not in the scene, neither left."""
    if outcome == REMOVED:
        goal = int(recording.people["goal"][row])
        if goal > PUSHED_OUT:
            return Reason.REMOVED, "removed by an order"
        return Reason.PUSHED_OUT, f"pushed out over the exit {recording.manifest['goals'][PUSHED_OUT - goal]}"
    sources, dt = recording.scenario.sources, recording.dt
    ids = recording.people["id"][row : row + 1]
    assert sources is not None
    if outcome == REFUSED:
        step = TURNED_AWAY - int(recording.people["entered"][row])
        return Reason.REFUSED, f"refused at {step * dt:g} s: no room for {sources.waited(ids, step, dt)[0]:g} s"
    waited = sources.waited(ids, recording.last_step, dt)[0]
    if waited > 0:
        return Reason.NO_ROOM, f"no room to come in for {waited:g} s"
    return Reason.NOT_DUE, f"not due before {sources.due[ids[0]]:.2f} s"


class _Last(NamedTuple):
    """The last frame, and what is asked of it: (N,) each."""

    recording: Recording
    state: State
    begun: np.ndarray  # bool, whether the time before walking is over
    lasting: np.ndarray  # s, what is left of it
    has_way: np.ndarray  # bool, to the goal, as the doors are
    open_way: np.ndarray  # bool, were all doors open
    gone: np.ndarray  # m, within LATELY; NaN for who was not there then
    stuck: np.ndarray  # bool
    ahead: dict[int, int]  # row of who is stuck -> id of who is in the way
    walled: np.ndarray  # bool, who is held by walls
    leads: dict[int, np.ndarray]  # set of closed doors -> bool, who has a way then; filled as it is asked for
    halted: dict[int, str]  # row -> name of the zone that lets nobody walk


def _inside(recording: Recording) -> dict[int, tuple[Reason, str]]:
    """Why each of those who are still inside has not arrived, by row."""
    tracks, scenario, people = Tracks.of_recording(recording), recording.scenario, recording.people
    still = stuck(tracks)[-1]
    with recording.precision():
        *_, params = in_force(tracks, as_arrays(recording.params))
        state = _state(recording)
        begun = np.asarray(has_begun(state, params))
        halted = halting(state, params.zones, scenario.around(state))
        way, has_way, open_way = _ways(scenario, state)
        still &= has_way  # who waits at a door is kept by the door
        ahead = _in_the_way(tracks, way, still)
        alone = still.copy()
        alone[list(ahead)] = False
        walled = alone & _held(scenario, state, params, way) if alone.any() else alone
    lasting = np.asarray(params.people.pre_movement) - (recording.last_step - people["entered"]) * recording.dt
    ids = {row: int(people["id"][other]) for row, other in ahead.items()}
    last = _Last(recording, state, begun, lasting, has_way, open_way, moved(tracks)[-1], still, ids, walled, {}, halted)
    return {row: _why(last, row) for row in np.flatnonzero(people["outcome"] == INSIDE).tolist()}


def _why(last: _Last, row: int) -> tuple[Reason, str]:
    """Why one who is still inside has not arrived: what keeps him for good before what will pass."""
    recording, people = last.recording, last.recording.people
    goal, intent = int(people["goal"][row]), int(recording.frames.intent[-1, row])
    waits = f"has not set out: waits for another {last.lasting[row]:.2f} s (pre_movement)"
    if goal < 0 and people["stage"][row] < 0:
        return Reason.NO_GOAL, "has no goal"
    if goal < 0:
        full = "waits for a place: all where the journey leads next are taken"
        return (Reason.FULL, full) if last.begun[row] else (Reason.NOT_SET_OUT, waits)
    name = recording.manifest["goals"][goal]
    if people["stopped"][row] >= 0:
        since = (recording.last_step - people["stopped"][row]) * recording.dt
        return Reason.STAYING, f"stays at {name}, for {since:.2f} s so far{_last_call(recording, goal)}"
    if not last.open_way[row]:
        return Reason.NO_ROUTE, "no way to the goal for this body"
    if not last.has_way[row]:
        return Reason.CLOSED_DOOR, f"the way is shut: {_closed_door(recording.scenario, last.state, row, last.leads)}"
    if not last.begun[row]:
        return Reason.NOT_SET_OUT, waits
    if row in last.halted:
        return Reason.NO_SPEED, f"does not walk: zone {last.halted[row]} lets nobody walk (zones.{last.halted[row]})"
    if intent == Intent.RESTS:
        return Reason.NO_SPEED, "does not walk: the desired speed is 0 m/s (people.desired_speed)"
    if last.stuck[row]:
        return _why_stuck(last, row)
    on = "walks in a direction, for ever" if name in recording.scenario.directions else "still walking"
    return _queueing(recording, row, name, intent) or (Reason.WALKING, on)


def _last_call(recording: Recording, goal: int) -> str:
    """What there is to say of a goal where people wait for a time of which none comes any more; nothing elsewhere."""
    journeys = recording.scenario.world.journeys
    until = np.asarray(math.nan if journeys is None else journeys.until[goal], float)
    last = math.inf if np.isnan(until).any() else until[np.isfinite(until)].max()
    return f": the last time to go on, {last:g} s, has passed" if last < recording.last_step * recording.dt else ""


def _why_stuck(last: _Last, row: int) -> tuple[Reason, str]:
    """What keeps somebody who wants to get on and does not."""
    hardly = f"hardly moved in the last {LATELY:g} s ({last.gone[row]:.2f} m)"
    if row in last.ahead:
        return Reason.BLOCKED, f"{hardly}: blocked by agent {last.ahead[row]}, who is in the way"
    if last.walled[row]:
        return Reason.WALLED, f"{hardly}: held by a wall, which pushes back as hard as the drive pushes on"
    return Reason.STUCK, f"{hardly}: stuck, with nobody in the way within {AHEAD:g} m"


def _queueing(recording: Recording, row: int, name: str, intent: int) -> tuple[Reason, str] | None:
    """Which place somebody has in a queue; nothing for those who are in none."""
    journeys, people = recording.scenario.world.journeys, recording.people
    place, goal = int(people["place"][row]), int(people["goal"][row])
    if journeys is None or not bool(journeys.queue[goal]) or (place < 0 and intent != Intent.QUEUES):
        return None
    if place < 0:
        return Reason.QUEUEING, f"stands where the queue at {name} ends, until the last place is free"
    first = int(journeys.tail[goal]) + 1 - int((np.asarray(journeys.place_goal) == goal).sum())
    return Reason.QUEUEING, f"stands in the queue at {name}, number {place - first + 1}"


def _state(recording: Recording) -> State:
    """Everybody in the last frame, as far as it is known."""
    frames, people, start = recording.frames, recording.people, recording.scenario.state
    fields = {
        name: np.asarray(getattr(frames, name))[-1].T for name in ("position", "velocity", "heading", "alive", "step", "closed")
    }
    fields |= {name: people[name] for name in ("goal", "arrived", "entered", "desired_speed")}
    arrays = {name: jax.numpy.asarray(np.asarray(values, getattr(start, name).dtype)) for name, values in fields.items()}
    trip = start.trip
    if trip is not None:
        known = {name: jax.numpy.asarray(people[name]) for name in ("stage", "stopped", "place")}
        trip = trip.with_(**known)
    return start.with_(**arrays, trip=trip)


def _ways(scenario: Scenario, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors (N, 2) towards the goals, who has a way there as the doors are, and who were all doors open, (N,) bool each."""
    if scenario.doors is None:
        way = _heading(state, scenario.world)
        some = (way != 0).any(1)
        return way, some, some
    closed = int(state.closed)
    way = _heading(state, scenario.doors.barred(closed))
    shut = scenario.doors.shuts(closed, np.asarray(state.goal), np.asarray(state.radius))
    return way, (way != 0).any(1) & ~shut, (_heading(state, scenario.doors.world(0)) != 0).any(1)


def _heading(state: State, world: World) -> np.ndarray:
    """Unit vectors (N, 2) towards the goals; zero without a way."""
    return np.asarray(desired_direction(state, world).stacked, float).T


def _in_the_way(tracks: Tracks, way: np.ndarray, still: np.ndarray) -> dict[int, int]:
    """Row of who is still -> row of the nearest whose body he would touch within AHEAD m along his way; nothing without anybody there."""
    found, here = {}, tracks.position[-1]
    assert tracks.radius is not None
    for row in np.flatnonzero(still).tolist():
        gap = offset(here[row], here, tracks.box)
        along, aside = gap @ way[row], np.abs(gap @ (-way[row, 1], way[row, 0]))
        there = tracks.present[-1] & (along > 0) & (along <= AHEAD) & (aside < tracks.radius + tracks.radius[row])
        there[row] = False
        if there.any():
            found[row] = int(np.where(there, along, np.inf).argmin())
    return found


def _held(scenario: Scenario, state: State, params: Params, way: np.ndarray) -> np.ndarray:
    """Whom walls push back along the way with HELD of the drive at least, (N,) bool."""
    grid = plan(scenario, params, state)
    world = laid(scenario, state, grid)
    state, laws = with_people(state, params, world), params.forces
    walls = tuple(name for name in sorted(laws) if hasattr(laws[name], "wall_reach"))
    drives = tuple(name for name in sorted(laws) if name not in walls and laws[name].reach(1.0) == 0)  # look at nobody
    back, on = (
        (np.asarray(_pushed(params, state, world, grid=grid, names=names), float).T * way).sum(1) for names in (walls, drives)
    )
    return (on > 0) & (-back >= HELD * on)


@functools.partial(jax.jit, static_argnames=("grid", "names"))
def _pushed(params: Params, state: State, world: World, *, grid: Grid, names: tuple[str, ...]) -> Array:
    """Sum of some forces, (2, N) m/s^2."""
    near, _ = find(state, world, grid, jax.random.key(0))  # the key tells people on one point apart, which matters for no wall
    some = dataclasses.replace(
        params, forces={name: params.forces[name] for name in names}, switches={name: params.switches[name] for name in names}
    )
    return base.total(some, state, near, world).stacked


def _closed_door(scenario: Scenario, state: State, row: int, known: dict[int, np.ndarray]) -> str:
    """The closed door that shuts somebody's way, in words: the nearest of those that would do if it alone were open, or a few that are
    shut one behind the other. `known` keeps who has a way, (N,) bool, by the set of closed doors.
    """
    doors = scenario.doors
    assert doors is not None
    closed, here = int(state.closed), np.asarray(state.position, float).T[row : row + 1]
    away = {door: float(geometry.distances(here, edges)[0]) for door, edges in enumerate(doors.lines) if closed >> door & 1}
    nearest = sorted(away, key=lambda door: away[door])

    def leads(shut: int) -> bool:
        if shut not in known:
            goal, radius = np.asarray(state.goal), np.asarray(state.radius)
            known[shut] = (_heading(state, doors.barred(shut)) != 0).any(1) & ~doors.shuts(shut, goal, radius)
        return bool(known[shut][row])

    alone = next((door for door in nearest if leads(closed & ~(1 << door))), None)
    if alone is not None:
        return f"door {doors.names[alone]}, {away[alone]:.1f} m away, is closed"
    shut = 0  # with all of them open there is a way; each stays closed that is not needed for it, the farthest first
    for door in reversed(nearest):
        shut = shut | 1 << door if leads(shut | 1 << door) else shut
    needed = [door for door in nearest if not shut >> door & 1]
    return f"doors {', '.join(doors.names[door] for door in needed)}, the nearest {away[needed[0]]:.1f} m away, are closed"
