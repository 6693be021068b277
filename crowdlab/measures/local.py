"""Density and speed in a region and on a grid."""

import math
from typing import Any, NamedTuple

import numpy as np

from crowdlab import geometry
from crowdlab.errors import MeasureError
from crowdlab.geometry import Area
from crowdlab.measures.tracks import Tracks

LEAST_FREE = 0.01  # share of a cell of the grid that must be walkable for a density there; our choice
TOGETHER = 4e6  # person-frames times cells that are added up at once


class Local(NamedTuple):
    """Density and speed in a region, frame by frame."""

    density: np.ndarray  # (F,) 1/m²
    speed: np.ndarray  # (F,) m/s, mean; NaN where nobody is


class Field(NamedTuple):
    """Means over all frames on a grid of R rows and C columns; NaN where nobody can walk, speeds also where nobody was."""

    x: np.ndarray  # (C + 1,) m, edges of the columns
    y: np.ndarray  # (R + 1,) m, edges of the rows
    density: np.ndarray  # (R, C) 1/m²
    speed: np.ndarray  # (R, C) m/s
    velocity: np.ndarray  # (R, C, 2) m/s


def classical(tracks: Tracks, region: Any) -> Local:
    """How many stand in a region (by their centres, on its outline included) over its size, and their mean speed.

    `region` is a ring of points (P, 2) m, WKT or a polygon. Where the tracks know the walkable area, only what lies in it counts.

    Raises:
        ScenarioError: no polygon.
        MeasureError: a region outside the walkable area.
    """
    region, _ = _read(tracks, region)
    frame, person = np.nonzero(tracks.present)
    inside = geometry.covers(region, tracks.position[frame, person])
    frame, person = frame[inside], person[inside]
    speed = tracks.speed[frame, person]
    known, frames = np.isfinite(speed), len(tracks.time)
    sums = np.bincount(frame[known], speed[known], frames)
    return Local(np.bincount(frame, minlength=frames) / region.area, _ratio(sums, np.bincount(frame[known], minlength=frames)))


def voronoi(tracks: Tracks, region: Any, reach: float = math.inf) -> Local:
    """Density and speed by Voronoi cells: each person spreads evenly over their cell, and what lies in the region counts.

    A cell is what is nearer to that person than to anybody else, in the walkable area, and at most `reach` m away. The density is the sum
    of shared / own size of the cells over the size of the region; the speed is the mean over what of the region belongs to a cell. Who
    stands outside the walkable area has no cell.

    Raises:
        ScenarioError: no polygon.
        MeasureError: neither a walkable area nor a reach; a region outside the walkable area; a periodic box.

    References:
        Steffen & Seyfried, Physica A 389 (2010) 1902: method and cut-off.
    """
    region, area = _read(tracks, region)
    if area is None and not math.isfinite(reach):
        raise MeasureError(
            "voronoi: no walkable area and no reach: the outermost cells have no end. Give one of them (reach = 2 m)."
        )
    if not reach > 0:
        raise MeasureError(f"voronoi: reach = {reach:g} m: allowed is more than 0 m.")
    if tracks.box is not None:
        raise MeasureError("voronoi: a periodic box: cells end at walls, not at its edges. Take classical or grid.")
    found = np.full((2, len(tracks.time)), [[0.0], [np.nan]])
    for frame, (present, position, speed) in enumerate(zip(tracks.present, tracks.position, tracks.speed, strict=True)):
        rows = np.flatnonzero(present)
        rows = rows if area is None else rows[geometry.covers(area, position[rows])]
        near, size, shared = geometry.cells_meeting(position[rows], area, reach, region)
        if len(near):
            found[0, frame] = (shared / size).sum() / region.area
            found[1, frame] = (speed[rows[near]] * shared).sum() / shared.sum()
    return Local(*found)


def grid(tracks: Tracks, cell: float, *, kernel: float | None = None, box: Any = None) -> Field:
    """Mean density, speed and velocity over all frames in square cells of `cell` m.

    Without a kernel people are counted in cells, and the walkable part of each cell is its size. With `kernel` = R m every person is spread
    by exp(-d² / R²) / (pi R²) and the sums are taken in the middle of each cell; nothing is put back at walls, so it is less there.
    `box` is ((x, y), (x, y)) m, the corners of the grid; without it, it holds the walkable area, or else all places.

    Raises:
        MeasureError: a size or a kernel that is not positive, or nothing to lay the grid over.

    References:
        Helbing, Johansson & Al-Abideen, Phys. Rev. E 75 (2007) 046109: local density and local speed with that kernel.
    """
    for name, value in (("cell", cell), ("kernel", kernel)):
        if value is not None and not (0 < value < math.inf):
            raise MeasureError(f"grid: {name} = {value:g} m: allowed is more than 0 m.")
    area = None if tracks.area is None else geometry.read_area(tracks.area)
    x, y = _edges(tracks, area, cell, box)
    free = geometry.free_areas(area, x, y)
    weights, moved = (_counted if kernel is None else _spread)(tracks, x, y, kernel or 0.0)
    size = free if kernel is None else 1.0
    open_ = free >= LEAST_FREE * cell**2
    density = np.where(open_, weights[0] / (len(tracks.time) * np.where(open_, size, 1.0)), np.nan)
    means = np.where(open_, _ratio(moved, weights[1]), np.nan)
    return Field(x, y, density, means[0], np.moveaxis(means[1:], 0, -1))


def _read(tracks: Tracks, region: Any) -> tuple[Area, Area | None]:
    """The part of a region that is walkable, and the walkable area, if it is known."""
    region = geometry.read_area(region, "region")
    if tracks.area is None:
        return region, None
    area = geometry.read_area(tracks.area)
    inside = region.intersection(area)
    if inside.area <= 0:
        raise MeasureError("region: lies outside the walkable area, so nobody can be in it. Move it inside.")
    return inside, area


def _edges(tracks: Tracks, area: Area | None, cell: float, box: Any) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the columns and rows, m."""
    if box is not None:
        low, high = geometry.read_points(box, "box", 2)
    elif area is not None:
        low, high = np.reshape(area.bounds, (2, 2))
    elif tracks.present.any():
        places = tracks.position[tracks.present]
        low, high = places.min(0), places.max(0) + 1e-9  # so that who stands farthest is in a cell
    else:
        raise MeasureError("grid: nobody is there and there is no walkable area. Give box = ((x, y), (x, y)) in m.")
    many = np.maximum(1, np.ceil((high - low) / cell - 1e-9)).astype(int)
    if (high <= low).any() and box is not None:
        raise MeasureError(f"grid: box from {tuple(low)} to {tuple(high)} m: allowed are a lower left and an upper right corner.")
    return low[0] + cell * np.arange(many[0] + 1), low[1] + cell * np.arange(many[1] + 1)


def _moving(tracks: Tracks) -> tuple[np.ndarray, np.ndarray]:
    """Places (M, 2) of everybody in every frame, and speed and velocity there, (3, M); NaN where it is not known."""
    velocity = tracks.velocity[tracks.present]
    return tracks.position[tracks.present], np.stack([tracks.speed[tracks.present], *velocity.T])


def _counted(tracks: Tracks, x: np.ndarray, y: np.ndarray, _: float) -> tuple[np.ndarray, np.ndarray]:
    """People in each cell, all and those of known velocity (2, R, C), and sums of speed and velocity (3, R, C)."""
    place, moving = _moving(tracks)
    column, row = np.searchsorted(x, place[:, 0], side="right") - 1, np.searchsorted(y, place[:, 1], side="right") - 1
    # Who stands on the far edge of the grid belongs to its last cell, as on the outline of a region.
    column, row = np.where(place[:, 0] == x[-1], len(x) - 2, column), np.where(place[:, 1] == y[-1], len(y) - 2, row)
    inside = (column >= 0) & (column < len(x) - 1) & (row >= 0) & (row < len(y) - 1)
    shape = (len(y) - 1, len(x) - 1)
    cell = row * shape[1] + column

    def sums(kept: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
        return np.bincount(cell[kept], values, minlength=shape[0] * shape[1]).reshape(shape)

    known = inside & np.isfinite(moving[0])
    return np.stack([sums(inside), sums(known)]), np.stack([sums(known, part[known]) for part in moving])


def _spread(tracks: Tracks, x: np.ndarray, y: np.ndarray, kernel: float) -> tuple[np.ndarray, np.ndarray]:
    """The same with everybody spread by a Gauss bell, in the middle of each cell: 1/m² instead of people."""
    place, moving = _moving(tracks)
    known = np.isfinite(moving[0])
    terms = np.stack([np.ones(len(place)), known, *np.where(known, moving, 0.0)])
    sums = np.zeros((len(terms), len(y) - 1, len(x) - 1))
    block = max(1, int(TOGETHER / max(len(x), len(y))))
    for begin in range(0, len(place), block):
        some = slice(begin, begin + block)
        bells = []
        for axis, edges in enumerate((x, y)):
            apart = place[some, axis] - ((edges[:-1] + edges[1:]) / 2)[:, None]  # (C or R, M)
            if tracks.box is not None:
                apart -= tracks.box[axis] * np.round(apart / tracks.box[axis])
            bells.append(np.exp(-((apart / kernel) ** 2)))
        # A bell is a product of one along x and one along y.
        sums += np.stack([(bells[1] * term) @ bells[0].T for term in terms[:, some]])
    sums /= math.pi * kernel**2
    return sums[:2], sums[2:]


def _ratio(sums: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums over weights, NaN where there is no weight."""
    return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), np.nan)
