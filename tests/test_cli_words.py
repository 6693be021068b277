"""What the command line says to somebody who meets it for the first time."""

import subprocess
import sys
from pathlib import Path

import pytest

from crowdlab import cli, report
from crowdlab.cli import opening

PAIR = """
title = "Two people far apart"
seed = 1
duration = 1.0
frames_per_second = 10.0
[world]
area = [[0, 0], [6, 0], [6, 4], [0, 4]]
[goals.exit]
line = [[6.0, 0.0], [6.0, 4.0]]
[groups.visitors]
count = 2
positions = [[1.0, 1.0], [5.5, 3.0]]
goal = "exit"
[forces.driving]
[motion]
dt = 0.01
"""


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("pair.toml").write_text(PAIR)
    return tmp_path


def test_run_says_how_to_go_on_and_replay_takes_the_folder(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "pair.toml", "--no-html", "--out", "my run"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("next      check with: crowdlab replay 'my run'\n")
    assert "of 1 who arrived; 95 % not reached" in out
    assert "overlap   nobody touched in the recorded frames" in out
    assert '"device": "cpu"' in (pair / "my run" / "summary.json").read_text() or "gpu" in out
    assert cli.main(["replay", "my run"]) == 0
    assert cli.main(["replay", "."]) == 2
    assert "recording.sqlite: there is no such file" in capsys.readouterr().err


def test_a_run_with_its_page_names_it(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "pair.toml", "--out", "out"]) == 0
    assert capsys.readouterr().out.endswith("next      open out/replay.html; check with: crowdlab replay out\n")


def test_an_unknown_force_is_explained(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.toml").write_text(PAIR.replace("[motion]", "[forces.wind]\n[motion]"))
    for command in ("run", "validate"):
        assert cli.main([command, "own.toml"]) == 2
        err = capsys.readouterr().err
        assert "unknown force 'wind'" in err
        assert "one of your own must be imported in the Python process that loads the scenario" in err
        assert err.count("\n") == 1


def test_validate_and_list_print_words_for_people(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "pair.toml", "--all"]) == 0
    out = capsys.readouterr().out
    assert "switches.driving = on\n" in out
    assert "motion.speed_factor = no limit\n" in out
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    assert "()" not in out
    assert "[1]" not in out
    assert "mean_speed [m/s]: Mean speed of those in the scene; NaN when nobody is." in out


def test_validate_refuses_what_no_run_would_begin_with(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fine.toml").write_text(PAIR.replace("dt = 0.01", "dt = 1e-6"))
    assert cli.main(["validate", "fine.toml"]) == 2
    assert "fine: agent 1 starts at (5.5, 3) m at step 0, so far from the origin" in capsys.readouterr().err
    assert cli.main(["run", "fine.toml", "--duration", "0.001", "--fps", "1000", "--out", "deep/down"]) == 2
    assert "so far from the origin" in capsys.readouterr().err
    assert not Path("deep").exists(), "a refused run leaves no folder behind"


@pytest.mark.parametrize(
    ("deepest", "words"), [(0.0, "nobody touched"), (0.0004, "less than 0.001 m"), (0.0123, "at most 0.012 m")]
)
def test_overlap_in_words(deepest: float, words: str) -> None:
    assert report._overlap(deepest) == words


@pytest.mark.parametrize("root", [True, False])
def test_lab_opens_the_first_notebook_for_this_machine_only(root: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []

    def run(command: list[str], *, check: bool, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)  # an installed package copies its notebooks into the present folder
    monkeypatch.setattr(opening.subprocess, "run", run)
    monkeypatch.setattr(opening.os, "geteuid", lambda: 0 if root else 1000, raising=False)
    assert cli.main(["lab"]) == 0
    assert started[0][:3] == [sys.executable, "-m", "jupyterlab"]
    assert Path(started[0][3]).name == "01_a_first_crowd.ipynb"
    assert "--ip=127.0.0.1" in started[0]
    assert ("--allow-root" in started[0]) is root


def test_installed_notebooks_are_copied_and_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "_notebooks", tmp_path / "crowdlab-notebooks"
    (source / "images").mkdir(parents=True)
    for name in (opening.FIRST, "images/lab.png"):
        (source / name).write_text("shipped")
    target.mkdir()
    (target / opening.FIRST).write_text("my work")
    assert opening.first_of(opening.copied(source, target)) == target / opening.FIRST
    assert (target / opening.FIRST).read_text() == "my work"
    assert (target / "images" / "lab.png").read_text() == "shipped"
    assert str(target) in capsys.readouterr().out
