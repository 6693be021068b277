"""Motions whose course is known in closed form, in double and single precision.

One arena serves them all: 16 rows, one wall along x = 0 for y < 0, every leaf per agent. So each precision compiles it once.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world, real, run

from crowdlab import params as numbers
from crowdlab.errors import NonFiniteError
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, plan, simulate
from crowdlab.stability import advice
from crowdlab.walls import crossed, look_up

A, B, K, KAPPA, M, TAU, R = 2000.0, 0.08, 1.2e5, 2.4e5, 80.0, 0.5, 0.25
ROWS, PIECE = 16, 2000
WALL = [[[0.0, -200.0], [0.0, -5.0]]]
AT_WALL = np.arange(-10.0, -200.0, -10.0)  # y of people at the wall, out of each other's sight
FREE = np.arange(10.0, 200.0, 10.0)  # and of those out of sight of the wall
NO_LIMIT = {"motion.top_speed": math.inf}


def arena(
    position: Any,
    velocity: Any = (0.0, 0.0),
    *,
    towards: Any = 0.0,
    steps: int,
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    **about: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity (steps + 1, N, 2) of people who walk `towards` +1 or -1 along x, or nowhere (0)."""
    place = np.asarray(position, float)
    count = len(place)
    ways = np.broadcast_to(towards, (count,))
    blank = ROWS - count
    world = make_world(WALL, [(1000.0 * way, y) for way, y in zip(ways, place[:, 1], strict=True)] + [(0.0, 0.0)] * blank)

    def padded(values: Any, width: tuple[int, ...] = ()) -> np.ndarray:
        own = np.broadcast_to(np.asarray(values, float), (count, *width))
        return np.concatenate((own, np.broadcast_to(own[-1], (blank, *width))))

    state = make_state(
        padded(place, (2,)),
        padded(velocity, (2,)),
        goal=np.where(np.append(ways, np.zeros(blank)) == 0, -1, np.arange(ROWS)),
        alive=np.arange(ROWS) < count,
        **{name: padded(values) for name, values in about.items()},
    )
    params = make_params()
    wanted = numbers.values(params) | dict(changes or {})
    params = make_params(None, {path: value if "switches" in path else padded(value) for path, value in wanted.items()})
    parts: list[Run] = []
    for _ in range(-(-steps // PIECE)):
        parts.append(run(world, params, state, PIECE, seed=seed))
        state = parts[-1].final
    frames = jax.device_get([(part.frames.position, part.frames.velocity) for part in parts])
    start = (padded(place, (2,))[None], padded(velocity, (2,))[None])
    joined = [np.concatenate([own, *saved]) for own, saved in zip(start, zip(*frames, strict=True), strict=True)]
    return joined[0][: steps + 1, :count], joined[1][: steps + 1, :count]


def at(x: Any, y: Any) -> np.ndarray:
    return np.stack(np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float)), -1)


def pairs(x: Any, y: np.ndarray) -> np.ndarray:
    """Two people at -x and +x in each row y: rows 0 and 1, 2 and 3, ..."""
    half = np.broadcast_to(np.asarray(x, float), y.shape)
    return np.stack((at(-half, y), at(half, y)), 1).reshape(-1, 2)


# Walking


@pytest.mark.parametrize("dt", [0.0025, 0.005, 0.01, 0.05])
def test_free_walk_follows_the_discrete_formula(pick: Callable[..., float], dt: float) -> None:
    tau, speed = np.array([0.1, 0.5, 2.0, 0.5]), np.array([1.34, 1.34, 0.8, 4.0])
    x, v = arena(
        at(0.0, FREE[:4]),
        towards=1.0,
        steps=200,
        changes={"motion.dt": dt, "forces.driving.relaxation_time": tau, "people.desired_speed": speed},
    )
    n, q = np.arange(1, 201)[:, None], 1 - dt / tau
    relative = pick(1e-12, 1e-5)
    np.testing.assert_allclose(v[1:, :, 0], speed * (1 - q**n), rtol=relative)
    np.testing.assert_allclose(x[-1, :, 0], speed * (n[-1] * dt - tau * q * (1 - q ** n[-1])), rtol=relative)
    # The same summed step by step: early on the closed form is a small difference of large numbers.
    np.testing.assert_allclose(x[1:, :, 0], speed * dt * np.cumsum(1 - q**n, 0), rtol=relative)
    assert np.ptp(x[..., 1], axis=0).max() == 0


def test_error_halves_with_the_step(x64: None) -> None:
    errors = []
    for dt, steps in ((0.01, 50), (0.005, 100), (0.0025, 200)):
        x, _ = arena(at(0.0, FREE[:1]), towards=1.0, steps=steps, changes={"motion.dt": dt})
        errors.append(abs(x[-1, 0, 0] - 1.34 * (0.5 - TAU * -math.expm1(-0.5 / TAU))))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.abs(orders - 1).max() <= 0.05


def test_forty_metres_take_the_relaxation_time_longer(pick: Callable[..., float]) -> None:
    dt, speed = 0.01, np.array([0.8, 1.0, 1.34])
    x, v = arena(at(-20.0, FREE[:3]), towards=1.0, steps=6000, changes={"motion.dt": dt, "people.desired_speed": speed})
    taken = np.argmax(x[..., 0] >= 20.0, axis=0) * dt
    assert np.abs(taken - (40 / speed + TAU)).max() <= dt * pick(1, 2) + 1e-9
    np.testing.assert_allclose(v[round(TAU / dt), :, 0], (1 - math.exp(-1)) * speed, rtol=0.02)


# Rest, oscillation


PRESSING = np.array([0.8, 1.34, 3.0, 5.0, 15.0, 20.0])
GAPS = np.array([0.2199098, 0.1786447, 0.1141693, 0.0733033, -0.0027504, -0.0082008])


def test_gaps_at_rest(pick: Callable[..., float]) -> None:
    # Each stands pressed against the wall, and four pairs against each other, for 40 relaxation times.
    x, v = arena(
        np.concatenate((at(-0.45, AT_WALL[:6]), pairs(0.35, FREE[:4]))),
        towards=np.append(np.ones(6), [1, -1] * 4),
        steps=4000,
        changes={"motion.dt": 0.005, "people.desired_speed": np.append(PRESSING, PRESSING[:4].repeat(2)), **NO_LIMIT},
    )
    side = x[-1, :, 0]
    np.testing.assert_allclose(-side[:6] - R, GAPS, atol=pick(1e-6, 1e-4))
    np.testing.assert_allclose(B * np.log(A * TAU / (M * PRESSING[:4])), GAPS[:4], atol=1e-7)
    np.testing.assert_allclose(side[7::2] - side[6::2] - 2 * R, GAPS[:4], atol=pick(1e-6, 1e-4))
    assert np.abs(side[7::2] + side[6::2]).max() / 2 <= pick(1e-12, 1e-5)
    assert np.abs(v[-1]).max() < 1e-4


def test_oscillation_at_a_wall(x64: None) -> None:
    stride, dt = 50, 0.001
    x, _ = arena(
        at(-R - GAPS[:3] - 1e-5, AT_WALL[:3]),
        towards=1.0,
        steps=2000,
        changes={"people.desired_speed": PRESSING[:3], "motion.dt": dt},
    )
    swing = x[::stride, :, 0] + R + B * np.log(A * TAU / (M * PRESSING[:3]))
    for y, speed, known in zip(swing.T, PRESSING, (4.359, 5.701, 8.602), strict=False):
        # A damped swing obeys y[n+2] = 2 e^(-a s) cos(w s) y[n+1] - e^(-2 a s) y[n] at strides of s.
        (p, minus_square), *_ = np.linalg.lstsq(np.stack((y[1:-1], y[:-2]), 1), y[2:])
        decay = -math.log(-minus_square) / (2 * stride * dt)
        omega = math.acos(p / (2 * math.sqrt(-minus_square))) / (stride * dt)
        assert math.sqrt(speed / (TAU * B) - 1 / (4 * TAU**2)) == pytest.approx(known, abs=1e-3)
        assert omega == pytest.approx(known, rel=0.005)
        assert decay == pytest.approx(1 / (2 * TAU), rel=0.005)


# Encounters without drive: an infinite relaxation time lets everybody glide.


GLIDING = {"forces.driving.relaxation_time": math.inf}


@pytest.mark.parametrize(("pick", "dt"), [("float64", 1e-3), ("float64", 1e-4), ("float32", 1e-3)], indirect=["pick"])
def test_bounce(pick: Callable[..., float], dt: float) -> None:
    speed, far = np.array([1.0, 1.34]), 1.0
    # These speeds are those of an endless distance; at the start the force has taken a little.
    wall_start, pair_start = (np.sqrt(speed**2 - share * A * B / M * math.exp(-far / B)) for share in (2, 1))
    x, _ = arena(
        np.concatenate((at(-R - far, AT_WALL[:2]), pairs(R + far / 2, FREE[:2]))),
        at(np.concatenate((wall_start, np.stack((pair_start, -pair_start), 1).ravel())), 0.0),
        steps=round(2 / dt),
        changes={"motion.dt": dt, **GLIDING},
    )
    gap = np.concatenate((-x[:, :2, 0] - R, x[:, 3::2, 0] - x[:, 2::2, 0] - 2 * R), 1)
    least = np.append(B * np.log(2 * A * B / (M * speed**2)), B * np.log(A * B / (M * speed**2)))
    np.testing.assert_allclose(least, [0.1109035, 0.0640764, 0.0554518, 0.0086246], atol=1e-7)
    rate = np.append(speed / (2 * B), speed / B)
    turning = np.arccosh(np.exp((far - least) / (2 * B))) / rate
    time = np.arange(len(gap))[:, None] * dt
    exact = least + 2 * B * np.log(np.cosh(rate * (time - turning)))
    tolerance = pick(1e-5 if dt == 1e-3 else 1e-6, 1e-4)
    np.testing.assert_allclose(gap.min(0), least, atol=tolerance)
    np.testing.assert_allclose(gap, exact, atol=tolerance)


def test_contact_alone(x64: None) -> None:
    # Approach so slow to arrive that the first touch falls between two steps.
    speed, dt, start = 1.34, 0.001, 0.0507
    x, v = arena(
        np.concatenate((at(-R - start, AT_WALL[:1]), pairs(R + start, FREE[:1]))),
        at([speed, speed, -speed], 0.0),
        steps=200,
        changes={"motion.dt": dt, "forces.repulsion.strength": 0.0, "forces.wall_repulsion.strength": 0.0, **GLIDING},
    )
    gap = np.stack((-x[:, 0, 0] - R, x[:, 2, 0] - x[:, 1, 0] - 2 * R), 1)
    approach = np.array([speed, 2 * speed])
    leaving = np.array([-v[-1, 0, 0], v[-1, 2, 0] - v[-1, 1, 0]])
    touch, part = gap[0] / approach, 200 * dt - gap[-1] / leaving
    np.testing.assert_allclose(part - touch, [0.0811156, 0.0573574], rtol=0.001)
    np.testing.assert_allclose(-gap.min(0), [0.0345987, 0.0489299], rtol=0.001)
    np.testing.assert_allclose(leaving / approach, 1.0, rtol=0.001)


def energy(v: np.ndarray, of: list[int]) -> np.ndarray:
    return M / 2 * (v[:, of] ** 2).sum((1, 2))


@pytest.mark.parametrize("many", [20_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_energy_of_what_bounces_for_ever_does_not_drift(many: int, x64: None) -> None:
    """Somebody who falls onto a wall and a pair who fall onto each other, by a drive so slow to act that it is a constant pull."""
    pull, slow, far = np.array([1.5, 2.5, 1.5, 1.5, 2.5, 2.5]), 1e9, 0.5
    ripples = []
    for dt, steps in ((1e-3, many), (5e-4, 10_000)):
        x, v = arena(
            np.concatenate((at(-R - far, AT_WALL[:2]), pairs(R + far / 2, FREE[:2]))),
            towards=[1, 1, 1, -1, 1, -1],
            steps=steps,
            changes={"motion.dt": dt, "people.desired_speed": slow * pull, "forces.driving.relaxation_time": slow, **NO_LIMIT},
        )
        gap = np.stack((-x[:, 0, 0] - R, -x[:, 1, 0] - R, x[:, 3, 0] - x[:, 2, 0] - 2 * R, x[:, 5, 0] - x[:, 4, 0] - 2 * R))
        assert (gap.min(1) > 0).all(), "bodies touched"
        assert (gap.max(1) < far + 0.01).all()
        moving = np.stack([energy(v, who) for who in ([0], [1], [2, 3], [4, 5])])
        whole = moving + A * B * np.exp(-gap / B) + M * pull[[0, 1, 2, 4], None] * gap
        assert (np.ptp(moving, axis=1) > 0.3 * whole[:, 0]).all()
        ripples.append(np.abs(whole / whole[:, :1] - 1).max(1))
        assert ripples[-1].max() < 0.01
        first, last = whole[:, : steps // 10].mean(1), whole[:, -steps // 10 :].mean(1)
        assert np.abs(last / first - 1).max() < 1e-3
    np.testing.assert_allclose(ripples[0] / ripples[1], 2.0, rtol=0.1)


def test_friction_brakes(x64: None) -> None:
    overlap, dt = 0.01, 1e-4
    x, v = arena(
        np.concatenate((at(-R + overlap, AT_WALL[:1]), pairs(R - overlap / 2, FREE[:1]))),
        at(0.0, [1e-3, 1e-3, -1e-3]),
        steps=200,
        changes={"motion.dt": dt, "forces.contact.compression": 0.0, "forces.wall_contact.compression": 0.0}
        | {"forces.repulsion.strength": 0.0, "forces.wall_repulsion.strength": 0.0, **GLIDING},
    )
    wall, pair = v[:, 0, 1], v[:, 1, 1] - v[:, 2, 1]
    assert math.log(wall[0] / wall[-1]) / (200 * dt) == pytest.approx(KAPPA * overlap / M, rel=0.01)
    assert math.log(pair[0] / pair[-1]) / (200 * dt) == pytest.approx(2 * KAPPA * overlap / M, rel=0.01)
    assert (np.diff(energy(v, [0])) < 0).all()
    assert (np.diff(energy(v, [1, 2])) < 0).all()
    assert np.ptp(x[:, 0, 0]) == 0


def test_sliding_contact_never_adds_energy(pick: Callable[..., float]) -> None:
    # Fast along the wall or past each other, slowly into contact and out again; what compression stores is counted.
    x, v = arena(
        np.concatenate((at(-R - 0.01, AT_WALL[:1]), pairs(R + 0.01, FREE[:1]) + at(0.0, [-0.4, 0.4]))),
        [[0.3, 2.0], [0.3, 2.0], [-0.3, -2.0]],
        steps=6000,
        changes={"motion.dt": 1e-4, "forces.repulsion.strength": 0.0, "forces.wall_repulsion.strength": 0.0, **GLIDING},
    )
    apart = np.hypot(*(x[:, 1] - x[:, 2]).T)
    squeeze = np.maximum(np.stack((R + x[:, 0, 0], 2 * R - apart)), 0)
    assert (squeeze.max(1) > 1e-3).all(), "nobody touched"
    assert (squeeze[:, -1] == 0).all(), "somebody is still in contact"
    for moving, total in ((energy(v, [0]), squeeze[0]), (energy(v, [1, 2]), squeeze[1])):
        assert moving[-1] < 0.99 * moving[0]
        whole = moving + K / 2 * total**2
        assert np.diff(whole).max() <= 2e-4 * whole[0]  # the step's own ripple
        assert moving.max() <= moving[0] * (1 + pick(1e-12, 1e-6))


# Time step


def advised(overlap: float) -> dict[tuple[str, str, str], float]:
    """Longest stable steps as the advice has them, by force, mode and what is touched."""
    rows = advice(make_params(), make_state([(0, 0), (1, 0)]), overlap=overlap)
    return {(row.force, row.mode, row.where.partition(",")[0]): row.step for row in rows}


def test_steps_beyond_the_limit_diverge(x64: None) -> None:
    """Drive, wall spring, pair spring, wall and pair repulsion at contact, wall and pair friction: one row or pair each."""
    overlap, held = 0.01, 1e3  # so long a relaxation time that the drive is a constant push and damps nothing
    compress, push = K * overlap, A  # N: what holds a spring at 1 cm, and a repulsion at contact
    limits = [2 * TAU, 2 * math.sqrt(M / K), 2 * math.sqrt(B * M / A), 2 * M / (KAPPA * overlap)]
    limits += np.repeat([2 * math.sqrt(M / (2 * K)), 2 * math.sqrt(B * M / (2 * A)), M / (KAPPA * overlap)], 2).tolist()
    np.testing.assert_allclose(limits[4::2], [0.0365, 0.080, 0.0333], atol=1e-4)
    assert advised(0.0)["repulsion", "swing", "a neighbour"] == pytest.approx(limits[6], rel=1e-12)
    assert advised(0.0)["wall_repulsion", "swing", "a wall"] == pytest.approx(limits[2], rel=1e-12)
    found = advised(overlap)
    assert found["driving", "damping", "alone"] == pytest.approx(limits[0], rel=1e-12)
    assert found["wall_contact", "swing", "a wall"] == pytest.approx(limits[1], rel=1e-12)
    assert found["wall_contact", "damping", "a wall"] == pytest.approx(limits[3], rel=1e-12)
    assert found["contact", "swing", "a neighbour"] == pytest.approx(limits[4], rel=1e-12)
    assert found["contact", "damping", "a neighbour"] == pytest.approx(limits[8], rel=1e-12)
    springs, social, rubbing = [1, 4, 5], [2, 6, 7], [3, 8, 9]
    place = np.concatenate((at(-20.0, FREE[:1]), at([-R + overlap, -R, -R + overlap], AT_WALL[:3])))
    place = np.concatenate((place, pairs([R - overlap / 2, R, R - overlap / 2], FREE[1:4])))
    nudge = np.zeros((10, 2))
    nudge[:3, 0], nudge[[4, 6], 0], nudge[[5, 7], 0] = 1e-4, 1e-4, -1e-4
    nudge[[3, 8], 1], nudge[9, 1] = 1e-4, -1e-4

    def own(default: float, **rows: float) -> np.ndarray:
        values = np.full(10, default)
        for name, value in rows.items():
            values[{"springs": springs, "social": social, "rubbing": rubbing}[name]] = value
        return values

    changes = {
        "forces.driving.relaxation_time": own(held) * np.append(TAU / held, np.ones(9)),
        "people.desired_speed": own(0.0, springs=compress / M * held, social=push / M * held),
        "forces.repulsion.strength": own(0.0, social=A),
        "forces.wall_repulsion.strength": own(0.0, social=A),
        "forces.contact.compression": own(0.0, springs=K),
        "forces.wall_contact.compression": own(0.0, springs=K),
        "forces.contact.friction": own(0.0, rubbing=KAPPA),
        "forces.wall_contact.friction": own(0.0, rubbing=KAPPA),
        **NO_LIMIT,
    }
    towards = [0, 1, 1, 0, 1, -1, 1, -1, 0, 0]
    growth = {}
    for share in (0.97, 1.03):
        _, v = arena(place, nudge, towards=towards, steps=200, changes=changes | {"motion.dt": share * np.array(limits)})
        growth[share] = np.nan_to_num(np.abs(v), nan=np.inf).max((0, 2)) / 1e-4
    assert (growth[0.97] < 10).all(), growth[0.97]
    assert (growth[1.03] > 100).all(), growth[1.03]


# Difficult meetings


def test_noise_decides_on_which_side_people_pass() -> None:
    x0 = pairs(2.0, FREE[:6])
    towards = [1, -1] * 6

    def side(seed: int, noise: float) -> np.ndarray:
        x, _ = arena(
            x0,
            towards=towards,
            steps=6000,
            seed=seed,
            changes={"people.desired_speed": 1.3, "motion.noise": noise, "motion.dt": 0.002},
        )
        one, other = x[:, 0::2], x[:, 1::2]
        if not noise:
            np.testing.assert_allclose((other - one)[-1, :, 0] - 2 * R, B * math.log(A * TAU / (M * 1.3)), atol=1e-4)
            return np.zeros(6)
        level = np.argmax(one[..., 0] > other[..., 0], axis=0)
        assert (level > 0).all(), "a pair did not pass"
        return (one - other)[level, np.arange(6), 1] > 0

    left = np.array([side(seed, 0.1) for seed in range(16)])
    assert 96 * 0.5 - 3 * math.sqrt(96) / 2 <= left.sum() <= 96 * 0.5 + 3 * math.sqrt(96) / 2
    assert (left.any(0) & ~left.all(0)).all(), "a pair passed on one side whatever the key"
    assert (side(3, 0.1) == left[3]).all()
    side(0, 0.0)


def test_people_on_one_point_separate() -> None:
    crowd = np.repeat([0, 1, 2], [2, 3, 10])  # three points, 10 m apart
    first, again, other = (arena(at(0.0, FREE[crowd]), steps=5000, seed=seed)[0] for seed in (1, 1, 2))
    assert np.isfinite(first).all()
    for group in range(3):
        end = first[-1, crowd == group]
        apart = np.hypot(*(end[:, None] - end).T) + 10 * np.eye(len(end))
        assert apart.min() > 2 * R
    assert (first == again).all()
    angle = [np.arctan2(*(x[-1, 1] - x[-1, 0])) for x in (first, other)]
    assert abs(angle[0] - angle[1]) > 1e-2


BOX = [[0.0, -0.05], [0.1, -0.05], [0.1, 0.05], [0.0, 0.05]]
WALLS = [*zip(BOX, BOX[1:] + BOX[:1], strict=True), ((-5.0, 8.0), (5.0, 8.0))]


def fast(speed: float, top: float) -> Scenario:
    """One person runs into a box 0.1 m wide, another into a wall."""
    world = make_world(WALLS, [(1000.0, 0.0), (0.0, 1000.0)])
    state = make_state([(-2.0, 0.0), (0.0, 6.0)], [(speed, 0.0), (0.0, speed)], goal=[0, 1])
    params = make_params(None, {"people.desired_speed": np.full(2, speed), "motion.top_speed": top})
    return make_scenario(world, state, params, "fast")


@pytest.mark.parametrize(("speed", "top"), [(1.0, 100.0), (3.0, 100.0), (10.0, 100.0), (50.0, 100.0), (50.0, 5.0)])
def test_nobody_passes_a_wall_unnoticed(speed: float, top: float) -> None:
    scene, slow = fast(speed, top), fast(1.0, 100.0)
    grid = plan(slow, slow.params, slow.state)._replace(walls=11, refresh=1)  # one plan for all: one compilation
    if speed == top / 2:  # more energy than walls can hold
        with pytest.raises(NonFiniteError, match=r"agent \d+ went through a wall at step \d+") as caught:
            simulate(scene, None, jax.random.key(0), 2000, grid=grid)
        assert caught.value.agent in (0, 1)
        assert 40 <= caught.value.step <= 45  # 2 m at 5 cm a step
        return
    x = np.asarray(simulate(scene, None, jax.random.key(0), 2000, grid=grid).frames.position)
    to_box = np.hypot(*np.maximum(np.abs(x[:, 0] - [0.05, 0.0]) - 0.05, 0).T)
    gap = np.minimum(to_box, 8.0 - x[:, 1, 1])
    assert gap.min() > (R - 0.01 if speed == 1.0 else 0.0)


def test_landing_exactly_on_a_wall_is_noticed() -> None:
    # Two steps, each with one end on the wall, must not add up to an unseen passage; to slide or leave is no new fault.
    wall = look_up(np.zeros((1, 5), np.int32), make_world([[(0.0, -5.0), (0.0, 5.0)]]))
    before = real([(-0.05, 0), (0, 0), (0, 0), (-0.05, 6), (-0.05, 5)]).T
    after = real([(0, 0), (0.05, 0), (0, 1), (0, 6), (0, 5)]).T
    assert crossed(before, after, wall).tolist() == [True, False, False, False, True]
