"""Reading areas and places: polygons with holes from rings, WKT or shapely, and every fault named with its spot."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import shapely
from shapely import LineString, MultiPolygon, Point, Polygon

from crowdlab.errors import ScenarioError

VERSION = f"{shapely.__version__} {shapely.geos_version_string}"  # of what computes here
SAME = 1e-9  # m, points nearer than this are one point
Area: TypeAlias = Polygon | MultiPolygon
FARTHEST = 1e7  # m, farther than any map coordinate on Earth in metres
Place: TypeAlias = Point | LineString | Polygon | MultiPolygon


def read_area(spec: Any, where: str = "area") -> Area:
    """Polygon or MultiPolygon, m, from a ring of points, WKT, {outer, holes}, or a shapely geometry.

    Raises:
        ScenarioError: names `where`, what is wrong and the place of a crossing.
    """
    if isinstance(spec, str):
        try:
            spec = shapely.from_wkt(spec)
        except shapely.errors.ShapelyError as error:
            raise ScenarioError(f"{where}: unreadable WKT ({error}). Allowed: POLYGON, MULTIPOLYGON, GEOMETRYCOLLECTION.") from None
    if isinstance(spec, shapely.Geometry):
        parts = [_sound(part, where) for part in _parts(spec, where)]
    elif isinstance(spec, Mapping):
        outer = _ring(spec.get("outer", ()), f"{where}.outer")
        holes = [_ring(hole, f"{where}.holes[{i}]") for i, hole in enumerate(spec.get("holes", ()))]
        parts = [shapely.difference(outer, shapely.union_all(holes), grid_size=SAME)]
    else:
        parts = [_ring(spec, where)]
    far = max((float(np.abs(part.bounds).max()) for part in parts if not part.is_empty), default=0.0)
    if far > FARTHEST:
        raise ScenarioError(f"{where}: a corner at {far:g} m: allowed are coordinates up to {FARTHEST:g} m. Is the unit metres?")
    area = solid(shapely.union_all(parts, grid_size=SAME))
    if area.is_empty:
        raise ScenarioError(f"{where}: is empty. Give a polygon of some size.")
    return tidy(area)


def _parts(geometry: shapely.Geometry, where: str) -> list[Polygon]:
    if isinstance(geometry, Polygon):
        return [geometry]
    if hasattr(geometry, "geoms") and geometry.geom_type in ("MultiPolygon", "GeometryCollection"):
        return [polygon for part in geometry.geoms for polygon in _parts(part, where)]
    raise ScenarioError(f"{where}: {geometry.geom_type} has no area. Allowed: Polygon, MultiPolygon, GeometryCollection of these.")


def solid(geometry: shapely.Geometry) -> Area:
    """The parts of an overlay that have an area, without the threads and specks where edges met; may be empty."""
    return shapely.union_all([part for part in shapely.get_parts(geometry) if part.area > 1e-9])


def tidy(area: Area) -> Area:
    """The same area, always written the same way: vertices in a fixed order, none in the middle of a straight edge."""
    return area.normalize().simplify(SAME).normalize()


def polygons(wkt: str) -> list[list[np.ndarray]]:
    """Rings (n, 2) m of every polygon of an area written as WKT, outer ring first, for drawing."""
    parts = shapely.get_parts(shapely.from_wkt(wkt))
    return [[shapely.get_coordinates(ring) for ring in (part.exterior, *part.interiors)] for part in parts]


def read_points(spec: Any, where: str, least: int = 1) -> np.ndarray:
    """Finite coordinates (n, 2) m. Raises ScenarioError naming the item and what it holds."""
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
    return points


def _ring(spec: Any, where: str) -> Polygon:
    points = read_points(spec, where, 3)
    points = points[np.r_[True, np.hypot(*np.diff(points, axis=0).T) > SAME]]
    if len(points) > 1 and np.hypot(*(points[0] - points[-1])) <= SAME:
        points = points[:-1]
    if len(points) < 3:
        raise ScenarioError(f"{where}: has {len(points)} different points and no area, allowed are 3 or more.")
    return _sound(Polygon(points), where)


def _sound(polygon: Polygon, where: str) -> Polygon:
    polygon = shapely.force_2d(polygon)
    if polygon.is_empty or not np.isfinite(shapely.get_coordinates(polygon)).all():
        raise ScenarioError(f"{where}: is empty or not finite. Give a polygon of some size.")
    reason = shapely.is_valid_reason(polygon)
    if polygon.convex_hull.area <= 1e-9:
        raise ScenarioError(
            f"{where}: has an area of zero, starting at {at(polygon.exterior.coords[0])}. Give a polygon of some size."
        )
    if not polygon.is_valid:
        place = re.search(r"\[(\S+) (\S+)\]", reason)
        spot = f" at {at((float(place[1]), float(place[2])))}" if place else ""
        what = "crosses or touches itself" if "elf-intersection" in reason else f"is not a polygon ({reason.split('[')[0].lower()})"
        raise ScenarioError(
            f"{where}: the outline {what}{spot}. Allowed is a ring without crossings: put the points in order round it."
        )
    return polygon


def at(point: Sequence[float]) -> str:
    """A spot as messages write it."""
    return f"({point[0]:.6g}, {point[1]:.6g}) m"


def read_place(where: str, *, line: Any = None, point: Any = None, polygon: Any = None) -> Place:
    """A goal's shape, from exactly one of the three. Raises ScenarioError naming the item."""
    if sum(given is not None for given in (line, point, polygon)) != 1:
        raise ScenarioError(f"{where}: give exactly one of line, point and polygon.")
    if point is not None:
        return Point(read_points([point], f"{where}.point")[0])
    if polygon is not None:
        return read_area(polygon, f"{where}.polygon")
    points = read_points(line, f"{where}.line", 2)
    shape = LineString(points)
    if shape.length <= SAME:
        raise ScenarioError(f"{where}.line: has no length, at {at(points[0])}. Give two different points, or a point.")
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
