"""What must not change a result: where the origin lies, how the scene is turned, who is called first, what lies in dead rows."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_state, make_world, run, shuffled

from crowdlab.commands import CommandQueue
from crowdlab.forces import base
from crowdlab.neighbours import Grid, Neighbours, find
from crowdlab.params import Params, replace
from crowdlab.simulation import Frames, rollout
from crowdlab.state import State, World

PEOPLE, ROWS = 14, 20
WALLS = np.array([[(-3, -2), (3, -2)], [(3, -2), (3, 1)], [(3, 1), (1, 2.5)], [(-3, -2), (-3.5, 2)]])
GOAL = np.array([(2.0, 5.0), (-2.5, 4.5)])  # a line to walk to; nobody gets there
SHORT = 12  # steps of 5 ms
Move = Callable[[np.ndarray], np.ndarray]


def scene(move: Move = lambda v: v, turn: Move = lambda v: v) -> tuple[World, State]:
    """A dense crowd in contact, some of it with walls, moved as points and turned as vectors."""
    generator = np.random.default_rng(12)
    place = np.stack(np.meshgrid(np.arange(5) * 0.55, np.arange(4) * 0.55), -1).reshape(-1, 2)[:ROWS] - (1.1, 1.8)
    place += generator.uniform(-0.03, 0.03, place.shape)
    speed = generator.normal(0, 0.5, place.shape)
    state = make_state(
        move(place),
        turn(speed),
        heading=turn(np.broadcast_to((1.0, 0.0), place.shape)),
        radius=generator.uniform(0.25, 0.32, ROWS),
        social_radius=generator.uniform(0.2, 0.3, ROWS),
        mass=generator.uniform(60, 100, ROWS),
        goal=0,
        alive=np.arange(ROWS) < PEOPLE,
    )
    return make_world(move(WALLS.reshape(-1, 2)).reshape(-1, 2, 2), [move(GOAL)]), state


def numbers(**changes: float) -> Params:
    speed = np.linspace(1.0, 1.6, ROWS)
    return make_params(
        None, {"motion.dt": 0.005, "people.desired_speed": speed} | {f"motion.{name}": v for name, v in changes.items()}
    )


def turned(degrees: float) -> Move:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return lambda v: np.asarray(v) @ np.array([(c, s), (-s, c)])


def mirrored(v: np.ndarray) -> np.ndarray:
    return np.asarray(v) * (-1, 1)


@partial(jax.jit, static_argnums=3)
def felt(params: Params, state: State, world: World, grid: Grid | None = None) -> tuple[jax.Array, Neighbours]:
    near, _ = find(state, world, grid, jax.random.key(0))
    return base.total(params, state, near, world).stacked, near


def far(world: World, state: State, steps: int = SHORT) -> np.ndarray:
    """Positions (steps, N, 2) of the living."""
    return np.asarray(run(world, numbers(), state, steps).frames.position)[:, :PEOPLE]


@pytest.fixture
def reference(x64: None) -> np.ndarray:
    return far(*scene())


@pytest.mark.parametrize("shift", [(3.0, -7.0), (1000.0, 500.0)])
def test_translation(shift: tuple[float, float], reference: np.ndarray) -> None:
    moved = far(*scene(lambda place: np.asarray(place) + shift))
    np.testing.assert_allclose(moved - shift, reference, atol=1e-10)


@pytest.mark.parametrize("degrees", [17.0, 90.0, 201.3])
def test_rotation(degrees: float, reference: np.ndarray) -> None:
    turn = turned(degrees)
    np.testing.assert_allclose(far(*scene(turn, turn)), turn(reference), atol=1e-9)


def test_reflection(reference: np.ndarray) -> None:
    np.testing.assert_allclose(far(*scene(mirrored, mirrored)), mirrored(reference), atol=1e-9)


def test_the_same_in_single_precision_after_one_step() -> None:
    world, state = scene()
    expected = far(world, state)
    turn = turned(33.0)
    np.testing.assert_allclose(far(*scene(turn, turn))[0], turn(expected[0]), atol=1e-5)
    np.testing.assert_allclose(far(*scene(mirrored, mirrored))[0], mirrored(expected[0]), atol=1e-5)
    np.testing.assert_allclose(
        far(*scene(lambda place: np.asarray(place) + np.array((16, 8))))[0] - (16, 8), expected[0], atol=1e-4
    )


def passing(turn: Move) -> np.ndarray:
    """Where three people are during 1000 steps in which they pass each other and a wall, far from any crisis."""
    place = turn(np.array([(-3.0, 0.2), (3.0, -0.5), (0.0, 1.5)]))
    world = make_world(turn(np.array([(-4.0, -1.2), (4.0, -1.2)]))[None], turn(np.array([(8.0, 0.2), (-8.0, -0.5), (0.0, 9.0)])))
    state = make_state(place, heading=turn(np.tile((1.0, 0.0), (3, 1))), goal=np.arange(3))
    return np.asarray(run(world, make_params(None, {"motion.dt": 0.004}), state, 1000, every=100).frames.position)


@pytest.mark.parametrize("turn", [turned(33.0), turned(180.0), mirrored], ids=["33 degrees", "180 degrees", "mirror"])
def test_a_calm_scene_stays_turned_for_a_thousand_steps(turn: Move, x64: None) -> None:
    straight = passing(turned(0.0))
    assert np.ptp(straight[:, 0], axis=0).max() > 4.0  # they really walk,
    assert np.abs(np.diff(straight[:, 0, 1])).max() > 1e-3  # and feel each other
    np.testing.assert_allclose(passing(turn), turn(straight), atol=1e-9)


@pytest.mark.parametrize("chosen", ["grid", "few", "all"])
def test_permutation_by_id(chosen: str) -> None:
    """In other rows the same people, some of them on one point, walk to the same bits: sums and draws go by id."""
    world, state = scene()
    state = state.with_(position=state.position.at[:, 3:5].set(state.position[:, 2:3]))
    reaches = base.reaches(numbers().forces, 0.32)
    grid = None if chosen == "all" else Grid(40, 40, 2 * (chosen == "grid"), ROWS, ROWS, ROWS, 9, *reaches, 0.2, 4)
    order = np.random.default_rng(3).permutation(ROWS)
    params = numbers(noise=0.3)
    other = replace(params, "people.desired_speed", params.people.desired_speed[order])
    straight = run(world, params, state, SHORT, grid=grid)
    mixed = run(world, other, shuffled(state, order), SHORT, grid=grid)
    assert np.abs(straight.final.position - state.position).max() > 0.05
    for name in ("position", "velocity", "heading"):
        expected = np.asarray(getattr(straight.frames, name))[:, order]
        assert np.asarray(getattr(mixed.frames, name)).tobytes() == expected.tobytes(), name


def test_a_mirrored_crowd_stays_mirrored(x64: None) -> None:
    half = np.random.default_rng(8).uniform((-2.0, -1.5), (-0.3, 1.5), (6, 2))
    place = np.concatenate((half, mirrored(half)))
    state = make_state(place, goal=np.repeat((0, 1), 6))
    world = make_world([[(-2, -1.8), (2, -1.8)]], [(3.0, 0.5), (-3.0, 0.5)])
    way = np.asarray(run(world, make_params(None, {"motion.dt": 0.001}), state, 100).frames.position)
    assert np.abs(way[-1] - place).max() > 0.05
    np.testing.assert_allclose(way[:, 6:], mirrored(way[:, :6]), atol=1e-9)


@pytest.mark.parametrize("double", [True, False])
def test_the_list_is_all_against_all_with_the_same_reach(double: bool) -> None:
    with jax.enable_x64(double):
        world, state = scene()
        reaches = base.reaches(numbers().forces, 0.32)
        grid = Grid(40, 40, 2, ROWS, ROWS, ROWS, 9, *reaches, 0.2, 1)
        listed, near = felt(numbers(), state, world, grid)
        everybody, _ = felt(numbers(), state, world)
        assert near.mask.any()
        np.testing.assert_allclose(listed, everybody, rtol=0, atol=(1e-12 if double else 1e-5) * np.abs(everybody).max())


@pytest.mark.parametrize("rubbish", [0.0, math.nan, math.inf, 1e30])
def test_dead_rows_change_nothing(rubbish: float) -> None:
    world, state = scene()
    expected = far(world, state)
    dead = ~state.alive
    filled = {name: jnp.where(dead, rubbish, getattr(state, name)) for name in ("position", "velocity", "heading")}
    np.testing.assert_array_equal(far(world, state.with_(**filled)), expected)
    inside = state.with_(position=jnp.where(dead, state.position[:, :1], state.position))  # right on a living person
    np.testing.assert_array_equal(far(world, inside), expected)


def test_padding_changes_nothing() -> None:
    world, state = scene()
    few = jax.tree.map(lambda leaf: leaf[..., :PEOPLE] if leaf.ndim else leaf, state)
    params = numbers(noise=0.1)
    alone = replace(params, "people.desired_speed", params.people.desired_speed[:PEOPLE])
    padded, tight = run(world, params, state, SHORT), run(world, alone, few, SHORT)
    np.testing.assert_allclose(padded.frames.position[:, :PEOPLE], tight.frames.position, atol=1e-6)


def test_dead_rows_stay_as_they_are() -> None:
    world, state = scene()
    final = run(world, numbers(noise=0.5), state, SHORT).final
    for name in ("position", "velocity", "heading", "alive", "arrived"):
        np.testing.assert_array_equal(getattr(final, name)[..., PEOPLE:], getattr(state, name)[..., PEOPLE:])


def test_a_batch_is_its_members_one_by_one() -> None:
    world, state = scene()
    params, queue = numbers(noise=0.2), CommandQueue.of((), 0)

    def walk(key: Any, strength: Any) -> jax.Array:
        chosen = replace(params, "forces.repulsion.strength", strength)
        return rollout(world, chosen, state, key, queue, grid=None, steps=SHORT, every=SHORT).final.position

    keys, strengths = jax.random.split(jax.random.key(2), 4), jnp.asarray([0.0, 500.0, 2000.0, 4000.0])
    batch = jax.jit(jax.vmap(walk))(keys, strengths)
    single = jax.jit(walk)
    for number in range(4):
        np.testing.assert_allclose(batch[number], single(keys[number], strengths[number]), atol=1e-6)
    assert len({member.tobytes() for member in np.asarray(batch)}) == 4


def test_compiled_is_eager(x64: None) -> None:
    world, state = scene()
    params = numbers()
    push, near = felt(params, state, world)
    with jax.disable_jit():
        expected = base.each(params, state, near, world)
    compiled = jax.jit(base.each)(params, state, near, world)
    for name, force in expected.items():
        assert np.abs(force).max() > 0, name
        np.testing.assert_allclose(compiled[name], force, rtol=1e-12, atol=1e-12 * np.abs(force).max(), err_msg=name)
    key = jax.random.key(4)
    motion = numbers(noise=0.3).motion
    quick = jax.jit(lambda state: motion(state, lambda _: push, world, key))(state)
    with jax.disable_jit():
        slow = motion(state, lambda _: push, world, key)
    for name in ("position", "velocity", "heading"):
        np.testing.assert_allclose(getattr(quick, name), getattr(slow, name), rtol=1e-12, atol=1e-12)


def test_the_key_decides_and_nothing_else_does() -> None:
    world, state = scene()
    first, again, other = (
        np.asarray(run(world, numbers(noise=0.1), state, SHORT, seed=seed).frames.position) for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other)[:, :PEOPLE].max() > 1e-5


@pytest.mark.parametrize("double", [True, False])
def test_action_is_reaction(double: bool) -> None:
    with jax.enable_x64(double):
        state = make_state(
            [(0.0, 0.0), (0.37, 0.21)], [(0.3, -1.0), (-0.6, 0.4)], radius=[0.27, 0.22], social_radius=[0.2, 0.3], mass=[55.0, 95.0]
        )
        params = make_params(("contact", "repulsion"))
        for shape in ({"forces.contact.friction": 0.0}, {"forces.repulsion.strength": 0.0}, {}):
            chosen = params
            for path, value in shape.items():
                chosen = replace(chosen, path, jnp.asarray(value))
            force = np.asarray(felt(chosen, state, make_world())[0] * state.mass)
            assert np.hypot(*force[:, 0]) > 100
            np.testing.assert_allclose(force[:, 0], -force[:, 1], rtol=1e-12 if double else 1e-6)


# Four people without walls and goals: one program for the next three tests.
FOUR = np.array([(0.0, 0.0), (0.6, 0.05), (0.25, 0.5), (0.8, 0.6)])
MASS = np.array([60.0, 70.0, 80.0, 90.0])


def four(state: State, dt: float, friction: float = 2.4e5) -> Frames:
    params = make_params(("contact", "repulsion"), {"motion.dt": dt, "forces.contact.friction": friction})
    return run(make_world(), params, state, 10_000, every=2_500).frames


@pytest.mark.parametrize("double", [True, False])
def test_momentum_is_kept_for_ten_thousand_steps(double: bool) -> None:
    with jax.enable_x64(double):
        velocity = np.random.default_rng(5).normal(0, 0.5, (4, 2))
        frames = four(make_state(FOUR, velocity, mass=MASS), 1e-4)
        momentum = np.einsum("n,fnc->fc", MASS, np.asarray(frames.velocity, float))
        scale = (MASS * np.hypot(*velocity.T)).sum()
        assert np.abs(frames.velocity[-1] - velocity).max() > 0.1
        tolerance = (1e-10 if double else 1e-3) * scale
        np.testing.assert_allclose(momentum, np.broadcast_to(MASS @ velocity, momentum.shape), atol=tolerance)


def test_angular_momentum_is_kept_by_central_forces(x64: None) -> None:
    velocity = np.random.default_rng(5).normal(0, 0.5, (4, 2))
    frames = four(make_state(FOUR, velocity, mass=MASS), 1e-4, friction=0.0)

    def spin(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (MASS * (x[..., 0] * v[..., 1] - x[..., 1] * v[..., 0])).sum(-1)

    expected = spin(FOUR, velocity)
    assert abs(expected) > 1
    np.testing.assert_allclose(spin(np.asarray(frames.position), np.asarray(frames.velocity)), expected, rtol=1e-9)


def test_coincident_people_part_by_id_not_by_row(x64: None) -> None:
    state = make_state([(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.3, 0.0)])
    order = np.array([2, 0, 3, 1])
    straight, mixed = four(state, 1e-5), four(shuffled(state, order), 1e-5)
    assert np.abs(straight.velocity).max() > 0.01
    np.testing.assert_allclose(mixed.position, straight.position[:, order], atol=1e-10)


@pytest.mark.parametrize("double", [True, False])
def test_a_periodic_box_has_no_edge(double: bool) -> None:
    with jax.enable_x64(double):
        size = np.array((6.0, 4.0))
        generator = np.random.default_rng(9)
        place = generator.uniform((0, 0), size, (ROWS, 2))
        velocity = generator.normal(0, 1, (ROWS, 2))
        world = make_world(size=tuple(size), lower=(0.0, 0.0), periodic=True)
        params = make_params(("contact", "repulsion"), {"motion.dt": 0.005})
        reach, _ = base.reaches(params.forces, 0.25)
        grid = Grid(6, 4, 2, ROWS, ROWS, ROWS, 0, reach, 0.0, 0.2, 4)

        def way(shift: Any) -> np.ndarray:
            state = make_state((place + shift) % size, velocity)
            done = run(world, params, state, SHORT, grid=grid)
            assert (np.asarray(done.frames.position) >= 0).all()
            assert (np.asarray(done.frames.position) < size).all()
            return np.asarray(done.frames.position, float) - shift

        expected = way((0.0, 0.0))
        for shift in (tuple(size), (3.0, 2.0), (-1.7, 0.9)):
            apart = (way(shift) - expected + size / 2) % size - size / 2
            steps = SHORT if double else 1
            assert np.abs(apart[:steps]).max() < (1e-10 if double else 1e-5)
        if double:
            everybody = run(world, params, make_state(place, velocity), SHORT)
            apart = (np.asarray(everybody.frames.position) - expected + size / 2) % size - size / 2
            assert np.abs(apart).max() < 1e-10
