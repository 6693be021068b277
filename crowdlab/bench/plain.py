"""A social force engine in plain NumPy, all pairs, double precision: how far one gets without a list and without a compiler.

Written from the equations, for measuring and for checking our forces against; nothing else uses it.
"""

from typing import NamedTuple

import numpy as np

from crowdlab.bench import crowd
from crowdlab.bench.crowd import MASS, RADIUS, SPEED, Task

STRENGTH, FALLOFF = 2000.0, 0.08  # N, m: A and B, for people and for walls
COMPRESSION, FRICTION = 1.2e5, 2.4e5  # kg/s^2, kg/(m s): k and kappa
RELAXATION_TIME = 0.5  # s
NEGLIGIBLE = 1e-3  # N; weaker social forces are zero, as ours are
SPEED_FACTOR = 2.0  # speed limit as a factor of the desired speed
NOISE = 0.1  # m/s^1.5
SMALLEST = 1e-6  # m; nearer pairs count as being on one point
PAIRS = 1_000_000  # looked at together: larger blocks gain nothing and fill the memory


class Walkers(NamedTuple):
    """People in a hall."""

    position: np.ndarray  # (N, 2) m
    velocity: np.ndarray  # (N, 2) m/s
    walls: np.ndarray  # (W, 2, 2) m
    exit_line: np.ndarray  # (2, 2) m


def accelerations(walkers: Walkers) -> dict[str, np.ndarray]:
    """Every force apart: name -> (N, 2) m/s^2.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eqs. 1 to 3; the friction of a wall opposes the motion.
    """
    people = [_between(walkers, rows) for rows in _blocks(len(walkers.position))]
    repulsion, contact = (np.concatenate(parts) for parts in zip(*people, strict=True))
    wall_repulsion, wall_contact = _from_walls(walkers)
    towards = _nearest(walkers.position, walkers.exit_line) - walkers.position
    wanted = SPEED * towards / np.linalg.norm(towards, axis=-1, keepdims=True)
    return {
        "driving": (wanted - walkers.velocity) / RELAXATION_TIME,
        "repulsion": repulsion,
        "contact": contact,
        "wall_repulsion": wall_repulsion,
        "wall_contact": wall_contact,
    }


def _blocks(people: int) -> list[slice]:
    rows = max(1, PAIRS // people)
    return [slice(first, first + rows) for first in range(0, people, rows)]


def _between(walkers: Walkers, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Repulsion and contact between `rows` and everybody, (n, 2) m/s^2 each."""
    offset = walkers.position[rows, None] - walkers.position  # (n, N, 2) from the other to me
    distance = np.sqrt((offset**2).sum(-1))
    me = np.arange(len(walkers.position))[rows]
    distance[np.arange(len(me)), me] = np.inf
    if (distance < SMALLEST).any():
        offset, distance = _apart(offset, distance, me)
    normal = offset / distance[..., None]
    overlap = 2 * RADIUS - distance
    tangent = np.stack((-normal[..., 1], normal[..., 0]), -1)
    sliding = ((walkers.velocity - walkers.velocity[rows, None]) * tangent).sum(-1)
    squeezed = np.maximum(overlap, 0.0)
    contact = (COMPRESSION * squeezed)[..., None] * normal + (FRICTION * squeezed * sliding)[..., None] * tangent
    return (_social(overlap)[..., None] * normal).sum(1) / MASS, contact.sum(1) / MASS


def _apart(offset: np.ndarray, distance: np.ndarray, me: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs on one point a micrometre apart, in a direction that is opposite for the other one."""
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, offset.shape[1])
    side = np.stack((np.cos(angle), np.sin(angle)), -1)
    between = side[me, None] - side
    length = np.linalg.norm(between, axis=-1)
    near = (distance < SMALLEST) & (length > 0)
    offset[near] = SMALLEST * between[near] / length[near][:, None]
    return offset, np.where(near, SMALLEST, distance)


def _social(overlap: np.ndarray) -> np.ndarray:
    """A exp(overlap / B), N; zero where negligible."""
    push = STRENGTH * np.exp(overlap / FALLOFF)
    return np.where(push > NEGLIGIBLE, push, 0.0)


def _from_walls(walkers: Walkers) -> tuple[np.ndarray, np.ndarray]:
    """Repulsion and contact of straight walls whose feet all count, as in a convex hall, (N, 2) m/s^2 each."""
    feet = np.stack([_nearest(walkers.position, wall) for wall in walkers.walls], 1)  # (N, W, 2)
    offset = walkers.position[:, None] - feet
    distance = np.maximum(np.linalg.norm(offset, axis=-1), SMALLEST)
    normal = offset / distance[..., None]
    tangent = np.stack((-normal[..., 1], normal[..., 0]), -1)
    sliding = (walkers.velocity[:, None] * tangent).sum(-1)
    squeezed = np.maximum(RADIUS - distance, 0.0)
    contact = (COMPRESSION * squeezed)[..., None] * normal - (FRICTION * squeezed * sliding)[..., None] * tangent
    return (_social(RADIUS - distance)[..., None] * normal).sum(1) / MASS, contact.sum(1) / MASS


def _nearest(position: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Nearest points (N, 2) m of a segment (2, 2)."""
    start, along = segment[0], segment[1] - segment[0]
    share = np.clip((position - start) @ along / (along @ along), 0.0, 1.0)
    return start + share[:, None] * along


class Plain:
    """Semi-implicit Euler on these forces, with noise and a speed limit."""

    compiles = False

    def __init__(self, task: Task) -> None:
        self.task, self.pieces = task, max(1, int(crowd.WATCHED / task.dt))

    def load(self) -> str:
        """Version."""
        return f"NumPy {np.__version__}"

    def prepare(self) -> dict[str, float]:
        """Nothing to make ready but the people."""
        self.restart()
        return {"dt": self.task.dt}

    def restart(self) -> None:
        """Everybody back to the start."""
        places = crowd.places(self.task.people, self.task.density, self.task.seed)
        walking = np.tile([SPEED, 0.0], (len(places), 1))
        self.walkers = Walkers(places, walking, crowd.walls(self.task), crowd.exit_line(self.task))
        self.random = np.random.default_rng(self.task.seed)

    def advance(self) -> int:
        """One step."""
        dt, (position, velocity, walls, exit_line) = self.task.dt, self.walkers
        velocity = velocity + dt * sum(accelerations(self.walkers).values())
        velocity += NOISE * np.sqrt(dt) * self.random.standard_normal(velocity.shape)
        speed = np.linalg.norm(velocity, axis=-1, keepdims=True)
        velocity *= np.minimum(1.0, SPEED_FACTOR * SPEED / np.maximum(speed, SMALLEST))
        self.walkers = Walkers(position + dt * velocity, velocity, walls, exit_line)
        return 1
