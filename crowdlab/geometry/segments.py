"""Walls as segments that meet at common vertices, in the form the compiled step wants."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from crowdlab.geometry.rings import SAME, SNAP

CLOSE = 3 * SAME  # m, points this near after rounding may have been one


def wall_arrays(segments: Any, box: tuple[Sequence[float], Sequence[float]] | None = None) -> dict[str, np.ndarray]:
    """Walls as state.World wants them: walls (W, 2, 2), wall_vertices (V, 2), wall_directions (V, D, 2), wall_part (W + V,).

    Segments are cut where another one meets or crosses them; duplicates and segments of no length go. The result does not depend on
    the order or the direction of the segments, so a polygon gives the same walls clockwise and counter-clockwise. In a periodic `box`,
    its corner and its size in m, they come with all copies that reach into the box or less than a period beyond it.
    """
    segments = np.asarray(segments, float).reshape(-1, 2, 2)
    pieces = _split(np.round(segments if box is None else _copies(segments, *map(np.asarray, box)), 9))
    points = pieces.reshape(-1, 2)
    if len(points):
        close = cKDTree(points).query_pairs(CLOSE, output_type="ndarray")
        graph = coo_array((np.ones(len(close)), (close[:, 0], close[:, 1])), shape=(len(points),) * 2)
        label = connected_components(graph, directed=False)[1]
        order = np.lexsort((points[:, 1], points[:, 0]))
        first = order[np.unique(label[order], return_index=True)[1]]  # lexicographically smallest member of each cluster
        rank = np.argsort(np.lexsort((points[first, 1], points[first, 0])))
        vertices = points[first][np.argsort(rank)]
        pairs = np.sort(rank[label].reshape(-1, 2), axis=1)
        pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
        used, renumbered = np.unique(pairs, return_inverse=True)
        vertices, pairs = vertices[used], renumbered.reshape(-1, 2)
    else:
        vertices, pairs = np.empty((0, 2)), np.empty((0, 2), int)
    walls = vertices[pairs].reshape(-1, 2, 2)
    along = walls[:, 1] - walls[:, 0]
    along = along / np.hypot(along[:, 0], along[:, 1])[:, None]
    rays: list[list[np.ndarray]] = [[] for _ in vertices]
    for (start, end), unit in zip(pairs, along, strict=True):
        rays[start].append(unit)
        rays[end].append(-unit)
    directions = np.zeros((len(vertices), max(map(len, rays), default=1), 2))
    for ray, row in zip(rays, directions, strict=True):
        row[: len(ray)] = ray
    met = pairs if box is None else np.concatenate([pairs, _copied(vertices, *map(np.asarray, box))])
    joined = coo_array((np.ones(len(met)), (met[:, 0], met[:, 1])), shape=(len(vertices),) * 2)
    part = connected_components(joined, directed=False)[1] if len(vertices) else np.empty(0, int)
    parts = np.concatenate([part[pairs[:, 0]], part]).astype(np.int32)
    return {"walls": walls, "wall_vertices": vertices, "wall_directions": directions, "wall_part": parts}


def _copies(segments: np.ndarray, lower: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Segments (W, 2, 2) m and all their copies, shifted by whole sizes of the box, that reach into the box or one size beyond it."""
    first = np.ceil((lower - size - segments.max(1)) / size).astype(int)
    last = np.floor((lower + 2 * size - segments.min(1)) / size).astype(int)
    copies = [
        segment + size * (column, row)
        for segment, (left, bottom), (right, top) in zip(segments, first, last, strict=True)
        for column in range(left, right + 1)
        for row in range(bottom, top + 1)
    ]
    return np.array(copies).reshape(-1, 2, 2)


def _copied(vertices: np.ndarray, lower: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Pairs (P, 2) of vertices that are copies of each other: what is one wall round the box is one wall everywhere."""
    inside = np.mod(vertices - lower, size)
    inside[inside >= size] = 0.0  # a tiny negative is rounded up to the size
    pairs: np.ndarray = cKDTree(inside, boxsize=size).query_pairs(CLOSE, output_type="ndarray")
    return pairs


def features_near(walls: np.ndarray, vertices: np.ndarray, places: np.ndarray, distance: float) -> np.ndarray:
    """Pairs (2, E) of a place and a wall, or W + a vertex, within `distance` m of it; places (P, 2) m."""
    tree = shapely.STRtree(np.concatenate([shapely.linestrings(walls), shapely.points(vertices)]))
    pairs: np.ndarray = tree.query(shapely.points(places), predicate="dwithin", distance=distance)
    return pairs


def _split(segments: np.ndarray) -> np.ndarray:
    """Segments cut wherever an end or a crossing of another one lies on them, (W, 2, 2) m."""
    segments = segments[np.hypot(*(segments[:, 1] - segments[:, 0]).T) > CLOSE]
    if not len(segments):
        return segments
    lines = shapely.linestrings(segments)
    tree = shapely.STRtree(lines)
    one, other = tree.query(lines, predicate="crosses")
    crossings = shapely.get_coordinates(shapely.intersection(lines[one], lines[other]))
    points = np.concatenate([segments.reshape(-1, 2), crossings])
    point, line = tree.query(shapely.points(points), predicate="dwithin", distance=CLOSE)
    start = segments[line, 0]
    along = segments[line, 1] - start
    fraction = np.sum((points[point] - start) * along, 1) / np.sum(along * along, 1)
    margin = CLOSE / np.hypot(along[:, 0], along[:, 1])
    inner = (fraction > margin) & (fraction < 1 - margin)
    pieces = []
    for number, (first, last) in enumerate(segments):
        mine = inner & (line == number)
        stops = points[point[mine]][np.argsort(fraction[mine], kind="stable")]
        chain = np.concatenate([[first], stops, [last]])
        pieces.append(np.stack([chain[:-1], chain[1:]], 1))
    return np.concatenate(pieces)


def open_exits(segments: np.ndarray, edges: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Segments (W, 2, 2) m less what lies on an exit's edges, and the stretches (2, 2) m that were opened."""
    openings = []
    for edge in edges:
        kept = []
        for start, end in segments:
            length = math.hypot(*(end - start))
            along = (end - start) / max(length, SAME)
            offset = edge - start
            aside = np.abs(offset @ np.array([-along[1], along[0]]))
            first, last = np.clip(sorted(offset @ along), 0.0, length)
            if length <= SAME or aside.max() > SNAP or last - first <= 1e-6:
                kept.append((start, end))
                continue
            openings.append(np.array([start + first * along, start + last * along]))
            kept += [(start, start + first * along)] if first > SAME else []
            kept += [(start + last * along, end)] if length - last > SAME else []
        segments = np.array(kept).reshape(-1, 2, 2)
    return segments, openings
