"""The geometry report: everything that is odd about a plan, before anybody takes a step."""

import dataclasses
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crowdlab import demand, geometry
from crowdlab.errors import ParamError, ScenarioError
from crowdlab.geometry import ERROR, NOTE, WARNING, Finding, Notes
from crowdlab.scenario.building import Scenario
from crowdlab.scenario.doorways import read_doors
from crowdlab.scenario.files import read
from crowdlab.scenario.shapes import inlined, is_shape
from crowdlab.scenario.stages import read_journeys
from crowdlab.scenario.surroundings import check_joined, furnished, surveyed
from crowdlab.scenario.tables import ScenarioTable, brief, decode, plain
from crowdlab.scenario.zones import read_zones


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GeometryReport:
    """What was found in a plan. As the last line of a cell it shows itself as a table."""

    name: str
    findings: tuple[Finding, ...]
    area: str  # walkable area as WKT, m, in the coordinates of the plan; empty where it was refused
    radius: float  # m, of the bodies for which passages were measured
    origin: tuple[float, float]  # m, taken off every coordinate inside
    outlines: tuple[tuple[str, np.ndarray], ...]  # every ring and line as given, by item, (n, 2) m less the origin

    @property
    def ok(self) -> bool:
        """Whether the plan is taken."""
        return not self.of(ERROR)

    def of(self, severity: str) -> tuple[Finding, ...]:
        """The findings of one severity: "note", "warning" or "error"."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def lines(self) -> list[str]:
        """One line for each finding, the worst first; of many alike the first few and how many follow."""
        return geometry.table(self.findings)

    def _headline(self) -> str:
        counts = {severity: len(self.of(severity)) for severity in (ERROR, WARNING, NOTE)}
        told = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items())
        return f"{self.name}: geometry {'ok' if self.ok else 'refused'}, {told}"

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in self.lines())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = geometry.markup(self.findings) if self.findings else ""
        return f"<p>{html.escape(self._headline())}</p>{table}"


def geometry_report(source: Any, *, obstacles: Any = (), walls: Any = (), radius: float | None = None) -> GeometryReport:
    """Look at a plan: what was mended, what looks wrong, what is refused, each with its place, its measure and the repair.

    Args:
        source: a Scenario, the name or path of a scenario file, its tables as a dict, or a walkable area in any form.
        obstacles, walls: what stands in a walkable area, if that is given.
        radius: of the bodies, m, for which passages are measured; default: the stoutest that the groups of the scenario may have (of a
            law without an end all but one in ten thousand are thinner), or else 0.25 m.

    Raises:
        ScenarioError: the scenario has no readable plan at all.
    """
    spec, name, folder = _tables(source, obstacles, walls)
    tables = decode(plain(inlined(spec, folder)), ScenarioTable)
    plan = surveyed(tables.world, collects=True)
    try:
        size = float(_stoutest(source if isinstance(source, Scenario) else None, tables, plan.notes) if radius is None else radius)
    except (TypeError, ValueError):
        raise ScenarioError(f"radius = {brief(radius)}: allowed is one number in m. Give such a number, or leave it out.") from None
    if not 0 < size < np.inf:
        raise ScenarioError(f"radius = {size:g} m: allowed is any finite size above 0. Give such a number.")
    area = ""
    if not plan.notes.refused:
        with plan.notes.attempt("world.periodic"):
            check_joined(tables)
        with plan.notes.attempt("world.obstacles"):
            plans, groups = read_journeys(tables)
            floor = furnished(plan, tables.goals, plans.passing, plans.ends)[1]
            read_zones(tables.zones, floor, plan.notes)
            read_doors(tables.doors, floor, plan.notes)
            demand.note_grounds(floor, groups, plan.notes)
            geometry.inspect(floor, size, plan.notes)
            area = geometry.moved(floor.area, floor.origin).wkt
    return GeometryReport(
        name=name,
        findings=plan.findings,
        area=area,
        radius=size,
        origin=plan.origin,
        outlines=tuple(plan.notes.outlines),
    )


def _tables(source: Any, obstacles: Any, walls: Any) -> tuple[Any, str, Path | None]:
    """Tables of a scenario, its name, and the folder where its files are."""
    if isinstance(source, Scenario):
        return source.source, source.name, None
    if isinstance(source, Mapping) and "world" in source:
        return source, "untitled", None
    if isinstance(source, str | Path) and not is_shape(source):
        spec, file = read(source)
        return spec, file.stem, file.parent
    return {"world": {"area": source, "obstacles": obstacles, "walls": walls}}, "plan", None


def _stoutest(scenario: Scenario | None, tables: ScenarioTable, notes: Notes) -> float:
    """Radius, m, of the stoutest body that the groups may have, or that a scenario which is built has if it is stouter still."""
    sizes = [0.0] if scenario is None else [0.0, *np.asarray(scenario.state.radius, float).tolist()]
    for name, group in tables.groups.items():
        try:
            sizes.append(demand.stoutest(name, group, tables.profiles))
        except (ScenarioError, ParamError) as error:  # no mistake of the plan, so the rest of it is looked at all the same
            notes.add(WARNING, f"groups.{name}", "no passage is measured for these people", geometry.NOWHERE, repair=str(error))
    return round(max(sizes), 6) or float(demand.Body.radius)  # 0.3 for the float32 nearest to it
