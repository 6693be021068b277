"""Shortest ways on a raster whose nodes know the corner they walk to, for many goals at once: a wave that runs out from the goals.

What is settled offers its neighbours the corner that it walks to, and a corner itself; a neighbour takes the shortest offer that it can
see. So a length is a sum of straight lines from corner to corner, not of steps on the raster, and has no error that grows with the way.
Places near the head of the wave are settled together, which NumPy does for all goals at once.

References:
    Nash, Koenig & Tovey, AAAI 2010: Lazy Theta*, a search for any-angle ways, one node after the other.
"""

import dataclasses
import math

import numpy as np

from crowdlab.geometry import Room

RING = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # (row, column), counter-clockwise from the right
BAND = 0.7  # cells; what is nearer than this to the head of the wave is settled together
TRIES = 6  # corners that are tried for one node before it walks to its neighbour
CLOSE = 2.5  # cells, within which a corner and a node know each other


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """Places and who is next to whom: first the nodes of a raster, row after row, then the corners of a room."""

    room: Room
    columns: int
    places: np.ndarray  # (M, 2) m; of a node too near a wall the nearest free place
    plain: np.ndarray  # (M,) bool: a node that lies free itself
    joined: np.ndarray  # (8, M) bool, whether a node can step to each neighbour of its ring
    first: np.ndarray  # (M + 1,) where the links of each place begin
    links: np.ndarray  # (L,) places that each place knows besides
    corners: int  # V, the last places
    sound: bool  # whether nothing that is wide enough for a wall and a body lies between two neighbours

    @property
    def steps(self) -> np.ndarray:
        """How far each neighbour of the ring lies in the row-after-row order, (8,)."""
        return np.array([row * self.columns + column for row, column in RING])


@dataclasses.dataclass(eq=False)
class Wave:
    """For every goal and place, goals * M in all: how far it is, and where one walks first."""

    length: np.ndarray  # m, way to the goal; inf where there is none, or none yet
    target: np.ndarray  # (n, 2) m, where one walks straight
    beyond: np.ndarray  # m, way from there on
    via: np.ndarray  # the place that is that target, -1 for the goal itself
    seen: np.ndarray  # bool, whether the target is known to be in sight
    done: np.ndarray  # bool, settled

    def of(self, which: slice) -> "Wave":
        """The same for some of the places."""
        return Wave(**{field.name: getattr(self, field.name)[which] for field in dataclasses.fields(self)})


def spread(graph: Graph, start: np.ndarray, aims: np.ndarray, hidden: np.ndarray, cell: float) -> Wave:
    """Run the wave until everything that can be reached is settled.

    `start` (G, M) holds the known lengths, m, and infinity elsewhere; `aims` (G, M, 2) m where one walks from there; `hidden` (G, M)
    tells from which of these no neighbour can see the aim, so that the neighbour walks there first.
    """
    many = len(graph.places)
    known = np.isfinite(start).ravel()
    wave = Wave(
        length=start.ravel().copy(),
        target=aims.reshape(-1, 2).copy(),
        beyond=np.zeros(start.size),
        via=np.full(start.size, -1),
        seen=known.copy(),
        done=known.copy(),
    )
    buckets: dict[int, list[np.ndarray]] = {}
    width = BAND * cell
    if hidden.any():  # whoever stands beside such a place walks there first
        some = np.flatnonzero(hidden.ravel() & known)
        wave.target[some], wave.beyond[some], wave.via[some] = graph.places[some % many], wave.length[some], some % many

    def offer(now: np.ndarray, head: int) -> None:
        """Tell the unsettled neighbours of places what way they would have, if they saw what these see."""
        giver, taker = _neighbours(graph, now, ~wave.done)
        length = wave.beyond[giver] + _apart(graph, taker, wave.target[giver])
        better = length < wave.length[taker] - 1e-9
        giver, taker, length = giver[better], taker[better], length[better]
        np.minimum.at(wave.length, taker, length)
        best = wave.length[taker] == length
        giver, taker = giver[best], taker[best]
        wave.target[taker], wave.beyond[taker], wave.via[taker] = wave.target[giver], wave.beyond[giver], wave.via[giver]
        wave.seen[taker] = False
        _file(buckets, np.unique(taker), wave.length, width, head)

    edge = np.flatnonzero(known)
    edge = np.unique(_neighbours(graph, edge, ~wave.done)[0])
    _file(buckets, edge, wave.length, width, 0)
    while buckets:
        head = min(buckets)
        now = np.unique(np.concatenate(buckets.pop(head)))
        early = now[wave.done[now]]
        late = now[~wave.done[now]]
        ask = late[~wave.seen[late]]
        if len(ask):
            _settle(graph, wave, ask, cell)
        ripe = np.floor(wave.length[late] / width) <= head
        _file(buckets, late[~ripe & np.isfinite(wave.length[late])], wave.length, width, head + 1)
        late = late[ripe]
        wave.done[late] = True
        offer(np.concatenate([early[known[early]], late]), head)
    return wave


def _file(buckets: dict[int, list[np.ndarray]], places: np.ndarray, length: np.ndarray, width: float, least: int) -> None:
    """Put places in line by their length."""
    if not len(places):
        return
    number = np.maximum(np.floor(length[places] / width).astype(int), least)
    order = np.argsort(number, kind="stable")
    cuts = np.flatnonzero(np.diff(number[order])) + 1
    for group in np.split(order, cuts):
        buckets.setdefault(int(number[group[0]]), []).append(places[group])


def _apart(graph: Graph, places: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Distance, m, from places to targets (..., 2) m."""
    gap = targets - graph.places[places % len(graph.places)]
    return np.hypot(gap[..., 0], gap[..., 1])


def _neighbours(graph: Graph, now: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a place and each neighbour of it, of the ring and by links, of those that `which` tells."""
    many = len(graph.places)
    here = now % many
    givers, takers = [], []
    for way, step in enumerate(graph.steps):
        giver = now[graph.joined[way, here]]
        taker = giver + step
        some = which[taker]
        givers.append(giver[some])
        takers.append(taker[some])
    count = graph.first[here + 1] - graph.first[here]
    if count.any():
        more = np.repeat(np.arange(len(now)), count)
        turn = np.arange(len(more)) - np.repeat(np.cumsum(count) - count, count)
        giver = now[more]
        taker = giver - here[more] + graph.links[graph.first[here[more]] + turn]
        some = which[taker]
        givers.append(giver[some])
        takers.append(taker[some])
    return np.concatenate(givers), np.concatenate(takers)


def _settle(graph: Graph, wave: Wave, ask: np.ndarray, cell: float) -> None:
    """Find the shortest way of places by what their settled neighbours walk to, or are, as far as it is in sight."""
    clear = _sees(graph, wave, ask, wave.target[ask], cell)
    wave.seen[ask[clear]] = True
    ask = ask[~clear]
    if not len(ask):
        return
    many, plain = len(graph.places), len(graph.places) - graph.corners
    taker, giver = _neighbours(graph, ask, wave.done)
    bend = giver[giver % many >= plain]
    target = np.concatenate([wave.target[giver], graph.places[bend % many]])
    beyond = np.concatenate([wave.beyond[giver], wave.length[bend]])
    via = np.concatenate([wave.via[giver], bend % many])
    owner = np.concatenate([taker, taker[giver % many >= plain]])
    length = beyond + _apart(graph, owner, target)
    order = np.lexsort((length, owner))
    owner, target, beyond, via, length = owner[order], target[order], beyond[order], via[order], length[order]
    # The same target told by two neighbours counts once.
    new = np.ones(len(owner), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (target[1:] != target[:-1]).any(1)
    owner, target, beyond, via, length = owner[new], target[new], beyond[new], via[new], length[new]
    begin = np.searchsorted(owner, ask)
    end = np.searchsorted(owner, ask, side="right")
    left = np.arange(len(ask))
    for attempt in range(TRIES):
        left = left[begin[left] + attempt < end[left]]
        if not len(left):
            break
        pick, item = begin[left] + attempt, ask[left]
        clear = _sees(graph, wave, item, target[pick], cell)
        pick, item = pick[clear], item[clear]
        wave.length[item], wave.target[item], wave.beyond[item] = length[pick], target[pick], beyond[pick]
        wave.via[item], wave.seen[item] = via[pick], True
        left = left[~clear]
    left = np.flatnonzero(~wave.seen[ask])
    if len(left):  # nothing in sight: walk to the neighbour with the shortest way
        lost = np.isin(taker, ask[left])
        taker, giver = taker[lost], giver[lost]
        length = wave.length[giver] + _apart(graph, taker, graph.places[giver % many])
        order = np.lexsort((length, taker))
        first = order[np.r_[True, np.diff(taker[order]) > 0]] if len(order) else order
        item, giver = taker[first], giver[first]
        wave.length[ask[left]] = math.inf
        wave.length[item], wave.target[item], wave.beyond[item] = length[first], graph.places[giver % many], wave.length[giver]
        wave.via[item], wave.seen[item] = giver % many, True


def _sees(graph: Graph, wave: Wave, item: np.ndarray, target: np.ndarray, cell: float) -> np.ndarray:
    """Whether places see their targets (n, 2) m, (n,) bool.

    Between two settled neighbours that both see a target lies no obstacle, for all are wider than a cell; only where the neighbours
    disagree, and along walls, a line is tested.
    """
    many = len(graph.places)
    here = item % many
    gap = target - graph.places[here]
    sector = np.floor(np.arctan2(gap[:, 1], gap[:, 0]) / (math.pi / 4)).astype(int) % 8
    result = np.zeros(len(item), bool)
    sure = graph.sound & graph.plain[here] & (np.hypot(*gap.T) > 1.5 * cell)
    for turn in (0, 1):
        way = (sector + turn) % 8
        there = np.where(sure & graph.joined[way, here], item + graph.steps[way], item)  # itself is not settled
        sure &= wave.done[there] & graph.plain[there % many] & (wave.target[there] == target).all(1) & wave.seen[there]
    result[sure] = True
    rest = np.flatnonzero(~sure)
    if len(rest):
        result[rest] = graph.room.sight(graph.places[here[rest]], target[rest])
    return result
