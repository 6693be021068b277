"""The command line as a user meets it: real processes, files on disk, exit codes, one clear message."""

import contextlib
import csv
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from crowdlab import cli
from crowdlab.errors import NonFiniteError
from crowdlab.record import Recorder, Recording, verify
from crowdlab.scenario import load
from crowdlab.simulation import simulate
from crowdlab.views import EITHER, picture

ROOM = """
title = "A room with one door"
seed = 3
duration = 6.0
frames_per_second = 8.0

[world]
area = [[0, 0], [6, 0], [6, 4], [0, 4]]

[goals.exit]
line = [[6.0, 1.4], [6.0, 2.6]]

[groups.visitors]
count = 6
area = [[2, 0.5], [5.5, 0.5], [5.5, 3.5], [2, 3.5]]
goal = "exit"
desired_speed = { uniform = [1.1, 1.6] }
radius = 0.2

[forces.driving]
[forces.repulsion]
[forces.contact]
[forces.wall_repulsion]
[forces.wall_contact]
[motion]
dt = 0.002
"""
LASTING = ROOM.replace("duration = 6.0", "duration = 100000.0").replace(
    "{ uniform = [1.1, 1.6] }", "0.05"
)  # nobody leaves for long


ROOT = Path(cli.__file__).parents[2]


@contextlib.contextmanager
def start(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive its test."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "crowdlab.cli", *arguments]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it shall hear Ctrl-C, also when the tests do not
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    with process:
        try:
            yield process
        finally:
            process.kill()


def crowdlab(folder: Path, *arguments: str) -> tuple[int, str, str]:
    with start(folder, *arguments) as process:
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A finished `crowdlab run` with one parameter moved: its folder, what it printed, what it complained of."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "room.toml").write_text(ROOM)
    code, out, err = crowdlab(folder, "run", "room.toml", "--set", "forces.repulsion.strength=1500", "--no-html")
    assert code == 0, err
    return folder, out, err


def test_run_says_what_came_out(ran: tuple[Path, str, str]) -> None:
    _, out, err = ran
    assert "A room with one door, seed 3" in out
    assert "people    6 in, 6 have left, 0 standing at their goal, 0 removed, 0 still inside" in out
    assert "per second through exit (6 people)" in out
    assert "agent-steps per second" in out
    assert "runs/room-3: recording.sqlite, measures.csv, summary.json" in out
    assert "Traceback" not in err


def test_run_stops_when_nobody_walks_any_more(ran: tuple[Path, str, str]) -> None:
    recording = Recording.open(ran[0] / "runs" / "room-3" / "recording.sqlite")
    last = recording.people["arrived"].max() * recording.dt
    assert recording.complete
    assert last <= recording.steps * recording.dt <= last + 1.0 < 6.0


def test_run_writes_table_and_summary(ran: tuple[Path, str, str]) -> None:
    folder = ran[0] / "runs" / "room-3"
    summary = json.loads((folder / "summary.json").read_text())
    recording = Recording.open(folder / "recording.sqlite")
    assert summary["people"] == {"in": 6, "left": 6, "standing": 0, "removed": 0, "inside": 0, "waiting": 0, "refused": 0}
    arrived = np.sort(recording.people["arrived"]) * 0.002
    assert summary["arrivals"]["first"] == {"value": pytest.approx(arrived[0]), "unit": "s"}
    assert summary["arrivals"]["of_95_percent"] == {"value": pytest.approx(arrived[-1]), "unit": "s"}
    assert summary["flow"]["exit"] == {"value": pytest.approx(5 / (arrived[-1] - arrived[0])), "unit": "1/s", "people": 6}
    with (folder / "measures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == set(summary["columns"])
    assert summary["columns"]["mean_speed"] == "m/s"
    assert [row["mean_speed"] == "" for row in rows] == [row["people"] == "0" for row in rows]
    assert rows[-1]["people"] == "0"
    assert [float(row["time"]) for row in rows] == pytest.approx(recording.times[1:].tolist())
    assert all(sum(int(row[word]) for word in ("inside", "standing", "left", "removed", "waiting", "refused")) == 6 for row in rows)


def test_set_is_part_of_what_was_recorded(ran: tuple[Path, str, str]) -> None:
    recording = Recording.open(ran[0] / "runs" / "room-3" / "recording.sqlite")
    assert float(recording.params.forces["repulsion"].strength) == 1500.0
    assert float(recording.scenario.params.forces["repulsion"].strength) == 2000.0


@pytest.mark.bits
def test_replay_says_the_same_bytes(ran: tuple[Path, str, str]) -> None:
    code, out, err = crowdlab(ran[0], "replay", "runs/room-3/recording.sqlite")
    assert code == 0, err
    assert "Same bytes in all" in out


def test_a_second_process_writes_the_same_file(ran: tuple[Path, str, str]) -> None:
    code, _, err = crowdlab(ran[0], "run", "room.toml", "--set", "forces.repulsion.strength=1500", "--no-html", "--out", "again")
    assert code == 0, err
    first, second = (ran[0] / name / "recording.sqlite" for name in ("runs/room-3", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_what_is_there_is_not_overwritten(
    ran: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ran[0])
    before = (ran[0] / "runs" / "room-3" / "recording.sqlite").read_bytes()
    assert cli.main(["run", "room.toml", "--no-html"]) == 2
    err = capsys.readouterr().err
    assert err == "crowdlab: runs/room-3 holds an earlier run. Add --force to replace it, or --out FOLDER to write elsewhere.\n"
    assert (ran[0] / "runs" / "room-3" / "recording.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], ["nowhere.toml"]),
        (["run", "broken.toml"], ["broken.toml", "line 1"]),
        (["run", "typo.toml"], ["typo.toml", "cuont", "Did you mean 'count'"]),
        (["run", "room.toml", "--set", "forces.repulsion.strenght=1"], ["strenght", "Did you mean 'forces.repulsion.strength'"]),
        (["run", "room.toml", "--set", "forces.repulsion.strength"], ["allowed is PATH=NUMBER"]),
        (["run", "room.toml", "--set", "forces.repulsion.strength=-5"], ["= -5 N", "allowed 0 to any size"]),
        (["run", "room.toml", "--duration", "-3"], ["--duration -3: allowed are numbers of s above 0"]),
        (
            ["run", "room.toml", "--duration", "0.001"],
            ["0.001 s to simulate with a step of 0.002 s: allowed are 0.002 to 4.29e+06 s"],
        ),
        (["run", "room.toml", "--duration", "1e300"], ["1e+300 s to simulate with a step of 0.002 s: allowed are 0.002 to"]),
        (["run", "room.toml", "--seed", "-3"], ["--seed -3: allowed are 0 to"]),
        (["run", "room.toml", "--out", "room.toml"], ["room.toml: this folder cannot be made"]),
        (["replay", "room.toml"], ["room.toml: this is no recording"]),
        (["replay", "none.sqlite"], ["none.sqlite: there is no such file"]),
        (["validate", "typo.toml"], ["cuont"]),
    ],
    ids=lambda value: "-".join(value)[:40] if value and isinstance(value[0], str) else None,
)
def test_a_mistake_gives_one_message_and_code_2(
    arguments: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("room.toml").write_text(ROOM)
    Path("broken.toml").write_text("title = = 3\n")
    Path("typo.toml").write_text(ROOM.replace("count", "cuont"))
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("crowdlab: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not Path("runs").exists() or not list(Path("runs").rglob("*.sqlite"))


def test_an_unreadable_file_gives_no_stack_trace_in_a_real_process(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_bytes(b"\xff\xfe\x00 not text")
    code, out, err = crowdlab(tmp_path, "run", "broken.toml")
    assert (code, out) == (2, "")
    assert err.startswith("crowdlab: ")
    assert "broken.toml" in err
    assert "Traceback" not in err


def recorded_steps(path: Path) -> int:
    """Steps committed so far, 0 while there is no file."""
    try:
        return Recording.open(path).steps
    except OSError:
        return 0


def wait_for(path: Path, steps: int, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 300.0
    while recorded_steps(path) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit, "the run did not get going"
        time.sleep(0.02)


@pytest.mark.bits
def test_kill_9_leaves_every_committed_chunk(tmp_path: Path) -> None:
    (tmp_path / "lasting.toml").write_text(LASTING)
    path = tmp_path / "out" / "recording.sqlite"
    with start(tmp_path, "run", "lasting.toml", "--out", "out") as process:
        wait_for(path, 1000, process)
        seen = Recording.open(path)
        before = [arrays["position"].tobytes() for arrays, _ in seen.chunks()]
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    recording = Recording.open(path)
    assert not recording.complete
    assert recording.steps >= seen.steps >= 1000
    assert [arrays["position"].tobytes() for arrays, _ in recording.chunks()][: len(before)] == before
    assert len(recording.times) == recording.steps // recording.manifest["every"] + 1
    assert (np.sum(list(recording.ledger().values()), axis=0) == 6).all()
    assert verify(recording).same


def test_ctrl_c_keeps_the_run_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "lasting.toml").write_text(LASTING)
    path = tmp_path / "out" / "recording.sqlite"
    with start(tmp_path, "run", "lasting.toml", "--out", "out") as process:
        wait_for(path, 1000, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "stopped by Ctrl-C. The run up to" in err
    assert "is kept in out/recording.sqlite" in err
    assert "Traceback" not in err
    assert "still inside" in out
    assert Recording.open(path).complete
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["people"]["inside"] == 6


def test_a_run_that_breaks_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half way through, the simulation says that it cannot be trusted any more."""
    monkeypatch.chdir(tmp_path)
    Path("room.toml").write_text(ROOM)
    advance = Recorder.run

    def breaking(recorder: Recorder, steps: int, **other: Any) -> Iterator[Any]:
        for number, piece in enumerate(advance(recorder, steps, **other)):
            if number == 2:
                raise NonFiniteError("room: agent 4 left the finite numbers at step 1100.")
            yield piece

    monkeypatch.setattr(Recorder, "run", breaking)
    assert cli.main(["run", "room.toml", "--out", "out", "--no-html", "--set", "people.desired_speed=0"]) == 2
    err = capsys.readouterr().err
    assert (
        "crowdlab: room: agent 4 left the finite numbers at step 1100. The run up to 2.976 s is kept in out/recording.sqlite."
        in err
    )
    assert Recording.open("out/recording.sqlite").complete
    assert Path("out/measures.csv").exists()


def test_people_who_do_not_arrive_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("room.toml").write_text(ROOM)
    assert cli.main(["run", "room.toml", "--out", "out", "--no-html", "--set", "people.desired_speed=0", "--duration", "5.5"]) == 0
    out, err = capsys.readouterr()
    assert err.count("motion.dt = 0.002 s: springs and drags are stable below 0.0013 s where the crowd is dense") == 1
    assert "0 have left, 0 standing at their goal, 0 removed, 6 still inside" in out
    assert "arrivals  none" in out
    assert re.search(r"agent \d \(visitors\) at \(\d\.\d\d, \d\.\d\d\) m: does not walk: the desired speed is 0 m/s", out)
    summary = json.loads(Path("out/summary.json").read_text())
    assert [(one["id"], one["kind"]) for one in summary["not_arrived"]] == [(number, "not walking") for number in range(6)]
    assert summary["arrivals"]["first"] == {"value": None, "unit": "s"}


def test_validate_describes_and_says_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("room.toml").write_text(ROOM)
    assert cli.main(["validate", "room.toml"]) == 0
    short = capsys.readouterr().out
    assert "parameter  motion.dt = 0.002 s" in short
    assert "forces.repulsion.strength" not in short
    assert "have their usual value (--all prints them); forces: " in short
    assert cli.main(["validate", "--all", "room.toml"]) == 0
    out = capsys.readouterr().out
    assert set(short.splitlines()) - set(out.splitlines()) == {line for line in short.splitlines() if "--all" in line}
    assert "24 m² within x 0 to 6 m, y 0 to 4 m; 18.8 m of walls" in out
    assert "visitors: 6 people to exit" in out
    assert "parameter  forces.repulsion.strength = 2000 N" in out
    assert (
        "motion.dt = 0.002 s; springs and drags are stable below\n    0.00133 s  contact, damping: 5 neighbours, 5 cm deep\n" in out
    )
    assert out.endswith("room: ok\n")


def test_picture_shows_a_run_at_its_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The PNG of the state that the run has then, also after a prime number of steps; nobody is drawn at none."""
    (tmp_path / "room.toml").write_text(ROOM)
    room, out = load(tmp_path / "room.toml"), tmp_path / "pictures"
    assert cli.main(["picture", str(tmp_path / "room.toml"), "--at", "1.006", "--width", "200", "--out", str(out)]) == 0
    run = simulate(room, room.params, jax.random.key(room.seed), 503, every=503)
    assert (out / "room.png").read_bytes() == picture(room, run.final, seconds=1.006, width=200, theme=EITHER).small()
    for wrong, message in ((["--at", "-1"], "a picture at -1 s: allowed"), (["--width", "5"], "--width 5: allowed are 60 to")):
        assert cli.main(["picture", str(tmp_path / "room.toml"), *wrong, "--out", str(out)]) == 2
        assert message in capsys.readouterr().err


def test_list_and_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    for word in ("two_rooms", "repulsion", "strength = 2000 N", "mean_speed [m/s]"):
        assert word in out
    assert cli.main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "groups" in json.dumps(schema)


def test_lab_opens_the_notebooks_or_a_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import nbformat

    started: list[list[str]] = []

    def run(command: list[str], *, check: bool, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(cli.opening.subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    Path("room.toml").write_text(ROOM)
    assert cli.main(["lab", "--no-browser"]) == 0
    assert started[-1][:3] == [sys.executable, "-m", "jupyterlab"]
    assert started[-1][-1] == "--no-browser"
    assert cli.main(["lab", "room.toml"]) == 0
    notebook = nbformat.read(tmp_path / "room.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert started[-1][3] == str(tmp_path / "room.ipynb")
    assert str(tmp_path / "room.toml") in notebook.cells[1].source
    assert cli.main(["lab", "no_such_room"]) == 2


def test_bench_gets_its_own_arguments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr("crowdlab.bench.main", given.append)
    assert cli.main(["bench", "--people", "10", "--help"]) == 0
    assert given == [["--people", "10", "--help"]]
    with pytest.raises(SystemExit) as stop:
        cli.main(["list", "--people"])
    assert stop.value.code == 2
    assert "unrecognized arguments: --people" in capsys.readouterr().err


def test_console_script_is_this_module(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["crowdlab"] == "crowdlab.cli:main"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"crowdlab {importlib.metadata.version('crowdlab')}\n"
