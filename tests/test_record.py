"""Recordings: complete, exact, readable by others and after a crash, and repeatable."""

import contextlib
import dataclasses
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from crowdlab import params as parameters
from crowdlab import simulation
from crowdlab.commands import Command, Kind
from crowdlab.errors import RecordingError
from crowdlab.record import Recorder, Recording, replay, tables, verify
from crowdlab.scenario import Scenario, build
from crowdlab.session import Session
from crowdlab.state import Health

pytestmark = pytest.mark.bits

EVERY, CHUNK, STEPS, SEED = 25, 200, 600, 7  # orders cut at whole chunks, so that few programs are compiled
WATCHED = ("arrived", "mean_speed", "people")
ROOM = {
    "title": "A room with one door",
    "seed": 3,
    "duration": 8.0,
    "world": {"area": [[0, 0], [6, 0], [6, 4], [0, 4]], "obstacles": [[[2.5, 0.5], [3, 0.5], [3, 1], [2.5, 1]]]},
    "goals": {
        "exit": {"line": [[6.0, 1.4], [6.0, 2.6]]},
        "window": {"point": [1.0, 3.5], "then": "stand", "reach": 0.5},
    },
    "groups": {
        "leaving": {"count": 7, "area": [[3.5, 0.5], [5.5, 0.5], [5.5, 3.5], [3.5, 3.5]], "goal": "exit", "radius": 0.2},
        "looking": {
            "count": 2,
            "area": [[0.5, 2], [2, 2], [2, 3.5], [0.5, 3.5]],
            "goal": "window",
            "radius": 0.2,
            "desired_speed": {"uniform": [1.0, 1.5]},
        },
    },
    "forces": {"driving": {}, "repulsion": {"strength": 1000.0}, "contact": {}, "wall_repulsion": {}, "wall_contact": {}},
    "motion": {"dt": 0.004, "noise": 0.05},
}
ORDERS = [
    Command(step=200, kind=Kind.SET, value=(1.1, 0.0), path="people.desired_speed"),
    Command(step=230, kind=Kind.PUSH, value=(0.3, -0.1), group=0, zone=(0.0, 0.0, 5.0, 2.0)),
    Command(step=400, kind=Kind.SET, value=(0.0, 0.0), path="switches.repulsion"),
    Command(step=410, kind=Kind.REMOVE, agent=8),
    Command(step=500, kind=Kind.GOAL, value=(0.0, 0.0), agent=7),
]


@pytest.fixture(scope="module")
def room() -> Scenario:
    return build(ROOM, name="room")


@pytest.fixture(scope="module")
def recorded(room: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished recording of the room with orders of every kind. Read only."""
    path = tmp_path_factory.mktemp("recording") / "room.sqlite"
    record(room, path)
    return path


def record(room: Scenario, path: Path, steps: int = STEPS, orders: Any = ORDERS, chunk: int = CHUNK, every: int = EVERY) -> None:
    with Recorder(path, room, seed=SEED, every=every, observe=WATCHED) as recorder:
        for _ in recorder.run(steps, chunk=chunk, commands=orders):
            pass


def pieces(room: Scenario, steps: int = STEPS, **other: Any) -> Iterator[simulation.Run]:
    asked = {"chunk": CHUNK, "every": EVERY, "observe": WATCHED, **other}
    return simulation.chunks(room, room.params, jax.random.key(SEED), steps, **asked)


def same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def test_recording_holds_every_bit_of_the_run(room: Scenario, recorded: Path) -> None:
    run = simulation.simulate(room, room.params, jax.random.key(SEED), STEPS, every=EVERY, observe=WATCHED, commands=ORDERS)
    recording = Recording.open(recorded)
    for name in tables.ARRAYS:
        assert same(np.asarray(getattr(recording.frames, name))[1:], getattr(run.frames, name)), name
    for name in WATCHED:
        assert same(recording.series[name], run.series[name]), name
    assert same(np.asarray(recording.frames.position)[0], room.state.position.T)
    assert recording.orders == ORDERS
    assert recording.complete
    assert recording.steps == STEPS
    assert recording.times[:2].tolist() == [0.0, 0.1]


def test_replay_from_the_file_alone_gives_the_same_bytes(recorded: Path) -> None:
    recording = Recording.open(recorded)
    run = replay(recording)
    for name in tables.ARRAYS:
        assert same(np.asarray(getattr(recording.frames, name))[1:], getattr(run.frames, name)), name
    verdict = verify(recording)
    assert verdict.same
    assert verdict.frames == STEPS // EVERY + 1
    assert str(verdict) == f"Same bytes in all {STEPS // EVERY + 1} frames."


def test_a_recording_may_start_later_and_runs_again(room: Scenario, tmp_path: Path) -> None:
    """And off the beat of its frames."""
    *_, before = pieces(room, CHUNK)
    later = dataclasses.replace(room, state=before.final)
    with Recorder(tmp_path / "run.sqlite", later, seed=SEED, every=30) as recorder:
        (run,) = recorder.run(180, chunk=180)
    recording = Recording.open(tmp_path / "run.sqlite")
    assert np.asarray(recording.frames.step).tolist() == [200, *range(230, 381, 30)]
    assert (recording.steps, recording.last_step) == (180, 380)
    for one, other in zip(jax.tree.leaves(recording.start), jax.tree.leaves(before.final), strict=True):
        assert same(one, other)
    assert verify(recording).same
    assert same(replay(recording).final.position, run.final.position)


def test_a_recording_begins_again_from_a_state_of_its_own(room: Scenario, tmp_path: Path) -> None:
    own = dataclasses.replace(room, state=room.state.with_(velocity=room.state.velocity + 0.25))
    with Recorder(tmp_path / "run.sqlite", own, seed=SEED, every=EVERY) as recorder:
        (run,) = recorder.run(CHUNK, chunk=CHUNK)
    recording = Recording.open(tmp_path / "run.sqlite")
    assert same(replay(recording).final.position, run.final.position)
    verdict = verify(recording)
    assert verdict[:5] == (False, 0, 0, 0, "velocity")
    assert "the run was begun from a state of its own" in str(verdict)


def test_parameters_come_back_exactly_also_one_per_person(room: Scenario, tmp_path: Path) -> None:
    params = parameters.replace(room.params, "people.desired_speed", jnp.linspace(0.7, 1.9, 9))
    params = parameters.rescale(params, "motion.noise", 0.1)
    with Recorder(tmp_path / "run.sqlite", room, params, seed=SEED, every=EVERY) as recorder:
        for _ in recorder.run(CHUNK, chunk=CHUNK):
            pass
    recording = Recording.open(tmp_path / "run.sqlite")
    again = parameters.values(recording.params)
    for path, leaf in parameters.values(params).items():
        assert np.array_equal(np.asarray(leaf, np.float32), np.asarray(again[path], np.float32)), path
    assert verify(recording).same


def test_verify_names_the_first_difference(recorded: Path) -> None:
    recording = Recording.open(recorded)
    recording.manifest["seed"] += 1  # another key, so other noise from the first step on
    verdict = verify(recording)
    assert not verdict.same
    assert (verdict.frame, verdict.step, verdict.what, verdict.agent) == (1, EVERY, "position", 0)
    assert str(verdict).startswith("Differs first at frame 1 (step 25): position of agent 0 was [")
    recording = Recording.open(recorded)
    recording.manifest["source"]["groups"]["looking"]["count"] = 2
    recording.manifest["source"]["seed"] = 4  # other places from the start
    verdict = verify(recording)
    assert verdict[:6] == (False, 0, 0, 0, "position", 0)
    assert "gives another start now, or the run was begun from a state of its own" in str(verdict)


def test_verify_tells_of_other_versions(recorded: Path) -> None:
    recording = Recording.open(recorded)
    recording.manifest["versions"]["jax"] = "0.1"
    assert verify(recording).notes == (f"recorded with jax 0.1, this is jax {jax.__version__}: other bytes are to be expected.",)


def test_double_precision_is_kept_and_found_again(tmp_path: Path) -> None:
    with jax.enable_x64(True):
        record(build(ROOM, name="room"), tmp_path / "run.sqlite", steps=200, orders=())
    recording = Recording.open(tmp_path / "run.sqlite")
    assert recording.frames.position.dtype == np.float64
    assert verify(recording).same  # though this process works with single precision


def test_recording_every_kth_step_changes_no_bit(room: Scenario, tmp_path: Path) -> None:
    record(room, tmp_path / "often.sqlite", steps=CHUNK, every=1, orders=())
    record(room, tmp_path / "seldom.sqlite", steps=CHUNK, orders=())
    often, seldom = (Recording.open(tmp_path / name).frames for name in ("often.sqlite", "seldom.sqlite"))
    assert same(np.asarray(often.position)[::EVERY], seldom.position)
    assert same(np.asarray(often.velocity)[::EVERY], seldom.velocity)


def test_the_same_run_gives_the_same_file(room: Scenario, recorded: Path, tmp_path: Path) -> None:
    record(room, tmp_path / "again.sqlite")
    assert (tmp_path / "again.sqlite").read_bytes() == recorded.read_bytes()


def test_global_random_numbers_are_left_alone(room: Scenario, tmp_path: Path) -> None:
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 - the very generator that nobody may touch
    record(room, tmp_path / "run.sqlite", steps=200)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert np.array_equal(before["key"], after["key"])
    assert before["pos"] == after["pos"]


def test_ledger_adds_up_at_every_frame(recorded: Path) -> None:
    recording = Recording.open(recorded)
    ledger = recording.ledger()
    assert (np.sum(list(ledger.values()), axis=0) == 9).all()
    alive = np.asarray(recording.frames.alive)
    assert np.array_equal(ledger["inside"] + ledger["standing"], alive.sum(1))
    assert np.array_equal(recording.series["people"], alive.sum(1)[1:])
    assert not (alive[1:] & ~alive[:-1]).any(), "somebody came back"
    assert ledger["removed"].tolist() == [0] * 17 + [1] * 8  # from step 410 on
    assert ledger["standing"].max() > 0  # the same person, before
    assert ledger["left"][-1] == (recording.people["outcome"] == "left").sum() > 0
    for row in np.flatnonzero(recording.people["outcome"] == "left"):
        gone = int(np.asarray(recording.frames.step)[~alive[:, row]][0])
        assert 0 <= gone - recording.people["arrived"][row] < EVERY


def test_people_are_described(room: Scenario, recorded: Path) -> None:
    people = Recording.open(recorded).people
    assert people["id"].tolist() == list(range(9))
    assert people["group"].tolist() == [0] * 7 + [1] * 2
    assert np.allclose(people["radius"], 0.2)
    assert people["outcome"][8] == "removed"
    assert people["arrived"][8] == -1
    assert people["goal"][7] == 0  # sent on by an order


def test_pedpy_reads_it_and_counts_the_same(recorded: Path) -> None:
    pedpy = pytest.importorskip("pedpy")
    recording = Recording.open(recorded)
    trajectory = pedpy.load_trajectory_from_jupedsim_sqlite(trajectory_file=recorded)
    area = pedpy.load_walkable_area_from_jupedsim_sqlite(trajectory_file=recorded)
    assert area.polygon.bounds == (0.0, 0.0, 6.0, 4.0)
    assert trajectory.frame_rate == pytest.approx(10.0)
    frames, alive = recording.frames, np.asarray(recording.frames.alive)
    theirs = trajectory.data.sort_values(["frame", "id"])
    assert np.array_equal(theirs[["frame", "id"]].to_numpy(), np.argwhere(alive))
    assert np.array_equal(theirs[["x", "y"]].to_numpy(), np.asarray(frames.position)[alive].astype(float))

    line = 5.5  # m; just before the exit: whoever has gone through that is in no frame any more
    table, _ = pedpy.compute_n_t(traj_data=trajectory, measurement_line=pedpy.MeasurementLine([(line, 0.0), (line, 4.0)]))
    x = np.where(alive, np.asarray(frames.position)[:, :, 0], np.nan)
    passed = np.maximum.accumulate(np.nan_to_num(x, nan=0.0) >= line, axis=0)
    ours = (passed & ~passed[0]).sum(1)
    theirs_n = table["cumulative_pedestrians"].to_numpy()
    assert ours[-1] > 0
    assert len(theirs_n) == len(ours)
    assert np.array_equal(theirs_n[:-1], ours[:-1])  # who crosses in the very last frame is not counted by PedPy

    last = trajectory.data.groupby("id")["frame"].max()
    gone = recording.people["arrived"] // EVERY
    for row in np.flatnonzero(recording.people["outcome"] == "left"):
        assert last[row] in (gone[row] - (recording.people["arrived"][row] % EVERY == 0), gone[row])


def test_jupedsim_reads_it(recorded: Path) -> None:
    jupedsim = pytest.importorskip("jupedsim.recording")
    recording = Recording.open(recorded)
    with contextlib.closing(sqlite3.connect(recorded)) as schema:
        ours = dict(schema.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    assert "frame_id_idx" in ours
    theirs = jupedsim.Recording(str(recorded))
    assert theirs.num_frames == STEPS // EVERY + 1
    assert theirs.fps == pytest.approx(10.0)
    assert (theirs.bounds().xmin, theirs.bounds().ymax) == (0.0, 4.0)
    assert theirs.geometry().area == pytest.approx(23.75)
    assert theirs.geometry_id_for_frame(3) == tables.geometry_hash(recording.scenario.area)
    for index in (0, 5, theirs.num_frames - 1):
        agents = theirs.frame(index).agents
        alive = np.asarray(recording.frames.alive)[index]
        assert [agent.id for agent in agents] == np.flatnonzero(alive).tolist()
        assert np.array_equal([agent.position for agent in agents], np.asarray(recording.frames.position)[index][alive])
        assert np.array_equal([agent.orientation for agent in agents], np.asarray(recording.frames.heading)[index][alive])
    theirs.db.close()


def test_tables_are_those_of_jupedsim(recorded: Path, tmp_path: Path) -> None:
    jupedsim = pytest.importorskip("jupedsim")
    path = tmp_path / "theirs.sqlite"
    writer = jupedsim.SqliteTrajectoryWriter(output_file=path)
    simulation_of_theirs = jupedsim.Simulation(
        model=jupedsim.SocialForceModel(), geometry=[(0, 0), (6, 0), (6, 4), (0, 4)], trajectory_writer=writer
    )
    simulation_of_theirs.iterate(4)
    writer.close()

    def columns(file: Path) -> dict[str, list[Any]]:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            names = ("trajectory_data", "frame_data", "geometry", "metadata")
            return {name: [row[1:4] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}

    def keys(file: Path) -> set[str]:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return {row[0] for row in connection.execute("SELECT key FROM metadata")}

    assert columns(recorded) == columns(path)
    assert keys(recorded) == keys(path)


def test_geometry_hash_is_no_salted_hash() -> None:
    assert tables.geometry_hash("POLYGON ((0 0, 1 0, 1 1, 0 0))") == 940647752665334904


def test_a_chunk_must_continue_the_last(room: Scenario, tmp_path: Path) -> None:
    first, second, third = pieces(room, 600)
    with Recorder(tmp_path / "run.sqlite", room, seed=SEED, every=EVERY, observe=WATCHED) as recorder:
        recorder.add(first)
        with pytest.raises(RecordingError, match=r"frames of the steps \[25\] to \[200\].*continue step 200 with a frame every 25"):
            recorder.add(first)
        with pytest.raises(RecordingError, match=r"ends at step 600: allowed are chunks that continue step 200"):
            recorder.add(third)
        with pytest.raises(RecordingError, match=r"order for step 199 comes with the chunk that starts at step 200"):
            recorder.add(second, [Command(step=199, kind=Kind.REMOVE, agent=1)])
        with pytest.raises(RecordingError, match=r"an order sets motion\.dt to 0\.01 s"):
            recorder.add(second, [Command(step=200, kind=Kind.SET, value=(0.01, 0.0), path="motion.dt")])
        recorder.add(second)
    assert Recording.open(tmp_path / "run.sqlite").steps == 400
    with pytest.raises(RecordingError, match="is closed"):
        recorder.add(third)


def test_a_chunk_of_something_else_is_refused(room: Scenario, tmp_path: Path) -> None:
    run = next(pieces(room))
    people = {name: np.asarray(getattr(run.frames, name))[:, :7] for name in ("position", "velocity", "heading", "alive")}
    fewer = dataclasses.replace(run, frames=dataclasses.replace(run.frames, **people))
    other = dataclasses.replace(run, series={"people": run.series["people"]})
    with Recorder(tmp_path / "run.sqlite", room, seed=SEED, every=EVERY, observe=WATCHED) as recorder:
        with pytest.raises(RecordingError, match="a chunk has 7 people: this recording has 9"):
            recorder.add(fewer)
        with pytest.raises(
            RecordingError, match="a chunk observes people: this recording was opened for arrived, mean_speed, people"
        ):
            recorder.add(other)
    with pytest.raises(RecordingError, match=r"unknown observable 'poeple'\. Did you mean 'people'"):
        Recorder(tmp_path / "other.sqlite", room, seed=1, observe=("poeple",))
    assert not (tmp_path / "other.sqlite").exists()


def test_a_source_that_cannot_be_stored_is_refused(room: Scenario, tmp_path: Path) -> None:
    odd = dataclasses.replace(room, source={"title": object()})
    with pytest.raises(RecordingError, match=r"scenario 'room' cannot be stored .*object.*allowed are texts, numbers"):
        Recorder(tmp_path / "run.sqlite", odd, seed=1)


def test_an_existing_file_is_replaced_only_when_allowed(room: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_text("dear diary")
    with pytest.raises(RecordingError, match="there is a file already"):
        Recorder(path, room, seed=1)
    assert path.read_text() == "dear diary"
    Path(f"{path}-journal").write_bytes(b"left by a killed writer")
    Recorder(path, room, seed=1, overwrite=True).close()
    assert Recording.open(path).steps == 0
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]
    with pytest.raises(RecordingError, match="does not exist"):
        Recorder(tmp_path / "nowhere" / "run.sqlite", room, seed=1)


def test_what_cannot_be_written_is_said_and_the_rest_is_kept(room: Scenario, tmp_path: Path) -> None:
    run = list(pieces(room))
    recorder = Recorder(tmp_path / "run.sqlite", room, seed=SEED, every=EVERY, observe=WATCHED)
    pages = recorder._connection.execute("PRAGMA page_count").fetchone()[0]
    recorder._connection.execute(f"PRAGMA max_page_count = {pages + 4}")  # as good as a full disk
    with pytest.raises(RecordingError, match=r"could not be written \(database or disk is full\)"):  # noqa: PT012
        for piece in run:
            recorder.add(piece)
        recorder.close()
    with pytest.raises(RecordingError, match="database or disk is full"):
        recorder.close()
    kept = Recording.open(tmp_path / "run.sqlite")
    assert not kept.complete
    assert 0 < kept.steps < STEPS
    assert kept.steps % CHUNK == 0
    assert verify(kept).same


def test_a_recording_can_be_read_while_it_is_written(room: Scenario, tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.sqlite", room, seed=SEED, every=EVERY, observe=WATCHED) as recorder:
        assert Recording.open(tmp_path / "run.sqlite").steps == 0
        for piece in pieces(room):
            recorder.add(piece)
            seen = Recording.open(tmp_path / "run.sqlite")
            assert seen.steps <= recorder.step
            assert len(np.asarray(seen.frames.step)) == seen.steps // EVERY + 1
    assert Recording.open(tmp_path / "run.sqlite").steps == STEPS


def walked(room: Scenario, first: int, last: int) -> simulation.Run:
    """A made-up chunk of many frames: everybody moves along x."""
    step = np.arange(first + 1, last + 1)
    position = np.asarray(room.state.position).T + 1e-3 * step[:, None, None] * np.array([1.0, 0.0])
    shape = position.shape[:2]
    frames = simulation.Frames(
        position=jnp.asarray(position, jnp.float32),
        velocity=jnp.ones((*shape, 2)),
        heading=jnp.ones((*shape, 2)),
        alive=jnp.ones(shape, bool),
        intent=jnp.ones(shape, jnp.int8),
        step=jnp.asarray(step, jnp.int32),
        closed=jnp.zeros(len(step), jnp.int32),
    )
    return simulation.Run(frames=frames, series={}, final=room.state.with_(step=frames.step[-1]), health=Health.good())


def test_a_chunk_that_was_half_on_the_disk_is_taken_back(room: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files as a crash in the middle of the second chunk would leave them, some of its pages written already."""
    path, crashed = tmp_path / "run.sqlite", tmp_path / "crashed.sqlite"
    with Recorder(path, room, seed=SEED) as recorder:
        recorder._connection.execute("PRAGMA cache_size = 5")  # pages; the rest must go to the disk
        finish = recorder._update_people

        def copying(people: Any) -> None:
            shutil.copy(path, crashed)
            shutil.copy(f"{path}-journal", f"{crashed}-journal")
            finish(people)

        recorder.add(walked(room, 0, 400))
        recorder.add(walked(room, 400, 800))
        monkeypatch.setattr(recorder, "_update_people", copying)
        recorder.add(walked(room, 800, 1200))
    whole = Recording.open(path)
    assert whole.steps == 1200
    assert crashed.stat().st_size > 0.8 * path.stat().st_size
    kept = Recording.open(crashed)
    assert not kept.complete
    assert kept.steps == 800
    assert same(kept.frames.position, np.asarray(whole.frames.position)[: kept.steps + 1])


def test_a_session_with_sliders_can_be_run_again(room: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "session.sqlite"
    with Recorder(path, room, seed=SEED, every=EVERY, observe=WATCHED) as recorder:
        session = Session(room, SEED, chunk=CHUNK, every=EVERY, observe=WATCHED, recorder=recorder)
        session.advance()
        session.set("forces.repulsion.strength", 1800.0)
        session.send(Command(step=CHUNK + 30, kind=Kind.PUSH, value=(0.0, 0.4), agent=2))
        session.advance()
    recording = Recording.open(path)
    assert [order.kind for order in recording.orders] == [Kind.SET, Kind.PUSH]
    assert recording.steps == 2 * CHUNK
    assert verify(recording).same


def test_what_is_no_recording_is_refused(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no such file"):
        Recording.open(tmp_path / "none.sqlite")
    with pytest.raises(RecordingError, match="there is no such file"):
        Recording.open(tmp_path)
    (tmp_path / "text.sqlite").write_text("x, y\n" * 500)
    with pytest.raises(RecordingError, match="no SQLite file"):
        Recording.open(tmp_path / "text.sqlite")
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(RecordingError, match="the file is empty"):
        Recording.open(tmp_path / "empty.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "foreign.sqlite")) as foreign:
        foreign.execute("CREATE TABLE trajectory_data(frame INTEGER)")
    with pytest.raises(RecordingError, match="is not a recording of crowdlab"):
        Recording.open(tmp_path / "foreign.sqlite")
    for table in ("crowdlab_chunks", "crowdlab_parameters", "metadata"):
        changed(recorded, tmp_path / "lacking.sqlite", f"DROP TABLE {table}")
        with pytest.raises(RecordingError, match=f"lacks the table {table}"):
            Recording.open(tmp_path / "lacking.sqlite")
    changed(recorded, tmp_path / "newer.sqlite", "PRAGMA user_version = 9")
    with pytest.raises(RecordingError, match=f"format 9: this crowdlab reads format {tables.FORMAT}"):
        Recording.open(tmp_path / "newer.sqlite")


def changed(source: Path, target: Path, statement: str) -> None:
    target.unlink(missing_ok=True)
    shutil.copy(source, target)
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM crowdlab_chunks WHERE number = 2",
        "DELETE FROM crowdlab_arrays WHERE chunk = 2 AND name = 'position'",
        "UPDATE crowdlab_arrays SET value = zeroblob(length(value)) WHERE chunk = 3 AND name = 'velocity'",
        "UPDATE crowdlab_arrays SET shape = '[1]' WHERE chunk = 3",
        "UPDATE crowdlab_manifest SET value = '8' WHERE key = 'seed'",
        "UPDATE crowdlab_manifest SET value = 'not json' WHERE key = 'source'",
        "DELETE FROM crowdlab_manifest",
        "DELETE FROM crowdlab_parameters WHERE path = 'motion.dt'",
        "DELETE FROM crowdlab_chunks",
        "UPDATE crowdlab_orders SET kind = 'DANCE'",
    ],
)
def test_tampering_is_noticed(recorded: Path, tmp_path: Path, statement: str) -> None:
    changed(recorded, tmp_path / "changed.sqlite", statement)
    with pytest.raises(RecordingError, match="damaged or cut short"):
        everything(tmp_path / "changed.sqlite")


def everything(path: Path) -> tuple[Any, ...]:
    """Read all there is in a recording."""
    recording = Recording.open(path)
    return recording.frames, recording.series, recording.orders, recording.people


@settings(max_examples=60, deadline=None)
@given(share=some.floats(0.0, 1.0, exclude_max=True))
def test_a_truncated_file_is_refused(recorded: Path, tmp_path_factory: pytest.TempPathFactory, share: float) -> None:
    path = tmp_path_factory.getbasetemp() / "truncated.sqlite"
    content = recorded.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RecordingError, match=str(path)):
        everything(path)


@settings(max_examples=100, deadline=None)
@given(share=some.floats(0.0, 1.0, exclude_max=True), bits=some.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(
    recorded: Path, tmp_path_factory: pytest.TempPathFactory, share: float, bits: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.sqlite"
    content = bytearray(recorded.read_bytes())
    content[int(share * len(content))] ^= bits
    path.write_bytes(content)
    with contextlib.suppress(RecordingError):
        frames, series, *_ = everything(path)
        true = Recording.open(recorded)
        assert same(frames.position, true.frames.position)
        assert all(same(series[name], true.series[name]) for name in WATCHED)


def test_a_manifest_says_what_the_bytes_depend_on(recorded: Path) -> None:
    manifest = Recording.open(recorded).manifest
    assert manifest["seed"] == SEED
    assert manifest["dt"] == 0.004
    assert manifest["every"] == EVERY
    assert manifest["observe"] == {"arrived": "1", "mean_speed": "m/s", "people": "1"}
    assert manifest["float64"] is False
    assert json.loads(json.dumps(manifest["source"])) == manifest["source"]
    assert set(manifest["versions"]) == {"crowdlab", "jax", "jaxlib", "numpy", "python", "platform", "device"}


@pytest.mark.bits
def test_a_run_that_was_cut_off_is_replayed_without_the_orders_to_come(room: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "cut.sqlite"
    with Recorder(path, room, seed=SEED, every=EVERY, observe=WATCHED) as recorder:
        next(recorder.run(STEPS, chunk=CHUNK, commands=ORDERS))
    recording = Recording.open(path)
    assert recording.last_step == CHUNK < max(order.step for order in recording.orders)
    assert same(replay(recording).frames.position, np.asarray(recording.frames.position)[1:])
