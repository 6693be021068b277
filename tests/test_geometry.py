"""Areas, walls and starting places on the host."""

import math
import time

import jax
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from shapely import MultiPolygon, Polygon

from crowdlab import geometry
from crowdlab.errors import ScenarioError
from crowdlab.geometry import (
    check_place,
    check_start,
    edges_of,
    lay_floor,
    read_area,
    read_place,
    sample_discs,
    sample_points,
    unreachable,
    wall_arrays,
    within,
)

SQUARE = [[0, 0], [10, 0], [10, 10], [0, 10]]
KEY = jax.random.key(7)

SAME_SQUARE = {
    "clockwise": SQUARE[::-1],
    "another first corner": SQUARE[2:] + SQUARE[:2],
    "repeated first vertex": [*SQUARE, SQUARE[0]],
    "repeated vertices": [SQUARE[0], *SQUARE, SQUARE[-1], SQUARE[0]],
    "a vertex in a straight edge": [[0, 0], [4, 0], [10, 0], [10, 10], [0, 10], [0, 3]],
    "array": np.array(SQUARE),
    "WKT": "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
    "WKT of many": "MULTIPOLYGON (((0 0, 10 0, 10 10, 0 10, 0 0)))",
    "WKT of a collection": "GEOMETRYCOLLECTION (POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0)))",
    "Polygon": Polygon(SQUARE),
    "MultiPolygon": MultiPolygon([Polygon(SQUARE)]),
    "GeometryCollection": shapely.GeometryCollection([Polygon(SQUARE)]),
    "two halves": "MULTIPOLYGON (((0 0, 5 0, 5 10, 0 10, 0 0)), ((5 0, 10 0, 10 10, 5 10, 5 0)))",
    "outer and holes": {"outer": SQUARE, "holes": []},
}


def walls_of(spec: object) -> dict[str, np.ndarray]:
    return wall_arrays(lay_floor(read_area(spec)).walls)


@pytest.mark.parametrize("form", SAME_SQUARE)
def test_every_form_of_an_area_gives_the_same_walls(form: str) -> None:
    expected, got = walls_of(SQUARE), walls_of(SAME_SQUARE[form])
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name])


def test_saved_area_is_the_area() -> None:
    floor = lay_floor(read_area(SQUARE), [("pillar", read_area([[4, 4], [6, 4], [6, 6], [4, 6]]))])
    again = lay_floor(read_area(floor.area.wkt))
    np.testing.assert_array_equal(again.walls, floor.walls)
    assert [len(rings) for rings in geometry.polygons(floor.area.wkt)] == [2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([[0, 0], [10, 10], [10, 0], [0, 10]], r"room: the outline crosses or touches itself at \(5, 5\) m"),
        ([[0, 0], [4, 2], [4, 0], [0, 3]], r"crosses or touches itself at \(2\.4, 1\.2\) m"),
        ("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))", r"at \(5, 5\) m"),
        ({"outer": SQUARE, "holes": [[[1, 1], [2, 2], [2, 1], [1, 2]]]}, r"room\.holes\[0\]: .* at \(1\.5, 1\.5\) m"),
        ([[0, 0], [1, 0], [2, 0]], "area of zero"),
        ([[0, 0], [1, 0]], "has 2 points, allowed are 3 or more"),
        ([[0, 0], [1, 0], [1, 0], [0, 0]], "has 2 different points"),
        ([], r"room = \[\]: allowed is a list of points"),
        ([[0, 0], [1, math.nan], [2, 0]], r"room\[1\] = \[1\.0, nan\]"),
        ([[0, 0, 1], [1, 0, 1], [1, 1, 1]], "allowed is a list of points"),
        ("POLYGON EMPTY", "is empty"),
        ("GEOMETRYCOLLECTION EMPTY", "is empty"),
        ("POINT (1 1)", "Point has no area"),
        ("POLIGON ((0 0, 1 1))", "unreadable WKT"),
        ({"outer": SQUARE, "holes": [SQUARE]}, "is empty"),
    ],
)
def test_faulty_areas_are_refused_with_the_place(spec: object, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        read_area(spec, "room")


def test_obstacles_that_touch_share_and_overlap_are_a_plain_difference() -> None:
    blocks = {
        "at the edge": [[0, 4], [2, 4], [2, 6], [0, 6]],
        "one": [[4, 4], [6, 4], [6, 6], [4, 6]],
        "sharing an edge with it": [[6, 4], [7, 4], [7, 6], [6, 6]],
        "over it": [[5, 5], [6.5, 5], [6.5, 8], [5, 8]],
    }
    floor = lay_floor(read_area(SQUARE), [(name, read_area(block)) for name, block in blocks.items()])
    expected = Polygon(SQUARE).difference(shapely.union_all([Polygon(block) for block in blocks.values()]))
    assert floor.area.symmetric_difference(expected).area < 1e-9
    assert len(geometry.polygons(floor.area.wkt)) == 1
    with pytest.raises(ScenarioError, match="far: lies outside the area"):
        lay_floor(read_area(SQUARE), [("far", read_area([[20, 0], [21, 0], [21, 1]]))])
    with pytest.raises(ScenarioError, match="cover the whole area"):
        lay_floor(read_area(SQUARE), [("all", read_area([[-1, -1], [11, -1], [11, 11], [-1, 11]]))])


def test_walls_meet_at_vertices_once() -> None:
    arrays = walls_of(SQUARE)
    assert arrays["walls"].shape == (4, 2, 2)
    assert arrays["wall_vertices"].shape == (4, 2)
    assert arrays["wall_directions"].shape == (4, 2, 2)
    assert set(arrays["wall_part"]) == {0}
    corner = np.flatnonzero((arrays["wall_vertices"] == [10, 10]).all(1))[0]
    assert {tuple(ray) for ray in arrays["wall_directions"][corner]} == {(-1.0, 0.0), (0.0, -1.0)}


def test_a_free_end_has_one_direction_and_a_crossing_four() -> None:
    arrays = wall_arrays([[[0, 0], [2, 0]], [[1, -1], [1, 1]]])
    ends = {tuple(vertex): rays for vertex, rays in zip(arrays["wall_vertices"], arrays["wall_directions"], strict=True)}
    assert arrays["walls"].shape == (4, 2, 2)
    assert (np.hypot(*ends[1.0, 0.0].T) > 0).sum() == 4
    assert [tuple(ray) for ray in ends[0.0, 0.0]] == [(1.0, 0.0)] + [(0.0, 0.0)] * 3


def test_a_wall_that_ends_on_another_joins_it() -> None:
    tee = wall_arrays([[[0, 0], [4, 0]], [[1, 0], [1, 3]]])
    assert tee["walls"].shape == (3, 2, 2)
    assert set(tee["wall_part"]) == {0}
    apart = wall_arrays([[[0, 0], [4, 0]], [[1, 0.01], [1, 3]]])
    assert set(apart["wall_part"]) == {0, 1}
    assert apart["wall_part"].shape == (2 + 4,)


def test_pieces_duplicates_and_points_are_harmless() -> None:
    whole = [[[0, 0], [4, 3]]]
    awkward = [*whole, [[4, 3], [0, 0]], [[1e-10, 0], [4, 3]], [[2, 1], [2, 1]], [[0, 0], [0, 5e-10]]]
    for name, value in wall_arrays(whole).items():
        np.testing.assert_allclose(wall_arrays(awkward)[name], value, atol=1e-9)
    chain = np.linspace([0, 0], [4, 3], 101)
    pieces = wall_arrays(np.stack([chain[:-1], chain[1:]], 1))
    assert pieces["walls"].shape == (100, 2, 2)
    assert set(pieces["wall_part"]) == {0}


def test_order_and_direction_of_segments_do_not_matter() -> None:
    segments = np.array([[[0, 0], [4, 0]], [[4, 0], [4, 3]], [[1, 1], [2, 2]], [[1, 2], [2, 1]], [[3, -1], [3, 1]]], float)
    expected = wall_arrays(segments)
    turned = wall_arrays(segments[[3, 0, 4, 2, 1]][:, ::-1])
    for name in expected:
        np.testing.assert_array_equal(turned[name], expected[name])


def test_no_walls() -> None:
    arrays = wall_arrays(np.empty((0, 2, 2)))
    assert arrays["walls"].shape == (0, 2, 2)
    assert arrays["wall_directions"].shape == (0, 1, 2)
    assert arrays["wall_part"].shape == (0,)


def test_an_exit_on_the_outline_opens_the_wall() -> None:
    exit_edges = edges_of(read_place("door", line=[[10, 4], [10, 5]]))
    floor = lay_floor(read_area(SQUARE), exits=[exit_edges])
    assert not ((floor.walls[:, :, 0] == 10).all(1) & (floor.walls[:, :, 1].mean(1) == 4.5)).any()
    assert np.hypot(*(floor.walls[:, 1] - floor.walls[:, 0]).T).sum() == pytest.approx(39)
    start = np.array([[5.0, 5.0]])
    door = read_place("door", line=[[10, 4], [10, 5]])
    assert not unreachable(floor, start, np.array([0.45]), door, 0.0).any()
    assert unreachable(floor, start, np.array([0.55]), door, 0.0).all()


def room_with_door(width: float) -> list[list[float]]:
    low, high = 5 - width / 2, 5 + width / 2
    return [
        [0, 0],
        [10, 0],
        [10, low],
        [10.2, low],
        [10.2, 2],
        [13, 2],
        [13, 8],
        [10.2, 8],
        [10.2, high],
        [10, high],
        [10, 10],
        [0, 10],
    ]


@pytest.mark.parametrize(("width", "passable"), [(0.45, False), (0.4999, False), (0.5, True), (0.52, True), (0.6, True)])
def test_narrow_doors_are_decided_on_the_exact_polygon(width: float, passable: bool) -> None:
    floor = lay_floor(read_area(room_with_door(width)))
    lost = unreachable(floor, np.array([[5.0, 5.0]]), np.array([0.25]), read_place("exit", line=[[12, 2], [12, 8]]), 0.0)
    assert lost.all() != passable


def test_everybody_is_judged_by_his_own_radius() -> None:
    floor = lay_floor(read_area(room_with_door(0.52)))
    starts = np.array([[5.0, 5.0], [3.0, 3.0], [11.0, 5.0]])
    lost = unreachable(floor, starts, np.array([0.25, 0.3, 0.3]), read_place("exit", line=[[12, 2], [12, 8]]), 0.0)
    assert lost.tolist() == [False, True, False]


def test_goals_must_lie_inside() -> None:
    floor = lay_floor(read_area(SQUARE), [("world.obstacles[0]", read_area([[4, 4], [6, 4], [6, 6], [4, 6]]))])
    check_place(floor, read_place("on the outline", line=[[0, 0], [0, 10]]), "goals.a")
    with pytest.raises(ScenarioError, match=r"goals\.a: lies outside the walkable area near \(12, 5\) m, 2 m away"):
        check_place(floor, read_place("", point=[12, 5]), "goals.a")
    with pytest.raises(ScenarioError, match=r"goals\.a: .*with 2 m of 4 m outside"):
        check_place(floor, read_place("", line=[[8, 5], [12, 5]]), "goals.a")
    with pytest.raises(ScenarioError, match=r"goals\.a: lies in world\.obstacles\[0\]"):
        check_place(floor, read_place("", point=[5, 5]), "goals.a")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({}, "give exactly one of line, point and polygon"),
        ({"line": [[0, 0], [1, 1]], "point": [0, 0]}, "give exactly one"),
        ({"line": [[1, 1], [1, 1]]}, "has no length"),
        ({"line": [[1, 1]]}, "has 1 points, allowed are 2 or more"),
        ({"polygon": []}, "allowed is a list of points"),
        ({"polygon": [[0, 0], [1, 1], [2, 2]]}, "area of zero"),
        ({"point": [1, math.inf]}, "finite"),
    ],
)
def test_faulty_goals_are_refused(shape: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=rf"goals\.a.*{message}"):
        read_place("goals.a", **shape)


def gaps(places: np.ndarray, radii: np.ndarray) -> float:
    apart = squareform(pdist(places)) - radii[:, None] - radii
    np.fill_diagonal(apart, np.inf)
    return float(apart.min())


@pytest.mark.parametrize(("count", "low", "high"), [(200, 0.25, 0.35), (450, 0.25, 0.35), (900, 0.25, 0.25), (1500, 0.137, 0.137)])
def test_places_keep_all_distances(count: int, low: float, high: float) -> None:
    floor = lay_floor(read_area([[0, 0], [15, 0], [15, 15], [0, 15]]))
    radii = np.linspace(low, high, count)
    places = sample_discs(floor, floor.area, radii, KEY)
    assert gaps(places, radii) > 0
    assert (floor.clearance(places) - radii).min() > 0
    assert floor.inside(places).all()
    np.testing.assert_array_equal(places, sample_discs(floor, floor.area, radii, KEY))
    assert not np.array_equal(places, sample_discs(floor, floor.area, radii, jax.random.key(8)))


def test_ten_thousand_in_a_concave_room_with_holes_in_five_seconds() -> None:
    ring = [[0, 0], [60, 0], [60, 60], [30, 60], [30, 30], [0, 30]]
    floor = lay_floor(read_area({"outer": ring, "holes": [[[10, 10], [15, 10], [12, 14]], [[40, 40], [45, 40], [45, 50]]]}))
    radii = np.full(9900, 0.25)
    start = time.process_time()
    places = sample_discs(floor, floor.area, radii, KEY)
    assert time.process_time() - start < 5
    assert floor.inside(places).all()
    assert (floor.clearance(places) - radii).min() > 0
    assert shapely.STRtree(shapely.points(places)).query(shapely.points(places), "dwithin", distance=0.5).shape[1] == len(places)


def test_too_many_are_refused_with_the_number_that_fits() -> None:
    floor = lay_floor(read_area([[0, 0], [3, 0], [3, 3], [0, 3]]))
    with pytest.raises(ScenarioError, match=r"groups\.a\.area: holds about (\d+) people of radius 0\.25 m, count = 60") as caught:
        sample_discs(floor, floor.area, np.full(60, 0.25), KEY, where="groups.a.area")
    fits = int(str(caught.value).split("about ")[1].split()[0])
    assert 25 <= fits <= 36
    assert len(sample_discs(floor, floor.area, np.full(fits, 0.25), KEY)) == fits


def test_newcomers_keep_off_those_who_are_there() -> None:
    floor = lay_floor(read_area([[0, 0], [6, 0], [6, 6], [0, 6]]))
    first, second = np.full(30, 0.3), np.full(50, 0.2)
    there = sample_discs(floor, floor.area, first, KEY)
    new = sample_discs(floor, floor.area, second, jax.random.key(9), taken=(there, first))
    assert gaps(np.concatenate([there, new]), np.concatenate([first, second])) > 0


def test_points_fill_the_area() -> None:
    area = read_area([[0, 0], [10, 0], [10, 1]])
    points = sample_points(area, 2000, KEY, "goals")
    assert geometry.covers(area, points).all()
    assert abs(points.mean(0) - [20 / 3, 1 / 3])[0] < 4 * 2.36 / 2000**0.5  # four standard errors


@pytest.mark.parametrize(
    ("places", "radii", "message"),
    [
        (
            [[2, 2], [2.549, 2]],
            [0.25, 0.3],
            r"first and second: overlap by 0\.001 m, their centres are 0\.549 m apart, allowed are 0\.55 m",
        ),
        ([[2, 2], [5, 5.5]], [0.25, 0.25], r"second at \(5, 5\.5\) m: stands inside world\.obstacles\[0\]"),
        ([[2, 2], [9.9, 5]], [0.25, 0.25], r"second at .*: its centre is 0\.1 m from a wall, allowed is its radius of 0\.25 m"),
        ([[2, 2], [5, 3.8]], [0.25, 0.25], r"second .*0\.2 m from a wall"),
        ([[-3, 2], [2, 2]], [0.25, 0.25], r"first at \(-3, 2\) m: stands outside the walkable area, 3 m from it"),
    ],
)
def test_given_places_must_be_free(places: list[list[float]], radii: list[float], message: str) -> None:
    floor = lay_floor(read_area(SQUARE), [("world.obstacles[0]", read_area([[4, 4], [6, 4], [6, 6], [4, 6]]))])
    with pytest.raises(ScenarioError, match=message):
        check_start(floor, np.array(places, float), np.array(radii), ["first", "second"])


def test_touching_places_are_free() -> None:
    floor = lay_floor(read_area(SQUARE))
    check_start(floor, np.array([[0.25, 5], [0.75, 5]]), np.array([0.25, 0.25]), ["first", "second"])
    with pytest.raises(ScenarioError, match="first and somebody: overlap"):
        check_start(floor, np.array([[1.0, 1]]), np.array([0.25]), ["first", "somebody"], (np.array([[1.2, 1]]), np.array([0.1])))


coordinate = st.integers(-60, 60).map(lambda number: number / 6)
ring = st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=9)


@settings(deadline=None, max_examples=120)
@given(outer=ring, holes=st.lists(ring, max_size=3), line=st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=4))
def test_any_polygon_gives_a_sound_floor_or_an_error_with_a_place(outer: list, holes: list, line: list) -> None:
    try:
        area = read_area({"outer": outer, "holes": holes}, "room")
        floor = lay_floor(area, lines=[np.array(line, float)])
    except ScenarioError as error:
        text = str(error)
        assert text.startswith("room")
        assert " at (" in text or "empty" in text or "zero" in text or "different points" in text
        return
    assert floor.area.is_valid
    assert floor.area.area > 0
    arrays = wall_arrays(floor.walls)
    walls, vertices = arrays["walls"], arrays["wall_vertices"]
    assert np.hypot(*(walls[:, 1] - walls[:, 0]).T).min() > 0
    assert len(np.unique(vertices, axis=0)) == len(vertices)
    lengths = np.hypot(arrays["wall_directions"][..., 0], arrays["wall_directions"][..., 1])
    assert np.all((np.abs(lengths - 1) < 1e-12) | (lengths == 0))
    assert (lengths > 0).sum() == 2 * len(walls)
    drawn = (
        floor.area.boundary if len(set(line)) == 1 else shapely.GeometryCollection([floor.area.boundary, shapely.LineString(line)])
    )
    assert shapely.hausdorff_distance(shapely.MultiLineString(list(walls)), drawn) < 1e-6
    middles = shapely.points(walls.mean(1))
    assert shapely.STRtree(shapely.linestrings(walls)).query(middles, "dwithin", distance=1e-9).shape[1] == len(walls)
    room = within(floor, floor.area, 0.2)
    if room.area > 0.1:
        points = sample_points(room, 3, KEY, "room")
        assert (floor.clearance(points) > 0.2 * (1 - 1e-3)).all()
