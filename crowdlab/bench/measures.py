"""What was measured, and the numbers that follow from it."""

import dataclasses
import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from crowdlab.errors import CrowdlabError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """One code at one size: its rounds, or why there are none."""

    lane: str  # what it was measured for
    code: str  # as the table names it
    people: int  # of all runs together
    density: float | None = None  # 1/m^2
    dt: float | None = None  # s; None where a step is no time
    steps: int = 0  # in each round
    rounds: tuple[float, ...] = ()  # s
    pieces: tuple[tuple[float, ...], ...] = ()  # s, by round: the pieces that it was cut into
    busy: float | None = None  # cores kept busy, in the best round
    compiling: float | None = None  # s, before the first step; None for a code that compiles nothing
    building: float | None = None  # s, from the positions to a simulation that is ready
    peak: int | None = None  # bytes of memory, most at any time
    loaded: int | None = None  # bytes of memory when the libraries were loaded and nobody was there yet
    version: str = ""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)  # what else the process said
    fault: str = ""  # why it was left out or broke

    @property
    def best(self) -> float:
        """Seconds of the fastest round: others disturb and never help. Not a number without rounds."""
        return min(self.rounds, default=float("nan"))

    @property
    def step_time(self) -> float:
        """Seconds per step, in the best round."""
        return self.best / self.steps if self.steps else float("nan")

    @property
    def median_step_time(self) -> float:
        """Seconds per step, in the median round."""
        return median(self.rounds) / self.steps if self.steps and self.rounds else float("nan")

    @property
    def agent_steps(self) -> float:
        """Agent-steps per second."""
        return self.people / self.step_time

    @property
    def person_seconds(self) -> float:
        """Simulated person-seconds per second; not a number for a code whose step is no time."""
        return self.agent_steps * (self.dt or float("nan"))

    @property
    def memory(self) -> int | None:
        """Bytes that the crowd and its compiling took at most, above what the libraries take."""
        return None if self.peak is None or self.loaded is None else max(0, self.peak - self.loaded)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that one call of the bench measured."""

    machine: dict[str, Any]
    measures: tuple[Measure, ...]

    def write(self, path: Path) -> None:
        """As JSON, with what follows from the measures beside them."""
        derived = ("step_time", "median_step_time", "agent_steps", "person_seconds")
        rows = [
            dataclasses.asdict(one) | {name: None if np.isnan(getattr(one, name)) else getattr(one, name) for name in derived}
            for one in self.measures
        ]
        path.write_text(json.dumps({"machine": self.machine, "measures": rows}, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Report":
        """The same from JSON. Raises CrowdlabError for a file that is none."""
        names = [field.name for field in dataclasses.fields(Measure)]
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = [{name: row[name] for name in names} for row in content["measures"]]
            machine = content["machine"]
        except (ValueError, KeyError, TypeError):
            raise CrowdlabError(f"{path}: no report of the bench. Allowed is what `crowdlab bench --out FILE` wrote.") from None
        for row in rows:
            row["rounds"], row["pieces"] = tuple(row["rounds"]), tuple(tuple(piece) for piece in row["pieces"])
        return cls(machine=machine, measures=tuple(Measure(**row) for row in rows))

    def of(self, lane: str) -> list[Measure]:
        """The measures of one lane."""
        return [one for one in self.measures if one.lane == lane]


def reference(one: Measure, others: list[Measure]) -> Measure | None:
    """Crowdlab at the same size, density and step as `one`; at its own stable step where it was not run at that step."""
    same = [o for o in others if o.facts.get("ours") and (o.lane, o.people, o.density) == (one.lane, one.people, one.density)]
    at_step = [o for o in same if o.dt == one.dt]
    return next(iter(at_step or same), None)


def exponent(measures: list[Measure], low: float, high: float) -> float | None:
    """Slope of log step time against log people between two sizes, by least squares; None without at least two sizes."""
    points = sorted((o.people, o.step_time) for o in measures if low <= o.people <= high and o.rounds)
    if len({people for people, _ in points}) < 2:
        return None
    people, seconds = np.log(np.array(points)).T
    return float(np.polyfit(people, seconds, 1)[0])


def drift(one: Measure) -> float | None:
    """Last piece of a long run over its first, each in its best round; None where it was not cut into pieces."""
    if not one.pieces or len(one.pieces[0]) < 2:
        return None
    best = np.min(one.pieces, axis=0)
    return float(best[-1] / best[0])
