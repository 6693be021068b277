"""Limits that act: the cap on accelerations and the pass that moves overlapping bodies apart; both off by default, both counted."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world, real, run

from crowdlab.arithmetic import Vector, anywhere
from crowdlab.limits import cap, separate
from crowdlab.neighbours import make_list, tie_directions
from crowdlab.params import Limits, Params
from crowdlab.scenario import build
from crowdlab.simulation import Run, chunks, plan
from crowdlab.state import State, World

KEY = jax.random.key(3)
QUIET: dict[str, Any] = {"switches.driving": 0.0, "switches.repulsion": 0.0, "switches.wall_repulsion": 0.0}


# Cap


def test_nobody_is_accelerated_beyond_the_cap() -> None:
    push = Vector.of(real(np.random.default_rng(1).normal(0, 40, (2, 4096))))
    most = real(np.random.default_rng(2).uniform(0, 60, 4096))
    held, who = jax.jit(cap)(push, Limits(acceleration=most), None)
    size, before, one = (np.hypot(*np.asarray(v, float)) for v in (held, push, (most, 0 * most)))
    assert (np.asarray(who) == (before > one)).mean() > 0.999  # all but those on the limit, in single precision
    assert 0.2 < np.asarray(who).mean() < 0.8
    assert (size[who] <= one[who]).all()
    assert (size[who] >= one[who] * (1 - 1e-6)).all()
    assert (np.asarray(held)[:, ~who] == np.asarray(push)[:, ~who]).all()
    turn = np.asarray(held, float)[0] * np.asarray(push, float)[1] - np.asarray(held, float)[1] * np.asarray(push, float)[0]
    assert np.abs(turn / (size * before).clip(1e-30)).max() < 1e-6


def test_no_cap_is_no_change() -> None:
    push = Vector.of(real([[1e30, 0.0, -3.0], [1e30, 0.0, 4.0]]))
    same, who = jax.jit(cap)(push, Limits(), None)
    assert (np.asarray(same) == np.asarray(push)).all()
    assert not who.any()


def test_the_slope_of_a_cap_is_finite_beside_somebody_who_has_none() -> None:
    most = real([math.inf, 5.0, 5.0])

    def sum_of_held(push: jax.Array) -> jax.Array:
        return cap(Vector(x=push, y=jnp.zeros_like(push)), Limits(acceleration=most), None)[0].x.sum()

    np.testing.assert_allclose(jax.grad(sum_of_held)(real([3.0, 9.0, 3.0])), [1.0, 0.0, 1.0], atol=1e-6)


def test_what_overflows_does_not_become_a_rest() -> None:
    held, _ = cap(Vector.of(real([[1e25], [0.0]])), Limits(acceleration=3.0), None)
    assert not np.isfinite(np.asarray(held)).any()


@pytest.mark.parametrize("kind", ["walking", "runge_kutta"])
def test_a_start_under_the_cap(kind: str, x64: None) -> None:
    # The drive asks for v0 / tau = 2.68 m/s^2 at rest, and for less than 1 once v > v0 - 0.5.
    params = make_params(None, {"motion.dt": 0.01, "limits.acceleration": 1.0, "people.desired_speed": 1.34}, motion=kind)
    state = make_state([(0.0, 0.0), (9.0, 9.0)], goal=0, alive=[True, False])
    done = run(make_world(goals=[(1000.0, 0.0)]), params, state, 100)
    speed = np.asarray(done.frames.velocity)[:, 0, 0]
    np.testing.assert_allclose(speed[:84], 0.01 * np.arange(1, 85), rtol=1e-12)
    assert int(done.health.capped) == 84  # asked at the start of each step: v = 0, 0.01, ... 0.83
    assert np.diff(speed).max() <= 0.01 * (1 + 1e-9)


# Separation


def parted(state: State, share: Any, world: World | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Places (N, 2) after one pass, m, and how far each was moved, m."""
    place, shift = _parted(state, Limits(separation=real(share)), make_world() if world is None else world)
    return np.asarray(place, float).T, np.asarray(shift, float)


@jax.jit
def _parted(state: State, limits: Limits, world: World) -> tuple[jax.Array, jax.Array]:
    listed, _ = make_list(state, world, None, tie_directions(state.id, KEY))
    moved, shift = separate(state, limits, listed, world, None)
    return moved.position, shift


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_pair_parts_by_its_share_of_the_overlap(share: float, x64: None) -> None:
    state = make_state([(0.0, 0.0), (0.24, 0.32), (3.0, 0.0)], radius=[0.25, 0.35, 0.25])  # 0.4 m apart, 0.2 m deep
    place, shift = parted(state, share)
    along = np.array([0.6, 0.8])
    np.testing.assert_allclose(place, [-0.1 * share * along, (0.4 + 0.1 * share) * along, (3.0, 0.0)], atol=1e-15)
    np.testing.assert_allclose(shift, [0.1 * share, 0.1 * share, 0.0], atol=1e-15)


def test_the_centre_of_mass_stays(x64: None) -> None:
    generator = np.random.default_rng(3)
    mass = generator.uniform(40, 120, 30)
    state = make_state(generator.uniform(0, 1.8, (30, 2)), mass=mass, radius=generator.uniform(0.2, 0.3, 30))
    place, shift = parted(state, 0.4)
    assert (shift > 0).all()
    np.testing.assert_allclose(mass @ (place - np.asarray(state.position).T), [0, 0], atol=1e-12)
    heavy, _ = parted(make_state([(0.0, 0.0), (0.4, 0.0)], mass=[60.0, 20.0]), 1.0)
    np.testing.assert_allclose(heavy, [(-0.025, 0.0), (0.475, 0.0)], atol=1e-15)


def test_each_pair_takes_the_smaller_share(x64: None) -> None:
    place, _ = parted(make_state([(0.0, 0.0), (0.4, 0.0)]), [0.2, 0.8])
    np.testing.assert_allclose(place, [(-0.01, 0.0), (0.41, 0.0)], atol=1e-15)


def test_a_wall_does_not_give_way(x64: None) -> None:
    # The first overlaps the wall alone, the second is pushed towards it but only until it touches, a dead row stays.
    world = make_world([[(-50.0, 0.0), (50.0, 0.0)]])
    state = make_state([(-5.0, 0.2), (0.0, 0.28), (0.0, 0.58), (5.0, 0.1)], alive=[True, True, True, False])
    place, shift = parted(state, 1.0, world)
    np.testing.assert_allclose(place, [(-5.0, 0.25), (0.0, 0.25), (0.0, 0.68), (5.0, 0.1)], atol=1e-15)
    assert shift[3] == 0


def test_nobody_is_moved_through_a_wall(x64: None) -> None:
    # Twelve on one spot beside a thin wall and in the corner of a room: the pass alone takes nobody to the other side.
    generator = np.random.default_rng(5)
    world = make_world([[(-1.0, 0.0), (1.0, 0.0)], [(1.0, 0.0), (1.0, 2.0)]])
    for _ in range(20):
        place = generator.uniform((0.6, 0.01), (0.99, 0.4), (12, 2))
        for _ in range(5):
            place, _ = parted(make_state(place), 1.0, world)
            assert (place[:, 1] > 0).all()
            assert (place[:, 0] < 1).all()


def test_pairs_across_the_edge_of_a_periodic_box(x64: None) -> None:
    world = make_world(size=(6.0, 4.0), lower=(0.0, 0.0), periodic=True)
    place, _ = parted(make_state([(0.1, 1.0), (5.9, 1.0)]), 1.0, world)
    np.testing.assert_allclose(place, [(0.25, 1.0), (5.75, 1.0)], atol=1e-14)


def test_separation_is_counted_person_by_person() -> None:
    # A pair that just touches after one step, and a loner; with half the share it halves at each step, and every step counts.
    state = make_state([(0.0, 0.0), (0.4, 0.0), (3.0, 0.0)])
    for share, steps, expected in ((1.0, 1, 2), (0.5, 6, 12), (0.0, 6, 0)):
        params = make_params(None, QUIET | {"switches.contact": 0.0, "limits.separation": share})
        done = run(make_world(), params, state, steps)
        assert int(done.health.separated) == expected
        apart = np.diff(np.asarray(done.frames.position, float)[:, :2, 0], axis=1)[:, 0]
        np.testing.assert_allclose(apart, 0.5 - 0.1 * (1 - share) ** np.arange(1, steps + 1), atol=1e-6)
    assert int(done.health.capped) == 0


# In a run


def crowd() -> tuple[World, State, Params]:
    generator = np.random.default_rng(7)
    place = np.stack(np.meshgrid(np.arange(6) * 0.48, np.arange(4) * 0.48), -1).reshape(-1, 2)
    state = make_state(place + generator.uniform(-0.02, 0.02, (24, 2)), (0.6, 0.0), goal=0)
    world = make_world([[(-0.4, -0.4), (3.0, -0.4)], [(3.0, -0.4), (3.2, 1.9)]], [(9.0, 9.0)])
    changes = {"motion.dt": 0.005, "limits.acceleration": 6.0, "limits.separation": 0.5, "people.desired_speed": 1.3}
    return world, state, make_params(None, changes)


@pytest.mark.bits
def test_with_limits_neither_lists_nor_pieces_change_a_bit() -> None:
    world, state, params = crowd()
    scenario = make_scenario(world, state, params)
    grid = plan(scenario, params, state)._replace(half=2, capacity=23, touching=20, span=24, refresh=3)

    def done(chunk: int, **other: Any) -> list[Run]:
        return list(chunks(scenario, params, KEY, 24, chunk=chunk, every=4, grid=grid._replace(**other)))

    pieces, (whole,) = done(12), done(24, capacity=40, touching=24, refresh=4)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[piece.frames for piece in pieces])
    jax.tree.map(np.testing.assert_array_equal, joined, whole.frames)
    for name in ("capped", "separated"):
        counts = [int(getattr(piece.health, name)) for piece in pieces]
        assert sum(counts) == int(getattr(whole.health, name)) > 0
        assert max(counts) <= 24 * 12


def test_limits_in_a_scenario_file() -> None:
    spec = {"world": {"area": [[0, 0], [9, 0], [9, 9], [0, 9]]}, "groups": {"all": {"count": 3, "area": [[1, 1], [8, 1], [8, 8]]}}}
    made = build(spec | {"limits": {"acceleration": 30, "separation": [0, 0.5, 1]}}).params.limits
    assert float(made.acceleration) == 30
    assert made.separation.tolist() == [0, 0.5, 1]
    assert np.isinf(build(spec).params.limits.acceleration)


def test_a_branch_stays_a_branch_in_a_batch() -> None:
    def chosen(flag: Any, x: Any) -> Any:
        return jax.lax.cond(anywhere(flag), lambda: jnp.sin(x), lambda: jnp.zeros_like(x))

    flags, values = jnp.array([False, True, False]), jnp.arange(3.0)
    batch = jax.vmap(chosen)
    assert "cond" in str(jax.make_jaxpr(batch)(flags, values))
    np.testing.assert_allclose(jax.jit(batch)(flags, values), np.sin(np.arange(3.0)))
    assert not jax.jit(batch)(~(flags | True), values).any()
    np.testing.assert_allclose(jax.jit(jax.vmap(batch))(flags[None], values[None]), np.sin(np.arange(3.0))[None])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: batch(flags, x).sum()))(values), np.cos(np.arange(3.0)))
    np.testing.assert_allclose(jax.grad(lambda x: chosen((x > 0).any(), x))(0.5), np.cos(0.5))
