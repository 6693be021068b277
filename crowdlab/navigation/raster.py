"""The raster that all goals of a floor share for bodies of one size: nodes, walls near them, and who is next to whom."""

import dataclasses
import math

import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from crowdlab.geometry import Floor, Room, crosses, room_for
from crowdlab.navigation.wavefront import CLOSE, RING, Graph

NARROWEST = 0.7  # cells; between two neighbours that are free nothing lies for a body with a larger radius
NEAR_STEP = 0.85  # radii; free places nearer than this are on one side of every door that is much too narrow


@dataclasses.dataclass(frozen=True, eq=False)
class Raster:
    """What all goals of a floor share."""

    floor: Floor
    cell: float  # m
    nodes: np.ndarray  # (rows, columns, 2) m
    trusted: np.ndarray  # (rows, columns) bool: in the area and not too near a wall
    graph: Graph | None  # None where the body fits nowhere
    back: np.ndarray  # (rows, columns) flat index of the trusted node to return to; itself for a trusted node


def lay_raster(floor: Floor, x: np.ndarray, y: np.ndarray, cell: float, radius: float) -> Raster:
    """Nodes at the crossings of x (columns,) and y (rows,) m, `cell` m apart, for a body of `radius` m."""
    nodes = np.stack(np.meshgrid(x, y), -1)
    near = _wall_distance(floor.walls, x, y, radius + 2 * cell)
    inside = floor.inside(nodes.reshape(-1, 2)).reshape(near.shape)
    trusted = inside & (near > cell / math.sqrt(2))
    room = room_for(floor, radius)
    blocks = np.concatenate([floor.walls, *(opening[None] for opening in floor.openings)])  # no way goes on through an exit
    clear = _wall_distance(blocks, x, y, radius + 2 * cell) >= radius + cell / math.sqrt(2)
    graph = None if room is None else _join(floor, room, nodes, np.where(trusted, near, -1.0), clear, cell)
    return Raster(floor, cell, nodes, trusted, graph, _way_back(floor, nodes, trusted, inside))


def _join(floor: Floor, room: Room, nodes: np.ndarray, near: np.ndarray, clear: np.ndarray, cell: float) -> Graph:
    """Which places are next to each other for a body; `near` (rows, columns) m is the distance to a wall, negative where not trusted.

    Between nodes that are `clear` (rows, columns) and next to each other nothing stands.
    """
    points, columns = nodes.reshape(-1, 2), near.shape[1]
    good, plain = near.ravel() > 0, near.ravel() >= room.radius
    places = points.copy()
    pressed = np.flatnonzero(good & ~plain)
    free = room.inside(points[pressed])
    plain[pressed[free]] = True
    pressed = pressed[~free]
    places[pressed] = room.nearest(points[pressed])
    good[pressed[floor.blocked(points[pressed], places[pressed])]] = False
    ring = _ring(floor, room, places, good.reshape(near.shape), clear, cell)
    places = np.concatenate([places, room.corners])
    one, other = _links(room, nodes[0, 0], good.reshape(near.shape), cell)
    keep = room.sight(places[one], places[other])
    one, other = np.concatenate([one[keep], other[keep]]), np.concatenate([other[keep], one[keep]])
    order = np.lexsort((other, one))
    first = np.searchsorted(one[order], np.arange(len(places) + 1))
    corners = len(room.corners)
    return Graph(
        room=room,
        columns=columns,
        places=places,
        plain=np.pad(plain, (0, corners)),
        joined=np.pad(ring, ((0, 0), (0, corners))),
        first=first,
        links=other[order],
        corners=corners,
        sound=room.radius >= NARROWEST * cell,
    )


def _ring(floor: Floor, room: Room, places: np.ndarray, good: np.ndarray, clear: np.ndarray, cell: float) -> np.ndarray:
    """Whether each node can step to each of its eight neighbours, (8, nodes) bool; `clear` ones are too far from walls to be asked."""
    rows, columns = good.shape
    good, clear = good.ravel(), clear.ravel()
    joined = np.zeros((8, len(good)), bool)
    number = np.arange(len(good)).reshape(rows, columns)
    short = 0.0 if room.tight else min(2 * cell, NEAR_STEP * room.radius)
    for way, (row, column) in enumerate(RING[:4]):
        here = number[max(0, -row) : rows - row, max(0, -column) : columns - max(0, column)].ravel()
        there = here + row * columns + column
        both = good[here] & good[there]
        here, there = here[both], there[both]
        free = clear[here] & clear[there]
        asked = np.flatnonzero(~free)
        one, other = places[here[asked]], places[there[asked]]
        step = np.hypot(*(other - one).T) < short
        step[~step] = room.sight(one[~step], other[~step])
        # A short step is no way round a wall, but it may be one through an exit, which keeps nobody off.
        free[asked] = step & ~crosses(one, other, np.reshape(floor.openings, (-1, 2, 2)))
        joined[way, here[free]] = True
        joined[way + 4, there[free]] = True
    return joined


def _links(room: Room, lower: np.ndarray, good: np.ndarray, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of corners and nodes, and of corners, that are close, as numbers of places."""
    rows, columns = good.shape
    reach = math.ceil(CLOSE)
    steps = np.array([(i, j) for i in range(-reach, reach + 2) for j in range(-reach, reach + 2)])
    corner = np.repeat(np.arange(len(room.corners)), len(steps))
    column, row = (np.floor((room.corners[corner] - lower) / cell).astype(int) + np.tile(steps, (len(room.corners), 1))).T
    gap = room.corners[corner] - lower - cell * np.stack([column, row], 1)
    near = (np.hypot(*gap.T) <= CLOSE * cell) & (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
    near[near] = good[row[near], column[near]]
    pairs = cKDTree(room.corners).query_pairs(CLOSE * cell, output_type="ndarray") if len(room.corners) else np.empty((0, 2), int)
    one = np.concatenate([corner[near], pairs[:, 0]]) + good.size
    return one, np.concatenate([row[near] * columns + column[near], pairs[:, 1] + good.size])


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
