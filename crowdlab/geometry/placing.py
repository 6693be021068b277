"""Where people stand at the start: random places without overlap, and checks of places that were given."""

import math
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from crowdlab.errors import ScenarioError
from crowdlab.geometry.areas import Area
from crowdlab.geometry.floors import Floor, covers, within
from crowdlab.geometry.notes import at
from crowdlab.state import Array

BATCH = 4096  # darts thrown at once
TRIES = 300  # darts in a row that may miss before the darts give way to a lattice
DENSE = 0.4  # covered share of the area beyond which darts are not even tried: at random they jam near 0.55
LATTICES = 8  # shifts of the lattice that are tried
SIZES = 4  # sizes of bodies that have lattices of their own where they do not fit on one
MOST = 10**9  # more sites than any lattice has

Discs = tuple[np.ndarray, np.ndarray]  # positions (n, 2) m and radii (n,) m
Bell = tuple[tuple[float, float], tuple[float, float]]  # centre, m, and standard deviations of x and y, m


class _Crowd:
    """Discs sorted into square cells, so that a new one is compared with those nearby only."""

    def __init__(self, widest: float, discs: Discs) -> None:
        self.widest, self.cell = widest, 2 * widest
        self.cells: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
        for (x, y), radius in zip(*discs, strict=True):
            self.add(float(x), float(y), float(radius))

    def add(self, x: float, y: float, radius: float) -> None:
        home = (math.floor(x / self.cell), math.floor(y / self.cell))
        self.cells.setdefault(home, []).append((x, y, radius))

    def has_room(self, x: float, y: float, radius: float) -> bool:
        column, row = math.floor(x / self.cell), math.floor(y / self.cell)
        far = max(1, math.ceil((radius + self.widest) / self.cell))
        for i in range(column - far, column + far + 1):
            for j in range(row - far, row + far + 1):
                for a, b, other in self.cells.get((i, j), ()):
                    if (a - x) ** 2 + (b - y) ** 2 < (radius + other) ** 2:
                        return False
        return True


def uniforms(key: Array, count: int, columns: int = 1) -> np.ndarray:
    """Random numbers strictly between 0 and 1, (count, columns), columns up to 4; the same in single and in double precision.

    Always drawn in blocks of one size: that compiles once, and the first rows do not depend on how many follow.
    """
    blocks = [np.asarray(jax.random.bits(jax.random.fold_in(key, i), (BATCH, 4), np.uint32)) for i in range(-(-count // BATCH))]
    bits = np.concatenate([np.empty((0, 4)), *blocks])[:count, :columns].astype(float)
    return (bits + 0.5) / 2.0**32


def sample_points(area: Area, count: int, key: Array, where: str) -> np.ndarray:
    """Random points (count, 2) m, uniform in an area. Raises ScenarioError for an area too thin to be hit."""
    found = np.empty((0, 2))
    for batch in _darts(area, key, 1000):
        found = np.concatenate([found, batch])
        if len(found) >= count:
            return found[:count]
    raise ScenarioError(f"{where}: is too thin to find places in. Give a broader area.")


def sample_discs(
    floor: Floor,
    area: Area,
    radii: np.ndarray,
    key: Array,
    *,
    taken: Discs | None = None,
    where: str = "area",
    allowance: float = 1e-4,
    bell: Bell | None = None,
) -> np.ndarray:
    """Random centres (n, 2) m of discs with given radii: in the area, clear of walls, of each other and of those `taken`.

    Every gap is at least `allowance`, so that rounding to single precision makes no overlap. Only jax.random is drawn from, so the
    same key gives the same places. Sparse crowds are thrown like darts, the stoutest first; dense ones stand on a shaken lattice,
    or, where people of many sizes do not fit so, each size on a lattice of its own.
    With a `bell`, centre and deviations in m, the darts are spread round the centre as a normal distribution, and there is no lattice.

    Raises:
        ScenarioError: says how many would fit.
    """
    count = len(radii)
    if not count:
        return np.empty((0, 2))
    wide = np.asarray(radii, float) + allowance / 2
    taken = (np.empty((0, 2)), np.empty(0)) if taken is None else (taken[0], taken[1] + allowance / 2)
    room = within(floor, area, float(wide.min()))
    order = np.argsort(-wide, kind="stable")
    placed = 0
    if bell or math.pi * float(wide @ wide) < DENSE * room.area:
        places, placed = _throw(floor, room, wide[order], key, taken, bell)
        if placed == count:
            return places[np.argsort(order)]
    if bell:
        centre, deviations = bell
        raise ScenarioError(
            f"{where}: about {placed} people of radius {_span(radii)} m find a place {_span(np.array(deviations))} m or so from "
            f"{at(centre, floor.origin)}, count = {count}. Lower the count, or give another deviation."
        )
    narrow = within(floor, area, float(wide.max()))
    sites, slack = _lattice(narrow, float(wide.max()), count, key, taken)
    if len(sites) < count:
        mixed = [_by_size(floor, area, wide, jax.random.fold_in(key, 0), taken, dense) for dense in (False, True)]
        most = max(mixed, key=lambda places: int(np.isfinite(places[:, 0]).sum()))
        fits = max(len(sites), placed, int(np.isfinite(most[:, 0]).sum()))
        if fits == count:
            return most
        raise ScenarioError(
            f"{where}: holds about {fits} people of radius {_span(radii)} m, count = {count}. Lower the count or enlarge the area."
        )
    draws = uniforms(jax.random.fold_in(key, 1), len(sites), 3)
    sites = sites[np.argsort(draws[:, 0], kind="stable")][:count]
    turn = 2 * math.pi * draws[:count, 1]
    shaken = sites + (slack * np.sqrt(draws[:count, 2]))[:, None] * np.stack([np.cos(turn), np.sin(turn)], 1)
    free = covers(narrow, shaken)
    return np.where(free[:, None], shaken, sites)


def _span(radii: np.ndarray) -> str:
    low, high = float(np.min(radii)), float(np.max(radii))
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def _darts(area: Area, key: Array, batches: int, bell: Bell | None = None) -> Iterator[np.ndarray]:
    """Points in an area, batch after batch: uniform, or round the middle of a bell."""
    if area.is_empty:
        return
    left, bottom, right, top = area.bounds
    for number in range(batches):
        draws = uniforms(jax.random.fold_in(key, 2 + number), BATCH, 2)
        if bell is None:
            points = np.array([left, bottom]) + draws * np.array([right - left, top - bottom])
        else:
            points = np.array(bell[0]) + np.array(bell[1]) * ndtri(draws)
        yield points[covers(area, points)]


def _throw(floor: Floor, room: Area, radii: np.ndarray, key: Array, taken: Discs, bell: Bell | None) -> tuple[np.ndarray, int]:
    """Places of as many discs, in the given order, as can be thrown in: each gets the first dart that misses everybody."""
    crowd = _Crowd(max(float(radii.max()), float(taken[1].max(initial=0.0))), taken)
    places = np.empty((len(radii), 2))
    placed = missed = 0
    for points in _darts(room, key, 1000, bell):
        for (x, y), gap in zip(points.tolist(), floor.clearance(points).tolist(), strict=True):
            radius = float(radii[placed])
            if gap < radius or not crowd.has_room(x, y, radius):
                missed += 1
                if missed > TRIES:
                    return places, placed
                continue
            crowd.add(x, y, radius)
            places[placed] = x, y
            placed, missed = placed + 1, 0
            if placed == len(radii):
                return places, placed
    return places, placed


def _by_size(floor: Floor, area: Area, radii: np.ndarray, key: Array, taken: Discs, dense: bool) -> np.ndarray:
    """Places (n, 2) m of discs of many sizes, the stoutest on a lattice of their own, then the next; NaN for those that do not fit.

    The stouter stand all over the area or, if it is to be `dense`, close together.
    """
    places, sizes = np.full((len(radii), 2), math.nan), np.unique(radii)
    bounds = sizes if len(sizes) <= SIZES else np.quantile(radii, np.linspace(0, 1, SIZES + 1)[1:])
    number = np.searchsorted(bounds + 1e-12, radii)
    for size in range(len(bounds) - 1, -1, -1):
        mine = np.flatnonzero(number == size)
        if not len(mine):
            continue
        stoutest = float(radii[mine].max())
        sites, _ = _lattice(within(floor, area, stoutest), stoutest, MOST, jax.random.fold_in(key, 2 * size), taken)
        order = np.lexsort(sites.T) if dense else np.argsort(uniforms(jax.random.fold_in(key, 2 * size + 1), len(sites))[:, 0])
        some = sites[order][: len(mine)]
        places[mine[: len(some)]] = some
        taken = (np.concatenate([taken[0], some]), np.concatenate([taken[1], radii[mine[: len(some)]]]))
    return places


def _lattice(room: Area, radius: float, count: int, key: Array, taken: Discs) -> tuple[np.ndarray, float]:
    """Sites (m, 2) m of the widest triangular lattice that has `count` of them in the room, and how far each may be shaken, m.

    Those of the tightest where there are not so many.
    """
    if room.is_empty:
        return np.empty((0, 2)), 0.0
    shifts = np.concatenate([np.zeros((1, 2)), uniforms(key, LATTICES - 1, 2)])
    crowd = _Crowd(max(radius, float(taken[1].max(initial=0.0))), taken)

    def best(pitch: float) -> np.ndarray:
        found = np.empty((0, 2))
        for number, shift in enumerate(shifts):
            sites = _triangles(room, pitch, shift, bool(number % 2))
            if len(sites) > len(found):
                # Shaken or not, a site keeps half a pitch to itself.
                ok = [crowd.has_room(x, y, pitch / 2) for x, y in sites.tolist()] if len(taken[1]) else slice(None)
                found = max(found, sites[ok], key=len)
        return found

    tightest = 2 * radius
    sites, pitch = best(tightest), tightest
    if len(sites) < count:
        return sites, 0.0
    low, high = tightest, math.sqrt(2 / math.sqrt(3) * room.area / count) * 1.5 + tightest
    for _ in range(12):
        middle = (low + high) / 2
        trial = best(middle)
        if len(trial) >= count:
            low, sites, pitch = middle, trial, middle
        else:
            high = middle
    return sites, pitch / 2 - radius


def _triangles(room: Area, pitch: float, shift: np.ndarray, upright: bool) -> np.ndarray:
    """Sites of a triangular lattice that lie in the room, (m, 2) m; `upright` turns it by a right angle."""
    left, bottom, right, top = room.bounds
    wide, high = (top - bottom, right - left) if upright else (right - left, top - bottom)
    rise = pitch * math.sqrt(3) / 2
    columns, rows = np.arange(-1, math.ceil(wide / pitch) + 1), np.arange(-1, math.ceil(high / rise) + 1)
    x = pitch * (columns[None, :] + shift[0] + 0.5 * (rows % 2)[:, None])
    y = np.broadcast_to(rise * (rows + shift[1])[:, None], x.shape)
    along, across = (y, x) if upright else (x, y)
    points = np.stack([left + along.ravel(), bottom + across.ravel()], 1)
    return points[covers(room, points)]


def check_start(floor: Floor, positions: np.ndarray, radii: np.ndarray, names: Sequence[str], taken: Discs | None = None) -> None:
    """Given places must be free: in the area, a radius from every wall, nobody in anybody else.

    `names` belong to `positions`, then to those `taken`.

    Raises:
        ScenarioError: names the person and the wall, obstacle or other person, and by how much.
    """
    inside, gap = floor.inside(positions), floor.clearance(positions)
    for number in np.flatnonzero(~inside | (gap < radii - 1e-6)).tolist():
        place, radius = positions[number], radii[number]
        who = f"{names[number]} at {at(place, floor.origin)}"
        for name, obstacle in floor.obstacles:
            if covers(obstacle, place[None])[0] and not inside[number]:
                raise ScenarioError(f"{who}: stands inside {name}. Move it to where people can walk.")
        if not inside[number]:
            raise ScenarioError(f"{who}: stands outside the walkable area, {gap[number]:.3g} m from it. Move it inside.")
        raise ScenarioError(
            f"{who}: its centre is {gap[number]:.4g} m from a wall, allowed is its radius of {radius:g} m or more. "
            f"Move it {radius - gap[number]:.3g} m away."
        )
    points = positions if taken is None else np.concatenate([positions, taken[0]])
    sizes = radii if taken is None else np.concatenate([radii, taken[1]])
    if len(points) < 2:
        return
    pairs, gaps = _near(floor, points, 2 * float(sizes.max()))
    apart = np.hypot(*gaps.T)
    overlap = sizes[pairs].sum(1) - apart
    for number in np.flatnonzero((overlap > 1e-6) & (pairs[:, 0] < len(positions)))[:1]:
        one, other = pairs[number].tolist()
        raise ScenarioError(
            f"{names[one]} and {names[other]}: overlap by {overlap[number]:.3g} m, their centres are {apart[number]:.4g} m apart, "
            f"allowed are {sizes[one] + sizes[other]:g} m (the sum of their radii) or more. Move one of them."
        )


def _near(floor: Floor, points: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (n, 2) of points within `distance` m, the lower number first and in order, and the offsets (n, 2) m of the two."""
    tree = cKDTree(points)
    pairs = [tree.query_pairs(distance, output_type="ndarray")]
    gaps = [points[pairs[0][:, 0]] - points[pairs[0][:, 1]]]
    for shift in floor.periods:
        across = tree.sparse_distance_matrix(cKDTree(points + shift), distance, output_type="coo_matrix")
        one, other = across.row, across.col
        some = one != other
        pairs.append(np.sort(np.stack([one[some], other[some]], 1), axis=1))
        gaps.append((points[one] - points[other] - shift)[some])
    both, apart = np.concatenate(pairs), np.concatenate(gaps)
    order = np.lexsort((both[:, 1], both[:, 0]))
    return both[order], apart[order]
