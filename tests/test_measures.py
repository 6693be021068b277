"""Measures against cases worked out by hand: who crosses a line when, how dense it is where, how long people take."""

import math
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.testing import assert_allclose, assert_array_equal

from crowdlab import geometry, measures
from crowdlab.errors import MeasureError, ScenarioError
from crowdlab.measures import Tracks

HALL = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))"
GATE = [(5, -1), (5, 1)]  # from south to north: its left side is the west
GONE = (math.nan, math.nan)


def tracks(*ways: Any, time: Any = None, **known: Any) -> Tracks:
    """One person for each way, a place for each frame; a frame each second."""
    position = np.array(ways, float).reshape(len(ways), -1, 2).swapaxes(0, 1) if ways else np.zeros((3, 0, 2))
    return Tracks.of_arrays(position, np.arange(len(position)) if time is None else time, **known)


def standing(places: Any, frames: int = 1, **known: Any) -> Tracks:
    return Tracks.of_arrays(np.broadcast_to(np.asarray(places, float), (frames, len(places), 2)), np.arange(frames), **known)


def lattice(step: float, size: float = 10.0) -> np.ndarray:
    line = np.arange(step / 2, size, step)
    return np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)


def test_a_crossing_is_found_between_frames() -> None:
    found = measures.crossings(tracks([(0, 0), (4, 0), (8, 0.4)], [(9, 0), (9, 0), (5.5, 0)], [(6, 0), (2, 0), (2, 5)]), GATE)
    assert_allclose(found.time, [0.25, 1.25])
    assert_array_equal(found.person, [2, 0])
    assert_array_equal(found.direction, [1, -1])
    assert_allclose(found.place, [(5, 0), (5, 0.1)])
    assert found.length == 2


def test_a_line_turned_round_turns_the_directions() -> None:
    there = tracks([(0, 0), (8, 0)], [(8, 0.5), (0, 0.5)])
    one, other = measures.crossings(there, GATE), measures.crossings(there, GATE[::-1])
    assert_array_equal(one.direction, -other.direction)
    assert_array_equal(one.onto(-1).person, [0])
    with pytest.raises(MeasureError, match=r"direction = 0: allowed are \+1"):
        one.onto(0)


def test_who_misses_the_line_or_was_not_seen_does_not_cross() -> None:
    missing = tracks([(0, 3), (8, 3)], [(0, 0), GONE], [(4, 0), (4.9, 0)])
    assert len(measures.crossings(missing, GATE).time) == 0
    assert len(measures.crossings(tracks([(0, 0), GONE, (8, 0)]), GATE).time) == 0
    assert len(measures.crossings(standing([(0, 0), (5, 0)]), GATE).time) == 0
    assert len(measures.crossings(tracks(), GATE).time) == 0


def test_on_the_line_is_on_its_left() -> None:
    everybody = np.full((3, 4, 2), (5.0, 0.0))
    assert len(measures.crossings(Tracks.of_arrays(everybody, np.arange(3)), GATE).time) == 0
    stops = tracks([(4, 0), (5, 0), (5, 0), (6, 0)], [(6, 0), (5, 0), (5, 0), (6, 0)], [(4, 0), (5, 0), (4, 0), (3, 0)])
    found = measures.crossings(stops, GATE)
    assert_array_equal(found.person, [1, 0, 1])
    assert_array_equal(found.direction, [1, -1, -1])
    assert_allclose(found.time, [1, 2, 2])


@given(some.floats(0, 2 * math.pi), some.floats(0.1, 3), some.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_a_ring_is_left_once_at_a_corner_too(angle: float, radius: float, corner: int) -> None:
    ring = radius * np.array([(1, 1), (-1, 1), (-1, -1), (1, -1), (1, 1)])
    ends = [4 * radius * np.array((math.cos(angle), math.sin(angle))), 4 * ring[corner]]
    found = measures.crossings(tracks(*[[(0, 0), end] for end in ends]), ring)
    assert_array_equal(np.sort(found.person), [0, 1])
    assert_array_equal(found.direction, [-1, -1])  # counter-clockwise: the inside is on the left


def test_two_lines_count_the_same_people_and_give_the_time_between() -> None:
    walkers = tracks([(0, 0), (10, 0)], [(0, 0.5), (20, 0.5)], [(0, 0), (4, 0)])
    first, second = measures.crossings(walkers, [(2, -1), (2, 1)]), measures.crossings(walkers, [(8, -1), (8, 1)])
    assert_allclose(measures.times_between(first, second, 3), [0.6, 0.3, np.nan])
    assert_allclose(measures.times_between(second, first, 3), [np.nan] * 3)


def test_flow_counts_intervals() -> None:
    ways = [[(0, 0)] * k + [(10, 0)] * (6 - k) for k in (1, 2, 4)]
    found = measures.crossings(tracks(*ways), GATE)
    assert_allclose(found.time, [0.5, 1.5, 3.5])
    assert found.flow() == pytest.approx(2 / 3)
    assert found.specific_flow() == pytest.approx(1 / 3)
    assert_array_equal(found.counted([0, 0.5, 1, 3.4, 9]), [0, 1, 1, 2, 3])
    edges, flow = found.flow_by_windows(2)
    assert_allclose(edges, [0, 2, 4, 5])
    assert_allclose(flow, [1, 0.5, 0])
    assert math.isnan(measures.crossings(tracks([(0, 0), (10, 0)]), GATE).flow())
    with pytest.raises(MeasureError, match="windows of 0 s from 0 to 5 s: allowed are windows longer than 0 s"):
        found.flow_by_windows(0)


def test_who_turns_round_is_counted_once() -> None:
    found = measures.crossings(tracks([(4, 0), (6, 0), (4, 0), (6, 0)]), GATE)
    assert_array_equal(found.direction, [-1, 1, -1])
    assert_allclose(found.first().time, [0.5])


def test_a_periodic_box_is_crossed_at_its_edge() -> None:
    walker = tracks([(9.5, 0), (0.5, 0), (1.5, 0)], [(0.2, 0), (9.8, 0), (9.6, 0)], box=10.0)
    for x, person, time, direction in ((9.8, 0, 0.3, -1), (0.2, 0, 0.7, -1), (0.0, 0, 0.5, -1), (9.9, 1, 0.75, 1)):
        found = measures.crossings(walker, [(x, -1), (x, 1)])
        seen = found.person == person
        assert_allclose(found.time[seen], [time])
        assert_array_equal(found.direction[seen], [direction])
    assert_allclose(walker.velocity[:, 0, 0], 1)
    assert_allclose(measures.ways(walker).length, [2, 0.6])


@pytest.mark.parametrize("line", [[(1, 1)], [(0, 0), (math.nan, 1)], [(2, 3), (2, 3)]])
def test_no_line_is_refused(line: Any) -> None:
    with pytest.raises((ScenarioError, MeasureError), match=r"line.*(has 1 points|finite|no length, at \(2, 3\) m)"):
        measures.crossings(standing([(0, 0)]), line)


@pytest.mark.parametrize("step", [0.5, 1.0, 2.0])
def test_a_lattice_has_its_density_by_every_method(step: float) -> None:
    even, middle = standing(lattice(step), area=HALL), [(2, 2), (8, 2), (8, 8), (2, 8)]
    assert_allclose(measures.classical(even, middle).density, [step**-2])
    assert_allclose(measures.voronoi(even, middle).density, [step**-2])
    assert_allclose(measures.grid(even, 2.0).density, np.full((5, 5), step**-2))
    assert_allclose(measures.grid(even, 2.0, kernel=max(step, 1.0)).density[2, 2], step**-2, rtol=1e-3)


def test_nobody_has_no_density_and_no_speed() -> None:
    for empty in (Tracks.of_arrays(np.zeros((2, 0, 2)), [0, 1], area=HALL), standing([GONE, GONE], 2, area=HALL)):
        for found in (measures.classical(empty, HALL), measures.voronoi(empty, HALL)):
            assert_array_equal(found.density, [0, 0])
            assert np.isnan(found.speed).all()
        field = measures.grid(empty, 5.0)
        assert_array_equal(field.density, np.zeros((2, 2)))
        assert np.isnan(field.speed).all()
    with pytest.raises(MeasureError, match="nobody is there and there is no walkable area"):
        measures.grid(standing([GONE]), 1.0)


def test_only_who_is_there_counts() -> None:
    half = tracks([(1, 1), (1, 1), (9, 9)], [(1, 2), GONE, GONE], [(9, 1)] * 3, area=HALL)
    assert_allclose(measures.classical(half, [(0, 0), (2, 0), (2, 4), (0, 4)]).density, [2 / 8, 1 / 8, 0])
    assert_allclose(measures.grid(half, 5.0).density * 25, [[1, 1], [0, 1 / 3]])
    assert_allclose(measures.voronoi(half, HALL).density * 100, [3, 2, 2])


def test_only_the_walkable_part_of_a_region_and_of_a_cell_counts() -> None:
    pillar = "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))"
    people = standing([(1, 1), (3.5, 5), (9, 9)], area=pillar)
    assert_allclose(measures.classical(people, [(3, 4), (6, 4), (6, 6), (3, 6)]).density, [1 / 2])
    field = measures.grid(people, 2.0)
    assert np.isnan(field.density[2, 2])
    assert field.density[2, 1] == 1 / 4
    with pytest.raises(MeasureError, match="region: lies outside the walkable area"):
        measures.classical(people, [(4.5, 4.5), (5, 4.5), (5, 5)])


def test_voronoi_splits_a_corridor_in_the_middle_between_two() -> None:
    two = tracks([(2, 0.5), (3, 0.5)], [(6, 0.5), (9, 0.5)], area="POLYGON ((0 0, 10 0, 10 1, 0 1, 0 0))")
    found = measures.voronoi(two, [(3, 0), (5, 0), (5, 1), (3, 1)])
    assert_allclose(found.density, [(1 / 4 + 1 / 6) / 2, 1 / 6])  # borders at 4 m, then at 6 m
    assert_allclose(found.speed, [(1 + 3) / 2, 1])


def test_a_reach_leaves_what_is_far_to_nobody() -> None:
    lone = standing([(5, 5)])
    whole = [(0, 0), (10, 0), (10, 10), (0, 10)]
    assert_allclose(measures.voronoi(lone, whole, reach=1.0).density, [0.01])
    assert_allclose(measures.voronoi(lone, [(4.9, 4.9), (5.1, 4.9), (5.1, 5.1), (4.9, 5.1)], 1.0).density, [1 / math.pi], rtol=2e-3)
    with pytest.raises(MeasureError, match="no walkable area and no reach"):
        measures.voronoi(lone, whole)
    with pytest.raises(MeasureError, match="reach = 0 m"):
        measures.voronoi(lone, whole, 0.0)
    with pytest.raises(MeasureError, match="a periodic box"):
        measures.voronoi(standing([(5, 5)], area=HALL, box=10.0), whole)


def test_a_cell_does_not_go_through_a_wall() -> None:
    rooms = geometry.read_area("POLYGON ((0 0, 4.9 0, 4.9 9, 5.1 9, 5.1 0, 10 0, 10 10, 0 10, 0 0))")
    cell = geometry.voronoi_cells(np.array([(4.5, 1), (9.5, 1)]), rooms, reach=3.0)[0]
    assert cell.bounds[2] < 5.1


@given(some.lists(some.tuples(some.floats(0, 10), some.floats(0, 10)), min_size=1, max_size=30, unique=True))
@settings(max_examples=60, deadline=None)
def test_cells_share_out_the_floor(places: list[tuple[float, float]]) -> None:
    places = np.unique(np.round(places, 3), axis=0)
    hall = geometry.read_area(HALL)
    cells = geometry.voronoi_cells(places, hall)
    assert shapely.area(cells).sum() == pytest.approx(100)
    assert (shapely.distance(cells, shapely.points(places)) < 1e-9).all()
    assert measures.voronoi(standing(places, area=HALL), HALL).density[0] == pytest.approx(len(places) / 100)


def test_two_on_one_spot_are_two() -> None:
    assert_allclose(measures.voronoi(standing([(5, 5), (5, 5), (1, 1)], area=HALL), HALL).density, [0.03])


def test_a_kernel_spreads_everybody_once() -> None:
    field = measures.grid(standing([(0, 0), (0.3, -0.7)]), 0.1, kernel=0.5, box=((-4, -4), (4, 4)))
    assert field.density.sum() * 0.1**2 == pytest.approx(2)
    assert measures.grid(standing([(0.05, 0.05)]), 0.1, kernel=0.5, box=((0, 0), (1, 1))).density[0, 0] == pytest.approx(
        4 / math.pi
    )
    round_the_edge = measures.grid(standing([(9.9, 5)], box=10.0), 0.2, kernel=0.5, box=((0, 0), (10, 10))).density
    assert round_the_edge[25, 0] == pytest.approx(round_the_edge[25, -2])


def test_speeds_on_the_grid_are_means_of_who_was_there() -> None:
    walkers = tracks([(1, 1), (2, 1), (3, 1)], [(1, 2), (1, 4), (1, 4)], [(7, 7), GONE, GONE], area=HALL)
    assert_allclose(walkers.speed, [[1, 2, np.nan], [1, 1, np.nan], [1, 0, np.nan]])
    field = measures.grid(walkers, 5.0)
    assert field.speed[0, 0] == pytest.approx(1)
    assert_allclose(field.velocity[0, 0], [0.5, 0.5])
    assert field.density[1, 1] == pytest.approx(1 / 75)
    assert np.isnan(field.speed[1, 1])  # seen once, so its speed is not known
    assert np.isnan(field.speed[0, 1])
    spread = measures.grid(walkers, 5.0, kernel=0.5)
    assert spread.speed[0, 0] < 1.5
    assert np.isfinite(spread.speed).all()


def test_travel_and_evacuation() -> None:
    ways = [(0, 0), (1, 0), (2, 0), GONE, GONE], [GONE, (0, 0), (3, 0), (3, 4), GONE], [(5, 5)] * 5, [GONE] * 5
    crowd = tracks(*ways)
    assert_allclose(crowd.entry, [0, 1, 0, np.nan])
    assert_allclose(measures.travel_times(crowd), [2, 2, np.nan, np.nan])
    assert measures.evacuation_time(crowd.arrival, 0.5) == 3
    assert math.isnan(measures.evacuation_time(crowd.arrival))
    found = measures.ways(crowd)
    assert_allclose(found.length, [2, 7, 0, np.nan])
    assert_allclose(found.straight, [2, 5, 0, np.nan])
    assert_allclose(found.speed, [1, 3.5, 0, np.nan])
    assert_allclose(found.detour, [1, 1.4, np.nan, np.nan])
    assert measures.evacuation_time(np.arange(100.0), 0.07) == 6
    assert math.isnan(measures.evacuation_time([]))
    with pytest.raises(MeasureError, match="share = 0: allowed are numbers above 0 up to 1"):
        measures.evacuation_time([1.0], 0)


def test_the_way_ends_at_the_arrival() -> None:
    stands = tracks([(0, 0), (2, 0), (4, 0), (4, 3)], arrival=[1.5])
    assert measures.ways(stands).length[0] == pytest.approx(3)
    assert measures.ways(stands).duration[0] == pytest.approx(1.5)
    assert_array_equal(stands.wanting[:, 0], [True, True, False, False])


def test_a_single_frame_says_where_and_not_how_fast() -> None:
    one = standing([(1, 1), (3, 1)])
    assert np.isnan(one.speed).all()
    assert np.isnan(measures.ways(one).length).all()
    assert_array_equal(measures.stuck_time(one), [0, 0])
    assert_allclose(measures.classical(one, HALL).density, [0.02])


def test_stuck_is_who_hardly_moves_for_some_time() -> None:
    time = np.arange(0, 20.5, 0.5)
    walks = np.stack([time, 0 * time], 1)
    shakes = np.stack([0.1 * (-1.0) ** np.arange(len(time)), 0 * time], 1)
    stops = np.minimum(walks, 4.0)
    crowd = tracks(walks, shakes, stops, shakes, time=time, arrival=[np.nan, np.nan, np.nan, 0.0])
    assert_allclose(measures.stuck_time(crowd), [0, 15, 11, 0])  # 4 s of walking, 5 s until it is known
    assert_allclose(measures.slow_time(crowd), [0, 20, 16, 0], atol=0.5)
    assert np.isnan(measures.moved(crowd)[:10]).all()
    assert_allclose(measures.moved(crowd)[10:, 0], 5)
    with pytest.raises(MeasureError, match="over = 0 s"):
        measures.moved(crowd, 0)


def test_a_queue_is_who_is_slow_before_the_line() -> None:
    walks = [(0, 0.5), (1, 0.5), (2, 0.5)]
    crowd = tracks([(4, 0)] * 3, [(3, 0)] * 3, [(2.5, 0), (2.5, 0), GONE], [(-8, 0)] * 3, walks, arrival=np.full(5, np.nan))
    found = measures.queue(crowd, GATE, [(-5, -1), (5, -1), (5, 1), (-5, 1)])
    assert_array_equal(found.people, [3, 3, 2])
    assert_allclose(found.length, [2.5, 2.5, 2])
    assert_array_equal(found.queueing[0], [True, True, True, False, False])


def test_overlaps_are_found_once_each() -> None:
    three = tracks([(0, 0)] * 2, [(0.4, 0), (0.6, 0)], [(0.3, 0.3), GONE], [(9.9, 0)] * 2, radius=0.25, box=10.0)
    found = measures.overlaps(three)
    assert_array_equal(np.stack([found.frame, found.person, found.other]).T[:2], [(0, 0, 1), (0, 0, 2)])
    assert_array_equal(np.stack([found.frame, found.person, found.other]).T[-1], (1, 0, 3))
    assert found.depth[0] == pytest.approx(0.1)
    assert_allclose(found.deepest, [0.4, 0.4])
    with pytest.raises(MeasureError, match="know no radii"):
        measures.overlaps(standing([(0, 0)]))


def test_some_frames_can_be_taken() -> None:
    part = tracks([(0, 0), (10, 0), GONE], [(0, 0), (2, 0), (10, 0)]).between(0, 1)
    assert_allclose(measures.crossings(part, GATE).time, [0.5])
    assert_allclose(part.last_place, [(10, 0), (2, 0)])
    with pytest.raises(MeasureError, match="no frame from 7 to 8 s: there are frames from 0 to 1 s"):
        part.between(7, 8)


@pytest.mark.parametrize(
    ("position", "time", "present", "said"),
    [
        (np.zeros((2, 3)), [0, 1], None, r"allowed are \(F, N, 2\) m"),
        (np.zeros((2, 3, 2)), [0, 1, 2], None, r"times of the shape \(3,\)"),
        (np.zeros((2, 3, 2)), [0, 0], None, "each later than the one before"),
        (np.zeros((0, 3, 2)), [], None, "one or more"),
        (np.zeros((2, 3, 2)), [0, 1], np.ones((2, 2)), "allowed is that of frames and people"),
        (np.full((2, 1, 2), np.nan), [0, 1.5], np.array([[False], [True]]), r"person 0 in frame 1 \(1.5 s\): present without"),
    ],
)
def test_arrays_that_are_no_tracks_are_refused(position: Any, time: Any, present: Any, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        Tracks.of_arrays(position, time, present)
