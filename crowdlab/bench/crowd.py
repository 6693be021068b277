"""The crowd that every code gets: on a jittered hexagonal lattice in a walled hall, walking, with an exit far ahead."""

import dataclasses
from typing import Any

import numpy as np

RADIUS, SPEED, MASS = 0.25, 1.34, 80.0  # m, m/s, kg
SPACE = 30.0  # m of empty hall ahead ...
WATCHED = 5.0  # s: ... and simulated time after which a code begins anew, so that nobody arrives while the clock runs
BESIDE = 0.5  # m between the lattice and the walls
BEHIND = 80.0  # m of empty hall behind, where the far walls stand
MOST_DENSE = 2 / (np.sqrt(3) * (2 * RADIUS) ** 2)  # 1/m^2, where the bodies of a hexagonal lattice touch: 4.62
ZIGZAG = 10  # far wall segments in one piece
CORNERS = 8  # of a column that stands among the people


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What one process is asked to run."""

    people: int
    density: float = 2.0  # 1/m^2, at the start
    dt: float = 0.001  # s
    far_walls: int = 0  # segments that nobody comes near
    columns: int = 0  # all over the hall, each in place of a person and as stout
    gone: int = 0  # so many of them, those in front, have left before the start ...
    absent: int = 0  # ... or were never there, in the same hall
    runs: int = 1  # abreast
    steps: int = 0  # of one piece; 0 lets the number of people decide
    pieces: int = 0  # of one round; 0 lets the clock decide
    digest: bool = False  # say what bytes came out
    seed: int = 0


def places(people: int, density: float, seed: int = 0, but: np.ndarray | None = None) -> np.ndarray:
    """Positions (people, 2) m on a hexagonal lattice, moved a little at random; nobody touches anybody. Spots `but` stay free.

    A square lattice at 4 per m2 would leave nothing between bodies of 0.25 m; a hexagonal one leaves 3.7 cm.
    """
    spacing, _ = _lattice(people, density)
    number = np.arange(people) if but is None else np.setdiff1d(np.arange(people + len(but)), but)[:people]
    random = np.random.default_rng(seed)
    moved = min(0.05, 0.45 * (spacing - 2 * RADIUS)) * np.sqrt(random.uniform(size=people))
    angle = random.uniform(0, 2 * np.pi, people)
    return _spots(number, people, density) + moved[:, None] * np.stack((np.cos(angle), np.sin(angle)), -1)


def _spots(number: np.ndarray, people: int, density: float) -> np.ndarray:
    """Spots (n, 2) m of the lattice, numbered row by row from the back of the hall to its front."""
    spacing, columns = _lattice(people, density)
    row, column = number // columns, number % columns
    return np.stack((row * np.sqrt(0.75), column + 0.5 * (row % 2)), -1) * spacing + BESIDE + RADIUS


def _lattice(people: int, density: float) -> tuple[float, int]:
    """Distance between neighbours, m, and people side by side, so that the block is about square."""
    spacing = float(np.sqrt(2 / (np.sqrt(3) * density)))
    return spacing, max(1, int(np.ceil(np.sqrt(people * np.sqrt(0.75)))))


def hall(task: Task) -> tuple[float, float, float]:
    """Left end, right end and width of the hall, m."""
    spacing, columns = _lattice(task.people, task.density)
    rows = -(-task.people // columns)
    depth = (rows - 1) * spacing * np.sqrt(0.75)
    width = (columns - 0.5) * spacing + 2 * (BESIDE + RADIUS)
    return -BEHIND if task.far_walls else 0.0, float(depth + 2 * (BESIDE + RADIUS) + SPACE), float(width)


def walls(task: Task) -> np.ndarray:
    """The four walls of the hall, (4, 2, 2) m."""
    left, right, width = hall(task)
    corners = np.array([[left, 0], [right, 0], [right, width], [left, width]])
    return np.stack((corners, np.roll(corners, -1, 0)), 1)


def exit_line(task: Task) -> np.ndarray:
    """Ends (2, 2) m of the exit: all across, half a metre before the end of the hall."""
    _, right, width = hall(task)
    return np.array([[right - 0.5, 0], [right - 0.5, width]])


def scenario(task: Task) -> dict[str, Any]:
    """The tables of a crowdlab scenario: Helbing, Farkas and Vicsek complete, which is what a scenario without forces gets."""
    left, right, width = hall(task)
    return {
        "title": f"{task.people} people at {task.density:g} per m2",
        "seed": task.seed,
        "duration": 1.0,
        "world": {
            "area": [[left, 0], [right, 0], [right, width], [left, width]],
            "walls": _far_walls(task, width),
            "obstacles": _columns(task),
        },
        "goals": {"exit": {"line": exit_line(task).tolist()}},
        "groups": {
            "crowd": {
                "positions": places(task.people, task.density, task.seed, _taken(task))[: task.people - task.absent].tolist(),
                "goal": "exit",
                "desired_speed": SPEED,
                "radius": RADIUS,
            }
        },
        "motion": {"dt": task.dt},
    }


def _far_walls(task: Task, width: float) -> list[list[list[float]]]:
    """Zigzags of ten segments each, at least 15 m behind everybody."""
    many = task.far_walls // ZIGZAG
    rows = max(1, int(np.ceil(np.sqrt(many))))
    points = np.arange(ZIGZAG + 1)
    zigzag = np.stack((0.2 * points, 0.1 * (points % 2)), -1)
    spots = [(-BEHIND + 5.0 + 60.0 * (n // rows) / rows, width * (n % rows + 0.5) / rows) for n in range(many)]
    return [(zigzag + spot).tolist() for spot in spots]


def _taken(task: Task) -> np.ndarray:
    """Numbers of the spots of the lattice where columns stand, evenly all over the hall."""
    spacing, across = _lattice(task.people, task.density)
    _, right, _ = hall(task)
    rows = int((right - 2 * (BESIDE + RADIUS)) / (spacing * np.sqrt(0.75)))
    return np.unique(np.linspace(0, rows * across, task.columns, endpoint=False).astype(int) + across // 2)


def _columns(task: Task) -> list[list[list[float]]]:
    """Outlines of the columns: CORNERS wall segments each."""
    turn = 2 * np.pi * np.arange(CORNERS) / CORNERS
    ring = RADIUS * np.stack((np.cos(turn), np.sin(turn)), -1)
    return [(ring + spot).tolist() for spot in _spots(_taken(task), task.people, task.density)]
