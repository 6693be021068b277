"""Reading areas and places: polygons with holes from rings, WKT, GeoJSON or shapely, and every fault named with its spot."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import shapely
from shapely import LineString, MultiPolygon, Point, Polygon

from crowdlab.errors import ScenarioError
from crowdlab.geometry.forms import Rings, lines_in, polygons_in
from crowdlab.geometry.joining import joined
from crowdlab.geometry.notes import WARNING, ZERO, Notes, Origin
from crowdlab.geometry.rings import FARTHEST, SAME, SPECK, check_near, check_polygon, sound_ring, without_repeats

VERSION = f"{shapely.__version__} {shapely.geos_version_string}"  # of what computes here
Area: TypeAlias = Polygon | MultiPolygon
Place: TypeAlias = Point | LineString | Polygon | MultiPolygon
NEAR = 100.0  # m; a plan this near the origin stays where it is: single precision tells 0.01 mm there


def read_area(spec: Any, where: str = "area", notes: Notes | None = None) -> Area:
    """Polygon or MultiPolygon, m, from a ring of points, {outer, holes}, WKT, GeoJSON, or a shapely geometry.

    It is less the origin of the `notes`, which say what was mended. Parts that touch are one.

    Raises:
        ScenarioError: names `where`, what is wrong and the place of a crossing.
    """
    notes = Notes() if notes is None else notes
    if isinstance(spec, str | shapely.Geometry) or (isinstance(spec, Mapping) and "type" in spec):
        parts = [_polygon(rings, where, notes) for rings in polygons_in(spec, where, notes)]
        _note_overlaps(parts, where, notes)
    elif isinstance(spec, Mapping):
        outer = Polygon(_ring(spec.get("outer", ()), f"{where}.outer", notes))
        names = [f"{where}.holes[{number}]" for number in range(len(spec.get("holes", ())))]
        holes = [_ring(hole, name, notes, hole=True) for name, hole in zip(names, spec.get("holes", ()), strict=True)]
        check_polygon(outer, f"{where}.outer", notes)
        solids = [check_polygon(Polygon(hole), name, notes) for name, hole in zip(names, holes, strict=True)]
        parts = [shapely.difference(outer, shapely.union_all(solids), grid_size=SAME)]
    else:
        parts = [check_polygon(Polygon(_ring(spec, where, notes)), where, notes)]
    area = solid(shapely.union_all(joined(parts, where, notes), grid_size=SAME))
    if area.is_empty:
        raise ScenarioError(f"{where}: is empty. Give a polygon of some size.")
    return tidy(area)


def _note_overlaps(parts: Sequence[Polygon], where: str, notes: Notes) -> None:
    """Note parts that lie on each other."""
    for one, other in shapely.STRtree(parts).query(parts, "intersects").T.tolist() if parts else []:
        shared = parts[one].intersection(parts[other]) if one < other else Polygon()
        if shared.area > SPECK:
            spot = shared.representative_point().coords[0]
            notes.add(WARNING, where, "two parts overlap", spot, shared.area, "m²", "Taken as one.")


def _polygon(rings: Rings, where: str, notes: Notes) -> Polygon:
    outer = sound_ring(rings.outer, where, notes)
    holes = [sound_ring(hole, where, notes, hole=True) for hole in rings.holes]
    return check_polygon(Polygon(outer, holes), where, notes)


def _ring(spec: Any, where: str, notes: Notes, *, hole: bool = False) -> np.ndarray:
    return sound_ring(read_points(spec, where, 3), where, notes, hole=hole)


def read_lines(spec: Any, where: str, notes: Notes | None = None) -> list[np.ndarray]:
    """Open polylines, (n, 2) m each and less the origin, from a list of points, WKT, GeoJSON or a shapely geometry.

    A line without length is noted and left out.

    Raises:
        ScenarioError: names `where` and what is wrong.
    """
    notes = Notes() if notes is None else notes
    if isinstance(spec, str | Mapping | shapely.Geometry):
        given = [read_points(line, where, 2) for line in lines_in(spec, where, notes)]
    else:
        given = [read_points(spec, where, 2)]
    lines = []
    for points in map(notes.inside, given):
        if np.hypot(*(points - points[0]).T).max() <= SAME:
            notes.add(WARNING, where, "a wall without length", points[0], 0.0, "m", "Taken out. Give two different points.")
            continue
        notes.outlines.append((where, points))
        lines.append(without_repeats(points, where, notes))
    return lines


def choose_origin(spec: Any) -> Origin:
    """Whole metres that are taken off the coordinates of a plan: its lower left corner where it lies far off, else nothing.

    Far off is farther from (0, 0) than the plan is wide, and than `NEAR`. Single precision has seven digits: at 5 600 000 m it steps
    by half a metre.
    """
    try:
        if isinstance(spec, str | shapely.Geometry) or (isinstance(spec, Mapping) and "type" in spec):
            rings = [polygon.outer for polygon in polygons_in(spec, "", Notes())]
        else:
            rings = [read_points(spec.get("outer", ()) if isinstance(spec, Mapping) else spec, "")]
    except ScenarioError:
        return ZERO  # whoever reads it says why
    points = np.concatenate(rings) if rings else np.empty((0, 2))
    if not len(points) or not np.isfinite(points).all() or np.abs(points).max() > FARTHEST:
        return ZERO
    lower, upper = points.min(0), points.max(0)
    gap = np.hypot(*np.maximum(np.maximum(lower, -upper), 0.0))
    if gap <= max(float((upper - lower).max()), NEAR):
        return ZERO
    x, y = np.floor(lower).tolist()
    return x, y


def solid(geometry: shapely.Geometry) -> Area:
    """The parts of an overlay that have an area, without the threads and specks where edges met; may be empty."""
    return shapely.union_all([part for part in shapely.get_parts(geometry) if part.area > SPECK])


def tidy(area: Area) -> Area:
    """The same area, always written the same way: vertices in a fixed order, none in the middle of a straight edge."""
    return area.normalize().simplify(SAME).normalize()


def moved(area: shapely.Geometry, origin: Origin) -> shapely.Geometry:
    """The same in the coordinates of the plan."""
    return area if origin == ZERO else shapely.transform(area, lambda points: points + origin)


def polygons(wkt: str, origin: Origin = ZERO) -> list[list[np.ndarray]]:
    """Rings (n, 2) m, less the origin, of every polygon of an area written as WKT, outer ring first, for drawing."""
    parts = shapely.get_parts(shapely.from_wkt(wkt))
    return [[shapely.get_coordinates(ring) - origin for ring in (part.exterior, *part.interiors)] for part in parts]


def read_points(spec: Any, where: str, least: int = 1) -> np.ndarray:
    """Finite coordinates (n, 2) m, none beyond any map. Raises ScenarioError naming the item and what it holds."""
    try:
        points = np.asarray(spec, float)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ScenarioError(f"{where} = {str(spec)[:60]}: allowed is a list of points [[x, y], ...] in m.")
    if not np.isfinite(points).all():
        bad = int(np.flatnonzero(~np.isfinite(points).all(1))[0])
        raise ScenarioError(f"{where}[{bad}] = {points[bad].tolist()}: allowed are finite numbers in m.")
    if len(points) < least:
        raise ScenarioError(f"{where}: has {len(points)} points, allowed are {least} or more.")
    check_near(points, where)
    return points


def read_place(where: str, *, line: Any = None, point: Any = None, polygon: Any = None, notes: Notes | None = None) -> Place:
    """A goal's shape, less the origin, from exactly one of the three. Raises ScenarioError naming the item."""
    notes = Notes() if notes is None else notes
    if sum(given is not None for given in (line, point, polygon)) != 1:
        raise ScenarioError(f"{where}: give exactly one of line, point and polygon.")
    if point is not None:
        return Point(notes.inside(read_points([point], f"{where}.point"))[0])
    if polygon is not None:
        return read_area(polygon, f"{where}.polygon", notes)
    given = [line] if not isinstance(line, str) else lines_in(line, f"{where}.line", notes)
    if len(given) != 1:
        raise ScenarioError(f"{where}.line: holds {len(given)} lines. Give one.")
    points = notes.inside(read_points(given[0], f"{where}.line", 2))
    notes.outlines.append((where, points))
    shape = LineString(points)
    if shape.length <= SAME:
        raise notes.refusal(
            f"{where}.line: has no length, at {notes.at(points[0])}. Give two different points, or a point.", points[0]
        )
    return shape


def edges_of(place: Place) -> np.ndarray:
    """Edges (E, 2, 2) m of a goal; a point is one edge of no length."""
    if isinstance(place, Point):
        return np.array([[[place.x, place.y]] * 2])
    if isinstance(place, LineString):
        points = shapely.get_coordinates(place)
        edges = np.stack([points[:-1], points[1:]], 1)
    else:
        edges = outline(place)
    return edges[np.hypot(*(edges[:, 1] - edges[:, 0]).T) > SAME]


def outline(area: Area) -> np.ndarray:
    """Edges (E, 2, 2) m of every ring of an area."""
    rings = [ring for part in shapely.get_parts(area) for ring in (part.exterior, *part.interiors)]
    return np.concatenate([np.stack([c[:-1], c[1:]], 1) for c in map(shapely.get_coordinates, rings)])
