"""One wall is one wall, however it is cut, bent or rounded; and nobody goes through one unseen."""

import dataclasses
import math
import tracemalloc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as some
from scenes import make_params, make_state, make_world, run

from crowdlab import guards, walls
from crowdlab.forces import base
from crowdlab.neighbours import Grid, find, make_list, tie_directions, with_wall_table
from crowdlab.neighbours.lists import wall_candidates
from crowdlab.params import Params
from crowdlab.state import State, World

NAMES = ("wall_contact", "wall_repulsion")
MANY = 400  # places measured at once
Points = np.ndarray


@pytest.fixture
def pressed(x64: None) -> Params:
    """Double precision, and the default wall forces."""
    return make_params(NAMES)


@jax.jit
def felt(params: Params, state: State, world: World) -> jax.Array:
    near, _ = find(state, world, None, jax.random.key(0))
    return base.total(params, state, near, world).stacked


def push(params: Params, world: World, place: Any) -> Points:
    """Acceleration (n, 2) at places (n, 2), from walls alone."""
    place = np.asarray(place, float).reshape(-1, 2)
    rows = np.resize(place, (MANY, 2))
    return np.asarray(felt(params, make_state(rows), world)).T[: len(place)]


def chain(points: Any) -> Points:
    """Segments (n - 1, 2, 2) along a polyline."""
    points = np.asarray(points, float)
    return np.stack((points[:-1], points[1:]), 1)


def straight(pieces: int, length: float = 4.0) -> Points:
    return chain(np.stack((np.linspace(-length / 2, length / 2, pieces + 1), np.zeros(pieces + 1)), 1))


def size(vectors: Points) -> Points:
    return np.hypot(*vectors.T)


def places() -> Points:
    """Round a straight wall, past its ends too; some touch it."""
    generator = np.random.default_rng(4)
    return np.stack((generator.uniform(-2.6, 2.6, MANY), generator.uniform(0.1, 0.9, MANY) * generator.choice((-1, 1), MANY)), 1)


@pytest.mark.parametrize("pieces", [2, 10, 100])
def test_a_wall_in_pieces_pushes_like_a_whole_one(pieces: int, pressed: Params) -> None:
    whole, cut = push(pressed, make_world(straight(1)), places()), push(pressed, make_world(straight(pieces)), places())
    assert size(whole).max() > 100
    np.testing.assert_allclose(cut, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pieces", [10, 100])
def test_a_wall_in_pieces_guides_along_the_same_way(pieces: int, pressed: Params) -> None:
    def way(count: int) -> Points:
        world = make_world(straight(count), [(1.9, -0.4)])
        params = make_params(("driving", *NAMES), {"motion.dt": 0.01})
        return np.asarray(
            run(world, params, make_state([(-1.9, 0.45), (-1.5, 0.3), (0.05, 0.6)], goal=0), 200, every=200).final.position
        )

    np.testing.assert_allclose(way(pieces), way(1), atol=1e-6)


def test_direction_and_order_of_segments_do_not_matter(pressed: Params) -> None:
    room = chain([(-2, -1), (2, -1), (2, 1), (0, 0.3), (-2, 1), (-2, -1)])
    generator = np.random.default_rng(6)
    place = generator.uniform((-2.5, -1.5), (2.5, 1.5), (MANY, 2))
    expected = push(pressed, make_world(room), place)
    for mixed in (room[:, ::-1], room[::-1], generator.permutation(room), np.roll(room, 2, 0)):
        np.testing.assert_allclose(push(pressed, make_world(mixed), place), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 5, 10])
@pytest.mark.parametrize("gap", [0.1, 0.3, 0.6])
def test_an_inward_bend_changes_the_force_by_less_than_two_percent(degrees: float, gap: float, pressed: Params) -> None:
    # Two walls that rise from the corner to both sides: a person above feels the bend from inside.
    half = math.radians(degrees) / 2
    arm = 3 * np.array([math.cos(half), math.sin(half)])
    world = make_world(chain([arm * (-1, 1), (0, 0), arm]))
    along = np.linspace(-0.8, 0.8, MANY)
    nearest = np.stack((along, np.abs(along) * math.tan(half) + gap / math.cos(half)), 1)  # at one distance from the nearer wall
    force = size(push(pressed, world, nearest))
    far = force[0]
    assert np.abs(force / far - 1).max() < 0.02
    assert np.abs(np.diff(force)).max() / far < 0.02


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize("gap", [0.2, 0.5])
def test_a_rounded_wall_does_not_flicker(inside: bool, gap: float, pressed: Params) -> None:
    radius, count = 3.0, 64
    angle = np.linspace(0, 2 * math.pi, count + 1)
    ring = radius * np.stack((np.cos(angle), np.sin(angle)), 1)
    ring[-1] = ring[0]
    walk = np.linspace(0, 4 * 2 * math.pi / count, MANY)  # past four pieces
    around = np.stack((np.cos(walk), np.sin(walk)), 1)
    line = shapely.LineString(ring)
    away = np.empty(MANY)
    for number, unit in enumerate(around):  # walk at one distance from the wall as it is, not from the circle
        low, high = (radius - 2 * gap - 0.1, radius - 1e-3) if inside else (radius, radius + 2 * gap + 0.1)
        for _ in range(40):
            middle = (low + high) / 2
            farther = line.distance(shapely.Point(middle * unit)) > gap
            low, high = (middle, high) if farther == inside else (low, middle)
        away[number] = low
    force = push(pressed, make_world(chain(ring)), away[:, None] * around)
    assert size(force).max() / size(force).min() < 1.02
    radial = (force * around).sum(1) / size(force)
    assert (radial < -0.99).all() if inside else (radial > 0.99).all()


def test_passing_the_end_of_a_wall_and_an_outward_corner_is_continuous(pressed: Params) -> None:
    step = 1e-7
    for world, vertex in ((make_world(straight(1, 2.0)), (1.0, 0.0)), (make_world(chain([(-2, 0), (1, 0), (1, -2)])), (1.0, 0.0))):
        before = push(pressed, world, np.add(vertex, [(-step, 0.3), (-step, 0.24), (0.3, step)]))
        after = push(pressed, world, np.add(vertex, [(step, 0.3), (step, 0.24), (0.3, -step)]))
        np.testing.assert_allclose(before, after, rtol=1e-5, atol=1e-4)
    # Round the outward corner at one distance the force stays the same: no corner counts twice.
    angle = np.linspace(-0.6, math.pi / 2 + 0.6, MANY)
    turn = np.stack((np.cos(np.clip(angle, 0, math.pi / 2)), np.sin(np.clip(angle, 0, math.pi / 2))), 1) * 0.3
    slide = np.stack((np.minimum(math.pi / 2 - angle, 0), np.minimum(angle, 0)), 1)
    force = size(push(pressed, world, np.add((1.0, 0.0), turn + slide)))
    np.testing.assert_allclose(force, force[0], rtol=1e-6)


@pytest.mark.parametrize("degrees", [15, 30, 60, 90, 120, 170])
def test_a_shared_outward_corner_counts_once(degrees: float, pressed: Params) -> None:
    turn = math.radians(degrees)
    world = make_world(chain([(-3, 0), (0, 0), (3 * math.cos(turn), -3 * math.sin(turn))]))
    alone = push(pressed, make_world(straight(1)), [(0.0, 0.3)])
    bisector = math.pi / 2 - turn / 2
    corner = push(pressed, world, [(0.3 * math.cos(bisector), 0.3 * math.sin(bisector))])
    np.testing.assert_allclose(size(corner), size(alone), rtol=1e-9)
    np.testing.assert_allclose(corner / size(corner), [[math.cos(bisector), math.sin(bisector)]], atol=1e-9)


def test_a_right_angled_inner_corner_counts_two(pressed: Params) -> None:
    alone = size(push(pressed, make_world(straight(1)), [(0.0, 0.3)]))[0]
    corner = push(pressed, make_world(chain([(0, 3), (0, 0), (3, 0)])), [(0.3, 0.3)])
    np.testing.assert_allclose(corner, [[alone, alone]], rtol=1e-6)


@pytest.mark.parametrize("side", [-1, 1])
def test_at_a_t_junction_the_far_side_feels_one_wall(side: int, pressed: Params) -> None:
    alone = size(push(pressed, make_world(straight(1)), [(0.0, 0.3)]))[0]
    tee = make_world(np.concatenate((straight(1), chain([(0, 0), (0, -2)]))))
    np.testing.assert_allclose(push(pressed, tee, [(0.001 * side, 0.3)]), [[0, alone]], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(push(pressed, tee, [(0.3 * side, -0.3)]), [[alone * side, -alone]], rtol=1e-6)


def test_two_separate_parallel_walls_both_count(pressed: Params) -> None:
    # Both on one side: two walls, not one. On opposite sides they balance.
    near, far = push(pressed, make_world(straight(1)), [(0.0, 0.3), (0.0, 0.4)])
    double = make_world(np.concatenate((straight(1), straight(1) - np.array((0, 0.1)))))
    np.testing.assert_allclose(push(pressed, double, [(0.0, 0.3)]), [near + far], rtol=1e-9)
    corridor = make_world(np.concatenate((straight(1), straight(1) + np.array((0, 0.6)))))
    np.testing.assert_allclose(push(pressed, corridor, [(0.1, 0.3)]), [[0, 0]], atol=1e-9)


def test_a_closed_narrow_corridor_balances_too(pressed: Params) -> None:
    # Joined at the far ends the two sides are one connected wall, yet they face each other.
    world = make_world(chain([(-3, 0), (3, 0), (3, 0.6), (-3, 0.6), (-3, 0)]))
    np.testing.assert_allclose(push(pressed, world, [(0.1, 0.3)]), [[0, 0]], atol=1e-9)
    alone = push(pressed, make_world(straight(1)), [(0.0, 0.2), (0.0, 0.4)])
    np.testing.assert_allclose(push(pressed, world, [(0.1, 0.2)]), [alone[0] - alone[1]], rtol=1e-9, atol=1e-10)


# Distances and crossings against shapely; one shape for all examples.
SOME = 12
number = some.one_of(some.floats(-5, 5).map(lambda x: round(x, 3)), some.integers(-3, 3).map(float))
point = some.tuples(number, number)
segments = some.lists(some.tuples(point, point).filter(lambda s: math.dist(*s) > 1e-2), min_size=1, max_size=SOME)
points = some.lists(point, min_size=1, max_size=SOME)


def fill(rows: Any) -> Points:
    """Repeated up to SOME rows."""
    return np.resize(np.asarray(rows, float), (SOME, *np.shape(rows)[1:]))


def raw(rows: Points) -> World:
    """A world with these segments as they are, uncut, so that shapes stay the same."""
    return dataclasses.replace(
        make_world(),
        walls=jnp.asarray(rows),
        wall_vertices=jnp.asarray(rows.reshape(-1, 2)),
        wall_directions=jnp.zeros((2 * SOME, 1, 2)),
        wall_part=jnp.arange(3 * SOME, dtype=jnp.int32),
    )


EVERY = jnp.broadcast_to(jnp.arange(3 * SOME, dtype=jnp.int32)[:, None], (3 * SOME, SOME))
measured = jax.jit(lambda place, world: walls.measure(place, walls.look_up(EVERY, world)))
may_count = jax.jit(lambda place, world, reach, slack: walls.candidates(place, EVERY, world, reach, slack))
through = jax.jit(lambda before, after, world: walls.crossed(before, after, walls.look_up(EVERY, world)))


@settings(max_examples=200, deadline=None)
@given(rows=segments, place=points)
def test_distances_are_those_of_shapely(rows: Any, place: Any) -> None:
    with jax.enable_x64(True):
        rows, place = fill(rows), fill(place)
        found = measured(jnp.asarray(place.T), raw(rows))
        ours = np.where(np.asarray(found.weight) > 0, np.asarray(found.distance), np.inf).min(0)
    theirs = shapely.distance(shapely.linestrings(rows)[:, None], shapely.points(place)).min(0)
    np.testing.assert_allclose(ours, np.maximum(theirs, walls.SMALLEST), atol=1e-10)
    np.testing.assert_array_equal(found.nearest, ours)


@settings(max_examples=100, deadline=None)
@given(rows=segments, place=points, turn=some.floats(0, 2 * math.pi), reach=some.floats(0.1, 5), slack=some.floats(0.01, 1))
def test_whatever_counts_after_a_short_walk_was_a_candidate(rows: Any, place: Any, turn: float, reach: float, slack: float) -> None:
    with jax.enable_x64(True):
        rows, place = fill(rows), fill(place)
        moved = place + 0.999 * slack * np.array([math.cos(turn), math.sin(turn)])
        near = measured(jnp.asarray(moved.T), raw(rows))
        candidates = may_count(jnp.asarray(place.T), raw(rows), reach, slack)
    counts = (np.asarray(near.weight) > 0) & (np.asarray(near.distance) <= reach)
    assert not (counts & ~np.asarray(candidates)).any()


@settings(max_examples=200, deadline=None)
@given(rows=segments, before=points, after=points)
def test_who_goes_through_a_wall_is_who_shapely_says(rows: Any, before: Any, after: Any) -> None:
    with jax.enable_x64(True):
        rows, before, after = fill(rows), fill(before), fill(after)
        ours = np.asarray(through(jnp.asarray(before.T), jnp.asarray(after.T), raw(rows)))
        nearest = np.asarray(measured(jnp.asarray(before.T), raw(rows)).nearest)
    assert (~ours | (nearest <= np.hypot(*(after - before).T) + guards.CLOSE)).all(), "or the guard would not ask"
    ways, lines = shapely.linestrings(np.stack((before, after), 1)), shapely.linestrings(rows)
    # To start on a wall or to slide along it is not to go through; to end on it is, by our rule, and by theirs may be either.
    certain = shapely.crosses(ways[:, None], lines) & (shapely.distance(shapely.points(before)[:, None], lines) > 1e-9)
    certain &= shapely.distance(shapely.points(after)[:, None], lines) > 1e-9
    possible = shapely.distance(ways[:, None], lines) < 1e-9
    assert (ours >= certain.any(1)).all()
    assert (ours <= possible.any(1)).all()


def test_a_step_through_a_corner_does_not_slip_between_two_walls() -> None:
    world = make_world(chain([(-1, 0), (0, 0), (1, 0)]))
    index = jnp.arange(2, dtype=jnp.int32)[:, None]
    assert walls.crossed(jnp.asarray([[0.0], [0.1]]), jnp.asarray([[0.0], [-0.1]]), walls.look_up(index, world)).all()


def test_without_walls_nothing_is_felt_or_crossed() -> None:
    world = make_world()
    none = walls.look_up(jnp.zeros((0, 3), jnp.int32), world)
    assert walls.candidates(jnp.zeros((2, 3)), jnp.zeros((0, 1), jnp.int32), world, 1.0, 0.1).shape == (0, 3)
    assert walls.measure(jnp.zeros((2, 3)), none).total(jnp.zeros((0, 3))).tolist() == [0, 0, 0]
    assert not walls.crossed(jnp.zeros((2, 3)), jnp.ones((2, 3)), none).any()


# The table of walls near each cell of a raster
def palisade(count: int) -> World:
    """A corridor of two walls in the middle, and `count` short walls far from it."""
    corridor = np.concatenate((straight(1, 30.0) + np.array((0, -1.5)), straight(1, 30.0) + np.array((0, 1.5))))
    x = 0.6 * (np.arange(count) - count / 2)
    far = np.stack((np.stack((x, np.full(count, 15.0)), 1), np.stack((x, np.full(count, 16.0)), 1)), 1)
    return make_world(np.concatenate((corridor, far)), [(14.0, 0.0)], size=(640.0, 40.0))


PLAN = Grid(1, 1, 0, 8, 8, 8, 6, 1.0, 1.2, 0.3, 5)


counting = jax.jit(wall_candidates, static_argnums=3)


@settings(max_examples=40, deadline=None)
@given(rows=segments, place=some.lists(some.tuples(some.floats(-30, 30), some.floats(-30, 30)), min_size=1, max_size=SOME))
def test_the_table_leaves_out_nothing_that_may_count(rows: Any, place: Any) -> None:
    world = jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == float else leaf, raw(fill(rows)))
    state, plan = make_state(fill(place)), PLAN._replace(walls=walls.feature_count(world))
    table, none = with_wall_table(world, plan), walls.feature_count(world)
    padded = jnp.pad(table.near_walls, (0, 130_000 - len(table.near_walls)), constant_values=none)  # one shape for all examples
    tabled, needed = counting(
        state.position, state.alive, dataclasses.replace(table, near_walls=padded, near_walls_most=none), plan
    )
    plain, expected = counting(state.position, state.alive, world, plan)
    np.testing.assert_array_equal(tabled, plain)
    assert needed == expected


@pytest.mark.parametrize("people", [0, 1, 2, 5])
def test_the_table_serves_a_crowd_of_any_size(people: int) -> None:
    world = make_world(straight(8) + np.array((0, 1.0)))
    state, plan = make_state([(0.7 * i - 1, 0.2 * i) for i in range(people)]), PLAN._replace(walls=5)
    tabled, plain = (
        counting(state.position, state.alive, with_wall_table(world, plan), plan)[0],
        counting(state.position, state.alive, world, plan)[0],
    )
    np.testing.assert_array_equal(tabled, plain)
    assert (np.asarray(tabled[0]) < walls.feature_count(world)).all()


@pytest.mark.bits
def test_far_walls_change_no_bit_and_cost_no_work() -> None:
    params = make_params(("driving", *NAMES), {"motion.dt": 0.01, "people.desired_speed": 1.3})
    state = make_state([(0.3 * i, 0.9 - 0.2 * i) for i in range(9)], goal=0)
    ends, largest = [], []
    for count in (10, 1000):
        world = palisade(count)
        tabled = with_wall_table(world, PLAN)
        ends += [np.asarray(run(one, params, state, 40, grid=PLAN).final.position).tobytes() for one in (world, tabled)]
        listing = jax.make_jaxpr(make_list, static_argnums=2)(state, tabled, PLAN, tie_directions(state.id, jax.random.key(0)))
        shapes = [out.aval.shape for equation in listing.eqns for out in equation.outvars if len(out.aval.shape) > 1]
        largest.append(max(math.prod(shape) for shape in shapes if shape[-1] == len(state.id)))
    assert len(set(ends)) == 1
    assert largest[0] == largest[1]


def test_a_spot_of_thousands_of_features_takes_no_memory_elsewhere() -> None:
    generator = np.random.default_rng(6)
    start = generator.uniform(100, 101, (5000, 2))
    spot = np.stack((start, start + generator.uniform(-0.01, 0.01, (5000, 2))), 1)
    world = dataclasses.replace(
        make_world(size=(300.0, 300.0), lower=(0.0, 0.0)),
        walls=jnp.asarray(spot, jnp.float32),
        wall_vertices=jnp.asarray(spot.reshape(-1, 2), jnp.float32),
        wall_directions=jnp.zeros((10_000, 1, 2)),
        wall_part=jnp.arange(15_000, dtype=jnp.int32),
    )
    plan = PLAN._replace(walls=15_000)
    tracemalloc.start()
    tabled = with_wall_table(world, plan)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tabled.near_walls_most > 10_000
    assert tabled.near_walls.nbytes + tabled.near_walls_cells.nbytes < 5e6
    assert most < 6.4e7
    state = make_state([(100.5, 100.5), (99.2, 100.1), (101.9, 102.0), (97.0, 100.0), (250.0, 20.0)])
    (index, needed), (plain, expected) = (
        counting(state.position, state.alive, tabled, plan),
        counting(state.position, state.alive, world, plan),
    )
    np.testing.assert_array_equal(index, plain[: len(index)])
    assert needed == expected > 5000
