"""A whole run against the equations once more, in plain NumPy: nothing of the package is used on that side, and some figures are kept."""

import math
from collections.abc import Callable

import numpy as np
from scenes import make_params, make_state, make_world, run

# Four people between two walls: three in touch, the first with the long wall too, and one who comes to the end of the short wall.
PLACE = np.array([(0.0, 0.23), (0.5, 0.42), (1.05, 0.5), (0.72, 1.3)])
MOVING = np.array([(1.0, -0.1), (0.2, -0.6), (-1.1, 0.2), (0.1, -0.9)])
RADIUS, SOCIAL = np.array([0.25, 0.3, 0.28, 0.22]), np.array([0.27, 0.3, 0.25, 0.24])
MASS, SPEED = np.array([80.0, 70.0, 62.0, 91.0]), np.array([1.34, 1.1, 1.5, 0.9])
GOALS = np.array([(6.0, 0.5), (-5.0, 0.8), (-5.0, 0.8), (6.0, 0.5)])
WALLS = np.array([[(-3.0, 0.0), (3.0, 0.0)], [(0.9, 1.1), (2.5, 1.1)]])
STEPS, DT, EVERY = 200, 0.005, 50
TAU, A, B, K, KAPPA, TOP = 0.5, 2000.0, 0.08, 1.2e5, 2.4e5, 5.0
NEGLIGIBLE = 1e-3  # N, below which a repulsion is nothing

# Where the four are after 200 steps, m, and how fast, m/s, by the program below.
KEPT = (
    [(-0.43571, 1.185357), (0.100077, 0.688955), (1.446648, 0.506032), (0.458528, 1.786146)],
    [(0.47146, 0.454875), (-0.662342, -0.213337), (-0.853321, -0.082434), (0.454536, 0.166971)],
)


def pushed(social: float, body: float, sliding: float, normal: np.ndarray) -> np.ndarray:
    """Force, N, along `normal` and along the tangent to its left: Helbing, Farkas & Vicsek 2000, equations 2 and 3, of one pair."""
    repulsion = A * math.exp(social / B)
    repulsion = repulsion if repulsion > NEGLIGIBLE else 0.0
    overlap = max(body, 0.0)
    return (repulsion + K * overlap) * normal + KAPPA * overlap * sliding * np.array([-normal[1], normal[0]])


def accelerations(place: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Of everybody, (N, 2) m/s^2."""
    found = np.zeros_like(place)
    for i in range(len(place)):
        way = GOALS[i] - place[i]
        found[i] = (SPEED[i] * way / np.hypot(*way) - moving[i]) / TAU
        for j in range(len(place)):
            if j != i:
                apart = place[i] - place[j]
                distance = np.hypot(*apart)
                normal = apart / distance
                sliding = (moving[j] - moving[i]) @ (-normal[1], normal[0])
                force = pushed(SOCIAL[i] + SOCIAL[j] - distance, RADIUS[i] + RADIUS[j] - distance, sliding, normal)
                found[i] += force / MASS[i]
        for start, end in WALLS:
            along = end - start
            share = min(max((place[i] - start) @ along / (along @ along), 0.0), 1.0)
            apart = place[i] - start - share * along
            distance = np.hypot(*apart)
            normal = apart / distance
            sliding = -moving[i] @ (-normal[1], normal[0])
            found[i] += pushed(SOCIAL[i] - distance, RADIUS[i] - distance, sliding, normal) / MASS[i]
    return found


def walked() -> tuple[np.ndarray, np.ndarray]:
    """Places and velocities after each step, (STEPS, N, 2): new velocity from the old state, new place from the new velocity."""
    place, moving = PLACE.copy(), MOVING.copy()
    places, velocities = [], []
    for _ in range(STEPS):
        moving = moving + DT * accelerations(place, moving)
        speed = np.hypot(*moving.T)
        moving = moving * np.minimum(1.0, TOP / speed)[:, None]
        place = place + DT * moving
        places.append(place)
        velocities.append(moving)
    return np.array(places), np.array(velocities)


def test_a_run_is_what_the_equations_say(pick: Callable[[float, float], float]) -> None:
    places, velocities = walked()
    state = make_state(PLACE, MOVING, radius=RADIUS, social_radius=SOCIAL, mass=MASS, goal=np.arange(4))
    params = make_params(None, {"motion.dt": DT, "people.desired_speed": SPEED})
    frames = run(make_world(WALLS, list(GOALS)), params, state, STEPS).frames
    early = round(pick(STEPS, 20))
    np.testing.assert_allclose(frames.position[:early], places[:early], atol=pick(1e-9, 1e-5))
    np.testing.assert_allclose(frames.velocity[:early], velocities[:early], atol=pick(1e-8, 1e-3))
    np.testing.assert_allclose(frames.position, places, atol=pick(1e-9, 1e-3))


def test_the_figures_are_kept() -> None:
    places, velocities = walked()
    np.testing.assert_allclose(np.stack((places[-1], velocities[-1])), KEPT, atol=1e-5)


def test_everything_is_felt() -> None:
    places, _ = walked()
    apart = np.hypot(*np.moveaxis(places[:, :, None] - places[:, None], -1, 0))
    touched = (apart < RADIUS[:, None] + RADIUS).any(0) & ~np.eye(4, dtype=bool)
    assert touched.sum(1).tolist() == [1, 2, 1, 0]
    assert (places[:, 0, 1] < RADIUS[0]).any()  # the long wall
    assert np.hypot(*(places[:, 3] - WALLS[1, 0]).T).min() < RADIUS[3] + 0.05  # the end of the short one
    assert np.abs(places[-1] - PLACE).max() > 0.5
