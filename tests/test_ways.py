"""Ways are as short as the exact plan allows, for bodies of every size, and lead from everywhere to the goal."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from scenes import make_state
from scipy.sparse.csgraph import dijkstra

from crowdlab import navigation
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, alike, edges_of, lay_floor, read_area, read_place, sample_points, within
from crowdlab.navigation import choose_cell, pad_goals
from crowdlab.state import State, World

RADIUS, REACH, PEOPLE = 0.25, 0.05, 12
LOWER, SIZE = (-1.0, -1.0), (14.0, 10.0)  # the same raster for every plan, so that one program walks on all of them
DT = 0.02  # m a step


def world_of(floor: Floor, place: Any, radii: Any = (RADIUS,), reach: float = REACH, size: tuple[float, float] = SIZE) -> World:
    sizes = alike(floor, np.array(radii))
    cell = choose_cell(size, 1, float(np.min(radii)))
    edges = edges_of(place)
    leaves = place.geom_type != "Point"
    ways = navigation.ways(floor, [edges], [leaves], lower=LOWER, size=size, cell=cell, sizes=sizes)
    return World(
        walls=jnp.zeros((0, 2, 2)),
        wall_vertices=jnp.zeros((0, 2)),
        wall_directions=jnp.zeros((0, 1, 2)),
        wall_part=jnp.zeros(0, int),
        goals=jnp.asarray(pad_goals([edges])),
        goal_leaves=jnp.asarray([leaves]),
        goal_reach=jnp.full(1, reach),
        ways=jnp.asarray(ways),
        ways_cell=jnp.asarray(cell),
        ways_sizes=jnp.asarray([(sizes[i].max() + sizes[i + 1].min()) / 2 for i in range(len(sizes) - 1)]),
        lower=LOWER,
        size=size,
    )


@jax.jit
def _walk(world: World, state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
    def one(state: State, _: None) -> tuple[State, jax.Array]:
        before = state.position
        state = state.with_(position=before + DT * navigation.desired_direction(state, world).stacked, step=state.step + 1)
        hit = navigation.reached(state, before, world)
        return state.with_(arrived=jnp.where(hit, state.step, state.arrived)), state.position.T

    last, path = jax.lax.scan(one, state, None, length=2500)
    return last.arrived, path, DT * last.arrived


def walk(world: World, starts: np.ndarray, radius: Any = RADIUS) -> tuple[np.ndarray, np.ndarray]:
    """Small steps at full speed without any force: length walked (n,) m, infinite for who does not arrive, and path (steps, n, 2) m."""
    arrived, path, length = _walk(world, make_state(starts, radius=radius, goal=0))
    return np.where(np.asarray(arrived) >= 0, length, math.inf), np.asarray(path, float)


def shortest(floor: Floor, starts: np.ndarray, goals: Any, fine: float = 0.002) -> np.ndarray:
    """Shortest ways (n, G) m of a body to each goal, on the visibility graph of its exact free space, round corners drawn to `fine` m."""
    free, goals = floor.free(RADIUS).simplify(fine), np.reshape(goals, (-1, 2))
    nodes = np.concatenate([starts, goals, shapely.get_coordinates(free)])
    one, other = np.triu_indices(len(nodes), 1)
    lines = shapely.linestrings(np.stack([nodes[one], nodes[other]], 1))
    wide = free.buffer(1.5 * fine, join_style="mitre")
    shapely.prepare(wide)
    seen = shapely.covers(wide, lines)
    length = np.zeros((len(nodes), len(nodes)))
    length[one[seen], other[seen]] = shapely.length(lines[seen])
    ends = len(starts) + np.arange(len(goals))
    return np.asarray(dijkstra(length, directed=False, indices=ends)).T[: len(starts)]


corners = some.integers(3, 7)
blocks = some.lists(some.tuples(some.integers(0, 2**32 - 1), corners), max_size=6)


def star(seed: int, count: int) -> shapely.Polygon:
    """A random polygon, often with notches and slivers, somewhere in the room."""
    dice = np.random.default_rng(seed)
    turn, size = np.sort(dice.uniform(0, 2 * math.pi, count)), dice.uniform(0.3, 2.2) * dice.uniform(0.3, 1, count)
    return shapely.Polygon(dice.uniform([0, 0], [12, 8]) + (size * [np.cos(turn), np.sin(turn)]).T)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(blocks, some.lists(some.tuples(some.integers(0, 2**32 - 1), corners), max_size=3), some.integers(0, 2**32 - 1))
def test_ways_are_the_shortest_on_any_plan(shapes: list[tuple[int, int]], bites: list[tuple[int, int]], seed: int) -> None:
    """Walked lengths are within 2 % of the truth, from every place that has a way; and no door that is too narrow is taken."""
    room = shapely.box(0, 0, 12, 8)
    for bite in (star(*bite) for bite in bites):  # taken out of the outline, which is concave then
        if bite.is_valid and not bite.within(room):
            room = max(shapely.get_parts(room.difference(bite)), key=shapely.area)
    obstacles = [
        block for block in (star(*shape) for shape in shapes) if block.is_valid and block.area > 1e-3 and block.intersects(room)
    ]
    try:
        floor = lay_floor(read_area(room), [(f"block {i}", read_area(block)) for i, block in enumerate(obstacles)])
    except ScenarioError:
        assume(False)
    space = within(floor, floor.area, RADIUS)
    assume(space.area > 1)
    places = sample_points(space, PEOPLE + 1, jax.random.key(seed), "places")
    goal, starts = places[0], places[1:]
    length, path = walk(world_of(floor, read_place("", point=goal.tolist())), starts)
    truth = shortest(floor, starts, goal)[:, 0]
    near = truth < math.inf
    assert (length[near] <= 1.02 * truth[near] + DT).all()
    assert (length[near] >= 0.98 * truth[near] - REACH - DT).all()
    assert floor.clearance(path[::10, near].reshape(-1, 2)).min() > 0.85 * RADIUS


def test_ways_past_sixty_slivers_are_the_shortest() -> None:
    """Triangles 0.02 m wide in all directions along the diagonal of a square, between some of which a body fits."""
    dice = np.random.default_rng(4)
    centre, turn = np.linspace(1.0, 19.0, 60), dice.uniform(0, 2 * math.pi, 60)
    along, across = np.stack([np.cos(turn), np.sin(turn)], 1), np.stack([-np.sin(turn), np.cos(turn)], 1)
    base = centre[:, None] + 0.01 * np.stack([across, -across], 1).transpose(1, 0, 2)
    holes = np.stack([*base, centre[:, None] + 0.2 * along], 1)
    floor = lay_floor(read_area({"outer": [[0, 0], [20, 0], [20, 20], [0, 20]], "holes": holes.tolist()}))
    assert len(floor.area.interiors) == 60
    places = sample_points(within(floor, floor.area, RADIUS), 204, jax.random.key(2), "places")
    goals, starts = places[:4], places[4:]
    size = (22.0, 22.0)
    cell = choose_cell(size, 1, RADIUS)
    truth = shortest(floor, starts, goals, fine=0.01)
    for number, goal in enumerate(goals):
        some = slice(50 * number, 50 * number + 50)
        length, path = walk(world_of(floor, read_place("", point=goal.tolist()), size=size), starts[some])
        np.testing.assert_array_less(length, 1.02 * truth[some, number] + cell)
        np.testing.assert_array_less(0.98 * truth[some, number] - REACH - DT, length)
        assert floor.clearance(path[::10].reshape(-1, 2)).min() > 0.85 * RADIUS


def hall(*walls: Any) -> Floor:
    return lay_floor(read_area([[0, 0], [12, 0], [12, 8], [0, 8]]), [], [np.array(wall, float) for wall in walls])


@pytest.mark.parametrize("gap", [0.3, 0.45, 0.49, 0.499])
def test_nobody_is_led_into_a_gap_he_does_not_fit_through(gap: float) -> None:
    """A gap on the straight way, and a door far aside."""
    floor = hall([[6, 0], [6, 1 - gap / 2]], [[6, 1 + gap / 2], [6, 6.8]])
    starts = np.array([[4.0, 1.0], [5.0, 1.2], [5.7, 1.0], [5.7, 4.0], [1.0, 7.0]])
    length, path = walk(world_of(floor, read_place("", point=[8, 1])), starts)
    assert (np.abs(path[:-1, :, 0] - 6).min(0) < 0.02).all()
    truth = shortest(hall([[6, 0], [6, 6.8]]), starts, [8.0, 1.0])[:, 0]
    assert (length <= 1.02 * truth + DT).all()
    assert (length >= 0.98 * truth - REACH - DT).all()


def test_each_size_takes_the_doors_it_fits_through() -> None:
    """Thin people walk through a narrow door, stout ones round by the wide one."""
    floor = hall([[6, 0], [6, 0.775]], [[6, 1.225], [6, 6.8]])
    radius = np.array([0.2, 0.22, 0.24, 0.3])
    world = world_of(floor, read_place("", point=[8, 1]), radius)
    length, path = walk(world, np.full((4, 2), [4.0, 1.0]), radius)
    assert world.ways.shape[0] == 2
    assert (path[:, :2, 1].max(0) < 1.3).all()
    assert (path[:, 2:, 1].max(0) > 6.8).all()
    assert (length < [4.1, 4.1, 14, 14]).all()


def test_a_thin_person_gets_out_of_a_narrow_end() -> None:
    """A dead end where the mean body does not fit leads out, and not through its walls."""
    floor = hall([[3, 4.2], [6, 4.2]], [[3, 3.8], [6, 3.8]], [[3, 3.8], [3, 4.2]])
    radius = np.array([0.15, 0.15, 0.35, 0.35])
    starts = np.array([[3.2, 4.0], [4.5, 4.0], [2.0, 4.0], [8.0, 6.0]])
    length, path = walk(world_of(floor, read_place("", point=[2.0, 5.0]), radius), starts, radius)
    assert np.isfinite(length).all()
    assert not floor.blocked(path[:-1:5].reshape(-1, 2)[: len(path[5::5]) * 4], path[5::5].reshape(-1, 2)).any()


def test_a_wide_exit_is_aimed_at_where_it_can_be_reached() -> None:
    """An exit of 6 m, most of it behind a wall: everybody walks to the part he can get to, by the shortest way."""
    floor = hall([[10, 0], [10, 5]])
    exit_ = read_place("", line=[[11.5, 0.5], [11.5, 7]])
    starts = np.array([[8.0, 1.0], [9.5, 4.0], [2.0, 2.0], [9.0, 6.0]])
    length, _ = walk(world_of(floor, exit_), starts)
    ends = np.array([[11.5, y] for y in np.linspace(0.75, 6.75, 121)])
    truth = shortest(floor, starts, ends[::6]).min(1)
    assert (length <= 1.02 * truth + DT).all()


def test_ways_are_computed_once_for_the_same_plan(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes come from the disk; whatever matters changed, or a damaged file, is computed anew."""
    made: list[int] = []
    plain = navigation.fields._make
    monkeypatch.setattr(navigation.fields, "_make", lambda *args, **named: made.append(1) or plain(*args, **named))

    def ways(floor: Floor, goal: Any = (8, 1), radii: Any = (0.3,)) -> bytes:
        return bytes(np.asarray(world_of(floor, read_place("", point=goal), radii).ways))

    expected = ways(hall())
    monkeypatch.setenv("CROWDLAB_CACHE", str(tmp_path))
    assert ways(hall()) == ways(hall()) == expected
    assert len(made) == 2
    ways(hall([[6, 0], [6, 5]])), ways(hall(), (8, 1.5)), ways(hall(), radii=(0.3, 0.3000001))
    assert len(made) == 5
    for path in (tmp_path / "ways").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:500] + b"x" + content[501:])
    assert ways(hall()) == expected
    assert len(made) == 6
