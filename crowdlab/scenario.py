"""Scenario files: TOML in, checked and built Scenario out. No simulation here."""

import dataclasses
from pathlib import Path
from typing import Any

from crowdlab.params import Params
from crowdlab.state import State, World


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scenario:
    """A named situation, ready to run. Host object, not a pytree; hashable by identity."""

    name: str  # short: the file's stem
    title: str
    world: World
    state: State  # at step 0
    params: Params  # defaults of this scenario
    groups: tuple[str, ...]  # names, in the order of State.group
    goals: tuple[str, ...]  # names, in the order of World.goals
    area: str  # walkable area as WKT, m
    duration: float  # s, how long `crowdlab run` runs it at most
    frames_per_second: float  # 1/s, how often `crowdlab run` records
    seed: int  # for the placing and, unless the user gives another, for the run
    source: dict[str, Any]  # the parsed file, kept for recordings


def load(path: str | Path) -> Scenario:
    """Read a scenario file, or a shipped scenario by its name."""
    raise NotImplementedError


def build(spec: dict[str, Any], *, name: str = "untitled") -> Scenario:
    """The same from a dict, for notebooks and tests."""
    raise NotImplementedError
