"""Walls that are there at times: doors that close. However many stand, the arrays have the same shapes."""

from collections.abc import Sequence

import numpy as np
import shapely
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdlab.geometry.rings import SAME

AWAY = 10_000.0  # m, where the walls of open doors wait
ON_LINE = 1e-6  # m


def distances(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How far each of (n, 2) points is from the nearest of (E, 2, 2) edges, (n,) m."""
    return np.asarray(shapely.distance(shapely.points(points), shapely.MultiLineString(list(edges))))


def which_door(walls: np.ndarray, fixed: np.ndarray, doors: Sequence[np.ndarray]) -> np.ndarray:
    """The number of the door, edges (E, 2, 2) m, that each wall of (W, 2, 2) m belongs to, -1 for a wall that always stands."""
    middle = walls.mean(1)
    owner = np.full(len(walls), -1)
    for number, edges in enumerate(doors):
        owner[distances(middle, edges) < ON_LINE] = number
    if len(fixed):
        owner[distances(middle, fixed) < ON_LINE] = -1
    return owner


def standing(arrays: dict[str, np.ndarray], stands: np.ndarray) -> dict[str, np.ndarray]:
    """Wall arrays in which only some walls stand, (W,) bool: the others wait far away and push nobody. Same shapes."""
    walls, vertices, count = arrays["walls"].copy(), arrays["wall_vertices"].copy(), len(arrays["wall_vertices"])
    number = {tuple(vertex): index for index, vertex in enumerate(vertices)}  # walls end at exactly these points
    pairs = np.array([[number[tuple(end)] for end in wall] for wall in walls], int).reshape(-1, 2)
    used = np.zeros(count, bool)
    used[pairs[stands].ravel()] = True
    walls[~stands] += AWAY
    vertices[~used] += AWAY
    along = walls[:, 1] - walls[:, 0]
    along = along / np.maximum(np.hypot(*along.T)[:, None], SAME)
    directions, filled = np.zeros_like(arrays["wall_directions"]), np.zeros(count, int)
    for wall in np.flatnonzero(stands):
        for vertex, ray in zip(pairs[wall], (along[wall], -along[wall]), strict=True):
            directions[vertex, filled[vertex]] = ray
            filled[vertex] += 1
    met = pairs[stands]
    part = connected_components(coo_array((np.ones(len(met)), (met[:, 0], met[:, 1])), shape=(count, count)), directed=False)[1]
    return {
        "walls": walls,
        "wall_vertices": vertices,
        "wall_directions": directions,
        "wall_part": np.concatenate([part[pairs[:, 0]], part]).astype(np.int32),
    }
