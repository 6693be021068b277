"""Walls that are there at times: doors that close. However many stand, the arrays have the same shapes."""

from collections.abc import Mapping, Sequence

import numpy as np
import shapely
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crowdlab.geometry.areas import Area
from crowdlab.geometry.floors import Floor, check_place
from crowdlab.geometry.notes import NOTE, Notes
from crowdlab.geometry.rings import SAME, SNAP

AWAY = 10_000.0  # m, where the walls of open doors wait
ON_LINE = 1e-6  # m
SHORT = 2.5 * SNAP  # m; less of a door than this is none of it
ALONG = 10 * SNAP  # m, what two lines have in common at least where one lies on the other, and does not cross it


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


def lying_on(edges: np.ndarray, doors: np.ndarray) -> np.ndarray:
    """Which of the edges (D, 2, 2) m of doors lie on edges (E, 2, 2) m, at least with a part of them, (D,) bool."""
    if not len(doors):
        return np.zeros(0, bool)
    strip = shapely.union_all(shapely.linestrings(edges)).buffer(SNAP, cap_style="flat")
    return np.asarray(shapely.length(shapely.intersection(shapely.linestrings(doors), strip)) > ALONG)


def left_open(edges: np.ndarray, doors: np.ndarray) -> list[np.ndarray]:
    """What edges (D, 2, 2) m of closed doors leave open of edges (E, 2, 2) m, as edges of each stretch without a break."""
    strip = shapely.union_all(shapely.linestrings(doors[lying_on(edges, doors)])).buffer(SNAP, cap_style="flat")
    rest = shapely.union_all(shapely.difference(shapely.linestrings(edges), strip))
    merged = shapely.line_merge(rest) if rest.geom_type == "MultiLineString" else rest
    stretches = [shapely.get_coordinates(part) for part in shapely.get_parts(merged)]
    return [np.stack([points[:-1], points[1:]], 1) for points in stretches if len(points) > 1]


def crosses(starts: np.ndarray, ends: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Whether the straight line from each start to its end, (n, 2) m, meets any of the edges (E, 2, 2) m, (n,) bool."""
    lines, other = shapely.linestrings(np.stack([starts, ends], 1)), shapely.MultiLineString(list(edges))
    shapely.prepare(other)
    return np.asarray(shapely.intersects(other, lines))


def check_door(floor: Floor, edges: np.ndarray, others: Mapping[str, np.ndarray], where: str, notes: Notes) -> None:
    """Note a door, edges (E, 2, 2) m, that reaches out. Raises ScenarioError for one that shuts nothing or lies on another one."""
    line, spot = shapely.union_all(shapely.linestrings(edges)), edges[0].mean(0)
    out = shapely.difference(line, floor.area.buffer(SHORT))
    if line.length - out.length <= SHORT:
        check_place(floor, line, f"{where}.line")
    for name, other in others.items():
        if lying_on(other, edges).any():
            shared = edges[lying_on(other, edges)][0].mean(0)
            raise notes.refusal(
                f"{where}.line: at {notes.at(shared)} it lies on door {name}. Give one door the times of both, or draw them apart.",
                shared,
            )
    if len(floor.walls):
        walls = shapely.MultiLineString(list(floor.walls)).buffer(SHORT / 2, cap_style="flat")
        if shapely.difference(line, walls).length - out.length <= SHORT:
            raise notes.refusal(f"{where}.line: lies on a wall, at {notes.at(spot)}. Draw it across a gap, or along an exit.", spot)
    if out.length > SHORT:
        spot = shapely.get_coordinates(out)[0]
        notes.add(NOTE, where, "reaches out of the walkable area", spot, out.length, "m", "Kept: closed it is a wall there too.")


def first_parted(points: np.ndarray, edges: np.ndarray) -> int | None:
    """The first of places (n, 2) m from which the straight way to the next one meets edges (E, 2, 2) m; None without one."""
    legs = shapely.linestrings(np.stack([points[:-1], points[1:]], 1))
    met = np.flatnonzero(shapely.intersects(legs, shapely.MultiLineString(list(edges))))
    return int(met[0]) if len(met) else None


def cut_at(area: Area, edges: np.ndarray) -> np.ndarray | None:
    """A place (2,) m where edges (E, 2, 2) m cut an area, not just touch its outline; None without one."""
    cut = shapely.intersection(shapely.MultiLineString(list(edges)), area.buffer(-SNAP))
    return None if cut.is_empty else np.asarray(cut.interpolate(0.5, normalized=True).coords[0])


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
