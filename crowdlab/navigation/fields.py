"""Host half: the travel time from everywhere to each goal, and the direction in which it falls fastest.

On a raster of nodes an eikonal equation is solved by fast sweeping. Near walls the walking speed is lowered smoothly,
so that ways keep clear of corners; it never falls to zero, so that a narrow door which the exact polygon admits stays passable.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import distance_transform_edt

from crowdlab.geometry import Floor
from crowdlab.navigation.sight import Aim, in_sight, nearest_points
from crowdlab.navigation.sweeping import travel_times

FINEST = 0.1  # m, usual spacing of the nodes
NODES, ALL_NODES = 2_000_000, 8_000_000  # most nodes for one goal and for all together (12 bytes each)
AT_ONCE = 2_000_000  # nodes times goals that are worked on together, 100 bytes each or so
SLOWEST = 0.1  # share of the walking speed right at a wall; full speed from one radius on
SOURCE = 3.0  # cells round a goal within which distances are exact: upwind differences are poor at a point source


@dataclasses.dataclass(frozen=True, eq=False)
class _Raster:
    """What all goals of a floor share."""

    floor: Floor
    cell: float  # m
    nodes: np.ndarray  # (rows, columns, 2) m
    trusted: np.ndarray  # (rows, columns) bool: in the area and not too near a wall
    speed: np.ndarray  # (rows, columns) share of the walking speed
    back: np.ndarray  # (rows, columns) flat index of the trusted node to return to; itself for a trusted node


def choose_cell(size: tuple[float, float], goals: int, radius: float) -> float:
    """Spacing of the nodes, m: 0.1, or less for people thinner than 0.14 m, whose doors are narrower.

    Coarser where a huge plan or very many goals would need more memory than about 100 MB; then doors narrower than 2.8 cells may
    close, which is found and refused at the start, and ways along thin walls lose their guarantee (see lookup).
    """
    cell = min(FINEST, radius / math.sqrt(2))
    most = min(NODES, ALL_NODES / max(goals, 1))
    return max(cell, math.sqrt(size[0] * size[1] / most))


def pad_goals(goals: Sequence[np.ndarray]) -> np.ndarray:
    """Edges of all goals (G, E, 2, 2) m, padded by edges of no length in the middle of the last one: they change no distance,
    no crossing and no inside.
    """
    most = max((len(edges) for edges in goals), default=1)
    padded = np.empty((len(goals), most, 2, 2))
    for edges, row in zip(goals, padded, strict=True):
        row[: len(edges)] = edges
        row[len(edges) :] = edges[-1].mean(0)
    return padded


def ways(
    floor: Floor,
    goals: Sequence[np.ndarray],
    leaves: Sequence[bool],
    *,
    lower: tuple[float, float],
    size: tuple[float, float],
    cell: float,
    radius: float,
    stoutest: float,
) -> np.ndarray:
    """World.ways (G, 3, rows, columns): unit vector towards each goal, and 1 where it is in plain sight for the stoutest body.

    `goals` are edges (E, 2, 2) m; ways keep the mean `radius` m off walls where there is room. Nodes outside the area or at
    a wall are marked -1 and point back to the nearest good node.
    """
    columns, rows = (max(2, math.ceil(extent / cell - 1e-9) + 1) for extent in size)
    if not goals:
        return np.zeros((0, 3, rows, columns), np.float32)
    x, y = lower[0] + cell * np.arange(columns), lower[1] + cell * np.arange(rows)
    raster = _lay_raster(floor, x, y, cell, radius)
    field = np.empty((len(goals), 3, rows, columns), np.float32)
    margins = [stoutest if leaving else 0.0 for leaving in leaves]
    together = max(1, AT_ONCE // (rows * columns))
    for first in range(0, len(goals), together):
        some = slice(first, first + together)
        field[some] = _ways(raster, goals[some], margins[some], stoutest)
    return field


def _ways(raster: _Raster, goals: Sequence[np.ndarray], margins: Sequence[float], stoutest: float) -> np.ndarray:
    """Ways to a few goals, (n, 3, rows, columns)."""
    shape, good = raster.trusted.shape, raster.trusted.ravel()
    points = raster.nodes.reshape(-1, 2)
    aims = [nearest_points(points, edges, margin) for edges, margin in zip(goals, margins, strict=True)]
    near = np.stack([np.hypot(*(aim.point - points).T).reshape(shape) for aim in aims])
    seen = np.zeros(near.shape, bool)
    for edges, margin, aim, mask in zip(goals, margins, aims, seen, strict=True):
        mask[raster.trusted] = in_sight(points[good], aim.of(good), edges, margin, raster.floor.walls, stoutest)
    # In plain sight the time is the distance: exact far from the goal too, and from there the sweeps go on round the corners.
    source = seen | np.stack([_source(raster, aim.point, distance) for aim, distance in zip(aims, near, strict=True)])
    times = travel_times(np.where(source, near, math.inf), raster.trusted, 1.0 / raster.speed, raster.cell)
    return np.stack([_way(raster, *one) for one in zip(aims, source, seen, times, strict=True)])


def _lay_raster(floor: Floor, x: np.ndarray, y: np.ndarray, cell: float, radius: float) -> _Raster:
    nodes = np.stack(np.meshgrid(x, y), -1)
    near = _wall_distance(floor.walls, x, y, max(radius, cell))
    inside = floor.inside(nodes.reshape(-1, 2)).reshape(near.shape)
    trusted = inside & (near > cell / math.sqrt(2))
    share = np.clip(near / radius, 0.0, 1.0)
    speed = np.maximum(SLOWEST, share**2)
    return _Raster(floor, cell, nodes, trusted, speed, _way_back(floor, nodes, trusted, inside))


def _wall_distance(walls: np.ndarray, x: np.ndarray, y: np.ndarray, most: float) -> np.ndarray:
    """Distance of every node to the nearest wall, (rows, columns) m, or `most` where it is farther."""
    near = np.full((len(y), len(x)), most)
    for start, end in walls:
        low, high = np.minimum(start, end) - most, np.maximum(start, end) + most
        columns = slice(*np.searchsorted(x, (low[0], high[0])))
        rows = slice(*np.searchsorted(y, (low[1], high[1])))
        across, up = x[columns] - start[0], (y[rows] - start[1])[:, None]
        along = end - start
        fraction = np.clip((across * along[0] + up * along[1]) / (along @ along), 0.0, 1.0)
        distance = np.hypot(across - fraction * along[0], up - fraction * along[1])
        near[rows, columns] = np.minimum(near[rows, columns], distance)
    return near


def _way_back(floor: Floor, nodes: np.ndarray, trusted: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """For every node the trusted node to go back to, as a flat index: the nearest one, for nodes inside the one on their side."""
    if not trusted.any():
        return np.arange(trusted.size).reshape(trusted.shape)
    row, column = distance_transform_edt(~trusted, return_distances=False, return_indices=True)
    back = row * trusted.shape[1] + column
    todo = np.argwhere(inside & ~trusted)
    steps = np.array([(i, j) for i in range(-3, 4) for j in range(-3, 4) if i or j])
    for step in steps[np.argsort((steps**2).sum(1), kind="stable")]:
        if not len(todo):
            break
        there = np.clip(todo + step, 0, np.array(trusted.shape) - 1)
        good = trusted[tuple(there.T)]
        good[good] = ~floor.blocked(nodes[tuple(todo[good].T)], nodes[tuple(there[good].T)])
        back[tuple(todo[good].T)] = there[good] @ (trusted.shape[1], 1)
        todo = todo[~good]
    return back


def _way(raster: _Raster, aim: Aim, source: np.ndarray, seen: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Way to one goal and where it is in sight, (3, rows, columns)."""
    shape = raster.trusted.shape
    points = raster.nodes.reshape(-1, 2)
    straight = (aim.point - points).T.reshape(2, *shape)
    way = np.where(source, straight, -_slope(time, raster.cell))
    length = np.hypot(*way)
    way = np.where(length > 1e-9, way / np.maximum(length, 1e-9), 0.0)
    good = np.isfinite(time)
    home = raster.back.ravel()
    push = (points[home] - points).T
    far = np.hypot(*push)
    push = np.where(far > 0, push / np.maximum(far, 1e-9), 0.0)
    back = (push + 0.5 * np.where(good, way, 0.0).reshape(2, -1)[:, home]).reshape(2, *shape)
    back /= np.maximum(np.hypot(*back), 1e-9)
    return np.stack([*np.where(good, way, back), np.where(good, seen, -1.0)])


def _source(raster: _Raster, aim: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Nodes whose travel time is the plain distance: close to the goal with no wall between; at least one if any will do."""
    result = np.zeros(distance.shape, bool)
    close = np.flatnonzero((raster.trusted & (distance < max(SOURCE * raster.cell, 1.0))).ravel())
    close = close[np.argsort(distance.ravel()[close], kind="stable")]
    start = raster.nodes.reshape(-1, 2)[close]
    # A goal may lie on a wall: the line of sight ends just before it.
    end = aim[close] + 1e-6 * (start - aim[close])
    clear = close[~raster.floor.blocked(start, end)]
    result.ravel()[clear[:1]] = True
    result.ravel()[clear[distance.ravel()[clear] < SOURCE * raster.cell]] = True
    return result


def _slope(time: np.ndarray, cell: float) -> np.ndarray:
    """Gradient (2, rows, columns), first x then y: central differences, one-sided beside what cannot be reached.

    On a crest, from where two ways round are equally long, the steeper side is taken: a mean would leave people standing there.
    """
    result = []
    for axis in (1, 0):
        ahead, behind = np.full((2, *time.shape), math.nan)
        low, high = (slice(None), slice(None, -1)), (slice(None), slice(1, None))
        if axis == 0:
            low, high = low[::-1], high[::-1]
        both = np.isfinite(time[low]) & np.isfinite(time[high])
        ahead[low] = np.where(both, np.where(both, time[high], 0.0) - np.where(both, time[low], 0.0), math.nan)
        behind[high] = ahead[low]
        count = np.isfinite(ahead).astype(int) + np.isfinite(behind)
        mean = (np.nan_to_num(ahead) + np.nan_to_num(behind)) / np.maximum(count, 1)
        crest = (behind > 0) & (ahead < 0)
        steeper = np.where(-ahead >= behind, ahead, behind)
        result.append(np.where(crest, steeper, mean) / cell)
    return np.stack(result)
