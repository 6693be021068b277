"""One ring after the other: what is harmless is mended and noted, what is not is refused with the place."""

import re

import numpy as np
import shapely
from shapely import Polygon

from crowdlab.errors import ScenarioError
from crowdlab.geometry.notes import NOTE, WARNING, Notes

SAME = 1e-9  # m, points nearer than this are one point
SNAP = 1e-3  # m, the snap tolerance: shapes nearer than this touch, and an exit this near an outline lies on it
SPIKE = 1e-6  # m, a spike narrower than this has no area
SHORT = 0.01 + 1e-9  # m, edges up to this are told
SPECK = 1e-9  # m^2, less is no area
SMALL = 0.01  # m^2, polygons and holes below are told
FARTHEST = 1e7  # m, farther than any map coordinate on Earth in metres


def sound_ring(points: np.ndarray, where: str, notes: Notes, *, hole: bool = False) -> np.ndarray:
    """The ring (n, 2) m, less the origin, without repeated points and spikes; all that is odd about it is noted.

    Raises:
        ScenarioError: a coordinate that is not finite or too far, or no area.
    """
    finite = np.isfinite(points).all(1)
    if not finite.all():
        raise ScenarioError(f"{where}: is empty or not finite. Give a polygon of some size.")
    check_near(points, where)
    ring = notes.inside(points)
    notes.outlines.append((where, np.concatenate([ring, ring[:1]])))
    ring = without_repeats(ring, where, notes)
    if len(ring) > 1 and np.hypot(*(ring[0] - ring[-1])) <= SAME:
        ring = ring[:-1]
    if len(ring) < 3:
        raise notes.refusal(
            f"{where}: has {len(ring)} different points and no area, allowed are 3 or more.", points[0] - notes.origin
        )
    start, ring = ring[0], _without_spikes(ring, where, notes)
    if len(ring) < 3 or Polygon(ring).convex_hull.area <= SPECK:
        raise notes.refusal(
            f"{where}: has an area of zero, starting at {notes.at(start)}. Give a polygon of some size.",
            start,
        )
    _remark(ring, where, notes, hole)
    return ring


def check_near(points: np.ndarray, where: str) -> None:
    """Refuse finite coordinates (n, 2) m beyond any map. Raises ScenarioError."""
    far = float(np.abs(points).max(initial=0.0))
    if far > FARTHEST:
        raise ScenarioError(f"{where}: a corner at {far:g} m: allowed are coordinates up to {FARTHEST:g} m. Is the unit metres?")


def without_repeats(points: np.ndarray, where: str, notes: Notes) -> np.ndarray:
    """Points (n, 2) m without those that repeat the one before."""
    fresh = np.r_[True, np.hypot(*np.diff(points, axis=0).T) > SAME]
    if not fresh.all():
        notes.add(NOTE, where, "repeated points", points[~fresh][0], (~fresh).sum(), "in all", "Taken once.")
    return points[fresh]


def _without_spikes(ring: np.ndarray, where: str, notes: Notes) -> np.ndarray:
    """The ring without the points where it goes back on itself."""
    while len(ring) >= 3:
        before, after = np.roll(ring, 1, 0) - ring, np.roll(ring, -1, 0) - ring
        one, other = np.hypot(*before.T), np.hypot(*after.T)
        aside = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) / np.maximum(one, other)
        back = np.flatnonzero((aside <= SPIKE) & ((before * after).sum(1) > 0))
        if not len(back):
            break
        tip = back[0]
        length = min(one[tip], other[tip])
        notes.add(WARNING, where, "a spike without area", ring[tip], length, "m long", "Taken out; draw a thin wall under walls.")
        ring = np.delete(ring, tip, 0)
        near = np.hypot(*(ring - np.roll(ring, 1, 0)).T) <= SAME
        ring = ring[~near] if near.any() else ring
    return ring


def _remark(ring: np.ndarray, where: str, notes: Notes, hole: bool) -> None:
    """Note what is odd but does no harm."""
    if not Polygon(ring).is_valid:
        return  # it is refused later, and neither its order nor its width means anything
    (x, y), (x_next, y_next) = ring.T, np.roll(ring, -1, 0).T
    area = float((x * y_next - x_next * y).sum()) / 2
    if (area < 0) != hole:
        notes.add(NOTE, where, f"points in {'counter-' if hole else ''}clockwise order", ring[0], repair="Turned round.")
    bare = {tuple(point) for point in shapely.get_coordinates(Polygon(ring).simplify(SAME)).tolist()}
    extra = [point for point in ring.tolist() if tuple(point) not in bare]
    if extra:
        notes.add(NOTE, where, "points on a straight edge", extra[0], len(extra), "in all", "Taken out: it is one wall.")
    edges = np.hypot(x_next - x, y_next - y)
    if (short := edges <= SHORT).any():
        first = int(np.argmin(edges))
        text = "a short edge" if short.sum() == 1 else f"{short.sum()} short edges, the shortest"
        notes.add(NOTE, where, text, ring[first], edges[first], "m", "Kept as it is.")
    width = 2 * abs(area) / float(edges.sum())
    if width <= SNAP:
        notes.add(WARNING, where, "a sliver", ring[0], width, "m wide", "Kept as it is. Is it meant?")
    elif abs(area) < SMALL:
        notes.add(NOTE, where, f"a small {'hole' if hole else 'polygon'}", ring[0], abs(area), "m²", "Kept as it is.")


def check_polygon(polygon: Polygon, where: str, notes: Notes) -> Polygon:
    """The polygon, less the origin. Raises ScenarioError where it crosses or touches itself."""
    if polygon.is_valid:
        return polygon
    reason = shapely.is_valid_reason(polygon)
    place = re.search(r"\[(\S+) (\S+)\]", reason)
    spot = (float(place[1]), float(place[2])) if place else tuple(polygon.exterior.coords[0])
    what = "crosses or touches itself" if "elf-intersection" in reason else f"is not a polygon ({reason.split('[')[0].lower()})"
    raise notes.refusal(
        f"{where}: the outline {what} at {notes.at(spot)}. Allowed is a ring without crossings: put the points in order round it.",
        spot,
    )
