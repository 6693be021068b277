"""Voronoi cells: the part of a floor that is nearer to one person than to any other (host)."""

import math

import numpy as np
import shapely
from scipy.spatial import Voronoi

from crowdlab.geometry.areas import Area

BEYOND = 10.0  # sizes of the floor, how far the points stand that close the outermost cells: their bisectors fall outside it
ROUND = 16  # straight pieces of a quarter of a circle that cuts a cell


def voronoi_cells(points: np.ndarray, area: Area | None, reach: float = math.inf) -> np.ndarray:
    """Cells (n,) of points (n, 2) m: polygons of what is nearest to each, in the area and at most `reach` m away.

    Where walls cut a cell into pieces, its point keeps the one it stands in. Points on one spot have the same cell. Without an area the
    reach must be finite. The cut by a reach follows Steffen & Seyfried, Physica A 389 (2010) 1902.
    """
    return _cut(_whole(points, area, reach), points, area, reach)


def cells_meeting(points: np.ndarray, area: Area | None, reach: float, region: Area) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (k,) of the points whose cells share some of a region, the sizes (k,) m² of these cells, and how much is shared (k,) m².

    As `voronoi_cells`, but only what may reach the region is cut to the floor, which takes most of the time.
    """
    whole = _whole(points, area, reach)
    rows = np.flatnonzero(shapely.intersects(whole, region))
    cells = _cut(whole[rows], points[rows], area, reach)
    shared = shapely.area(shapely.intersection(cells, region))
    return rows[shared > 0], shapely.area(cells)[shared > 0], shared[shared > 0]


def free_areas(area: Area | None, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How much of each rectangle between the edges x (C + 1,) and y (R + 1,) m lies in the area, (R, C) m²."""
    left, bottom = np.meshgrid(x[:-1], y[:-1])
    right, top = np.meshgrid(x[1:], y[1:])
    boxes = shapely.box(left, bottom, right, top)
    return np.asarray(shapely.area(boxes if area is None else shapely.intersection(boxes, area)))


def _whole(points: np.ndarray, area: Area | None, reach: float) -> np.ndarray:
    """Convex cells (n,) without walls and reach, closed far outside."""
    if not len(points):
        return np.empty(0, object)
    places, spot = np.unique(points, axis=0, return_inverse=True)
    corners = places if area is None else np.concatenate([places, np.reshape(area.bounds, (2, 2))])
    centre = (corners.min(0) + corners.max(0)) / 2
    far = BEYOND * (np.ptp(corners, 0).max() + (reach if math.isfinite(reach) else 0.0) + 1.0)
    fence = far * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    found = Voronoi(np.concatenate([places - centre, fence]))
    regions = [found.regions[number] for number in found.point_region[: len(places)]]
    of = np.repeat(np.arange(len(places)), [len(region) for region in regions])
    # A cell is convex: its hull puts the corners in order and drops those that came twice.
    cells = shapely.convex_hull(shapely.multipoints(found.vertices[np.concatenate(regions)] + centre, indices=of))
    return np.asarray(cells)[spot.reshape(-1)]


def _cut(cells: np.ndarray, points: np.ndarray, area: Area | None, reach: float) -> np.ndarray:
    if math.isfinite(reach):
        cells = shapely.intersection(cells, shapely.buffer(shapely.points(points), reach, quad_segs=ROUND))
    if area is None:
        return cells
    shapely.prepare(area)
    across = np.flatnonzero(~shapely.covers(area, cells))
    cells = np.array(cells, object)
    cells[across] = shapely.intersection(cells[across], area)
    for row in across[shapely.get_num_geometries(cells[across]) > 1]:
        parts = shapely.get_parts(cells[row])
        cells[row] = parts[np.argmin(shapely.distance(parts, shapely.points(points[row])))]
    return cells
