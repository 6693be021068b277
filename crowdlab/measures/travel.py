"""How long people take, which way they go, and where they get stuck or queue."""

import math
from typing import Any, NamedTuple

import numpy as np

from crowdlab import geometry
from crowdlab.errors import MeasureError
from crowdlab.measures.lines import Crossings, distance_to, line_points
from crowdlab.measures.tracks import Tracks, offset

# Thresholds, each declared here and nowhere else.
QUEUEING = 0.2  # m/s, slower people before a line queue; our choice: at 4 people per m², where a crowd counts as congested, Weidmann (1993)
# has 0.16 m/s
LATELY = 5.0  # s, over which it is watched whether somebody gets on; our choice
HARDLY = 0.25  # m, less than a body's radius in that time is no walking; our choice


class Ways(NamedTuple):
    """The way of each person from the first frame with them to the arrival, or as far as it is known."""

    length: np.ndarray  # (N,) m, as walked
    straight: np.ndarray  # (N,) m, from its beginning to its end as the crow flies
    duration: np.ndarray  # (N,) s
    speed: np.ndarray  # (N,) m/s, length over duration
    detour: np.ndarray  # (N,) length over straight, 1 for who walks straight on


class Queue(NamedTuple):
    """A queue before a line, frame by frame."""

    people: np.ndarray  # (F,) how many stand in it
    length: np.ndarray  # (F,) m, from the line to the one farthest away; 0 where nobody queues
    queueing: np.ndarray  # (F, N) bool, who


def travel_times(tracks: Tracks) -> np.ndarray:
    """Time from coming in, or from the first frame with somebody, to the arrival, (N,) s; NaN for who never came or never arrived."""
    return tracks.arrival - tracks.entry


def times_between(tracks_from: Crossings, tracks_to: Crossings, people: int) -> np.ndarray:
    """Time from the first crossing of one line to the next crossing of another, (people,) s; NaN for who did not cross both so."""
    begun, ended = np.full(people, np.nan), np.full(people, np.nan)
    first = tracks_from.first()
    begun[first.person] = first.time
    later = tracks_to.time >= begun[tracks_to.person]
    person, rows = np.unique(tracks_to.person[later], return_index=True)
    ended[person] = tracks_to.time[later][rows]
    return ended - begun


def evacuation_time(arrival: Any, share: float = 1.0) -> float:
    """Time by which a share of all people has arrived, s; NaN as long as fewer have.

    `arrival` (N,) s has a row for everybody, NaN for who has not arrived: `tracks.arrival`. A share of 0.95 of 15 people are 15.

    Raises:
        MeasureError: a share outside 0 to 1, 0 excluded.
    """
    if not 0 < share <= 1:
        raise MeasureError(f"evacuation_time: share = {share:g}: allowed are numbers above 0 up to 1.")
    arrival = np.asarray(arrival, float)
    wanted = math.ceil(share * len(arrival) - 1e-9)  # 0.07 * 100 is 7.000000000000001
    arrived = np.sort(arrival[np.isfinite(arrival)])
    return float(arrived[wanted - 1]) if len(arrived) >= wanted > 0 else math.nan


def ways(tracks: Tracks) -> Ways:
    """How far and how fast everybody went. NaN where somebody was not seen to move on: with one frame, or without a way to divide by."""
    strides = tracks.strides()
    arrival = tracks.arrival[strides.person]
    end = np.where(arrival > strides.begun, np.minimum(arrival, strides.ended), strides.ended)
    share = np.where(arrival <= strides.begun, 0.0, (end - strides.begun) / (strides.ended - strides.begun))
    way = (strides.end - strides.start) * share[:, None]

    def each(values: np.ndarray) -> np.ndarray:
        return np.bincount(strides.person, values, minlength=tracks.people)

    spent = each(share * (strides.ended - strides.begun))
    length = np.where(spent > 0, each(np.hypot(*way.T)), np.nan)
    straight = np.where(spent > 0, np.hypot(each(way[:, 0]), each(way[:, 1])), np.nan)
    duration = np.where(spent > 0, spent, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        detour = np.where(straight > 0, length / straight, np.nan)
    return Ways(length, straight, duration, length / duration, detour)


def moved(tracks: Tracks, over: float = LATELY) -> np.ndarray:
    """How far everybody is from where they were `over` s ago, (F, N) m; NaN where they were not there yet.

    "Ago" is the latest frame at least that long before. Who shakes on the spot has not moved. Raises MeasureError unless `over` > 0 s.
    """
    if not 0 < over < math.inf:
        raise MeasureError(f"moved: over = {over:g} s: allowed is more than 0 s.")
    since = frames_ago(tracks.time, over)
    before = np.where((since >= 0)[:, None, None], tracks.position[np.maximum(since, 0)], np.nan)
    return np.hypot(*np.moveaxis(offset(before, tracks.position, tracks.box), -1, 0))


def frames_ago(time: np.ndarray, over: float) -> np.ndarray:
    """For each of the frames at `time` (F,) s the number of the latest one at least `over` s before; -1 where there is none."""
    return np.searchsorted(time, time - over + 1e-9, side="right") - 1


def stuck(tracks: Tracks, over: float = LATELY, hardly: float = HARDLY) -> np.ndarray:
    """Who has wanted to get on for `over` s and has hardly moved (less than `hardly` m) in that time, in each frame, (F, N) bool.

    Whoever stays at a goal of a journey or stands in its queue is where he is meant to be; who does not get to the queue may be stuck.
    Whoever waits at a closed door, or in a zone where nobody walks, wants to get on and counts; `not_arrived` tells them apart.
    """
    since, others = np.maximum(frames_ago(tracks.time, over), 0), np.cumsum(~tracks.wanting, axis=0)
    wanted = (others == others[since]) & tracks.wanting[since]
    return wanted & (moved(tracks, over) < hardly)


def stuck_time(tracks: Tracks, over: float = LATELY, hardly: float = HARDLY) -> np.ndarray:
    """How long everybody has been stuck, (N,) s: the frames in which they are, each until the next one.

    It counts from the moment at which it is known, `over` s after somebody came to rest.
    """
    return np.diff(tracks.time) @ stuck(tracks, over, hardly)[:-1].astype(float)


def slow_time(tracks: Tracks, slower_than: float = QUEUEING) -> np.ndarray:
    """How long everybody who wants to get on is slower than `slower_than` m/s, (N,) s: frames, each until the next one.

    Stays and queues of a journey are left out, as in `stuck`.
    """
    return np.diff(tracks.time) @ (tracks.wanting & (tracks.speed < slower_than))[:-1].astype(float)


def queue(tracks: Tracks, line: Any, region: Any, slower_than: float = QUEUEING) -> Queue:
    """People in a region before a line who want to get on, or stand in the queue of a journey, and are slower than `slower_than` m/s,
    and how far back they stand. Who is being served, or stays, does not queue.

    The line, points (P, 2) m or a LineString, is what they queue for: a door, a counter. The region (ring, WKT or polygon) says where
    a queue may stand, so that somebody who rests elsewhere does not lengthen it.

    Raises:
        ScenarioError: no line or no polygon.
        MeasureError: a line of no length.
    """
    points, region = line_points(line), geometry.read_area(region, "region")
    slow = (tracks.wanting | tracks.queued) & (tracks.speed < slower_than)
    frame, person = np.nonzero(slow)
    place = tracks.position[frame, person]
    inside = geometry.covers(region, place)
    queueing = np.zeros_like(slow)
    queueing[frame[inside], person[inside]] = True
    length = np.zeros(len(tracks.time))
    np.maximum.at(length, frame[inside], distance_to(place[inside], points))
    return Queue(queueing.sum(1), length, queueing)
