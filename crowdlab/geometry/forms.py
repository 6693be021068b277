"""The forms in which shapes come and go: coordinate lists, WKT, GeoJSON and shapely geometries."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from shapely import LineString, Polygon

from crowdlab.errors import ScenarioError
from crowdlab.geometry.notes import NOTE, NOWHERE, Notes

LINES = ("LineString", "LinearRing")
DEGREES = ("EPSG::4326", "EPSG:4326", "CRS84")  # what names of the usual geographic coordinates have in them
MANY = ("MultiPolygon", "MultiLineString", "GeometryCollection")


class Rings(NamedTuple):
    """One polygon as given."""

    outer: np.ndarray  # (n, 2) m
    holes: list[np.ndarray]


def from_geojson(spec: Mapping[str, Any] | str, where: str) -> shapely.Geometry:
    """Geometry of a GeoJSON object (a geometry, a Feature or a FeatureCollection) or of its text. Raises ScenarioError."""
    unreadable = "Allowed: a geometry, a Feature or a FeatureCollection, in metres."
    try:
        text = spec if isinstance(spec, str) else json.dumps(spec)
        given = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{where}: unreadable GeoJSON ({error}). {unreadable}") from None
    _check_geojson(given, where)
    try:
        return shapely.from_geojson(text)
    except shapely.errors.ShapelyError as error:
        raise ScenarioError(f"{where}: unreadable GeoJSON ({str(error).strip().splitlines()[0]}). {unreadable}") from None


def _check_geojson(spec: Any, where: str) -> None:
    """Refuse coordinates in degrees and features without a shape. Raises ScenarioError."""
    if not isinstance(spec, Mapping):
        return
    crs = json.dumps(spec.get("crs"))
    if any(word in crs.upper() for word in DEGREES):
        raise ScenarioError(f"{where}.crs = {crs[:80]}: coordinates are in degrees, allowed are metres. Project the plan first.")
    listed = spec.get("features")
    for number, feature in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(feature, Mapping) or not isinstance(feature.get("geometry"), Mapping):
            raise ScenarioError(f"{where}.features[{number}]: has no geometry. Give it one, or take the feature out.")


def features(spec: Mapping[str, Any] | str, where: str) -> list[Mapping[str, Any]]:
    """The features of a GeoJSON FeatureCollection or of its text. Raises ScenarioError."""
    from_geojson(spec, where)
    found = (json.loads(spec) if isinstance(spec, str) else spec).get("features")
    if not isinstance(found, list):
        raise ScenarioError(f"{where}: is no FeatureCollection. Give one, or a table with the key area.")
    return found


def to_geojson(geometry: shapely.Geometry) -> dict[str, Any]:
    """The same as a GeoJSON geometry, every digit kept."""
    result: dict[str, Any] = json.loads(shapely.to_geojson(geometry))
    return result


def _shape_of(spec: Any, where: str, allowed: str, notes: Notes) -> shapely.Geometry:
    """Flat geometry of WKT, a GeoJSON object or a shapely geometry; heights are noted. Raises ScenarioError."""
    if isinstance(spec, str):
        try:
            spec = shapely.from_wkt(spec)
        except (shapely.errors.ShapelyError, NotImplementedError) as error:  # the latter for curves
            raise ScenarioError(f"{where}: unreadable WKT ({error}). Allowed: {allowed}, with straight edges.") from None
    elif isinstance(spec, Mapping):
        spec = from_geojson(spec, where)
    if shapely.has_z(spec):
        notes.add(NOTE, where, "heights", notes.inside(shapely.get_coordinates(spec)[:1])[0], repair="Left out: a plan is flat.")
    return shapely.force_2d(spec)


def polygons_in(spec: Any, where: str, notes: Notes) -> list[Rings]:
    """The polygons of WKT, a GeoJSON object or a shapely geometry. Raises ScenarioError for what has no area."""
    allowed = "POLYGON, MULTIPOLYGON, GEOMETRYCOLLECTION"

    def of(part: shapely.Geometry) -> list[Rings]:
        if isinstance(part, Polygon):
            rings = [shapely.get_coordinates(ring)[:-1] for ring in (part.exterior, *part.interiors)]
            return [] if part.is_empty else [Rings(rings[0], rings[1:])]
        if part.geom_type in MANY:
            return [polygon for inner in part.geoms for polygon in of(inner)]
        raise ScenarioError(
            f"{where}: {part.geom_type} has no area. Allowed: Polygon, MultiPolygon, GeometryCollection of these.",
            place=_start(part),
        )

    return of(_shape_of(spec, where, allowed, notes))


def lines_in(spec: Any, where: str, notes: Notes) -> list[np.ndarray]:
    """The polylines, (n, 2) m each, of WKT, a GeoJSON object or a shapely geometry. Raises ScenarioError for what is no line."""
    allowed = "LINESTRING, MULTILINESTRING, GEOMETRYCOLLECTION"

    def of(part: shapely.Geometry) -> list[np.ndarray]:
        if part.geom_type in LINES:
            return [] if part.is_empty else [shapely.get_coordinates(part)]
        if part.geom_type in MANY and part.geom_type != "MultiPolygon":
            return [line for inner in part.geoms for line in of(inner)]
        raise ScenarioError(
            f"{where}: {part.geom_type} is no line. Allowed: {allowed}. Give polygons under obstacles.", place=_start(part)
        )

    return of(_shape_of(spec, where, allowed, notes))


def _start(shape: shapely.Geometry) -> tuple[float, float]:
    x, y = (shapely.get_coordinates(shape).tolist() or [NOWHERE])[0]
    return x, y


def drawn(area: str, lines: Sequence[np.ndarray]) -> dict[str, Any]:
    """A walkable area, as WKT, and its thin walls as a GeoJSON FeatureCollection; the property `crowdlab` says which is which."""
    shapes = [("area", shapely.from_wkt(area)), *(("wall", LineString(line)) for line in lines)]
    features = [{"type": "Feature", "properties": {"crowdlab": kind}, "geometry": to_geojson(shape)} for kind, shape in shapes]
    return {"type": "FeatureCollection", "features": features}
