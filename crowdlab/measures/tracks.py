"""Where everybody was, frame by frame: the one thing that all measures read, from a recording, a run or plain arrays."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from crowdlab.commands import Command, Kind
from crowdlab.errors import MeasureError
from crowdlab.params import Params
from crowdlab.record import Recording
from crowdlab.record.tables import exactly
from crowdlab.scenario import Scenario
from crowdlab.state import Intent
from crowdlab.stepping import Frames, Run


class Strides(NamedTuple):
    """S straight pieces of ways, from one frame to the next, the last one of who leaves included; frame by frame."""

    person: np.ndarray  # (S,) row
    start: np.ndarray  # (S, 2) m
    end: np.ndarray  # (S, 2) m; in a periodic box perhaps beyond its edge
    lap: np.ndarray  # (S, 2) m, by how much: `end` less `lap` is where the person was found; 0 where nobody went round
    begun: np.ndarray  # (S,) s
    ended: np.ndarray  # (S,) s


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tracks:
    """F frames of N people, in double precision and the coordinates of the plan. Rows are people; who has not come yet or has gone is NaN.

    Make one by `of_recording`, `of_run` or `of_arrays`.
    """

    time: np.ndarray  # (F,) s, rising
    position: np.ndarray  # (F, N, 2) m
    velocity: np.ndarray  # (F, N, 2) m/s
    present: np.ndarray  # (F, N) bool
    wanting: np.ndarray  # (F, N) bool: present, has begun to walk, wants to get on, and neither stays nor stands in a queue
    queued: np.ndarray  # (F, N) bool: present and stands in a queue of a journey, on the own place or where it is joined
    arrival: np.ndarray  # (N,) s, when the goal was reached; NaN: never
    last_time: np.ndarray  # (N,) s, until when the way is known: for who leaves by an exit the step of it, between two frames
    last_place: np.ndarray  # (N, 2) m, where that was
    radius: np.ndarray | None = None  # (N,) m, bodies
    came: np.ndarray | None = None  # (N,) s, when each came in; NaN: never; None: known from the frames only
    area: Any = None  # walkable area, as WKT or a polygon, m
    box: np.ndarray | None = None  # (2,) m, sides of a periodic box
    closed: np.ndarray | None = None  # (F,) which doors are closed, as State.closed; None: as at the start
    settings: tuple[Command, ...] = ()  # orders that set parameters on the way

    @classmethod
    def of_recording(cls, recording: Recording) -> Self:
        """Everything that a recording holds, frame 0 included; departures to the step.

        Raises:
            RecordingError: it is of a periodic world and does not hold the box, and its scenario cannot be built again.
        """
        frames = recording.frames
        return cls._of_frames(
            *(np.asarray(getattr(frames, name)) for name in ("position", "velocity", "alive", "intent", "closed")),
            step=np.asarray(frames.step),
            dt=recording.dt,
            people=recording.people,
            area=recording.area,
            origin=recording.origin,
            box=recording.box,
            orders=recording.orders,
        )

    @classmethod
    def of_run(cls, run: Run, scenario: Scenario, params: Params | None = None, commands: Sequence[Command] = ()) -> Self:
        """The frames of a run from the start of a scenario, that start put before them; departures to the step.

        `params` are those of the run where they differ from the scenario's, `commands` the orders given.

        Raises:
            MeasureError: the frames are those of several runs, or of other people.
        """
        start, frames = scenario.state, run.frames
        shape = np.shape(frames.position)
        if len(shape) != 3 or shape[1] != start.id.shape[0]:
            raise MeasureError(
                f"{scenario.name}: frames of the shape {shape}: allowed are (frames, {start.id.shape[0]} people, 2), one run of this "
                "scenario. Of many runs take one: jax.tree.map(lambda leaf: leaf[0], runs)."
            )

        params = scenario.params if params is None else params
        if not len(frames.step) or int(frames.step[0]) > int(start.step):
            frames = jax.tree.map(lambda *parts: np.concatenate(parts), Frames.at_start(start, params, scenario.world), frames)
        return cls._of_frames(
            *(np.asarray(getattr(frames, name)) for name in ("position", "velocity", "alive", "intent", "closed")),
            step=np.asarray(frames.step),
            dt=exactly(params.motion.dt),
            people={name: np.asarray(getattr(run.final, name)) for name in ("radius", "arrived", "entered")},
            area=scenario.area or None,
            origin=scenario.origin,
            box=scenario.world.size if scenario.world.periodic else None,
            orders=commands,
        )

    @classmethod
    def _of_frames(
        cls,
        position: np.ndarray,
        velocity: np.ndarray,
        present: np.ndarray,
        intent: np.ndarray,
        closed: np.ndarray,
        *,
        step: np.ndarray,
        dt: float,
        people: dict[str, np.ndarray],
        area: Any,
        origin: tuple[float, float],
        box: Any = None,
        orders: Sequence[Command] = (),
    ) -> Self:
        position = position.astype(float) + origin
        time, arrived = step * dt, people["arrived"]
        came = np.where(people["entered"] >= 0, people["entered"] * dt, np.nan)
        arrival = np.where(arrived >= 0, arrived * dt, np.nan)
        last_time, last_place = _ends(position, present, time, arrival)
        unseen = ~present[..., None]
        return cls(
            time=time,
            position=np.where(unseen, np.nan, position),
            velocity=np.where(unseen, np.nan, velocity),
            present=present,
            wanting=present & (intent == Intent.WALKS),
            queued=present & (intent == Intent.QUEUES),
            arrival=arrival,
            last_time=last_time,
            last_place=last_place,
            radius=np.asarray(people["radius"], float),
            came=came,
            area=area,
            box=None if box is None else np.asarray(box, float),
            closed=closed,
            settings=tuple(order for order in orders if order.kind == Kind.SET),
        )

    @classmethod
    def of_arrays(
        cls,
        position: Any,
        time: Any,
        present: Any = None,
        *,
        velocity: Any = None,
        arrival: Any = None,
        radius: Any = None,
        area: Any = None,
        box: Any = None,
    ) -> Self:
        """Plain arrays: position (F, N, 2) m, time (F,) s, present (F, N) bool; who is not present may have any position.

        Left out, `present` is where positions are finite; `velocity` (F, N, 2) m/s is taken from the positions of the frames before and
        after; `arrival` (N,) s of those who are gone before the last frame is when they were last seen. `radius` is one for all or (N,).

        Raises:
            MeasureError: shapes that do not belong together, times that do not rise, somebody present without a place.
        """
        position, time, present = _checked(np.array(position, float), np.array(time, float), present)
        position[~present] = np.nan
        box = None if box is None else np.broadcast_to(np.asarray(box, float), 2)
        speeds = _velocity(position, time, box) if velocity is None else np.where(present[..., None], velocity, np.nan)
        last_time, last_place = _ends(position, present, time, np.full(present.shape[1], np.nan))
        if arrival is None:
            arrival = np.where(present[-1], np.nan, last_time)
        arrival = np.array(arrival, float)
        return cls(
            time=time,
            position=position,
            velocity=speeds,
            present=present,
            wanting=present & ~(arrival <= time[:, None]),
            queued=np.zeros_like(present),
            arrival=arrival,
            last_time=last_time,
            last_place=last_place,
            radius=None if radius is None else np.broadcast_to(np.asarray(radius, float), present.shape[1:]),
            area=area,
            box=box,
        )

    @property
    def people(self) -> int:
        """N, those included who never came."""
        return int(self.present.shape[1])

    @property
    def speed(self) -> np.ndarray:
        """(F, N) m/s; NaN for who is not present."""
        return np.hypot(self.velocity[..., 0], self.velocity[..., 1])

    @property
    def entry(self) -> np.ndarray:
        """When this person came in or, where that is not known or earlier, the first frame with them, (N,) s; NaN: never."""
        first = self.present.argmax(0)
        entry = np.where(self.present.any(0), self.time[first], np.nan)
        if self.came is None:
            return entry
        return np.where((first > 0) & (self.came >= self.time[np.maximum(first - 1, 0)]), self.came, entry)

    def between(self, first: float, last: float) -> Self:
        """The frames from `first` to `last` s, both included. Raises MeasureError when there are none."""
        kept = (self.time >= first) & (self.time <= last)
        if not kept.any():
            raise MeasureError(
                f"tracks: no frame from {first:g} to {last:g} s: there are frames from {self.time[0]:g} to {self.time[-1]:g} s."
            )
        fields = {name: getattr(self, name)[kept] for name in ("time", "position", "velocity", "present", "wanting", "queued")}
        ends = _ends(fields["position"], fields["present"], fields["time"], self.arrival)
        whole = self.last_time <= fields["time"][-1]
        return dataclasses.replace(
            self,
            **fields,
            closed=None if self.closed is None else self.closed[kept],
            last_time=np.where(whole, self.last_time, ends[0]),
            last_place=np.where(whole[:, None], self.last_place, ends[1]),
        )

    def strides(self) -> Strides:
        """Every piece of way that somebody was seen to go; nothing across frames in which the person was missing."""
        here, there = np.nonzero(self.present[:-1] & self.present[1:])
        last = len(self.time) - 1 - self.present[::-1].argmax(0)
        goes = np.flatnonzero(self.present.any(0) & (self.last_time > self.time[last]))
        frame, person = np.concatenate([here, last[goes]]), np.concatenate([there, goes])
        start = self.position[frame, person]
        found = np.concatenate([self.position[here + 1, there], self.last_place[goes]])
        lap = np.zeros_like(start) if self.box is None else -self.box * np.round((found - start) / self.box)
        ended = np.concatenate([self.time[here + 1], self.last_time[goes]])
        parts = Strides(person=person, start=start, end=found + lap, lap=lap, begun=self.time[frame], ended=ended)
        order = np.lexsort((person, frame))
        return Strides(*(part[order] for part in parts))


def offset(start: np.ndarray, end: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """Way (..., 2) m from start to end; the shortest way round in a periodic box."""
    way = end - start
    return way if box is None else way - box * np.round(way / box)


def _checked(position: np.ndarray, time: np.ndarray, present: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, times, and who is present, (F, N) bool. Raises MeasureError where they do not belong together."""
    if position.ndim != 3 or position.shape[2] != 2 or time.shape != position.shape[:1]:
        raise MeasureError(
            f"tracks: positions of the shape {position.shape} at times of the shape {time.shape}: allowed are (F, N, 2) m and (F,) s, "
            "one place for each frame and person. Put NaN where somebody is not there."
        )
    if not len(time) or not np.isfinite(time).all() or (np.diff(time) <= 0).any():
        raise MeasureError("tracks: the times of the frames: allowed are finite s, each later than the one before, one or more.")
    known = np.isfinite(position).all(2)
    present = known if present is None else np.array(present, bool)
    if present.shape != known.shape:
        raise MeasureError(f"tracks: present has the shape {present.shape}: allowed is that of frames and people, {known.shape}.")
    if (present & ~known).any():
        frame, person = np.argwhere(present & ~known)[0]
        raise MeasureError(
            f"tracks: person {person} in frame {frame} ({time[frame]:g} s): present without a finite position. "
            "Give the place in m, or say that the person is not present."
        )
    return position, time, present


def _ends(raw: np.ndarray, present: np.ndarray, time: np.ndarray, arrival: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """When (N,) s and where (N, 2) m the known way of each ends; NaN for who never came.

    The row of who has gone keeps the place where that was; the time is that of the arrival, or of the frame where the person is missing.
    """
    rows, final = np.arange(present.shape[1]), len(time) - 1
    last = final - present[::-1].argmax(0)
    after = np.minimum(last + 1, final)
    known = (after > last) & np.isfinite(raw[after, rows]).all(1)
    end = np.where(known, after, last)
    on_the_way = known & (arrival > time[last]) & (arrival <= time[end])
    came = np.asarray(present.any(0))
    return np.where(came, np.where(on_the_way, arrival, time[end]), np.nan), np.where(came[:, None], raw[end, rows], np.nan)


def _velocity(position: np.ndarray, time: np.ndarray, box: np.ndarray | None) -> np.ndarray:
    """(F, N, 2) m/s from the frame before to the frame after, or from the one of them that there is; NaN without any."""
    way = offset(position[:-1], position[1:], box)
    gone = np.isfinite(way[..., 0]) & np.isfinite(way[..., 1])
    way, spent = np.nan_to_num(way), np.where(gone, np.diff(time)[:, None], 0.0)
    ways = np.pad(way, ((1, 0), (0, 0), (0, 0))) + np.pad(way, ((0, 1), (0, 0), (0, 0)))
    took = np.pad(spent, ((1, 0), (0, 0))) + np.pad(spent, ((0, 1), (0, 0)))
    with np.errstate(invalid="ignore"):
        return np.where((took > 0)[..., None], ways / np.where(took > 0, took, 1.0)[..., None], np.nan)
