"""Walls round a periodic box: felt and watched across the seam, as if the plane were tiled with copies of the box."""

import dataclasses
import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import walls
from crowdlab.arithmetic import Vector
from crowdlab.ensemble import simulate_many
from crowdlab.errors import NonFiniteError, ParamError
from crowdlab.forces import base
from crowdlab.geometry import wall_arrays
from crowdlab.navigation import reached
from crowdlab.neighbours import Grid, find, make_list, measure, tie_directions, with_wall_table
from crowdlab.simulation import simulate
from crowdlab.state import State, World

SIZE, LOWER = np.array((6.0, 4.0)), np.array((-1.0, 2.0))
BOX = (LOWER, SIZE)
MANY = 300
REACH, SKIN = 1.1, 0.5
PLAN = Grid(3, 2, 0, 1, 4, 4, 60, 0.5, REACH, SKIN, 5)
KEY = jax.random.key(0)


def tiled(segments: Any, many: int = 2) -> np.ndarray:
    """The segments and their copies up to `many` periods to every side."""
    shifts = np.array(list(itertools.product(range(-many, many + 1), repeat=2))) * SIZE
    return (np.asarray(segments, float) + shifts[:, None, None, None]).reshape(-1, 2, 2)


def boxed(segments: Any) -> World:
    return make_world(segments, size=tuple(SIZE), lower=tuple(LOWER), periodic=True)


def apart(world: World) -> World:
    """Every feature a wall of its own, so that it counts in full."""
    return dataclasses.replace(world, wall_part=jnp.arange(len(world.wall_part), dtype=jnp.int32))


def wrapped(place: np.ndarray) -> np.ndarray:
    return LOWER + (place - LOWER) % SIZE


@partial(jax.jit, static_argnames="grid")
def seen(before: State, after: State, world: World, grid: Grid | None) -> tuple[Vector, Any, Any]:
    """A sum over the walls as they are seen after a walk from a list made before it, the room needed, and who went through one."""
    listed, need = make_list(before, world, grid, tie_directions(before.id, KEY))
    near = measure(listed, after, world, grid).walls
    way = before.position + world.offset(before.position, after.position).stacked
    weight = jnp.where(near.distance < REACH, jnp.exp(-near.distance), 0.0)
    return near.total(weight * near.normal).stacked, need.walls, walls.crossed(before.position, way, listed.walls)


@pytest.mark.parametrize("tabled", [True, False], ids=["table", "no table"])
@pytest.mark.bits
def test_walls_are_those_of_the_tiled_plane(tabled: bool, x64: None) -> None:
    generator = np.random.default_rng(3)
    start = generator.uniform(LOWER, LOWER + SIZE, (7, 2))
    segments = np.stack((start, start + generator.uniform(-3, 3, (7, 2))), 1)  # some cross the seams
    place = generator.uniform(LOWER, LOWER + SIZE, (MANY, 2))
    place[:100] = LOWER + (generator.uniform(-0.2, 0.2, (100, 2)) * (1, 10)) % SIZE  # near a seam
    turn = generator.uniform(0, 2 * np.pi, MANY)
    moved = place + 0.49 * SKIN * np.stack((np.cos(turn), np.sin(turn)), 1)
    assert (np.abs(wrapped(moved) - moved).max(1) > 1).sum() > 30
    world = apart(boxed(segments))
    world = with_wall_table(world, PLAN) if tabled else world
    felt, need, through = seen(make_state(place), make_state(wrapped(moved)), world, PLAN)
    assert 0 < need <= PLAN.walls
    plane = apart(make_world(tiled(segments), size=(40.0, 40.0)))
    expected, *_ = seen(make_state(place), make_state(moved), plane, None)
    np.testing.assert_allclose(felt, expected, atol=1e-9)
    fresh, *_ = seen(make_state(wrapped(moved)), make_state(wrapped(moved)), world, PLAN)
    np.testing.assert_array_equal(felt, fresh)  # when a list was made changes no bit
    ways = shapely.linestrings(np.stack((place, moved), 1))
    crossing = shapely.intersects(shapely.multilinestrings(tiled(segments)), ways)
    assert crossing.sum() > 10
    np.testing.assert_array_equal(through, crossing)


def test_who_starts_a_period_away_is_watched_from_the_first_step_on() -> None:
    world, state = boxed([[(1.0, 2.5), (1.0, 5.5)]]), make_state([(6.97, 4.0)], (5.0, 0.0))
    scenario = make_scenario(world, state, make_params(("driving",), {"motion.dt": 0.01}))
    with pytest.raises(NonFiniteError, match="agent 0 went through a wall at step 1"):
        simulate(scenario, None, KEY, 2)


def test_an_exit_is_crossed_where_somebody_goes_and_not_across_the_box() -> None:
    """A step of 0.2 m over the right edge, by exits 0.05 m before and behind it, in the middle, and beyond the step."""
    exits = [[(x, 3.0), (x, 5.0)] for x in (4.95, -0.95, 2.0, 4.85, -0.85)]
    world = make_world(goals=exits, size=tuple(SIZE), lower=tuple(LOWER), periodic=True, leaves=True)
    for before, after in (((4.9, 4.0), (-0.9, 4.0)), ((-0.9, 4.0), (4.9, 4.0))):
        state = make_state([after] * 5, goal=range(5))
        start = make_state([before] * 5).position
        assert reached(state, start, world).tolist() == [True, True, False, False, False]


@pytest.mark.bits
def test_who_starts_periods_away_walks_as_if_in_the_box() -> None:
    world = make_world(goals=[(3.0, 4.5)], size=tuple(SIZE), lower=tuple(LOWER), periodic=True)
    inside = make_state([(0.5, 4.0), (4.5, 2.5)], goal=0)
    away = inside.with_(position=inside.position + jnp.array([[12.0, -6.0], [-4.0, 8.0]]))
    scenario = make_scenario(world, inside, make_params(("driving",), {"motion.dt": 0.01}))
    runs = simulate_many(scenario, jax.random.split(KEY, 2), 4, states=[inside, away]).frames
    np.testing.assert_array_equal(runs.position[0], runs.position[1])


@pytest.mark.bits
def test_who_is_in_the_box_is_not_rounded_by_wrapping() -> None:
    place = jnp.array([[1e-9, -0.99999994, 4.9999995], [2.0, 5.9999995, 3.3333333]])
    np.testing.assert_array_equal(boxed([]).wrap(place).stacked, place)


def test_a_wall_round_the_box_is_one_wall_without_an_end(x64: None) -> None:
    """In pieces, with a seam in the middle of one: the push is the same everywhere along it."""
    x = np.array([0.3, 2.0, 4.1, 6.3])
    world = boxed(np.stack((np.stack((x[:-1], np.full(3, 3.0)), 1), np.stack((x[1:], np.full(3, 3.0)), 1)), 1))
    params = make_params(("wall_contact", "wall_repulsion"))
    state = make_state(np.stack((np.linspace(-1, 5, MANY, endpoint=False), np.full(MANY, 3.24)), 1))
    near, _ = jax.jit(find, static_argnames="grid")(state, with_wall_table(world, PLAN), PLAN, KEY)
    push = np.asarray(base.total(params, state, near, world).stacked)
    assert push[1].min() > 10
    np.testing.assert_allclose(push, np.broadcast_to(push[:, :1], push.shape), rtol=1e-9, atol=1e-9)


def test_copies_are_whole_periods_apart_and_one_wall_on_the_way_round() -> None:
    segments = np.array(
        [[(4.5, 3.0), (5.5, 3.0)], [(-1.0, 2.0), (-1.0, 6.0)], [(2.0, 3.0), (2.0, 3.5)]]
    )  # across, on a seam, inside
    expected = wall_arrays(segments, BOX)
    for shift in (SIZE * (1, 0), SIZE * (-3, 7)):
        for name, values in wall_arrays(segments + shift, BOX).items():
            np.testing.assert_allclose(values, expected[name], atol=1e-9)
    low, high = LOWER - SIZE, LOWER + 2 * SIZE
    box = shapely.box(*low, *high)
    lines = [shapely.intersection(box, shapely.multilinestrings(one)) for one in (expected["walls"], tiled(segments, 4))]
    assert lines[0].hausdorff_distance(lines[1]) < 1e-8
    assert lines[0].length == pytest.approx(lines[1].length)
    assert len(set(expected["wall_part"])) == 3 - 1  # the one across meets the one on the seam; copies are one wall with it


def test_walls_that_end_at_the_edges_and_a_reach_beyond_the_copies_are_refused() -> None:
    segments = [[(0.0, 3.0), (1.0, 3.0)]]
    with pytest.raises(
        ParamError, match=r"walls in a periodic box of 6 x 4 m: they end at its edges; .*wall_arrays\(segments, box"
    ):
        with_wall_table(dataclasses.replace(make_world(segments, size=(6.0, 4.0)), periodic=True), PLAN)
    with pytest.raises(ParamError, match=r"walls are felt from 4\.25 m .* allowed is one side, 4 m"):
        with_wall_table(boxed(segments), PLAN._replace(wall_reach=4.0))
