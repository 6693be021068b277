"""Shapes that all but touch are made to touch: a gap of a fraction of a millimetre is a slip of the pen and no passage."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import shapely

from crowdlab.geometry.notes import NOTE, WARNING, Notes
from crowdlab.geometry.rings import SAME, SNAP

G = TypeVar("G", bound=shapely.Geometry)


def joined(parts: Sequence[G], where: str, notes: Notes) -> list[G]:
    """The parts of one shape, the later ones moved onto the earlier ones where they all but touch."""
    return [part for _, part in pulled([(where, part) for part in parts], notes)] if len(parts) > 1 else list(parts)


def pulled(shapes: Sequence[tuple[str, G]], notes: Notes) -> list[tuple[str, G]]:
    """Named shapes; vertices within `SNAP` of the outline of an earlier shape are moved onto it, which is noted."""
    outlines = [_outline(shape) for _, shape in shapes]
    later, earlier = shapely.STRtree(outlines).query(outlines, "dwithin", distance=SNAP)
    result = list(shapes)
    for number, (name, _) in enumerate(shapes):
        for other in np.unique(earlier[(later == number) & (earlier < number)]).tolist():
            result[number] = (name, _moved_onto(result[number][1], _outline(result[other][1]), name, result[other][0], notes))
    return result


def _outline(shape: shapely.Geometry) -> shapely.Geometry:
    return shape.boundary if shape.area else shape


def _moved_onto(shape: G, target: shapely.Geometry, item: str, other: str, notes: Notes) -> G:
    def onto(points: np.ndarray) -> np.ndarray:
        links = shapely.shortest_line(shapely.points(points), target)
        gap = shapely.length(links)
        ends = shapely.get_coordinates(shapely.get_point(links, -1))
        return np.where(((gap > SAME) & (gap <= SNAP))[:, None], ends, points)

    points = shapely.get_coordinates(shape)
    near = shapely.transform(shape, onto)
    if shape.area and SAME < _outline(near).distance(target) <= SNAP:  # a corner of the other before an edge of this
        near = shapely.snap(near, target, SNAP)
    if near.equals_exact(shape):
        return shape
    links = shapely.shortest_line(shapely.points(points), target)
    gaps = np.where(shapely.length(links) > SAME, shapely.length(links), np.inf)
    first = int(np.argmin(gaps))
    gap = float(gaps[first]) if gaps[first] <= SNAP else float(_outline(shape).distance(target))
    if not near.is_valid or near.is_empty or near.geom_type != shape.geom_type:
        notes.add(WARNING, item, f"a gap to {other}", points[first], gap, "m", "Kept: closing it would spoil the outline.")
        return shape
    notes.add(NOTE, item, f"a gap to {other}", points[first], gap, "m", f"Closed, as all up to {SNAP:g} m.")
    return near
