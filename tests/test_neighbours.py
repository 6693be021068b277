"""Who is near whom: the grid's list against all pairs, on borders and edges, and overflow that is never silent."""

import ast
import dataclasses
import math
import tracemalloc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from scenes import make_params, make_scenario, make_state, make_world, run
from scipy.spatial import cKDTree

from crowdlab import neighbours
from crowdlab.arithmetic import ordered_sum
from crowdlab.errors import CapacityError, ParamError
from crowdlab.neighbours import (
    Grid,
    Need,
    NeighbourList,
    Neighbours,
    find,
    list_need,
    make_list,
    plan_grid,
    sizing,
    tie_directions,
)
from crowdlab.neighbours.lists import pick
from crowdlab.scenario import Scenario
from crowdlab.simulation import plan, simulate
from crowdlab.state import State, World
from crowdlab.stepping import _cut

MANY = 40  # rows of every random cloud; those not needed are dead
SIDE = (12.0, 9.0)
KEY = jax.random.key(5)
Pairs = set[tuple[int, int]]


def grid(columns: int, rows: int, *, half: int = 2, reach: float = 1.0, skin: float = 0.2) -> Grid:
    return Grid(columns, rows, half, MANY, MANY, MANY, 4, reach, 1.0, skin, 1)


# Cells of half the reach plus skin; of the whole, and fewer than the five or three that are looked at; a single row.
GRIDS = {"fine": grid(20, 15), "few": grid(4, 2), "coarse": grid(10, 7, half=1), "row": grid(2, 1, half=1)}


@pytest.fixture(scope="module")
def boxes() -> dict[bool, World]:
    return {periodic: make_world(size=SIDE, lower=(0.0, 0.0), periodic=periodic) for periodic in (False, True)}


@partial(jax.jit, static_argnums=2)
def looked_up(state: State, world: World, chosen: Grid | None) -> tuple[Neighbours, Need, NeighbourList]:
    near, listed = find(state, world, chosen, KEY)
    return near, make_list(state, world, chosen, tie_directions(state.id, KEY))[1], listed


def pairs(near: Neighbours) -> Pairs:
    slot, me = np.nonzero(np.asarray(near.mask))
    return set(zip(me.tolist(), np.asarray(near.index)[slot, me].tolist(), strict=True))


def expected(place: np.ndarray, alive: np.ndarray, reach: float, size: tuple[float, float] | None) -> Pairs:
    """All against all, in the precision of the places."""
    between = place[:, None] - place
    if size is not None:
        box = np.asarray(size, place.dtype)
        between = between - box * np.round(between / box)
    near = ((between**2).sum(-1) < np.float32(reach) ** 2) & alive[:, None] & alive & ~np.eye(len(place), dtype=bool)
    return set(zip(*map(np.ndarray.tolist, np.nonzero(near)), strict=True))


def cloud(place: np.ndarray) -> State:
    """MANY rows with people at `place` (n, 2) m; the rest are dead, and lie where they would be seen."""
    blank = np.resize(place, (MANY, 2)) if len(place) else np.zeros((MANY, 2))
    return make_state(blank, alive=np.arange(MANY) < len(place))


coordinate = some.one_of(
    some.floats(-2.0, 14.0, width=32),
    some.sampled_from(
        [
            0.0,
            -1e-9,
            12.0,
            9.0,
            float(np.nextafter(np.float32(12), np.float32(99))),
            float(np.nextafter(np.float32(9), np.float32(99))),
        ]
    ),
    some.integers(-2, 22).map(lambda i: i * 0.6),  # cell borders of the fine grid
    some.sampled_from([-1e6, 1e6, 3e4, 6.0, 3.0]),
)
clouds = some.lists(some.tuples(coordinate, coordinate), max_size=MANY).map(lambda rows: np.array(rows, np.float32).reshape(-1, 2))
on_borders = np.array([(x, y) for x in (0, 0.6, 1.2, 11.4, 12, -1e-9) for y in (0, 0.6, 9, 8.4, -1e-9)], np.float32)


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
@settings(max_examples=50, deadline=None)
@given(place=clouds)
@example(place=on_borders)
@example(place=np.zeros((MANY, 2), np.float32))
@example(place=np.zeros((0, 2), np.float32))
def test_the_list_holds_the_pairs_of_all_against_all(
    place: np.ndarray, periodic: bool, name: str, boxes: dict[bool, World]
) -> None:
    if periodic:
        place = place[(np.abs(place) < 100).all(1)]
    near, need, _ = looked_up(cloud(place), boxes[periodic], GRIDS[name])
    everybody, *_ = looked_up(cloud(place), boxes[periodic], None)
    cut = everybody.mask & (everybody.distance < GRIDS[name].reach)
    assert pairs(near) == pairs(dataclasses.replace(everybody, mask=cut))
    assert need.neighbours <= max(len(place) - 1, 0)
    # Each pair once, and both know of it.
    assert int(near.mask.sum()) == len(pairs(near))
    assert {(j, i) for i, j in pairs(near)} == pairs(near)


# No multiple of the reach, thinner than a cell, fewer than three cells on a side, smaller than the reach, wide and empty.
BOXES = [(7.3, 5.9), (3.7, 11.0), (2.5, 2.5), (13.0, 0.9), (0.8, 0.7), (5.0, 2.2), (300.0, 40.0), (31.0, 29.0)]
fraction = some.one_of(some.floats(-0.25, 1.25, width=32), some.sampled_from([0.0, 1.0, 0.5, -1e-9, 1 + 1e-7]))
spread = some.sampled_from([1.0, 0.3, 0.02])  # everywhere, in a heap, on one spot


@pytest.mark.parametrize("size", BOXES, ids=str)
@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
@settings(max_examples=70, deadline=None)
@given(shares=some.lists(some.tuples(fraction, fraction), max_size=MANY), spread=spread, start=some.tuples(fraction, fraction))
def test_a_thousand_clouds_in_any_box(
    shares: list[tuple[float, float]], spread: float, start: tuple[float, float], size: tuple[float, float], periodic: bool
) -> None:
    reach, skin = (0.23 * min(size), 0.02 * min(size)) if periodic else (1.0, 0.2)  # half the box must hold what one looks at
    columns, rows = (max(1, int(side // ((reach + skin) / 2))) for side in size)
    chosen = Grid(columns, rows, 2, MANY, MANY, MANY, 0, reach, 0.0, skin, 1)
    place = (np.array(shares, np.float32).reshape(-1, 2) * spread + np.array(start, np.float32) * (1 - spread)) * np.float32(size)
    world = make_world(size=size, lower=(0.0, 0.0), periodic=periodic)
    near, *_ = looked_up(cloud(place), world, chosen)
    everybody, *_ = looked_up(cloud(place), world, None)
    assert pairs(near) == pairs(dataclasses.replace(everybody, mask=everybody.mask & (everybody.distance < reach)))


@pytest.mark.parametrize("name", [*GRIDS, None])
@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
@settings(max_examples=30, deadline=None)
@given(place=clouds, radii=some.lists(some.floats(0.0625, 0.375, width=32), min_size=MANY, max_size=MANY))
def test_those_who_touch_are_those_whose_bodies_overlap(
    place: np.ndarray, radii: list[float], name: str | None, periodic: bool, boxes: dict[bool, World]
) -> None:
    if periodic:
        place = place[(np.abs(place) < 100).all(1)]
    state = cloud(place).with_(radius=jnp.asarray(radii, jnp.float32))
    near, *_ = looked_up(state, boxes[periodic], None if name is None else GRIDS[name])
    everybody, *_ = looked_up(state, boxes[periodic], None)
    overlaps = everybody.mask & (everybody.distance < state.radius + state.radius[everybody.index])
    assert pairs(near.touching) == pairs(dataclasses.replace(everybody, mask=overlaps))
    assert {(j, i) for i, j in pairs(near.touching)} == pairs(near.touching)


@settings(max_examples=100, deadline=None)
@given(
    rows=some.one_of(some.integers(0, 70), some.sampled_from([110, 111, 126, 127, 200])),
    room=some.integers(0, 9),
    seed=some.integers(0, 2**31),
    share=some.floats(0, 1),
)
def test_picking_finds_the_first_that_are_true(rows: int, room: int, seed: int, share: float) -> None:
    near = np.random.default_rng(seed).random((rows, 5)) < share
    place, filled, most = map(np.asarray, pick(jnp.asarray(near), room))
    assert most == near.sum(0).max(initial=0)
    for column in range(5):
        found = np.nonzero(near[:, column])[0][:room]
        assert filled[:, column].sum() == len(found)
        np.testing.assert_array_equal(place[: len(found), column], found)


@settings(max_examples=200, deadline=None)
@given(
    place=some.lists(some.tuples(some.floats(0, 12, width=32), some.floats(0, 9, width=32)), max_size=MANY),
    periodic=some.booleans(),
)
def test_all_against_all_is_what_numpy_finds(place: list[tuple[float, float]], periodic: bool, boxes: dict[bool, World]) -> None:
    points = np.array(place, np.float32).reshape(-1, 2)
    state = cloud(points)
    near, *_ = looked_up(state, boxes[periodic], GRIDS["fine"])
    mine, alive = np.asarray(state.position.T), np.asarray(state.alive)
    differing = pairs(near) ^ expected(mine, alive, 1.0, SIDE if periodic else None)
    for i, j in differing:  # only where rounding decides
        apart = np.asarray(boxes[periodic].offset(state.position[:, i], state.position[:, j]), float)
        assert math.hypot(*apart) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
def test_people_on_cell_borders_and_on_the_edges_of_the_box(periodic: bool, boxes: dict[bool, World]) -> None:
    wide, high = SIDE
    after = float(np.nextafter(np.float32(wide), np.float32(99)))
    place = np.array(
        [(0, 0), (wide, 0), (-1e-9, 0), (after, 0), (wide, high), (0, high), (0.6, 0), (1.2, 0), (11.4, high), (6, 4.5)], np.float32
    )
    near, *_ = looked_up(cloud(place), boxes[periodic], GRIDS["fine"])
    found = pairs(near)
    same_point = [0, 1, 2, 3, 4, 5] if periodic else [1, 3]  # the corners of a periodic box are one point
    assert {(i, j) for i in same_point for j in same_point if i != j} <= found
    assert ((1, 6) in found) is periodic
    assert ((0, 8) in found) is periodic
    assert (0, 6) in found
    assert not any(9 in pair for pair in found)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_nobody_one_and_two(count: int, boxes: dict[bool, World]) -> None:
    place = np.array([(1.0, 1.0), (1.5, 1.0)], np.float32)[:count]
    for periodic in (False, True):
        for chosen in (GRIDS["fine"], None):
            near, *_ = looked_up(cloud(place), boxes[periodic], chosen)
            assert pairs(near) == ({(0, 1), (1, 0)} if count == 2 else set())


@pytest.mark.parametrize("chosen", [GRIDS["fine"], None], ids=["grid", "all"])
def test_one_is_never_ones_own_neighbour_and_those_on_one_point_are_listed(chosen: Grid | None, boxes: dict[bool, World]) -> None:
    place = np.full((5, 2), 3.0, np.float32)
    near, *_ = looked_up(cloud(place), boxes[False], chosen)
    assert pairs(near) == {(i, j) for i in range(5) for j in range(5) if i != j}
    real = np.asarray(near.mask)
    np.testing.assert_allclose(np.asarray(near.distance)[real], 1e-6)
    offset = {
        (i, j): np.stack(near.offset)[:, k, i] for k, i in zip(*np.nonzero(real), strict=True) for j in [int(near.index[k, i])]
    }
    for i, j in offset:
        np.testing.assert_array_equal(offset[i, j], -offset[j, i])
    assert np.isfinite(np.stack(near.normal)).all()


def test_far_outside_a_bounded_box_people_still_meet(boxes: dict[bool, World]) -> None:
    place = np.array([(1e4, -1e4), (1e4 + 0.5, -1e4), (-500, 4), (-500.5, 4), (-500, 5.5), (5, 5)], np.float32)
    near, *_ = looked_up(cloud(place), boxes[False], GRIDS["fine"])
    assert pairs(near) == {(0, 1), (1, 0), (2, 3), (3, 2)}


@pytest.mark.parametrize("chosen", [GRIDS["fine"], GRIDS["fine"]._replace(half=0), None], ids=["grid", "few", "all"])
def test_neighbours_come_in_the_order_of_ids(chosen: Grid | None, boxes: dict[bool, World]) -> None:
    generator = np.random.default_rng(1)
    ids = generator.choice(1000, MANY, replace=False)  # any distinct numbers
    state = make_state(generator.uniform(0, 3, (MANY, 2)), id=ids)
    near, *_ = looked_up(state, boxes[True], chosen)
    for mine, real in zip(np.asarray(near.index).T, np.asarray(near.mask).T, strict=True):
        assert real.sum() > 2
        assert (np.diff(ids[mine[real]]) > 0).all()


@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
def test_need_on_the_host_is_need_on_the_device(periodic: bool, boxes: dict[bool, World]) -> None:
    generator = np.random.default_rng(2)
    for chosen in ("fine", "few", "row"):
        state = cloud(generator.uniform(0, 5, (33, 2)).astype(np.float32))
        _, need, _ = looked_up(state, boxes[periodic], GRIDS[chosen])
        host = list_need(state, boxes[periodic], GRIDS[chosen])
        assert tuple(map(int, need)) == tuple(map(int, host))


@settings(max_examples=60, deadline=None)
@given(seed=some.integers(0, 2**31), spread=some.sampled_from([0.0, 0.02, 0.3]), side=some.sampled_from([1.0, 4.0, 9.0]))
@pytest.mark.parametrize("periodic", [False, True], ids=["bounded", "periodic"])
def test_who_may_touch_the_most_is_counted_exactly(periodic: bool, seed: int, spread: float, side: float) -> None:
    generator = np.random.default_rng(seed)
    place, radius = generator.uniform(0, side, (MANY, 2)), 0.2 + generator.uniform(0, spread, MANY)
    apart = place[:, None] - place
    if periodic:
        apart -= SIDE * np.round(apart / SIDE)
    close = np.hypot(*apart.T) <= radius[:, None] + radius + 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizing, "PAIRS", 50)
        found = sizing._most_touching(place, radius, 0.1, cKDTree(place, boxsize=SIDE if periodic else None))
    assert found == close.sum(0).max() - 1


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_a_heap_of_thousands_is_planned_in_little_memory(spread: float, boxes: dict[bool, World]) -> None:
    many = 6000  # 18 million pairs
    generator = np.random.default_rng(8)
    state = make_state(generator.uniform(3, 4, (many, 2)), radius=0.2 + generator.uniform(0, spread, many))
    tracemalloc.start()
    need = list_need(state, boxes[False], GRIDS["coarse"])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.9 * many < need.touching < many
    assert most < 3e7


def test_the_plan_has_room_for_the_positions_it_was_made_from(boxes: dict[bool, World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "FEW", 0)  # with cells
    periodic = True
    state = cloud(np.random.default_rng(3).uniform(0, 9, (MANY, 2)).astype(np.float32))
    chosen = plan_grid(boxes[periodic], state, 1.3, 0.5, dt=0.01, fastest=2.0)
    near, need, _ = looked_up(state, boxes[periodic], chosen)
    everybody, *_ = looked_up(state, boxes[periodic], None)
    assert pairs(near) == pairs(dataclasses.replace(everybody, mask=everybody.mask & (everybody.distance < chosen.reach)))
    assert need.neighbours <= chosen.capacity
    assert 0 < need.span <= chosen.span
    assert chosen.refresh * 2.0 * 0.01 <= chosen.skin / 2


def test_in_a_periodic_box_one_looks_half_a_side_far_and_no_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "FEW", 0)
    world = make_world(size=(5.0, 4.0), lower=(0.0, 0.0), periodic=True)
    place = np.random.default_rng(7).uniform(0, (5, 4), (MANY, 2)).astype(np.float32)
    chosen = plan_grid(world, cloud(place), 2.0, 0.5, dt=0.01, fastest=2.0)  # the skin goes beyond the half
    near, need, _ = looked_up(cloud(place), world, chosen)
    assert pairs(near) == expected(place, np.ones(MANY, bool), 2.0, (5.0, 4.0))
    assert need.neighbours <= chosen.capacity
    with pytest.raises(
        ParamError, match=r"look 2\.01 m for people in a periodic box of 5 x 4 m: allowed is half a side, 2 m, .* Give"
    ):
        plan_grid(world, cloud(place), 2.01, 0.5, dt=0.01, fastest=2.0)
    plan_grid(dataclasses.replace(world, periodic=False), cloud(place), 2.01, 0.5, dt=0.01, fastest=2.0)


def test_the_plan_of_an_empty_scene_can_be_used(boxes: dict[bool, World]) -> None:
    state = cloud(np.zeros((0, 2), np.float32))
    chosen = plan_grid(boxes[False], state, 1.3, 0.5, dt=0.01, fastest=2.0)
    assert chosen.capacity >= 1
    assert chosen.span >= 1
    assert list_need(state, boxes[False], chosen) == (0, 0, 0, 0)


def test_too_little_room_is_told(boxes: dict[bool, World]) -> None:
    state = cloud(np.full((20, 2), 3.0, np.float32))
    _, need, _ = looked_up(state, boxes[False], GRIDS["few"]._replace(capacity=4, span=19))
    assert need.neighbours == 19
    assert need.span == 20


@pytest.mark.parametrize("terms", [5, 30, 31, 32, 33, 40, 63, 64, 65, 95, 100])
def test_sums_run_strictly_from_first_to_last(terms: int) -> None:
    generator = np.random.default_rng(terms)
    values = (generator.normal(size=(terms, 512)) * 10.0 ** generator.integers(-3, 4, (terms, 512))).astype(np.float32)
    one_by_one = np.zeros(512, np.float32)
    for row in values:
        one_by_one = one_by_one + row
    np.testing.assert_array_equal(jax.jit(ordered_sum)(values), one_by_one)


def test_zeros_in_between_change_no_bit_of_a_sum() -> None:
    generator = np.random.default_rng(9)
    values = generator.normal(size=(24, 200)).astype(np.float32)
    short = jax.jit(ordered_sum)(values)
    for room in (33, 40, 70):
        padded = np.zeros((room, 200), np.float32)
        padded[np.sort(generator.choice(room, 24, replace=False))] = values
        np.testing.assert_array_equal(jax.jit(ordered_sum)(padded), short)


# A run that begins thin and ends with everybody in one cell.
CROWD, STEPS = 60, 150


@pytest.fixture(scope="module")
def gathering() -> Scenario:
    angle = np.linspace(0, 2 * math.pi, CROWD, endpoint=False)
    state = make_state(3.5 * np.stack((np.cos(angle), np.sin(angle)), 1), radius=0.02, goal=0)
    changes = {"forces.repulsion.strength": 1.0, "motion.dt": 0.02}
    return make_scenario(make_world(goals=[(0.0, 0.0)], reach=0.01), state, make_params(("driving", "repulsion"), changes))


@pytest.mark.parametrize("few", [0, 300], ids=["cells", "all pairs"])
def test_everybody_in_one_cell_is_repaired_and_right(gathering: Scenario, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "FEW", few)
    start = plan(gathering, gathering.params, gathering.state)
    done = simulate(gathering, None, KEY, STEPS, every=STEPS)
    assert done.health.peak_neighbours == CROWD - 1 > start.capacity  # the first plan was too small
    reference = run(gathering.world, gathering.params, gathering.state, STEPS, every=STEPS, seed=5)
    np.testing.assert_allclose(done.final.position, reference.final.position, atol=1e-5)
    assert np.hypot(*np.asarray(done.final.position)).max() < 0.6


def test_everybody_in_one_cell_is_refused_when_the_grid_was_given(gathering: Scenario) -> None:
    small = plan(gathering, gathering.params, gathering.state)
    with pytest.raises(CapacityError) as caught:
        simulate(gathering, None, KEY, STEPS, every=STEPS, grid=small)
    message = str(caught.value)
    assert "scene: lists needed " in message
    assert f"room for {small.capacity}, {small.touching}, {small.span}, {small.walls} and {small.skin / 2:.3g} m" in message
    assert message.endswith("or leave grid out to have it planned.")
    advised = message.split("Pass grid=Grid(")[1].split("), or leave")[0]  # the advice can be pasted
    numbers = {name: ast.literal_eval(value) for name, value in (pair.split("=") for pair in advised.split(", "))}
    assert simulate(gathering, None, KEY, STEPS, every=STEPS, grid=Grid(**numbers)).health.peak_neighbours == CROWD - 1


def test_room_only_grows() -> None:
    grown = neighbours.enlarge(GRIDS["few"], Need(*map(np.int64, (99, 99, 99, 9))), 60, 6)
    assert (grown.capacity, grown.touching, grown.span, grown.walls) == (60, 60, 60, 6)
    assert neighbours.enlarge(GRIDS["few"], Need(*map(np.int64, (1, 1, 1, 1))), 60, 6) == GRIDS["few"]


def test_overlaps_are_seen_whatever_the_forces_look_at() -> None:
    """Without a force that looks at people, whoever touches is on the list, fresh or old."""
    state = make_state([(0.0, 0.0), (0.28, 0.0)], [(0.0, 0.0), (0.5, 0.0)])
    scenario = make_scenario(
        make_world(), state, make_params(("driving",), {"motion.dt": 0.01, "forces.driving.relaxation_time": 1e3})
    )
    seen = [simulate(scenario, None, KEY, 20, observe=("largest_overlap",)).series["largest_overlap"]]
    grid = plan(scenario, scenario.params, state)._replace(refresh=1)
    seen += [simulate(scenario, None, KEY, 20, observe=("largest_overlap",), grid=grid).series["largest_overlap"]]
    np.testing.assert_array_equal(*seen)
    assert seen[0][-1] == pytest.approx(0.5 - 0.28 - 0.1, abs=2e-3)


@pytest.mark.parametrize(("steps", "every", "refresh"), [(401, 1, 55), (254, 127, 55), (60, 20, 7), (30, 10, 30), (7, 7, 50)])
def test_lists_last_nearly_as_long_as_they_may(steps: int, every: int, refresh: int) -> None:
    frames, per_list, rest = _cut(steps, every, GRIDS["few"]._replace(refresh=refresh))
    assert frames == steps // every
    assert refresh / 2 <= per_list <= refresh or per_list == steps
    whole = every if per_list < every else steps
    assert whole % per_list == rest
