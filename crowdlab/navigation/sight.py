"""From where a goal is in plain sight for a body: rays leave the goal and run until a wall, thickened by the radius, stops them."""

import dataclasses
import math

import numpy as np

TOUCH = 0.99  # of the radius: an aim one radius beside a door post must not count as blocked by it
TOGETHER = 32  # walls tested at once, to bound the memory
BLOCK = 128  # neighbouring rays that share their walls


@dataclasses.dataclass(frozen=True, eq=False)
class Aim:
    """For n nodes the nearest point of a goal."""

    point: np.ndarray  # (n, 2) m
    edge: np.ndarray  # (n,) which edge it lies on
    fraction: np.ndarray  # (n,) where on that edge, from 0 to 1

    def of(self, which: np.ndarray) -> "Aim":
        """The same for some of the nodes."""
        return Aim(self.point[which], self.edge[which], self.fraction[which])


def ends(edges: np.ndarray, margin: float) -> np.ndarray:
    """Fraction (E,) of each edge that a body must keep off its ends; half leaves the middle only."""
    length = np.hypot(*(edges[:, 1] - edges[:, 0]).T)
    return np.where(length > 0, np.minimum(margin / np.maximum(length, 1e-12), 0.5), 0.5)


def nearest_points(points: np.ndarray, edges: np.ndarray, margin: float) -> Aim:
    """Nearest points of edges (E, 2, 2) m, shortened by `margin` m at both ends, to (n, 2) points m."""
    best = np.full(len(points), math.inf)
    point, edge, fraction = np.empty_like(points), np.zeros(len(points), int), np.zeros(len(points))
    for number, (least, (start, end)) in enumerate(zip(ends(edges, margin), edges, strict=True)):
        along = end - start
        square = along @ along
        share = np.clip((points - start) @ along / square if square > 0 else np.full(len(points), 0.5), least, 1 - least)
        here = start + share[:, None] * along
        distance = np.hypot(*(here - points).T)
        nearer = distance < best
        best[nearer], edge[nearer], fraction[nearer], point[nearer] = distance[nearer], number, share[nearer], here[nearer]
    return Aim(point, edge, fraction)


def in_sight(points: np.ndarray, aim: Aim, edges: np.ndarray, margin: float, walls: np.ndarray, radius: float) -> np.ndarray:
    """Whether a body of `radius` m can walk straight from each of (n, 2) points m to its aim, (n,) bool.

    Nodes are not tested one by one against every wall: rays fan out from the ends of each edge and leave it at right angles, so
    dense that neighbouring rays stay a quarter of a radius apart, and a node asks the two rays beside it.
    """
    result = np.zeros(len(points), bool)
    if not len(points) or not len(walls):
        return ~result
    distance = np.hypot(*(points - aim.point).T)
    spacing = max(radius / 4, 1e-3)
    for number, (least, (start, end)) in enumerate(zip(ends(edges, margin), edges, strict=True)):
        mine = aim.edge == number
        length = math.hypot(*(end - start))
        first, last = start + least * (end - start), end - least * (end - start)
        inner = mine & (aim.fraction > least) & (aim.fraction < 1 - least)
        if inner.any():
            along = (end - start) / length
            across = np.array([-along[1], along[0]])
            count = math.ceil((1 - 2 * least) * length / spacing) + 1
            origins = first + np.linspace(0, 1, count)[:, None] * (last - first)
            above = (points - aim.point) @ across >= 0
            for side, which in ((across, inner & above), (-across, inner & ~above)):
                free = _free_length(origins, np.broadcast_to(side, origins.shape), walls, TOUCH * radius)
                place = (aim.fraction[which] - least) / (1 - 2 * least) * (count - 1)
                result[which] = _between(free, place) >= distance[which]
        for spot, which in (
            (first, mine & (aim.fraction <= least)),
            (last, mine & (aim.fraction >= 1 - least) & ~(aim.fraction <= least)),
        ):
            if which.any():
                count = max(64, math.ceil(2 * math.pi * distance[which].max() / spacing))
                turn = 2 * math.pi * np.arange(count + 1) / count - math.pi
                rays = np.stack([np.cos(turn), np.sin(turn)], 1)
                free = _fan(spot, turn, rays, walls, TOUCH * radius)
                offset = points[which] - spot
                place = (np.arctan2(offset[:, 1], offset[:, 0]) + math.pi) / (2 * math.pi) * count
                result[which] = _between(free, place) >= distance[which]
    return result


def _between(free: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The shorter of the two rays beside each place, m."""
    low = np.clip(np.floor(place).astype(int), 0, max(len(free) - 2, 0))
    return np.minimum(free[low], free[np.minimum(low + 1, len(free) - 1)])


def _fan(spot: np.ndarray, turn: np.ndarray, rays: np.ndarray, walls: np.ndarray, radius: float) -> np.ndarray:
    """`_free_length` of rays from one spot in the order of their angles `turn`: each looks at the walls in its direction only."""
    from_spot = walls - spot  # (W, 2, 2)
    along = from_spot[:, 1] - from_spot[:, 0]
    share = np.clip(-(from_spot[:, 0] * along).sum(1) / (along**2).sum(1), 0.0, 1.0)
    near = np.hypot(*(from_spot[:, 0] + share[:, None] * along).T)
    pad = np.where(near > radius, np.arcsin(np.minimum(radius / np.maximum(near, radius), 1.0)), math.pi) + 1e-9
    angle = np.arctan2(from_spot[..., 1], from_spot[..., 0])
    free = np.empty(len(rays))
    for first in range(0, len(rays), BLOCK):
        block = slice(first, first + BLOCK)
        low, high = turn[block][0], turn[block][-1]
        ends_at = np.sort((angle - (low + high) / 2 + math.pi) % (2 * math.pi) - math.pi, axis=1)
        half = (high - low) / 2 + pad
        behind = ends_at[:, 1] - ends_at[:, 0] > math.pi  # seen from the spot the wall lies round its back
        ahead = (ends_at[:, 0] <= half) & (ends_at[:, 1] >= -half)
        chosen = np.where(behind, (ends_at[:, 1] <= half) | (ends_at[:, 0] >= -half), ahead)
        free[block] = _free_length(np.broadcast_to(spot, rays[block].shape), rays[block], walls[chosen], radius)
    return free


def _free_length(origins: np.ndarray, rays: np.ndarray, walls: np.ndarray, radius: float) -> np.ndarray:
    """How far each of R rays, unit (R, 2), gets from its origin (R, 2) m before it is `radius` m from a wall, (R,) m."""
    best = np.full(len(origins), math.inf)
    for some in range(0, len(walls), TOGETHER):
        start, end = walls[some : some + TOGETHER, 0], walls[some : some + TOGETHER, 1]
        length = np.hypot(*(end - start).T)
        along = (end - start) / length[:, None]
        across = np.stack([-along[:, 1], along[:, 0]], 1)
        offset = start - origins[:, None]  # (R, W, 2)
        before, beside = (offset * along).sum(-1), (offset * across).sum(-1)
        foot = np.clip(-before, 0, length)
        hit = np.where(np.hypot(before + foot, beside) < radius, 0.0, math.inf)
        towards, forwards = rays @ across.T, rays @ along.T
        steep = np.abs(towards) > 1e-12
        for side in (-radius, radius):
            run = np.where(steep, (beside + side) / np.where(steep, towards, 1.0), -1.0)
            reached = run * forwards - before
            hit = np.where((run > 0) & (reached >= 0) & (reached <= length), np.minimum(hit, run), hit)
        for post in (start, end):
            away = post - origins[:, None]
            run = (away * rays[:, None]).sum(-1)
            square = radius**2 - ((away**2).sum(-1) - run**2)
            run = run - np.sqrt(np.maximum(square, 0.0))
            hit = np.where((square > 0) & (run > 0), np.minimum(hit, run), hit)
        best = np.minimum(best, hit.min(1))
    return best
