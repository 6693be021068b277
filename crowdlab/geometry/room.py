"""The room that a body of one radius has on a floor: where its centre may be, the corners it bends round, and what it sees from there."""

import dataclasses
import math

import numpy as np
import shapely

from crowdlab.geometry.areas import Area
from crowdlab.geometry.floors import Floor

SLACK = 0.02  # of the radius, by which a line of sight may come nearer to a wall than the radius
TIGHT = 0.1  # of the radius: doors that are narrower than the body by less than this are looked at one by one
SQUARE = 4.0  # radii, side of the squares that know which walls are near
TOGETHER = 20_000  # lines that are looked at together
ASIDE = 0.08  # radii, by which ways keep farther off corners than they must
SURE = 1e-6  # m; a line may end on a wall
LEAST = 1e-5  # of the radius; the slack where a door is narrower than the body by a hair


@dataclasses.dataclass(frozen=True, eq=False)
class Room:
    """Free space of a disc as a polygon. What is joined in it is joined in the exact free space, and the other way round."""

    radius: float  # m
    free: Area  # m, where the centre may be; round corners are drawn by chords
    corners: np.ndarray  # (V, 2) m, where a shortest way may bend
    tight: bool  # whether some door is too narrow by a little, so that no short step may be taken for granted
    edges: np.ndarray  # (E, 2, 2) m, outline of `free`
    tree: shapely.STRtree  # of the edges
    blocks: np.ndarray  # (W, 2, 2) m, walls, and then the openings of exits, through which no way goes on
    keep: np.ndarray  # (W,) m, how far a line of sight stays off each of them
    lower: np.ndarray  # (2,) m, corner of a raster of squares
    square: float  # m
    shape: tuple[int, int]  # columns, rows
    first: np.ndarray  # (columns * rows + 1,) where the blocks of each square begin
    near: np.ndarray  # (L,) which blocks a line through the square may meet

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Whether each of (n, 2) points m is free, (n,) bool."""
        return np.asarray(shapely.intersects_xy(self.free, points[:, 0], points[:, 1]))

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The nearest place (n, 2) m on the outline of the free space."""
        index = self.tree.query_nearest(shapely.points(points), all_matches=False)[1]
        start, along = self.edges[index, 0], self.edges[index, 1] - self.edges[index, 0]
        square = np.maximum((along**2).sum(1), 1e-24)
        return np.asarray(start + along * np.clip(((points - start) * along).sum(1) / square, 0.0, 1.0)[:, None])

    def sight(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether the body can walk straight from each start, a free place, to its end, (n,) bool."""
        result = np.ones(len(starts), bool)
        for some in range(0, len(starts), TOGETHER):
            part = slice(some, some + TOGETHER)
            result[part] = self._sight(starts[part], ends[part])
        return result

    def _sight(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        along = ends - starts
        length = np.hypot(*along.T)
        count = np.ceil(length / self.square).astype(int) + 1
        line = np.repeat(np.arange(len(starts)), count)
        share = (np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)) / np.maximum(count[line] - 1, 1)
        spot = starts[line] + share[:, None] * along[line]
        column, row = np.clip(((spot - self.lower) / self.square).astype(int), 0, np.array(self.shape) - 1).T
        cell = row * self.shape[0] + column
        many = self.first[cell + 1] - self.first[cell]
        line = np.repeat(line, many)
        turn = np.arange(len(line)) - np.repeat(np.cumsum(many) - many, many)
        block = self.near[np.repeat(self.first[cell], many) + turn]
        hit = _meets(starts[line], along[line], np.maximum(length, 1e-12)[line], self.blocks[block], self.keep[block])
        result = np.ones(len(starts), bool)
        result[line[hit]] = False
        return result


def _meets(start: np.ndarray, along: np.ndarray, length: np.ndarray, blocks: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Whether lines cross blocks (n, 2, 2) m or pass their ends nearer than `keep` m, (n,) bool; the lines' own ends are free."""
    unit_x, unit_y = along[:, 0] / length, along[:, 1] / length
    sides, hit = [], np.zeros(len(start), bool)
    for end in (0, 1):
        x, y = blocks[:, end, 0] - start[:, 0], blocks[:, end, 1] - start[:, 1]
        ahead, aside = x * unit_x + y * unit_y, unit_x * y - unit_y * x
        hit |= (aside**2 < keep**2) & (ahead > 0) & (ahead < length)
        sides.append((ahead, aside))
    (before, left), (after, right) = sides
    split = (left < 0) != (right < 0)
    share = left / np.where(split, left - right, 1.0)
    place = before + share * (after - before)
    return hit | (split & (place > SURE) & (place < length - SURE))


def room_for(floor: Floor, radius: float) -> Room | None:
    """The room for a disc of `radius` m; None where it fits nowhere."""
    exact = floor.free(radius)
    if exact.is_empty:
        return None
    tight = not _alike(exact, floor.free(radius * (1 - TIGHT)))
    slack = SLACK
    while tight and slack > LEAST and not _alike(exact, floor.free(radius * (1 - slack))):
        slack /= 4
    free = exact.simplify(0.4 * slack * radius)
    shapely.prepare(free)
    rings = [ring for part in shapely.get_parts(shapely.orient_polygons(free)) for ring in (part.exterior, *part.interiors)]
    loops = [shapely.get_coordinates(ring)[:-1] for ring in rings]
    edges = np.concatenate([np.stack([loop, np.roll(loop, -1, 0)], 1) for loop in loops])
    blocks = np.concatenate([floor.walls, *(opening[None] for opening in floor.openings)])
    keep = np.where(np.arange(len(blocks)) < len(floor.walls), radius * (1 - slack), 0.0)
    lower, square, shape, first, near = _squares(floor, blocks, radius)
    room = Room(
        radius=radius,
        free=free,
        corners=np.empty((0, 2)),
        tight=tight,
        edges=edges,
        tree=shapely.STRtree(shapely.linestrings(edges)),
        blocks=blocks,
        keep=keep,
        lower=lower,
        square=square,
        shape=shape,
        first=first,
        near=near,
    )
    return dataclasses.replace(room, corners=_clear_corners(room, np.concatenate([_bends(loop) for loop in loops])))


def _squares(floor: Floor, blocks: np.ndarray, radius: float) -> tuple[np.ndarray, float, tuple[int, int], np.ndarray, np.ndarray]:
    """Room.lower, square, shape, first and near: what a line may meet that passes through a square."""
    square = SQUARE * radius
    left, bottom, right, top = floor.area.bounds
    lower, upper = np.array([left, bottom]) - radius, np.array([right, top]) + radius
    columns, rows = np.ceil((upper - lower) / square).astype(int)
    x, y = np.meshgrid(lower[0] + (np.arange(columns) + 0.5) * square, lower[1] + (np.arange(rows) + 0.5) * square)
    # Lines are looked at in steps of a square: half a step to the next look, and the half diagonal from there to the middle.
    reach = (0.5 + math.sqrt(0.5)) * square + radius
    tree = shapely.STRtree(shapely.linestrings(blocks))
    cell, near = tree.query(shapely.points(x.ravel(), y.ravel()), predicate="dwithin", distance=reach)
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], np.arange(columns * rows + 1))
    return lower, square, (int(columns), int(rows)), first, near[order]


def alike(floor: Floor, radii: np.ndarray) -> list[np.ndarray]:
    """The radii (n,) m sorted and cut into as few sizes as will do: between people of one size no door is open to some only."""
    found: list[np.ndarray] = []
    rest = [np.sort(radii)]
    while rest:
        some = rest.pop()
        if some[0] == some[-1] or _alike(floor.free(float(some[0])), floor.free(float(some[-1]))):
            if found and _alike(floor.free(float(found[-1][0])), floor.free(float(some[-1]))):
                some = np.concatenate([found.pop(), some])
            found.append(some)
        else:
            middle = np.unique(some)[len(np.unique(some)) // 2]
            rest += [some[some >= middle], some[some < middle]]
    return found


def _alike(one: Area, other: Area) -> bool:
    """Whether two free spaces, one in the other, have as many parts and as many holes."""
    counts = [(len(parts), int(shapely.get_num_interior_rings(parts).sum())) for parts in map(shapely.get_parts, (one, other))]
    return counts[0] == counts[1]


def _bends(loop: np.ndarray) -> np.ndarray:
    """Corners (n, 2) m of a ring that point into the area, which lies on its left, and (n, 2) the unit vectors they point along."""
    before, after = loop - np.roll(loop, 1, 0), np.roll(loop, -1, 0) - loop
    before, after = (along / np.hypot(*along.T)[:, None] for along in (before, after))
    bends = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0] < 0
    out = (before - after)[bends]
    return np.stack([loop[bends], out / np.maximum(np.hypot(*out.T)[:, None], 1e-12)], 1)


def _clear_corners(room: Room, bends: np.ndarray) -> np.ndarray:
    """Corners (V, 2) m a little farther off the wall where there is room, so that ways drawn by chords keep their distance."""
    corners, away = bends[:, 0], bends[:, 1]
    moved = corners + ASIDE * room.radius * away
    roomy = room.inside(moved) & room.sight(corners, moved)
    return np.where(roomy[:, None], moved, corners)
