"""From force to velocity, position and heading: methods and their order, limits, turning, noise."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world, real, run, shuffled

from crowdlab.commands import CommandQueue
from crowdlab.integrate import MOTIONS, Motion, limit_speed, normal_by_id, turn
from crowdlab.neighbours import Grid, make_list, tie_directions
from crowdlab.params import Params
from crowdlab.simulation import plan
from crowdlab.state import State, World
from crowdlab.stepping import step, with_people

each_motion = pytest.mark.parametrize("kind", sorted(MOTIONS))


@jax.jit
def glide(motion: Motion, state: State, world: World, steps: jax.Array, seed: jax.Array) -> State:
    """Some steps without any force."""
    key = jax.random.key(seed)
    still = jnp.zeros_like(state.position)
    return jax.lax.fori_loop(0, steps, lambda i, now: motion(now, lambda _: still, world, jax.random.fold_in(key, i)), state)


def walking(kind: str = "walking", **values: Any) -> Motion:
    return make_params(None, {f"motion.{name}": value for name, value in values.items()}, motion=kind).motion


CROWD = 2048


def crowd(velocity: Any = (0.0, 0.0)) -> State:
    return make_state(np.zeros((CROWD, 2)), velocity)


def test_limit_shortens_and_keeps_the_direction(x64: None) -> None:
    velocity = real([(3, 4), (0.3, 0.4), (0, 0), (-6, 8), (1, 0)]).T
    limited = jax.jit(limit_speed)(velocity, real([2.5, 2.5, 2.5, 0.0, math.inf])).stacked
    np.testing.assert_allclose(limited.T, [(1.5, 2), (0.3, 0.4), (0, 0), (0, 0), (1, 0)], rtol=1e-15)
    assert (limited[:, 1] == velocity[:, 1]).all()


def test_limit_has_finite_gradients() -> None:
    gradient = jax.jit(jax.grad(lambda v: limit_speed(v, jnp.full(3, 1.0)).stacked.sum()))(real([(0, 0), (1, 0), (3, 4)]).T)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("factor", "desired", "limit"),
    [(math.inf, 0.0, 5.0), (math.inf, 1.34, 5.0), (1.3, 0.0, 0.0), (1.3, 1.0, 1.3), (1.3, 9.0, 5.0)],
)
def test_speed_limits(factor: float, desired: float, limit: float) -> None:
    motion = walking(speed_factor=factor)
    assert float(motion.limit(real([desired]))[0]) == pytest.approx(limit)
    assert motion.fastest(desired) == pytest.approx(limit)


def test_position_uses_the_new_velocity(x64: None) -> None:
    state, world = make_state([(1.0, 2.0)], [(1.0, -1.0)]), make_world()
    moved = walking(dt=0.5, top_speed=100.0)(state, lambda _: real([(2.0, 4.0)]).T, world, jax.random.key(0))
    np.testing.assert_allclose(moved.velocity.T, [(2, 1)], rtol=1e-15)
    np.testing.assert_allclose(moved.position.T, [(2, 2.5)], rtol=1e-15)


@each_motion
def test_a_constant_push(kind: str, x64: None) -> None:
    # Second order and above follow the parabola; the two of first order lie half a step's gain on either side of it.
    motion = walking(kind, dt=0.5, top_speed=100.0)
    state, world = make_state([(1.0, 2.0), (3.0, 3.0)], [(1.0, -1.0), (1.0, 1.0)], alive=[True, False]), make_world()
    moved = motion(state, lambda _: real([(2.0, 4.0), (9.0, 9.0)]).T, world, jax.random.key(0))
    np.testing.assert_allclose(moved.velocity.T, [(2, 1), (1, 1)], rtol=1e-15)
    way = (1, -1) + {"walking": 1.0, "explicit_euler": 0.0}.get(kind, 0.5) * np.array([1, 2])
    np.testing.assert_allclose(moved.position.T, [np.add((1, 2), 0.5 * way), (3, 3)], rtol=1e-15)
    assert int(moved.step) == 1
    assert (moved.heading[:, 1] == state.heading[:, 1]).all()


@each_motion
def test_nobody_is_ever_faster_than_allowed(kind: str) -> None:
    # Neither at the end of a step nor on the way: what a stage looks at lies no farther off than the list is told.
    generator = np.random.default_rng(4)
    motion = walking(kind, dt=0.1, noise=3.0, speed_factor=1.3, top_speed=2.0)
    state = make_state(np.zeros((CROWD, 2)), generator.normal(0, 3, (CROWD, 2)))
    state = state.with_(desired_speed=real(generator.uniform(0.0, 2.0, CROWD)))
    most, seen = np.minimum(1.3 * np.asarray(state.desired_speed), 2.0), []

    def acceleration(now: State) -> jax.Array:
        seen.append(now)
        return real(generator.normal(0, 30, (2, CROWD)))

    moved = motion(state, acceleration, make_world(), jax.random.key(2))
    one_more = 1 + 3 * np.finfo(np.float32).eps
    for now in (*seen[1:], moved):
        assert (np.hypot(*now.velocity) <= most * one_more).all()
        assert (np.hypot(*now.position) <= 0.1 * most * one_more).all()
    ends = np.hypot(*moved.position)
    farthest = np.max([np.hypot(*now.position) for now in seen], axis=0)
    assert (farthest <= np.maximum(0.0, ends) + motion.stray(state) + 1e-7).all()
    assert int(moved.step) == 1


# Order


def smooth(kind: str) -> tuple[Params, State, World]:
    """Three who push each other and walk to a goal past a wall, all within reach all the time and never in contact."""
    changes = {"people.desired_speed": 0.8, "motion.top_speed": 100.0}
    changes |= {f"forces.{name}.falloff": 0.5 for name in ("repulsion", "wall_repulsion")}
    changes |= {f"forces.{name}.strength": 150.0 for name in ("repulsion", "wall_repulsion")}
    params = make_params(("driving", "repulsion", "wall_repulsion"), changes, motion=kind)
    state = make_state(
        [(0.0, 0.0), (1.1, 0.3), (0.4, 1.2)], [(0.5, 0.0), (-0.3, 0.4), (0.0, -0.6)], mass=[60, 80, 95], goal=[0, 1, 0]
    )
    return params, state, make_world([[(-50.0, -1.0), (50.0, -1.0)]], [(4.0, 1.0), (-3.0, 2.0)])


@jax.jit
def after(params: Params, state: State, world: World, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    key, queue = jax.random.key(0), CommandQueue.of((), 0)
    state = with_people(state, params, world)
    listed, _ = make_list(state, world, None, tie_directions(state.id, key))
    end = jax.lax.fori_loop(0, steps, lambda _, now: step(now, params, world, listed, None, queue, key)[0], state)
    return end.position, end.velocity


@each_motion
def test_who_stands_is_pushed_as_who_walks(kind: str, x64: None) -> None:
    """However fast walking may be limited: by the own speed, not by what somebody wants at the moment."""
    changes = {"people.pre_movement": [9.0, 0.0], "motion.speed_factor": 1.1, "motion.dt": 0.01}
    params = make_params(("repulsion",), changes, motion=kind)
    end = run(make_world(), params, make_state([(-0.3, 0.0), (0.3, 0.0)]), 100, every=100).final
    assert end.desired_speed.tolist() == [0.0, 1.34]
    np.testing.assert_allclose(end.position[0], -end.position[0, ::-1], rtol=1e-12)
    assert end.position[0, 1] > 0.7


@each_motion
def test_order_of_convergence(kind: str, x64: None) -> None:
    params, state, world = smooth(kind)

    def one_second(steps: int) -> tuple[jax.Array, jax.Array]:
        dt = dataclasses.replace(params.motion, dt=real(1.0 / steps))
        return after(dataclasses.replace(params, motion=dt), state, world, steps)

    order = {"walking": 1, "explicit_euler": 1, "leapfrog": 2, "runge_kutta": 4}[kind]
    counts = {1: (400, 800, 1600), 2: (100, 200, 400), 4: (20, 40, 80)}[order]
    exact = smooth("runge_kutta")[0]
    exact = dataclasses.replace(exact, motion=dataclasses.replace(exact.motion, dt=real(1.0 / 500)))
    truth = after(exact, state, world, 500)
    assert np.abs(truth[0] - state.position).max() > 0.3
    errors = [[float(jnp.abs(got - true).max()) for got, true in zip(one_second(n), truth, strict=True)] for n in counts]
    measured = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.abs(measured - order).max() <= 0.1, (measured, errors)


@each_motion
@pytest.mark.parametrize("share", [0.98, 1.02])
def test_steps_on_both_sides_of_the_declared_limits(kind: str, share: float, x64: None) -> None:
    # A velocity that decays, a swing, and both at once, each at 2 % below and above the step that the motion says it bears.
    motion = walking(kind, top_speed=1e300)
    swing = motion.swing_limit or 1.0
    root = math.sqrt(1.0 - 0.3)  # where damping takes three tenths of the step, so much is left for the square of the swing
    decay = real([motion.damping_limit, 0.0, 0.3 * motion.damping_limit])
    square = real([0.0, swing**2, (root * swing) ** 2])
    motion = dataclasses.replace(motion, dt=real([share, share, 1.0 if share < 1 else 2.0]))
    state = make_state([(1e-3, 0.0)] * 3, [(1e-3, 0.0)] * 3)

    @jax.jit
    def far(state: State) -> jax.Array:
        def once(_: Any, now: State) -> State:
            return motion(now, lambda at: -square * at.position - decay * at.velocity, make_world(), jax.random.key(0))

        end = jax.lax.fori_loop(0, 2000, once, state)
        return jnp.abs(jnp.stack((end.position, end.velocity))).max((0, 1))

    grown = np.asarray(far(state))
    bounded = np.array([share < 1, share < 1 and motion.swing_limit > 0, share < 1])
    if kind == "explicit_euler":
        bounded[2] = False  # what it says of damping holds for damping alone
    assert ((grown < 1) == bounded).all(), grown


# Lists and pieces


# The default is compared in the same way, and in more, where the loop is tested.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind == "explicit_euler" else ()) for kind in sorted(MOTIONS)[:-1]]
)
@pytest.mark.bits
def test_neither_lists_nor_pieces_change_a_bit(kind: str) -> None:
    generator = np.random.default_rng(7)
    place = np.stack(np.meshgrid(np.arange(6) * 0.5, np.arange(4) * 0.5), -1).reshape(-1, 2) + generator.uniform(
        -0.02, 0.02, (24, 2)
    )
    state = make_state(place, (0.6, 0.0), goal=0)
    world = make_world([[(-0.4, -0.4), (3.0, -0.4)], [(3.0, -0.4), (3.2, 1.9)]], [(9.0, 9.0)])
    params = make_params(None, {"motion.dt": 0.005, "motion.noise": 0.1, "people.desired_speed": 1.3}, motion=kind)
    grid = plan(make_scenario(world, state, params), params, state)._replace(half=2, capacity=23, span=24, refresh=3)

    def walked(state: State, steps: int, grid: Grid) -> State:
        done = run(world, params, state, steps, grid=grid)
        assert done.health.peak_neighbours <= grid.capacity
        assert done.health.largest_move <= grid.skin / 2
        return done.final

    pieces = walked(walked(state, 12, grid), 12, grid)
    whole = walked(state, 24, grid._replace(capacity=40, refresh=4))
    assert np.abs(whole.position - state.position).max() > 0.05
    jax.tree.map(np.testing.assert_array_equal, pieces, whole)


# Heading


def headed(angles: Any) -> jax.Array:
    return jnp.stack((jnp.cos(real(angles)), jnp.sin(real(angles))))


@pytest.mark.parametrize("dt", [0.001, 0.1, 1.0])
def test_heading_turns_by_a_share_of_the_angle(x64: None, dt: float) -> None:
    start, towards = np.array([0.0, 1.0, -3.0, 3.0]), np.array([1.5, -1.0, 3.0, 0.5])
    turned = np.asarray(jax.jit(turn)(headed(start), 1.3 * headed(towards), dt))
    between = (towards - start + math.pi) % (2 * math.pi) - math.pi
    expected = start + (1 - math.exp(-5 * dt)) * between
    np.testing.assert_allclose(turned, headed(expected), atol=1e-12)


def test_heading_is_kept_when_slow(x64: None) -> None:
    heading = headed([0.3, 0.3, 0.3])
    turned = jax.jit(turn)(heading, real([(0, 0), (0, -0.0999), (0, -0.1001)]).T, 0.1).stacked
    assert (turned[:, :2] == heading[:, :2]).all()
    assert (turned[:, 2] != heading[:, 2]).all()


def test_opposite_velocity_turns_too(x64: None) -> None:
    angles = np.linspace(-3, 3, 7)
    for velocity in (-headed(angles), -2.0 * headed(angles)):
        turned = np.asarray(jax.jit(turn)(headed(angles), velocity, 0.1))
        swung = np.arccos((turned * np.asarray(headed(angles))).sum(0))
        np.testing.assert_allclose(swung, (1 - math.exp(-0.5)) * math.pi, rtol=1e-9)
        np.testing.assert_allclose(np.hypot(*turned), 1, rtol=1e-14)


def test_heading_has_finite_gradients() -> None:
    gradient = jax.jit(jax.grad(lambda v: turn(headed([0.0, 0.0, 0.0]), v, 0.1).stacked.sum()))(real([(0, 0), (-1, 0), (1, 0)]).T)
    assert np.isfinite(gradient).all()


# Noise


@each_motion
def test_noise_scales_with_the_root_of_the_step(kind: str) -> None:
    # After one second the variance of a velocity component is noise^2, whatever the step.
    noise, wide = 0.3, 5 * math.sqrt(2 / (2 * CROWD))  # five standard errors of a variance of 2 N deviates
    for dt, steps in ((0.1, 10), (0.01, 100), (0.005, 200)):
        velocity = np.asarray(glide(walking(kind, dt=dt, noise=noise, top_speed=100.0), crowd(), make_world(), steps, 1).velocity)
        assert velocity.var() == pytest.approx(noise**2, rel=wide)
        assert abs(velocity.mean()) < 5 * noise / math.sqrt(2 * CROWD)
        assert abs(np.corrcoef(velocity)[0, 1]) < 5 / math.sqrt(CROWD)


@each_motion
@pytest.mark.bits
def test_noise_goes_by_id(kind: str) -> None:
    order = np.random.default_rng(0).permutation(CROWD)
    motion = walking(kind, dt=0.01, noise=0.3)
    straight, mixed = (glide(motion, state, make_world(), 5, 2) for state in (crowd(), shuffled(crowd(), order)))
    assert (mixed.id == straight.id[order]).all()
    assert (np.asarray(mixed.velocity) == np.asarray(straight.velocity)[:, order]).all()
    assert len(np.unique(np.asarray(straight.velocity)[0])) > 0.99 * CROWD


def test_what_is_drawn_is_the_same_in_both_precisions() -> None:
    ids, key = np.arange(CROWD), jax.random.key(5)
    with jax.enable_x64(True):
        noise, ties = normal_by_id(key, jnp.asarray(ids), jnp.float64), tie_directions(jnp.asarray(ids), key)
        assert noise.x.dtype == ties.dtype == jnp.float64
    single = normal_by_id(key, jnp.asarray(ids), jnp.float32)
    np.testing.assert_allclose(np.asarray(single), np.asarray(noise), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tie_directions(jnp.asarray(ids), key), ties, atol=1e-6)


def test_noise_goes_by_key() -> None:
    motion = walking(dt=0.01, noise=0.3)
    one, same, other = (np.asarray(glide(motion, crowd(), make_world(), 5, seed).velocity) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).mean() > 0.99


def test_without_noise_nothing_is_drawn() -> None:
    moved = glide(walking(dt=0.01, noise=0.0), crowd((1.0, -1.0)), make_world(), 5, 2)
    assert (np.asarray(moved.velocity).T == (1.0, -1.0)).all()
