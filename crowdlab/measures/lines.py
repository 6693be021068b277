"""Who crosses a line, when and which way; flow and the N-t curve."""

import dataclasses
import itertools
import math
from typing import Any, Self

import numpy as np

from crowdlab import geometry
from crowdlab.errors import MeasureError
from crowdlab.measures.tracks import Strides, Tracks


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Crossings:
    """C crossings of a line in the order of time, those of one instant in the order of rows."""

    person: np.ndarray  # (C,) row
    time: np.ndarray  # (C,) s, between two frames where the straight way meets the line
    direction: np.ndarray  # (C,) +1 onto the left side of the line, seen from its first point to its last; -1 onto the right
    place: np.ndarray  # (C, 2) m
    length: float  # m, of the line
    watched: tuple[float, float]  # s, times of the first and the last frame

    def onto(self, direction: int) -> Self:
        """Only those onto the left (+1) or onto the right (-1). Raises MeasureError for another direction."""
        if direction not in (1, -1):
            raise MeasureError(f"direction = {direction}: allowed are +1 (onto the left side of the line) and -1 (onto the right).")
        return self._only(self.direction == direction)

    def first(self) -> Self:
        """Only the first crossing of each person: who turns round on the line is counted once."""
        kept = np.zeros(len(self.time), bool)
        kept[np.unique(self.person, return_index=True)[1]] = True
        return self._only(kept)

    def _only(self, kept: np.ndarray) -> Self:
        rows = {name: getattr(self, name)[kept] for name in ("person", "time", "direction", "place")}
        return dataclasses.replace(self, **rows)

    def counted(self, time: Any) -> np.ndarray:
        """N-t curve: how many crossings there were until each of `time`, s, that instant included; integers of its shape."""
        return np.searchsorted(self.time, np.asarray(time, float), side="right")

    def flow(self) -> float:
        """Mean flow (n - 1) / (last - first), 1/s; NaN unless two cross at different times."""
        return mean_flow(self.time)

    def specific_flow(self) -> float:
        """Mean flow over the length of the line, 1/(m s)."""
        return self.flow() / self.length

    def flow_by_windows(
        self, window: float, first: float | None = None, last: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Edges (W + 1,) s of windows one after the other, and crossings per second in each, (W,) 1/s.

        From `first` to `last`, s, the whole time watched unless given. The last window ends there and may be shorter. A window holds its
        beginning and not its end, but for the last one.

        Raises:
            MeasureError: a window of no length, or an end before the beginning.
        """
        begin, end = (self.watched[side] if given is None else given for side, given in enumerate((first, last)))
        if not (window > 0 and end > begin):
            raise MeasureError(
                f"flow: windows of {window:g} s from {begin:g} to {end:g} s: allowed are windows longer than 0 s "
                "and an end after the beginning."
            )
        edges = np.minimum(begin + window * np.arange(math.ceil((end - begin) / window - 1e-9) + 1), end)
        return edges, np.histogram(self.time, edges)[0] / np.diff(edges)


def mean_flow(times: Any) -> float:
    """Mean flow (n - 1) / (last - first) of n who pass at `times`, s: 1/s; NaN unless two pass at different times.

    Between n people lie n - 1 intervals: so the flow does not hang on how long nobody came before and after.
    """
    times = np.asarray(times, float)
    spread = float(np.ptp(times)) if len(times) else 0.0
    return (len(times) - 1) / spread if spread > 0 else math.nan


def crossings(tracks: Tracks, line: Any) -> Crossings:
    """Everybody who crosses a line or polyline, given by its points (P, 2) m or as a shapely LineString.

    The way between two frames is taken as straight and even. On the line counts as on its left: who comes to stand on it from the left
    has not crossed it, who comes from the right has. Who leaves by an exit is followed to the step in which that happens, so that a
    line across an exit counts everybody once. Who appears beyond a line, or is missing in the frames between, has not been seen to cross.

    Raises:
        ScenarioError: fewer than two points, or points that are not finite.
        MeasureError: a line of no length.
    """
    points = line_points(line)
    length = float(np.hypot(*np.diff(points, axis=0).T).sum())
    strides = _both_ways(tracks)
    found = [_edge(strides, *edge) for edge in itertools.pairwise(points)]
    person, time, direction, place = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((person, time))
    return Crossings(
        person=person[order],
        time=time[order],
        direction=direction[order],
        place=place[order],
        length=length,
        watched=(float(tracks.time[0]), float(tracks.time[-1])),
    )


def line_points(line: Any) -> np.ndarray:
    """Points (P, 2) m of a polyline of some length. Raises ScenarioError or MeasureError."""
    points = geometry.read_points(getattr(line, "coords", line), "line", 2)
    if not np.ptp(points, 0).any():
        raise MeasureError(f"line: has no length, at ({points[0, 0]:g}, {points[0, 1]:g}) m. Give two different points.")
    return points


def distance_to(points: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Distance of points (..., 2) m to a polyline (P, 2) m: (...,) m; NaN stays NaN."""
    nearest = np.full(points.shape[:-1], np.inf)
    for start, end in itertools.pairwise(line):
        along = end - start
        share = np.clip((points - start) @ along / max(along @ along, np.finfo(float).tiny), 0.0, 1.0)
        nearest = np.minimum(nearest, np.hypot(*np.moveaxis(points - start - share[..., None] * along, -1, 0)))
    return nearest


def _both_ways(tracks: Tracks) -> Strides:
    """All strides; who goes over the edge of a periodic box does so at both sides of it."""
    strides = tracks.strides()
    over = strides.lap.any(1)
    shifted = strides._replace(start=strides.start - strides.lap, end=strides.end - strides.lap)
    return Strides(*(np.concatenate([whole, again[over]]) for whole, again in zip(strides, shifted, strict=True)))


def _edge(strides: Strides, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Who, when, which way and where: the strides that cross the edge from `first` to `last`.

    What lies exactly on the other's line counts as on its left, here and for the ends of the edge: so a stride through a corner of a
    polyline crosses one of the two edges that meet there, not both and not none.
    """
    from_side, to_side = (_cross(last - first, points - first) for points in (strides.start, strides.end))
    rows = np.flatnonzero((from_side >= 0) != (to_side >= 0))
    start, way = strides.start[rows], strides.end[rows] - strides.start[rows]
    rows = rows[(_cross(way, first - start) >= 0) != (_cross(way, last - start) >= 0)]
    share = from_side[rows] / (from_side[rows] - to_side[rows])
    time = strides.begun[rows] + share * (strides.ended[rows] - strides.begun[rows])
    place = strides.start[rows] + share[:, None] * (strides.end[rows] - strides.start[rows])
    return strides.person[rows], time, np.where(to_side[rows] >= 0, 1, -1), place


def _cross(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]
