"""README tells the truth: its code runs, its messages are real, its map and its table of requirements are those of the house."""

import re
import tomllib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import crowdlab
from crowdlab import errors, params
from crowdlab.forces.base import FORCES
from crowdlab.scenario import build, shipped

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_column(title: str) -> list[str]:
    return [name.strip("` ") for name in re.findall(r"^\| ([^|]+) \|", section(title), re.MULTILINE)][1:]


@pytest.fixture
def registry() -> Any:
    """FORCES as it was before."""
    before = dict(FORCES)
    yield
    FORCES.clear()
    FORCES.update(before)


def test_using_it(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "readme"}

    def follow(number: int) -> str:
        exec(compile(blocks("python")[number], "README.md", "exec"), names)
        return capsys.readouterr().out

    assert follow(0).startswith("(4, 25, 2) [")
    follow(1)
    assert names["runs"].frames.position.shape == (20, 4, 25, 2)
    follow(2)
    assert (names["result"].slopes["people.desired_speed"] != 0).any()
    assert follow(3).startswith("(5, 25, 2) [")
    follow(4)
    assert names["passage"].density.shape == (5,)
    assert "at (0.15, 2) m, 0.3 m wide. Kept: nobody gets through" in follow(5)


@pytest.mark.usefixtures("registry")
def test_an_own_situation_with_an_own_force() -> None:
    exec(compile(blocks("python")[-1], "README.md", "exec"), {"__name__": "readme"})
    spec = tomllib.loads(blocks("toml")[0])
    spec["forces"]["cohesion"] = {"gain": 1.0}
    scenario = build(spec, name="my_room")
    paths = dict(params.specs(scenario.params))
    assert paths["forces.cohesion.gain"].unit == "1/s^2"
    run = crowdlab.simulate(scenario, scenario.params, jax.random.key(0), steps=20, every=10)
    with pytest.raises(errors.ParamError, match=r"Did you mean 'forces\.cohesion\.gain'"):
        params.replace(scenario.params, "forces.cohesion.gian", 1.0)
    without = crowdlab.simulate(
        scenario, params.replace(scenario.params, "switches.cohesion", 0.0), jax.random.key(0), steps=20, every=10
    )
    assert run.frames.position.shape == (2, 20, 2)
    assert (run.frames.position[-1] != without.frames.position[-1]).any()


def test_a_journey() -> None:
    scenario = build(tomllib.loads(blocks("toml")[1]), name="trip")
    run = crowdlab.simulate(scenario, None, jax.random.key(0), steps=round(scenario.duration / 0.002), every=5000)
    assert (np.asarray(run.final.arrived) > 0).all()


def test_messages_are_real() -> None:
    scenario = crowdlab.load("two_rooms")
    said = []
    for path, value in (("forces.repulsion.strenght", 1.0), ("forces.repulsion.strength", -1.0)):
        with pytest.raises(errors.ParamError) as caught:
            params.check(params.replace(scenario.params, path, value))
        said.append(f"ParamError: {caught.value}")
    for told, line in zip(said, blocks("text")[0].splitlines(), strict=True):
        assert told.startswith(line.removesuffix("…"))


def test_map_is_the_house() -> None:
    from test_architecture import MODULES, ROOMS, room

    rooms = {room(module) for module in MODULES} - {"__init__", "__main__"}
    assert first_column("Find your way") == [name for name in ROOMS if name in rooms]


def test_requirements_are_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(first_column("What it stands on")) == sorted(re.split(r"[^\w-]", line)[0] for line in project["dependencies"])
    for extra in project["optional-dependencies"]:
        assert f"`[{extra}]`" in section("What it stands on")


def test_two_commands_are_there() -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("python3 -m venv .venv && ")]
    assert len(commands) == 2
    assert "crowdlab run " in commands[0]
    assert commands[1].endswith(".venv/bin/pytest -n 2")


def test_every_scenario_has_its_picture() -> None:
    """Shown with its title, small, and made by the command that the text names; every picture named is there."""
    named = re.findall(r'(?:src="|\]\()([\w/]+\.(?:png|svg))', README)
    assert all((ROOT / name).is_file() for name in named)
    for name, file in shipped().items():
        made = f"make it: crowdlab picture {name} --out notebooks/images/scenarios, and give it a cell in the table of README"
        picture = ROOT / "notebooks" / "images" / "scenarios" / f"{name}.png"
        assert f"notebooks/images/scenarios/{name}.png" in named, made
        assert f"<code>{name}</code>: {tomllib.loads(file.read_text())['title']}</td>" in README, made
        assert picture.stat().st_size < 60_000, name
    assert {Path(name).stem for name in named if "/scenarios/" in name} == set(shipped())
