"""From force to velocity, position and heading: limits, turning, noise."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_state, make_world, real, shuffled

from crowdlab.integrate import Motion, limit_speed, turn
from crowdlab.state import State, World


@jax.jit
def glide(motion: Motion, state: State, world: World, steps: jax.Array, seed: jax.Array) -> State:
    """Some steps without any force."""
    key = jax.random.key(seed)
    still = jnp.zeros_like(state.position)
    return jax.lax.fori_loop(0, steps, lambda i, now: motion(now, still, world, jax.random.fold_in(key, i)), state)


def walking(**values: Any) -> Motion:
    return make_params(None, {f"motion.{name}": value for name, value in values.items()}).motion


CROWD = 2048


def crowd(velocity: Any = (0.0, 0.0)) -> State:
    return make_state(np.zeros((CROWD, 2)), velocity)


def test_limit_shortens_and_keeps_the_direction(x64: None) -> None:
    velocity = real([(3, 4), (0.3, 0.4), (0, 0), (-6, 8), (1, 0)]).T
    limited = jax.jit(limit_speed)(velocity, real([2.5, 2.5, 2.5, 0.0, math.inf]))
    np.testing.assert_allclose(limited.T, [(1.5, 2), (0.3, 0.4), (0, 0), (0, 0), (1, 0)], rtol=1e-15)
    assert (limited[:, 1] == velocity[:, 1]).all()


def test_limit_has_finite_gradients() -> None:
    gradient = jax.jit(jax.grad(lambda v: limit_speed(v, jnp.full(3, 1.0)).sum()))(real([(0, 0), (1, 0), (3, 4)]).T)
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
    motion = walking(dt=0.5, top_speed=100.0)
    state, world = make_state([(1.0, 2.0), (3.0, 3.0)], [(1.0, -1.0), (1.0, 1.0)], alive=[True, False]), make_world()
    moved = motion(state, real([(2.0, 4.0), (9.0, 9.0)]).T, world, jax.random.key(0))
    np.testing.assert_allclose(moved.velocity.T, [(2, 1), (1, 1)], rtol=1e-15)
    np.testing.assert_allclose(moved.position.T, [(2, 2.5), (3, 3)], rtol=1e-15)
    assert int(moved.step) == 1
    assert (moved.heading[:, 1] == state.heading[:, 1]).all()


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
    turned = jax.jit(turn)(heading, real([(0, 0), (0, -0.0999), (0, -0.1001)]).T, 0.1)
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
    gradient = jax.jit(jax.grad(lambda v: turn(headed([0.0, 0.0, 0.0]), v, 0.1).sum()))(real([(0, 0), (-1, 0), (1, 0)]).T)
    assert np.isfinite(gradient).all()


# Noise


def test_noise_scales_with_the_root_of_the_step() -> None:
    # After one second the variance of a velocity component is noise^2, whatever the step.
    noise, wide = 0.3, 5 * math.sqrt(2 / (2 * CROWD))  # five standard errors of a variance of 2 N deviates
    for dt, steps in ((0.1, 10), (0.01, 100), (0.005, 200)):
        velocity = np.asarray(glide(walking(dt=dt, noise=noise, top_speed=100.0), crowd(), make_world(), steps, 1).velocity)
        assert velocity.var() == pytest.approx(noise**2, rel=wide)
        assert abs(velocity.mean()) < 5 * noise / math.sqrt(2 * CROWD)
        assert abs(np.corrcoef(velocity)[0, 1]) < 5 / math.sqrt(CROWD)


def test_noise_goes_by_id() -> None:
    order = np.random.default_rng(0).permutation(CROWD)
    motion = walking(dt=0.01, noise=0.3)
    straight, mixed = (glide(motion, state, make_world(), 5, 2) for state in (crowd(), shuffled(crowd(), order)))
    assert (mixed.id == straight.id[order]).all()
    assert (np.asarray(mixed.velocity) == np.asarray(straight.velocity)[:, order]).all()
    assert len(np.unique(np.asarray(straight.velocity)[0])) > 0.99 * CROWD


def test_noise_goes_by_key() -> None:
    motion = walking(dt=0.01, noise=0.3)
    one, same, other = (np.asarray(glide(motion, crowd(), make_world(), 5, seed).velocity) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).mean() > 0.99


def test_without_noise_nothing_is_drawn() -> None:
    moved = glide(walking(dt=0.01, noise=0.0), crowd((1.0, -1.0)), make_world(), 5, 2)
    assert (np.asarray(moved.velocity).T == (1.0, -1.0)).all()
