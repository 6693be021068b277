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
from crowdlab.params import Params, replace, specs, values
from crowdlab.simulation import Frames, rollout
from crowdlab.state import State, World

PEOPLE, ROWS, MANY = 14, 20, 60
WALLS = np.array([[(-3, -2), (3, -2)], [(3, -2), (3, 1)], [(3, 1), (1, 2.5)], [(-3, -2), (-3.5, 2)]])
GOAL = np.array([(2.0, 5.0), (-2.5, 4.5)])  # a line to walk to; nobody gets there
SHORT = 12  # steps of 5 ms
Move = Callable[[np.ndarray], np.ndarray]
Pick = Callable[[float, float], float]


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


def test_other_units_of_length_time_and_mass(reference: np.ndarray) -> None:
    """Every number rescaled by its dimension gives the same way; the unit of force stays, since what is negligible is in newtons."""
    long, heavy = 1.7, 2.3
    lasting = math.sqrt(long * heavy)
    units = {"m": long, "s": lasting, "m/s": long / lasting, "m/s^2": long / lasting**2, "m/s^1.5": long / lasting**1.5}
    units |= {"N": 1.0, "kg/s^2": heavy / lasting**2, "kg/(m s)": heavy / (long * lasting), "1": 1.0}
    world, state = scene(lambda place: long * np.asarray(place), lambda speed: long / lasting * np.asarray(speed))
    state = state.with_(radius=long * state.radius, social_radius=long * state.social_radius, mass=heavy * state.mass)
    params = numbers()
    for path, spec in specs(params):
        params = replace(params, path, units[spec.unit] * values(params)[path])
    scaled = np.asarray(run(world, params, state, SHORT).frames.position)[:, :PEOPLE] / long
    np.testing.assert_allclose(scaled, reference, atol=1e-9)


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


@pytest.mark.parametrize(
    ("chosen", "pick"),
    [("grid", "float32"), ("few", "float32"), ("all", "float32"), ("all", "float64")],
    indirect=["pick"],
)
@pytest.mark.bits
def test_permutation_by_id(chosen: str, pick: Pick) -> None:
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


def test_the_list_is_all_against_all_with_the_same_reach(pick: Pick) -> None:
    world, state = scene()
    reaches = base.reaches(numbers().forces, 0.32)
    grid = Grid(40, 40, 2, ROWS, ROWS, ROWS, 9, *reaches, 0.2, 1)
    listed, near = felt(numbers(), state, world, grid)
    everybody, _ = felt(numbers(), state, world)
    assert near.mask.any()
    np.testing.assert_allclose(listed, everybody, rtol=0, atol=pick(1e-12, 1e-5) * np.abs(everybody).max())


@pytest.mark.parametrize("rubbish", [0.0, math.nan, math.inf, 1e30])
@pytest.mark.bits
def test_dead_rows_change_nothing(rubbish: float) -> None:
    world, state = scene()
    expected = far(world, state)
    dead = ~state.alive
    filled = {name: jnp.where(dead, rubbish, getattr(state, name)) for name in ("position", "velocity", "heading")}
    np.testing.assert_array_equal(far(world, state.with_(**filled)), expected)
    inside = state.with_(position=jnp.where(dead, state.position[:, :1], state.position))  # right on a living person
    np.testing.assert_array_equal(far(world, inside), expected)


@pytest.mark.bits
def test_padding_changes_nothing(pick: Pick) -> None:
    world, state = scene()
    few = jax.tree.map(lambda leaf: leaf[..., :PEOPLE] if leaf.ndim else leaf, state)
    params = numbers(noise=0.1)
    alone = replace(params, "people.desired_speed", params.people.desired_speed[:PEOPLE])
    padded, tight = run(world, params, state, SHORT), run(world, alone, few, SHORT)
    for name in ("position", "velocity", "heading"):
        np.testing.assert_array_equal(getattr(padded.frames, name)[:, :PEOPLE], getattr(tight.frames, name))


@pytest.mark.bits
def test_dead_rows_stay_as_they_are() -> None:
    world, state = scene()
    final = run(world, numbers(noise=0.5), state, SHORT).final
    for name in ("position", "velocity", "heading", "alive", "arrived"):
        np.testing.assert_array_equal(getattr(final, name)[..., PEOPLE:], getattr(state, name)[..., PEOPLE:])


@pytest.mark.bits
def test_room_for_one_is_room_for_many(pick: Pick) -> None:
    """Whoever has one neighbour and one wall feels the same to the bit where there is room for no more, each with their own numbers."""
    generator = np.random.default_rng(6)
    x = 4.0 * np.arange(MANY // 2)
    place = np.stack((np.stack((x, x + generator.uniform(0.4, 0.7, x.shape)), 1).ravel(), generator.uniform(0.2, 0.5, MANY)), 1)
    state = make_state(place, generator.normal(0, 1, (MANY, 2)), mass=generator.uniform(60, 100, MANY), goal=0)
    own = {f"forces.{name}.falloff": generator.uniform(0.05, 0.1, MANY) for name in ("repulsion", "wall_repulsion")}
    own |= {f"forces.{name}.strength": generator.uniform(1e3, 3e3, MANY) for name in ("repulsion", "wall_repulsion")}
    own["forces.driving.relaxation_time"] = generator.uniform(0.3, 1.0, MANY)
    params = make_params(None, own)
    world = make_world([[(-9.0, 0.0), (199.0, 0.0)]], [(300.0, 1.0)])
    tight = Grid(1, 1, 0, 1, 1, 1, 1, 2.2, 2.0, 0.2, 1)
    expected, near = felt(params, state, world)
    assert near.mask.any(0).all()
    for grid in (tight, tight._replace(capacity=2), tight._replace(touching=2, walls=3), tight._replace(capacity=MANY)):
        found, near = felt(params, state, world, grid)
        assert (np.asarray(near.mask).sum(0) == 1).all()
        np.testing.assert_array_equal(found, expected)


MEMBERS, LONGER = 64, 100  # half a second in a dense crowd: later on chaos separates what rounding has told apart


@pytest.mark.bits
def test_a_batch_is_its_members_one_by_one(pick: Pick) -> None:
    world, state = scene()
    params, queue = numbers(noise=0.2), CommandQueue.of((), 0)

    def walk(key: Any, strength: Any) -> jax.Array:
        chosen = replace(params, "forces.repulsion.strength", strength)
        return rollout(world, chosen, state, key, queue, grid=None, steps=LONGER, every=LONGER).final.position

    keys, strengths = jax.random.split(jax.random.key(2), MEMBERS), jnp.linspace(0.0, 4000.0, MEMBERS)
    batch, single = jax.jit(jax.vmap(walk))(keys, strengths), jax.jit(walk)
    for number in (0, 17, 40, 63):
        np.testing.assert_allclose(batch[number], single(keys[number], strengths[number]), atol=pick(1e-10, 1e-3))
    assert len({member.tobytes() for member in np.asarray(batch)}) == MEMBERS


@pytest.mark.parametrize("pick", ["float32", pytest.param("float64", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.bits
def test_without_compiling_the_same_bytes(pick: Pick) -> None:
    """Two who touch each other and a wall, with noise; one of them crosses a target and another row is dead."""
    state = make_state([(0.0, 0.2), (0.45, 0.3), (0.2, 0.2)], (0.5, -0.1), goal=0, alive=[True, True, False])
    world = make_world([[(-1.0, 0.0), (2.0, 0.0)]], [(0.6, 0.3)], reach=0.1)
    params = make_params(None, {"motion.dt": 0.005, "motion.noise": 0.2})
    compiled = run(world, params, state, 2)
    with jax.disable_jit():
        plain = run(world, params, state, 2)
    assert np.abs(plain.final.velocity - state.velocity)[:, :2].min() > 1e-3
    for one, other in zip(jax.tree.leaves(compiled), jax.tree.leaves(plain), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.bits
def test_the_key_decides_and_nothing_else_does(pick: Pick) -> None:
    world, state = scene()
    first, again, other = (
        np.asarray(run(world, numbers(noise=0.1), state, SHORT, seed=seed).frames.position) for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other)[:, :PEOPLE].max() > 1e-5


def pair(place: Any = (0.0, 0.0), moving: Any = (0.0, 0.0)) -> State:
    """Two unequal people who touch, displaced and moved together."""
    return make_state(
        np.add([(0.0, 0.0), (0.37, 0.21)], place),
        np.add([(0.3, -1.0), (-0.6, 0.4)], moving),
        radius=[0.27, 0.22],
        social_radius=[0.2, 0.3],
        mass=[55.0, 95.0],
    )


def forces_of(state: State, **changes: float) -> np.ndarray:
    """What pairs feel, (2, N) N, with some parameters of the two pair forces changed."""
    params = make_params(("contact", "repulsion"), {f"forces.{name.replace('_', '.')}": value for name, value in changes.items()})
    return np.asarray(felt(params, state, make_world())[0] * state.mass)


@pytest.mark.parametrize("changes", [{"contact_friction": 0.0}, {"repulsion_strength": 0.0}, {}], ids=["central", "contact", "all"])
def test_action_is_reaction(changes: dict[str, float], pick: Pick) -> None:
    force = forces_of(pair(), **changes)
    assert np.hypot(*force[:, 0]) > 100
    np.testing.assert_allclose(force[:, 0], -force[:, 1], rtol=pick(1e-12, 1e-6))


def test_who_moves_along_feels_the_same(pick: Pick) -> None:
    at_rest, friction = forces_of(pair()), forces_of(pair()) - forces_of(pair(), contact_friction=0.0)
    assert np.abs(friction).min() > 100
    for moving in ((3.0, -2.0), (-4.5, 0.25)):
        np.testing.assert_allclose(forces_of(pair(moving=moving)), at_rest, rtol=pick(1e-12, 1e-5))


# Four people without walls and goals: one program for the next three tests.
FOUR = np.array([(0.0, 0.0), (0.6, 0.05), (0.25, 0.5), (0.8, 0.6)])
MASS = np.array([60.0, 70.0, 80.0, 90.0])


def four(state: State, dt: float, friction: float = 2.4e5) -> Frames:
    params = make_params(("contact", "repulsion"), {"motion.dt": dt, "forces.contact.friction": friction})
    return run(make_world(), params, state, 10_000, every=2_500).frames


def test_momentum_is_kept_for_ten_thousand_steps(pick: Pick) -> None:
    velocity = np.random.default_rng(5).normal(0, 0.5, (4, 2))
    frames = four(make_state(FOUR, velocity, mass=MASS), 1e-4)
    momentum = np.einsum("n,fnc->fc", MASS, np.asarray(frames.velocity, float))
    scale = (MASS * np.hypot(*velocity.T)).sum()
    assert np.abs(frames.velocity[-1] - velocity).max() > 0.1
    np.testing.assert_allclose(momentum, np.broadcast_to(MASS @ velocity, momentum.shape), atol=pick(1e-10, 1e-3) * scale)


def test_angular_momentum_is_kept_by_central_forces(pick: Pick) -> None:
    velocity = np.random.default_rng(5).normal(0, 0.5, (4, 2))
    frames = four(make_state(FOUR, velocity, mass=MASS), 1e-4, friction=0.0)

    def spin(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (MASS * (x[..., 0] * v[..., 1] - x[..., 1] * v[..., 0])).sum(-1)

    expected = spin(FOUR, velocity)
    assert abs(expected) > 1
    found = spin(np.asarray(frames.position, float), np.asarray(frames.velocity, float))
    np.testing.assert_allclose(found, expected, rtol=pick(1e-9, 1e-3))


def test_coincident_people_part_by_id_not_by_row(x64: None) -> None:
    state = make_state([(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.3, 0.0)])
    order = np.array([2, 0, 3, 1])
    straight, mixed = four(state, 1e-5), four(shuffled(state, order), 1e-5)
    assert np.abs(straight.velocity).max() > 0.01
    np.testing.assert_allclose(mixed.position, straight.position[:, order], atol=1e-10)


def test_a_periodic_box_has_no_edge(pick: Pick) -> None:
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
        steps = round(pick(SHORT, 1))
        assert np.abs(apart[:steps]).max() < pick(1e-10, 1e-5)
    if pick(1, 0):
        everybody = run(world, params, make_state(place, velocity), SHORT)
        apart = (np.asarray(everybody.frames.position) - expected + size / 2) % size - size / 2
        assert np.abs(apart).max() < 1e-10
