"""Boids in pure Python, every bird against every other or by a grid of cells: the way game tutorials write them.

Rules and numbers of the reference flock (per tick; illustrative, no paper stands behind them), with steering towards a wanted velocity.

References:
    Reynolds, Computer Graphics 21 (1987) 25; Reynolds, Steering behaviors for autonomous characters (1999).
"""

import math
from collections.abc import Iterable

import numpy as np

from crowdlab.bench.crowd import Task

WIDTH, HEIGHT = 1200.0, 800.0  # units
NEAR, VIEW = 12.0, 45.0  # units: separation, alignment and cohesion
SEPARATION, ALIGNMENT, COHESION = 1.6, 1.0, 0.8  # weights
MOST_SPEED, MOST_FORCE = 3.0, 0.15  # units per tick, units per tick^2
CELL = 60.0  # units, at least; as wide as fits evenly, so that the cells close round the seam
CLAIMED = {300: (5.0, 4.0), 1000: (60.0, 7.0), 3000: (520.0, 22.0), 10000: (None, 80.0)}  # ms per tick: all pairs, grid

Pair = tuple[float, float]


def tick(places: list[Pair], velocities: list[Pair], *, grid: bool) -> tuple[list[Pair], list[Pair]]:
    """Places and velocities one tick later; everybody reads the old ones."""
    cells = _cells(places) if grid else None
    new = [
        _velocity(i, places, velocities, range(len(places)) if cells is None else _around(places[i], cells))
        for i in range(len(places))
    ]
    return [((x + u) % WIDTH, (y + v) % HEIGHT) for (x, y), (u, v) in zip(places, new, strict=True)], new


def _velocity(i: int, places: list[Pair], velocities: list[Pair], others: Iterable[int]) -> Pair:
    """One bird's next velocity."""
    (x, y), (u, v) = places[i], velocities[i]
    away_x = away_y = mean_u = mean_v = centre_x = centre_y = 0.0
    seen = 0
    for j in others:
        dx, dy = places[j][0] - x, places[j][1] - y
        dx -= WIDTH * round(dx / WIDTH)
        dy -= HEIGHT * round(dy / HEIGHT)
        square = dx * dx + dy * dy
        if square < VIEW * VIEW and j != i:
            seen += 1
            mean_u += velocities[j][0]
            mean_v += velocities[j][1]
            centre_x += dx
            centre_y += dy
            if 0 < square < NEAR * NEAR:  # nearer pushes harder
                away_x -= dx / square
                away_y -= dy / square
    if not seen:
        return u, v
    force_u = force_v = 0.0
    for weight, a, b in ((SEPARATION, away_x, away_y), (ALIGNMENT, mean_u, mean_v), (COHESION, centre_x, centre_y)):
        steer_u, steer_v = _steer(a, b, u, v)
        force_u += weight * steer_u
        force_v += weight * steer_v
    return _shortened(u + force_u, v + force_v, MOST_SPEED)


def _steer(a: float, b: float, u: float, v: float) -> Pair:
    """From the velocity (u, v) towards full speed along (a, b), shortened to the largest force; zero where nothing is wanted."""
    length = math.hypot(a, b)
    return _shortened(MOST_SPEED * a / length - u, MOST_SPEED * b / length - v, MOST_FORCE) if length else (0.0, 0.0)


def _shortened(u: float, v: float, most: float) -> Pair:
    length = math.hypot(u, v)
    return (u, v) if length <= most else (u * most / length, v * most / length)


def _counts() -> tuple[int, int]:
    return int(WIDTH // CELL), int(HEIGHT // CELL)


def _cells(places: list[Pair]) -> dict[Pair, list[int]]:
    columns, rows = _counts()
    cells: dict[Pair, list[int]] = {}
    for i, (x, y) in enumerate(places):
        cells.setdefault((int(x / WIDTH * columns) % columns, int(y / HEIGHT * rows) % rows), []).append(i)
    return cells


def _around(place: Pair, cells: dict[Pair, list[int]]) -> list[int]:
    """Who is in the nine cells round a place."""
    columns, rows = _counts()
    column, row = int(place[0] / WIDTH * columns), int(place[1] / HEIGHT * rows)
    found: list[int] = []
    for a in (-1, 0, 1):
        for b in (-1, 0, 1):
            found += cells.get(((column + a) % columns, (row + b) % rows), ())
    return found


class Flock:
    """The flock at rest round the middle of its world, as it starts."""

    compiles, pieces = False, 50
    grid = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def load(self) -> str:
        """Version."""
        return "pure Python"

    def prepare(self) -> dict[str, float]:
        """Nothing to make ready but the birds."""
        self.restart()
        return {}

    def restart(self) -> None:
        """Everybody back to the start."""
        drawn = np.random.default_rng(self.task.seed).standard_normal((self.task.people, 2))
        around = np.array([WIDTH, HEIGHT]) * (0.5 + drawn / 8) % (WIDTH, HEIGHT)
        self.places = [(float(x), float(y)) for x, y in around]
        self.velocities = [(0.0, 0.0)] * self.task.people

    def advance(self) -> int:
        """One tick."""
        self.places, self.velocities = tick(self.places, self.velocities, grid=self.grid)
        return 1


class GriddedFlock(Flock):
    """The same with cells."""

    grid = True
