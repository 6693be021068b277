"""What is noted while a plan is read: how bad, which item, where, how much, and what was done about it."""

import html
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from crowdlab.errors import ScenarioError

Origin = tuple[float, float]
ZERO: Origin = (0.0, 0.0)
NOWHERE = (math.nan, math.nan)
NOTE, WARNING, ERROR = "note", "warning", "error"
ALIKE = 5  # findings of one kind that a table lists


class Finding(NamedTuple):
    """One thing that was found in a plan."""

    severity: str  # "note": mended or kept, it does no harm; "warning": it may not be meant; "error": the plan is refused
    item: str  # whose it is, as in world.obstacles[2]
    what: str
    place: tuple[float, float]  # m, in the coordinates of the plan; NaN for none
    amount: float  # the measure of it; NaN for none
    unit: str
    repair: str  # what was done about it, or what to do

    def __str__(self) -> str:
        spot = "" if math.isnan(self.place[0]) or at(self.place) in self.what else f" at {at(self.place)}"
        much = "" if math.isnan(self.amount) else f", {self.amount:.4g} {self.unit}"
        return f"{self.item}: {self.what}{spot}{much}. {self.repair}".strip()


def metres(value: float) -> str:
    """A coordinate to a millimetre or to six digits, however far away."""
    return f"{value:.6g}" if abs(value) < 1000 else f"{value:.3f}".rstrip("0").rstrip(".")


def at(point: Sequence[float], origin: Origin = ZERO) -> str:
    """A spot as messages write it, in the coordinates of the plan."""
    return f"({metres(float(point[0]) + origin[0])}, {metres(float(point[1]) + origin[1])}) m"


class Notes:
    """Findings as they come in, and the `origin`, m, that is taken off every coordinate and put back wherever a place is told.

    A reader that `collects` goes on after a mistake, which becomes a finding; any other raises it.
    """

    def __init__(self, origin: Origin = ZERO, *, collects: bool = False) -> None:
        self.origin, self.collects = origin, collects
        self.findings: list[Finding] = []
        self.outlines: list[tuple[str, np.ndarray]] = []  # every ring and line as given, m, less the origin

    @property
    def refused(self) -> bool:
        """Whether a mistake was collected."""
        return any(finding.severity == ERROR for finding in self.findings)

    def add(
        self,
        severity: str,
        item: str,
        what: str,
        place: Sequence[float],
        amount: float = math.nan,
        unit: str = "",
        repair: str = "",
    ) -> None:
        """Note one thing; `place`, m, is less the origin."""
        self.findings.append(Finding(severity, item, what, self.on_map(place), float(amount), unit, repair))

    def on_map(self, place: Sequence[float]) -> tuple[float, float]:
        """A place less the origin, in the coordinates of the plan, m."""
        return float(place[0]) + self.origin[0], float(place[1]) + self.origin[1]

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Points (n, 2) m of the plan less the origin.

        What a double far from the origin cannot tell apart is rounded away, so that a plan and its shifted copy give the same bits.
        """
        return points if self.origin == ZERO else np.round(points - self.origin, 8)

    def at(self, place: Sequence[float]) -> str:
        """A place less the origin, as messages write it."""
        return at(place, self.origin)

    def refusal(self, text: str, place: Sequence[float]) -> ScenarioError:
        """The error to raise for a mistake at a place less the origin."""
        return ScenarioError(text, place=self.on_map(place))

    @contextmanager
    def attempt(self, item: str) -> Iterator[None]:
        """Read one item: its mistake is raised, or noted where mistakes are collected; under its own path where it names another."""
        try:
            yield
        except ScenarioError as error:
            if not self.collects:
                raise
            what, _, cure = str(error).rstrip(".").partition(". ")
            other = re.match("(.+?)(?:: | = )", what)
            if other and not what.startswith(tuple(item + mark for mark in (":", " = ", ".", "["))):
                item, what = other[1], what[other.end() :]  # a mistake in a table that has to do with the item
            what = what.removeprefix(f"{item}: ")
            self.findings.append(
                Finding(ERROR, item, what, NOWHERE, math.nan, "", f"{cure}." if cure else "")._replace(place=error.place)
            )


def table(findings: Sequence[Finding]) -> list[str]:
    """Findings as lines, the worst first; of many alike the first few and how many follow."""
    lines, seen = [], Counter[tuple[str, str]]()
    for finding in sorted(findings, key=_rank):
        seen[finding.severity, finding.what] += 1
        if seen[finding.severity, finding.what] <= ALIKE:
            lines.append(f"{finding.severity:<8} {finding}")
    more = [f"{severity:<8} and {count - ALIKE} more: {what}" for (severity, what), count in seen.items() if count > ALIKE]
    return lines + more


def _rank(finding: Finding) -> int:
    return (ERROR, WARNING, NOTE).index(finding.severity)


def markup(findings: Sequence[Finding]) -> str:
    """All findings as an HTML table."""
    rows = []
    for finding in sorted(findings, key=_rank):
        spot = "" if math.isnan(finding.place[0]) else at(finding.place)
        much = "" if math.isnan(finding.amount) else f"{finding.amount:.4g} {finding.unit}"
        cells = (finding.severity, finding.item, finding.what, spot, much, finding.repair)
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("severity", "item", "found", "place", "measure", "repair"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
