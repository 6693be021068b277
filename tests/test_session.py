"""A live run: orders at boundaries, a log that replays, one compilation, nothing lost when a chunk breaks."""

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from crowdlab import params as parameters
from crowdlab import report
from crowdlab.commands import Command, Kind
from crowdlab.errors import CommandError, NonFiniteError, ParamError, RecordingError, ScenarioError
from crowdlab.record import Recorder, Recording, verify
from crowdlab.scenario import Scenario, build
from crowdlab.session import Pace, Session
from crowdlab.session.run import SHOWN
from crowdlab.simulation import Run, chunks, rollout, simulate

HALL = {
    "title": "A hall with an exit",
    "seed": 5,
    "world": {"area": [[0, 0], [8, 0], [8, 4], [0, 4]]},
    "goals": {"exit": {"line": [[8.0, 1.2], [8.0, 2.8]]}, "window": {"point": [1.0, 3.5]}},
    "groups": {
        "leaving": {
            "count": 6,
            "area": [[3, 0.5], [7, 0.5], [7, 3.5], [3, 3.5]],
            "goal": "exit",
            "desired_speed": {"uniform": [1.1, 1.6]},
        },
        "looking": {"count": 3, "area": [[0.5, 0.5], [2.5, 0.5], [2.5, 2.5], [0.5, 2.5]], "goal": "window"},
    },
    "forces": {"driving": {}, "repulsion": {}, "contact": {}, "wall_repulsion": {}, "wall_contact": {}},
    "motion": {"dt": 0.005, "noise": 0.05},
}
SIX = (
    "people.desired_speed",
    "forces.driving.relaxation_time",
    "forces.repulsion.strength",
    "forces.repulsion.falloff",
    "forces.contact.compression",
    "forces.contact.friction",
)


@pytest.fixture(scope="module")
def hall() -> Scenario:
    return build(HALL, name="hall")


@pytest.fixture
def session(hall: Scenario) -> Session:
    return Session(hall, seed=7, chunk=10)


def bytes_of(runs: Sequence[Run]) -> bytes:
    parts = [np.asarray(getattr(run.frames, name)) for run in runs for name in ("position", "velocity", "heading", "alive", "step")]
    series = [np.asarray(values) for run in runs for _, values in sorted(run.series.items())]
    return b"".join(np.ascontiguousarray(part).tobytes() for part in (*parts, *series))


def same(state: Any, other: Any) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True))


def replayed(session: Session) -> Run:
    """The last chunk again, from the log alone."""
    pieces = chunks(
        session.scenario,
        session.scenario.params,
        jax.random.key(session.seed),
        session.step,
        chunk=session.chunk,
        every=session.every,
        observe=session.observe,
        commands=session.log,
        grid=session.grid,
    )
    return list(pieces)[-1]


@pytest.mark.bits
def test_log_replays_to_the_same_bytes(session: Session) -> None:
    runs = [session.advance()]
    session.send(Command(step=14, kind=Kind.PUSH, value=(0.5, 0.0), group=1))
    runs.append(session.advance())
    session.set("people.desired_speed", 2.0)
    session.set("forces.repulsion.strength", 500.0)
    session.set("forces.repulsion.strength", 800.0)
    session.send(Command(step=27, kind=Kind.REMOVE, agent=2))
    session.send(Command(step=33, kind=Kind.GOAL, value=(0.0, 0.0), agent=7))
    session.set("switches.contact", 0.0)
    runs += [session.advance() for _ in range(4)]
    again = simulate(
        session.scenario,
        session.scenario.params,
        jax.random.key(7),
        session.step,
        every=session.every,
        observe=session.observe,
        commands=session.log,
    )
    assert [command.step for command in session.log] == [14, 20, 20, 20, 20, 27, 33]
    for name in ("position", "velocity", "heading", "alive", "step"):
        pieces = np.concatenate([np.asarray(getattr(run.frames, name)) for run in runs])
        assert np.asarray(getattr(again.frames, name)).tobytes() == pieces.tobytes(), name
    for name, values in again.series.items():
        assert np.array_equal(session.series[name], np.asarray(values, float))
    assert same(session.state, again.final)
    assert not bool(session.state.alive[2])


def test_moving_every_slider_compiles_nothing(session: Session) -> None:
    """A slider acts in the next frame and the number of compiled programs stays."""
    session.advance()
    before, plans = rollout._cache_size(), session.plans
    for path in SIX:
        value, spec = session.controls()[path]
        session.set(path, min(1.3 * value, spec.high))
        session.set(f"switches.{'repulsion' if path == SIX[-1] else 'contact'}", 0.0)
        session.advance()
    assert rollout._cache_size() == before
    assert session.plans == plans
    assert len(session.log) == 2 * len(SIX)


def test_a_slider_acts_in_the_next_chunk(hall: Scenario) -> None:
    fast, slow = Session(hall, seed=7, chunk=10), Session(hall, seed=7, chunk=10)
    fast.advance(), slow.advance()
    fast.set("people.desired_speed", 4.0)
    fast.advance(), slow.advance()
    assert fast.series["mean_speed"][1] > 1.2 * slow.series["mean_speed"][1]
    mean = float(np.mean(np.asarray(fast.params.people.desired_speed)))
    assert mean == pytest.approx(4.0, rel=1e-6)
    ratio = np.asarray(fast.params.people.desired_speed) / np.asarray(hall.params.people.desired_speed)
    assert np.ptp(ratio) < 1e-5 * ratio.mean(), "a mean is moved, the people keep their ratios"


@pytest.mark.bits
def test_a_longer_reach_is_planned_anew_and_changes_no_byte(session: Session) -> None:
    session.advance()
    session.set("forces.repulsion.falloff", 0.6)
    runs = [session.advance()]
    assert session.plans == 2
    assert bytes_of([replayed(session)]) == bytes_of(runs)


def test_orders_that_come_too_late_or_name_nothing_are_refused(session: Session) -> None:
    session.advance()
    with pytest.raises(CommandError, match=r"order PUSH at step 3: the run is at step 10 already"):
        session.send(Command(step=3, kind=Kind.PUSH))
    with pytest.raises(CommandError, match=r"parameters move between chunks of 10 steps. Give step = 20"):
        session.send(Command(step=13, kind=Kind.SET, value=(1.0, 0.0), path="people.desired_speed"))
    with pytest.raises(CommandError, match="goal 7 does not exist"):
        session.send(Command(step=30, kind=Kind.GOAL, value=(7.0, 0.0)))
    with pytest.raises(ParamError, match=r"forces.repulsion.strenght.*Did you mean 'forces.repulsion.strength'"):
        session.set("forces.repulsion.strenght", 1.0)
    with pytest.raises(ParamError, match=r"forces.repulsion.falloff = -1 m: allowed"):
        session.set("forces.repulsion.falloff", -1.0)
    with pytest.raises(ParamError, match=r"motion.dt = 0.01: the run stands at step 10.*reset"):
        session.set("motion.dt", 0.01)
    assert session.log == []
    session.advance()
    assert session.log == []


def test_reset_repeats_the_run_with_the_present_parameters(session: Session) -> None:
    session.set("people.desired_speed", 2.0)
    session.set("forces.repulsion.strength", 900.0)
    first = [session.advance() for _ in range(3)]
    session.reset()
    assert (session.step, len(session.series["t"])) == (0, 0)
    assert [(command.step, command.path) for command in session.log] == [
        (0, "people.desired_speed"),
        (0, "forces.repulsion.strength"),
    ]
    assert bytes_of([session.advance() for _ in range(3)]) == bytes_of(first)
    session.set("forces.repulsion.strength", 100.0)  # while it stands still
    session.reset(seed=8)
    assert session.controls()["forces.repulsion.strength"][0] == 100.0
    other = [session.advance() for _ in range(3)]
    assert bytes_of(other) != bytes_of(first)
    assert bytes_of([replayed(session)]) == bytes_of(other[-1:])


def test_another_number_of_people_keeps_the_shares(session: Session) -> None:
    session.set("people.desired_speed", 2.0)
    session.advance()
    session.people(15)
    groups = np.asarray(session.state.group)
    assert (session.step, groups.size) == (0, 15)
    assert (groups == 0).sum() == 10
    assert (groups == 1).sum() == 5
    assert session.controls()["people.desired_speed"][0] == pytest.approx(2.0)
    session.advance()
    with pytest.raises(ScenarioError):
        session.people(100_000)
    assert np.asarray(session.state.group).size == 15, "nothing half-done"
    session.advance()


def test_inspect_shows_every_force_in_newtons(session: Session) -> None:
    for _ in range(5):
        session.advance()
    report = session.inspect(4)
    assert set(report["forces"]) == set(session.scenario.params.forces)
    drive = report["mass"] * (report["desired_speed"] * np.array([1.0, 0.0]) - report["velocity"]) / 0.5
    assert np.linalg.norm(report["forces"]["driving"]) <= 1.001 * report["mass"] * (report["desired_speed"] + report["speed"]) / 0.5
    assert report["forces"]["driving"].shape == drive.shape
    assert report["goal"] == "exit"
    assert report["group"] == "leaving"
    with pytest.raises(CommandError, match=r"inspect\(99\): nobody has this id\. Ids are 0 to 8\."):
        session.inspect(99)


@pytest.mark.bits
def test_a_broken_chunk_leaves_the_session_where_it_stood(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise NonFiniteError("agent 3 went out of the roof")

    session.advance()
    state, length = session.state, len(session.series["t"])
    session.set("forces.repulsion.strength", 1.5e3)
    with monkeypatch.context() as patched:
        patched.setattr("crowdlab.simulation.trusted", broken)
        with pytest.raises(NonFiniteError, match="out of the roof"):
            session.advance()
    assert same(session.state, state)
    assert len(session.series["t"]) == length
    assert session.log == []
    session.set("people.desired_speed", 1.0)
    session.advance()
    assert [command.step for command in session.log] == [10]


@pytest.mark.bits
def test_orders_from_another_thread_arrive_once_and_in_order(session: Session) -> None:
    values = np.linspace(1.0, 2.0, 40)
    writer = threading.Thread(target=lambda: [session.set("people.desired_speed", value) for value in values])
    session.advance()
    writer.start()
    for _ in range(6):
        session.advance()
    writer.join()
    session.advance()
    assert [command.value[0] for command in session.log] == pytest.approx(list(values))
    assert same(session.state, replayed(session).final)


@pytest.mark.bits
def test_a_recorded_session_holds_its_orders(hall: Scenario, tmp_path: Path) -> None:
    with Recorder(tmp_path / "live.sqlite", hall, seed=7, every=10, observe=SHOWN) as recorder:
        session = Session(hall, seed=7, chunk=10, recorder=recorder)
        session.advance()
        session.set("people.desired_speed", 2.0)
        session.advance()
        with pytest.raises(RecordingError, match="does not go back"):
            session.reset()
    recording = Recording.open(tmp_path / "live.sqlite")
    assert recording.orders == session.log
    assert np.array_equal(np.asarray(recording.frames.step), [0, 10, 20])
    assert np.array_equal(np.asarray(recording.frames.position)[-1].T, np.asarray(session.state.position))


def test_time_step_may_be_set_before_the_start(session: Session) -> None:
    session.set("motion.dt", 0.01)
    session.advance()
    assert session.seconds == pytest.approx(0.1)


def test_chunk_must_hold_whole_frames(hall: Scenario) -> None:
    with pytest.raises(ParamError, match="chunk = 10 and every = 4"):
        Session(hall, chunk=10, every=4)


def test_pace_keeps_natural_speed_and_drops_what_a_slow_machine_owes() -> None:
    """C12: at most three chunks per picture, the debt beyond is dropped, and the time step is never touched."""
    pace = Pace(frame=0.04)
    pace.start(0.0)
    assert [pace.due(0.04 * k, 0.04) for k in range(5)] == [1, 1, 1, 1, 1]
    assert pace.due(0.16 + 0.4, 0.04) == 3  # ten were owed
    assert pace.dropped == 7
    assert pace.due(0.56 + 0.04, 0.04) == 1, "no debt is left"
    pace.speed = 0.5
    assert sum(pace.due(0.6 + 0.04 * k, 0.04) for k in range(1, 9)) == 4
    assert pace.rest(0.6 + 0.32) <= 0.04


def test_pace_says_how_slow_it_is() -> None:
    pace = Pace(frame=0.04)
    pace.start(0.0)
    for k in range(50):
        pace.due(0.4 * k, 0.04)
    assert pace.slowness() == pytest.approx(10 / 3, rel=0.1)


def test_parameters_of_the_scenario_stay_as_they_were(session: Session) -> None:
    before = parameters.values(session.scenario.params)
    session.set("people.desired_speed", 3.0)
    session.advance()
    after = parameters.values(session.scenario.params)
    assert all(np.array_equal(np.asarray(before[path]), np.asarray(after[path])) for path in before)


@pytest.mark.bits
@pytest.mark.parametrize("people", [0, *(pytest.param(few, marks=pytest.mark.slow) for few in (1, 2))])
def test_nobody_one_and_two(people: int, tmp_path: Path) -> None:
    """A session with hardly anybody, in which each has their own numbers: it runs, records, replays and answers."""
    groups = {"leaving": HALL["groups"]["leaving"] | {"count": people}}
    own = {"strength": np.linspace(1000.0, 2000.0, people).tolist(), "falloff": [0.1] * people}
    scenario = build(HALL | {"groups": groups, "forces": HALL["forces"] | {"repulsion": own}}, name="few")
    assert scenario.params.forces["repulsion"].strength.shape == (people,)
    with Recorder(tmp_path / "few.sqlite", scenario, seed=7, every=10, observe=SHOWN) as recorder:
        session = Session(scenario, seed=7, chunk=10, recorder=recorder)
        session.advance()
        session.set("forces.repulsion.strength", 800.0)
        session.send(Command(step=12, kind=Kind.PUSH, value=(0.5, 0.0)))
        session.advance()
    assert session.series["people"].tolist() == [people, people]
    assert np.isfinite([value for value, spec in session.controls().values() if np.isfinite(spec.default)]).all()
    verdict = verify(Recording.open(tmp_path / "few.sqlite"))
    assert (verdict.same, verdict.frames) == (True, 3)
    described = report.described(scenario)
    assert any("parameter  forces.repulsion.strength" in line for line in described)
    assert f"  group      leaving: {people} people{' to exit' if people else ''}" in described
    for agent in range(people):
        assert session.inspect(agent)["id"] == agent
    known = f"Ids are 0 to {people - 1}." if people else "There is nobody."
    with pytest.raises(CommandError, match=rf"inspect\({people}\): nobody has this id\. {known}"):
        session.inspect(people)
    with pytest.raises(CommandError, match=rf"agent {people} does not exist\. {known}"):
        session.send(Command(step=30, kind=Kind.REMOVE, agent=people))


def test_a_run_that_goes_on_from_a_later_step_takes_orders_from_there(hall: Scenario) -> None:
    later = dataclasses.replace(hall, state=hall.state.with_(step=hall.state.step + 1005))
    session = Session(later, chunk=10)
    session.set("people.desired_speed", 1.5)
    session.send(Command(step=1015, kind=Kind.SET, value=(2.0, 0.0), path="people.desired_speed"))
    with pytest.raises(CommandError, match=r"parameters move between chunks of 10 steps. Give step = 1025"):
        session.send(Command(step=1020, kind=Kind.SET, value=(2.0, 0.0), path="people.desired_speed"))
    with pytest.raises(CommandError, match="the run is at step 1005 already"):
        session.send(Command(step=1004, kind=Kind.REMOVE))
    assert [order.step for order in session._due()] == [1005]
    session.reset()
    assert [order.step for order in session.log] == [1005]
