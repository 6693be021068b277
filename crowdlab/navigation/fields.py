"""Host half: for every goal, from everywhere, the direction of the shortest way and whether the goal is in plain sight.

Method, and why. The nodes of a raster know the corner they walk to next, and a wave that runs out from the goal hands these corners on
(see wavefront): an any-angle search, whose lines of sight are decided on the exact walls. Compared on 39 random plans of 12 x 8 m with
40 people each, walked lengths against a visibility graph: fast sweeping of the eikonal equation, first order, with people slowed down
near walls, was up to 4.6 % too long in 18 plans and led bodies into doors too narrow for them; this is at most 0.6 % too long and never
did. The exact visibility graph itself needs as many lines of sight as it has pairs of corners, which 1 000 walls make too many, and a
way from every node besides. Fast marching from a library (scikit-fmm) has the error of the first order at corners too, and no wheels for
every Python. In NumPy a plan of 100 x 100 m at 0.1 m takes 2 s of a processor for an empty hall, 7 s for 100 rooms in a
row of doors, 8 s with 196 blocks of 924 walls.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import binary_dilation

from crowdlab import cache
from crowdlab.geometry import VERSION, Floor, crosses, left_open
from crowdlab.navigation.raster import Raster, lay_raster
from crowdlab.navigation.sight import in_sight, nearest_points
from crowdlab.navigation.wavefront import RING, Graph, Wave, spread

ROOMS = ("geometry", "navigation")  # whose code makes the ways
PASSED = 2.8  # cells; a narrower door may close
FINEST = 0.1  # m, usual spacing of the nodes
NODES, ALL_NODES = 2_000_000, 8_000_000  # most nodes for one goal and for all together (16 bytes each)
AT_ONCE = 2_000_000  # nodes times goals that are worked on together, 100 bytes each or so
PUSH = 3.0  # how strongly ways turn away from a wall, for a depth of one radius
SOURCE = 3.0  # cells round a goal within which everybody walks straight to it
AT_CORNER = 0.5  # cells; a corner nearer than this gives no direction


def choose_cell(size: tuple[float, float], goals: int, radius: float) -> float:
    """Spacing of the nodes, m: 0.1, or less for people thinner than 0.14 m, whose doors are narrower.

    Coarser where a huge plan or very many goals would need more memory than about 100 MB; then doors narrower than PASSED cells may
    close, which is found and refused at the start, and beyond `sound_cell` ways along thin walls lose their guarantee (see lookup).
    """
    cell = min(FINEST, sound_cell(radius))
    most = min(NODES, ALL_NODES / max(goals, 1))
    return max(cell, math.sqrt(size[0] * size[1] / most))


def sound_cell(radius: float, pressed: float = 0.5) -> float:
    """Coarsest spacing of the nodes, m, at which bodies of `radius` m that are pressed to this share of it against a wall are still
    farther from it than a node may be that lies beyond, and so is no door closed that they fit through.
    """
    return math.sqrt(2) * pressed * radius


def pad_goals(goals: Sequence[np.ndarray], most: int = 1) -> np.ndarray:
    """Edges of all goals (G, E, 2, 2) m, `most` at least, padded by edges of no length in the middle of the last one: they change no
    distance, no crossing and no inside.
    """
    most = max([most, *(len(edges) for edges in goals)])
    padded = np.empty((len(goals), most, 2, 2))
    for edges, row in zip(goals, padded, strict=True):
        row[: len(edges)] = edges
        row[len(edges) :] = edges[-1].mean(0)
    return padded


def ways(
    floor: Floor,
    goals: Sequence[np.ndarray],
    leaves: Sequence[bool],
    *,
    lower: tuple[float, float],
    size: tuple[float, float],
    cell: float,
    sizes: Sequence[np.ndarray],
) -> np.ndarray:
    """(G * Z, 4, rows, columns): World.ways, unit vector towards each goal for each of Z sizes of bodies and 1 where it is in plain
    sight for the stoutest of that size, and after these three the length of the way, m, infinite where there is none.

    `goals` are edges (E, 2, 2) m, `sizes` the radii, m, of the people of each size (see geometry.alike): ways keep their mean off walls.
    Nodes outside the area or at a wall are marked -1 and point back to the nearest good node. What was computed once for the same floor,
    goals and sizes is taken from the disk (see cache).
    """
    if not goals:
        columns, rows = _shape(size, cell)
        return np.empty((0, 4, rows, columns), np.float32)
    given = [
        *(floor.walls, floor.area.wkb, VERSION, len(floor.openings), *floor.openings),
        *(len(goals), *goals, tuple(map(bool, leaves)), lower, size, cell, len(sizes), *sizes),
    ]
    return cache.recalled("ways", given, ROOMS, lambda: _make(floor, goals, leaves, lower=lower, size=size, cell=cell, sizes=sizes))


def _shape(size: tuple[float, float], cell: float) -> tuple[int, int]:
    """Columns and rows of nodes."""
    columns, rows = (max(2, math.ceil(extent / cell - 1e-9) + 1) for extent in size)
    return columns, rows


def _make(
    floor: Floor,
    goals: Sequence[np.ndarray],
    leaves: Sequence[bool],
    *,
    lower: tuple[float, float],
    size: tuple[float, float],
    cell: float,
    sizes: Sequence[np.ndarray],
) -> np.ndarray:
    """`ways`, computed."""
    columns, rows = _shape(size, cell)
    field = np.empty((len(goals), len(sizes), 4, rows, columns), np.float32)
    x, y = lower[0] + cell * np.arange(columns), lower[1] + cell * np.arange(rows)
    together = max(1, AT_ONCE // (rows * columns))
    for number, radii in enumerate(sizes):
        raster, stoutest = lay_raster(floor, x, y, cell, float(radii.mean())), float(radii.max())
        margins = [stoutest if leaving else 0.0 for leaving in leaves]
        for first in range(0, len(goals), together):
            some = slice(first, first + together)
            field[some, number] = _ways(raster, goals[some], margins[some], stoutest)
    return field.reshape(-1, 4, rows, columns)


def _ways(raster: Raster, goals: Sequence[np.ndarray], margins: Sequence[float], stoutest: float) -> np.ndarray:
    """Ways to a few goals, (n, 4, rows, columns)."""
    graph, shape = raster.graph, raster.trusted.shape
    if graph is None:
        blank = np.zeros((len(goals), 4, *shape))
        blank[:, 2], blank[:, 3] = -1.0, math.inf
        return blank
    aims, seen, start = zip(
        *(_begin(raster, graph, edges, margin, stoutest) for edges, margin in zip(goals, margins, strict=True)), strict=True
    )
    wave = spread(graph, np.stack(start), np.stack(aims), _hidden(raster, graph, start, aims), raster.cell)
    many = len(graph.places)
    return np.stack(
        [
            _way(
                raster,
                graph,
                wave.of(slice(number * many, (number + 1) * many)),
                aims[number],
                np.isfinite(start[number]),
                seen[number],
            )
            for number in range(len(goals))
        ]
    )


def _begin(
    raster: Raster, graph: Graph, edges: np.ndarray, margin: float, stoutest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one goal: its nearest point to every place (M, 2) m, which nodes see it (rows, columns), and the way (M,) m from where it is
    straight, infinite elsewhere.
    """
    points, good, shape = raster.nodes.reshape(-1, 2), raster.trusted.ravel(), raster.trusted.shape
    nodes = len(points)
    aim = nearest_points(np.concatenate([points, graph.places[nodes:]]), edges, margin)
    near = np.hypot(*(aim.point - graph.places).T)
    seen = np.zeros(shape, bool)
    mine = aim.of(np.flatnonzero(good))
    others = _other_exits(raster.floor, edges)
    seen[raster.trusted] = in_sight(points[good], mine, edges, margin, np.concatenate([raster.floor.walls, others]), stoutest)
    source = seen | _source(raster, aim.point[:nodes], near[:nodes].reshape(shape), others)
    known = np.concatenate([source.ravel(), graph.room.sight(graph.places[nodes:], aim.point[nodes:])])
    return aim.point, seen, np.where(known, near, math.inf)


def _hidden(raster: Raster, graph: Graph, start: Sequence[np.ndarray], aims: Sequence[np.ndarray]) -> np.ndarray:
    """Which nodes (G, M), at the rim of those with a straight way, lead to a goal that a body cannot quite see, as one on a wall."""
    hidden = np.zeros((len(start), len(graph.places)), bool)
    for length, aim, mask in zip(start, aims, hidden, strict=True):
        source = np.isfinite(length[: raster.trusted.size]).reshape(raster.trusted.shape)
        rim = np.flatnonzero((source & binary_dilation(~source, np.ones((3, 3)))).ravel())
        mask[rim] = ~graph.room.sight(graph.places[rim], aim[rim])
    return hidden


def _way(raster: Raster, graph: Graph, wave: Wave, aim: np.ndarray, straight: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Way to one goal, where it is in sight and how long it is, (4, rows, columns)."""
    shape, points = raster.trusted.shape, raster.nodes.reshape(-1, 2)
    nodes, here = len(points), np.arange(len(graph.places))
    gap = wave.target - graph.places
    for _ in range(2):  # whoever stands at a corner looks at what comes after it
        there = np.where((np.hypot(*gap.T) < AT_CORNER * raster.cell) & (wave.via >= 0), wave.via, here)
        gap = np.where((there != here)[:, None], gap[there], gap)
    way = _units(gap[:nodes]) + PUSH / graph.room.radius * (graph.places[:nodes] - points)
    way[straight[:nodes]] = (aim[:nodes] - points)[straight[:nodes]]
    good = np.isfinite(wave.length[:nodes])
    way = np.where(good[:, None], _units(way), 0.0)
    good = _lead_out(raster, graph, way, good)
    home = raster.back.ravel()
    back = _units(_units(points[home] - points) + 0.5 * way[home])
    way = np.where(good[:, None], way, back)
    length = np.where(raster.trusted, wave.length[:nodes].reshape(shape), math.inf)
    return np.stack([*way.T.reshape(2, *shape), np.where(good.reshape(shape), seen, -1.0), length])


def _units(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, 2) of length one, or zero."""
    length = np.hypot(*vectors.T)[:, None]
    return np.where(length > 1e-9, vectors / np.maximum(length, 1e-9), 0.0)


def _lead_out(raster: Raster, graph: Graph, way: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Lead thin people out of where the mean body does not fit: from nodes without a way to a neighbour with one.

    Fills `way` (n, 2) and returns which nodes have one now, (n,) bool.
    """
    points, columns = raster.nodes.reshape(-1, 2), raster.trusted.shape[1]
    good = good.copy()
    todo = np.flatnonzero(raster.trusted.ravel() & ~graph.plain[: len(points)] & ~good)
    while len(todo):
        found = np.full(len(todo), -1)
        for row, column in RING[::2] + RING[1::2]:
            there = todo + row * columns + column
            some = (found < 0) & good[there]
            found[some] = there[some]
        some = found >= 0
        if not some.any():
            break
        way[todo[some]] = _units(points[found[some]] - points[todo[some]])
        good[todo[some]] = True
        todo = todo[~some]
    return good


def _other_exits(floor: Floor, edges: np.ndarray) -> np.ndarray:
    """What of the openings of exits (n, 2, 2) m is not the goal itself: whoever goes through it is gone, so no way leads there."""
    if not floor.openings:
        return np.empty((0, 2, 2))
    return np.concatenate([np.empty((0, 2, 2)), *left_open(np.stack(floor.openings), edges)])


def _source(raster: Raster, aim: np.ndarray, distance: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Nodes whose way is the plain distance: close to the goal with no wall between, nor `others` that none may go through; at least one
    if any will do.
    """
    result = np.zeros(distance.shape, bool)
    close = np.flatnonzero((raster.trusted & (distance < max(SOURCE * raster.cell, 1.0))).ravel())
    close = close[np.argsort(distance.ravel()[close], kind="stable")]
    start = raster.nodes.reshape(-1, 2)[close]
    # A goal may lie on a wall: the line of sight ends just before it.
    end = aim[close] + 1e-6 * (start - aim[close])
    clear = close[~raster.floor.blocked(start, end) & ~crosses(start, end, others)]
    result.ravel()[clear[:1]] = True
    result.ravel()[clear[distance.ravel()[clear] < SOURCE * raster.cell]] = True
    return result
