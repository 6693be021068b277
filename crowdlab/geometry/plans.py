"""A plan as a planner brings it: the walkable area, what stands in it and thin walls, read, mended in the open and moved near (0, 0)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import shapely
from shapely import LineString

from crowdlab.geometry.areas import Area, choose_origin, read_area, read_lines
from crowdlab.geometry.forms import lines_in, polygons_in
from crowdlab.geometry.joining import pulled
from crowdlab.geometry.notes import NOTE, WARNING, Finding, Notes, Origin
from crowdlab.geometry.rings import SAME, SNAP
from crowdlab.geometry.seams import APART, Joined


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """Walkable area, obstacles and thin walls, m, less the origin."""

    area: Area  # obstacles not yet taken out
    obstacles: tuple[tuple[str, Area], ...]
    lines: tuple[tuple[str, np.ndarray], ...]  # open polylines (n, 2)
    notes: Notes
    joined: Joined = APART

    @property
    def origin(self) -> Origin:
        """What was taken off every coordinate, m."""
        return self.notes.origin

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was mended or is odd."""
        return tuple(self.notes.findings)


def read_plan(area: Any, obstacles: Any = (), walls: Any = (), notes: Notes | None = None, joined: Joined = APART) -> Plan:
    """Everything in one form, as `read_area` and `read_lines` take it; `obstacles` and `walls` may be lists or one geometry of many.

    Raises:
        ScenarioError: the first mistake, with its item and place, unless the `notes` collect mistakes; then what is wrong is left out.
    """
    notes = Notes(choose_origin(area)) if notes is None else notes
    ground: Area = shapely.MultiPolygon()
    with notes.attempt("world.area"):
        ground = read_area(area, "world.area", notes)
    blocks: list[tuple[str, Area]] = []
    for name, spec in _items(obstacles, "world.obstacles", notes, polygons=True):
        with notes.attempt(name):
            blocks.append((name, read_area(spec, name, notes)))
    lines: list[tuple[str, np.ndarray]] = []
    for name, spec in _items(walls, "world.walls", notes, polygons=False):
        with notes.attempt(name):
            lines += [(name, line) for line in read_lines(spec, name, notes)]
    shapes = [("the outline of the area", ground), *blocks, *((name, LineString(line)) for name, line in lines)]
    _, *rest = pulled(shapes, notes)
    many = len(blocks)
    thin = tuple((name, shapely.get_coordinates(line)) for name, line in rest[many:])
    plan = Plan(ground, tuple(rest[:many]), thin, notes, joined)
    _compare(plan)
    return plan


def _items(given: Any, where: str, notes: Notes, *, polygons: bool) -> list[tuple[str, Any]]:
    """Each shape of a list, or of one geometry of many, with its name."""
    if not isinstance(given, str | Mapping | shapely.Geometry):
        return [(f"{where}[{number}]", spec) for number, spec in enumerate(given)]
    parts: list[Any] = []
    with notes.attempt(where):
        if polygons:
            parts = [shapely.Polygon(rings.outer, rings.holes) for rings in polygons_in(given, where, notes)]
        else:
            parts = [line.tolist() for line in lines_in(given, where, notes)]
    return [(f"{where}[{number}]", part) for number, part in enumerate(parts)]


def _compare(plan: Plan) -> None:
    """Note what stands twice, hidden or outside."""
    notes, shapes = plan.notes, np.array([shape for _, shape in plan.obstacles], object)
    inner, outer = shapely.STRtree(shapes).query(shapes, "covered_by")
    for one, other in zip(inner.tolist(), outer.tolist(), strict=True):
        same = shapes[one].equals(shapes[other])
        if one == other or (same and one < other):
            continue
        text = f"{'the same as' if same else 'lies wholly in'} {plan.obstacles[other][0]}"
        notes.add(
            NOTE, plan.obstacles[one][0], text, shapes[one].representative_point().coords[0], shapes[one].area, "m²", "Taken once."
        )
    near = plan.area.buffer(SNAP)
    for name, shape in plan.obstacles:
        out = shape.difference(plan.area)
        if shape.intersects(plan.area) and not near.covers(shape):
            spot = out.representative_point().coords[0]
            notes.add(NOTE, name, "reaches out of the area", spot, out.area, "m²", "What lies outside has no effect.")
    taken = shapely.union_all(shapes)
    for name, points in plan.lines:
        line = LineString(points)
        hidden = line.intersection(taken) if line.intersects(taken.buffer(-SNAP)) else LineString()
        for text, out in (
            ("outside the area", LineString() if near.covers(line) else line.difference(plan.area)),
            ("in an obstacle", hidden),
        ):
            if not out.is_empty:
                spot = shapely.get_coordinates(out)[0]
                notes.add(WARNING, name, f"lies {text}", spot, out.length, "m", "Kept: it pushes people on the other side too.")


def note_exits(plan: Plan, exits: Mapping[str, np.ndarray]) -> None:
    """Note every thin wall that lies on an exit, where `lay_floor` opens it, and exits a little off the outline.

    `exits` are edges (E, 2, 2) m by name.
    """
    for goal, edges in exits.items():
        ends = edges.reshape(-1, 2)
        off = shapely.distance(shapely.points(ends), plan.area.boundary)
        if (off <= SNAP).all() and off.max(initial=0.0) > SAME * 1e3:
            worst = int(np.argmax(off))
            plan.notes.add(
                NOTE, goal, "lies off the outline", ends[worst], off[worst], "m", f"Taken as on it, as all up to {SNAP:g} m."
            )
    for name, points in plan.lines:
        for goal, edges in exits.items():
            strip = shapely.union_all(shapely.linestrings(edges)).buffer(SNAP, cap_style="flat")
            shared = LineString(points).intersection(strip)
            if shared.length > 2.5 * SNAP:
                spot = shapely.get_coordinates(shared)[0]
                text = f"lies on the exit {goal}"
                plan.notes.add(WARNING, name, text, spot, shared.length, "m", "Opened there, as the outline is.")
