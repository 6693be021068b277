"""Passages: where two walls come closest to each other, and how wide it is there."""

from typing import NamedTuple

import numpy as np
import shapely

from crowdlab.geometry.floors import Floor
from crowdlab.geometry.rings import SAME
from crowdlab.geometry.segments import features_near, wall_arrays

HAIR = 1e-6  # m, taken off both ends of a line from wall to wall, so that it touches neither; also half the width of a cut


class Passage(NamedTuple):
    """The shortest line from one wall to another, seen from one to the other."""

    line: np.ndarray  # (2, 2) m
    width: float  # m
    walls: tuple[int, int]  # connected walls that it joins, the lower number first


def narrow_passages(floor: Floor, radius: float) -> list[Passage]:
    """Every passage through which no body of `radius` m gets though there is room for it on both sides, the narrowest first."""
    found: list[Passage] = []
    for passage in sorted(_closest(floor, 2 * radius * (1 - 1e-6)), key=lambda one: one.width):
        line = shapely.LineString(passage.line)
        if any(one.walls == passage.walls and line.distance(shapely.LineString(one.line)) < 2 * radius for one in found):
            continue  # the same passage, measured at its other end
        if passage.walls[0] != passage.walls[1] or _divides(floor, line, radius):
            found.append(passage)
    return found


def _closest(floor: Floor, most: float) -> list[Passage]:
    """Lines up to `most` m from wall to wall that any shift of their ends makes longer."""
    arrays = wall_arrays(floor.walls)
    walls, vertices, rays, part = (arrays[name] for name in ("walls", "wall_vertices", "wall_directions", "wall_part"))
    many = len(walls)
    if not many:
        return []
    start, other = features_near(walls, vertices, vertices, most)
    here, corner = vertices[start], other >= many
    ends = walls[np.minimum(other, many - 1)]
    along = ends[:, 1] - ends[:, 0]
    share = ((here - ends[:, 0]) * along).sum(1) / (along * along).sum(1)
    foot = np.where(corner[:, None], vertices[np.maximum(other - many, 0)], ends[:, 0] + share[:, None] * along)
    way = foot - here
    width = np.hypot(*way.T)
    unit = way / np.maximum(width, SAME)[:, None]
    nearest = ((rays[start] * unit[:, None]).sum(2) <= SAME).all(1)
    back = ((rays[np.maximum(other - many, 0)] * unit[:, None]).sum(2) >= -SAME).all(1) & (start < other - many)
    good = nearest & (width > SAME) & np.where(corner, back, (share > SAME) & (share < 1 - SAME))
    short = np.minimum(HAIR, width / 4)[:, None] * unit
    good[good] &= floor.inside((here + foot)[good] / 2) & ~floor.blocked((here + short)[good], (foot - short)[good])
    pairs = np.sort(np.stack([part[many + start], part[other]], 1), axis=1)
    return [
        Passage(np.array([here[i], foot[i]]), float(width[i]), (int(pairs[i, 0]), int(pairs[i, 1]))) for i in np.flatnonzero(good)
    ]


def _divides(floor: Floor, line: shapely.LineString, radius: float) -> bool:
    """Whether there is room for bodies on both sides of a line between two places of one connected wall: else it closes a niche."""
    walls = shapely.MultiLineString(list(floor.walls)).buffer(HAIR)
    cut = shapely.difference(floor.area, shapely.union(walls, line.buffer(2 * HAIR)))
    sides = [side for side in shapely.get_parts(cut) if side.distance(line) < 10 * HAIR]
    free = floor.free(radius)
    return sum(side.intersects(free) for side in sides) >= 2
