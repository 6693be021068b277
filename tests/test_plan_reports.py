"""The geometry report: whatever is odd about a plan is named with its place, its measure and the repair, or the plan is refused."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shapely.geometry import mapping

from crowdlab import cli, geometry_report
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Finding, lay_floor, read_area, read_plan, wall_arrays
from crowdlab.geometry.notes import Notes
from crowdlab.geometry.rings import SNAP
from crowdlab.scenario import GeometryReport, PlanWarning, build, load, shipped
from crowdlab.views import plan_html

ROOM = [[0, 0], [10, 0], [10, 10], [0, 10]]
UTM = (500_000.0, 5_600_000.0)


def found(report: GeometryReport, what: str) -> Finding:
    return next(finding for finding in report.findings if what in finding.what)


def moved(shape: Any, by: tuple[float, float]) -> Any:
    return [[x + by[0], y + by[1]] for x, y in shape]


ODD: list[tuple[str, dict[str, Any], str, str, tuple[float, float], float, str]] = [
    # what it is, plan, severity, words, place m, measure, repair
    ("repeated points", {"area": [*ROOM[:2], ROOM[1], *ROOM[1:]]}, "note", "repeated points", (10, 0), 2, "Taken once"),
    ("clockwise", {"area": ROOM[::-1]}, "note", "clockwise order", (0, 10), math.nan, "Turned round"),
    ("collinear", {"area": [[0, 0], [4, 0], *ROOM[1:]]}, "note", "points on a straight edge", (4, 0), 1, "one wall"),
    ("1 mm edge", {"area": [[0, 0.0005], [0.001, 0.0005], [0.001, 0], *ROOM[1:]]}, "note", "short", (0.001, 0.0005), 0.0005, "Kept"),
    ("spike", {"area": [*ROOM[:3], [5, 10], [5, 13], [5, 10], ROOM[3]]}, "warning", "spike", (5, 13), 3, "Taken out"),
    ("inward spike", {"area": [*ROOM[:3], [5, 10], [5, 7], [5, 10], ROOM[3]]}, "warning", "spike", (5, 7), 3, "under walls"),
    (
        "1 cm2 hole",
        {"area": {"outer": ROOM, "holes": [[[4, 4], [4, 4.01], [4.01, 4.01], [4.01, 4]]]}},
        *("note", "small hole", (4, 4), 1e-4, "Kept"),
    ),
    ("sliver", {"obstacles": [[[2, 2], [4, 2], [4, 2.0005]]]}, "warning", "sliver", (2, 2), 0.00025, "Is it meant"),
    ("same twice", {"obstacles": [[[2, 2], [4, 2], [4, 4]]] * 2}, "note", "the same as", (3.5, 3), 2, "Taken once"),
    (
        "one in another",
        {"obstacles": [[[2, 2], [4, 2], [4, 4]], [[3, 2.2], [3.5, 2.2], [3.5, 2.4]]]},
        *("note", "lies wholly in world.obstacles[0]", (3.375, 2.3), 0.05, "Taken once"),
    ),
    ("half outside", {"obstacles": [[[9, 2], [12, 2], [12, 4], [9, 4]]]}, "note", "reaches out", (11, 3), 4, "no effect"),
    ("near the outline", {"obstacles": [[[9, 2], [9.9996, 2], [9.9996, 4]]]}, "note", "a gap to the outline", (10, 4), 4e-4, "Closed"),
    (
        "near each other",
        {"obstacles": [[[2, 2], [4, 2], [4, 4]], [[4.0007, 2], [6, 2], [4.0007, 4]]]},
        *("note", "a gap to world.obstacles[0]", (4, 2), 7e-4, "Closed"),
    ),
    ("near halves", {"area": "MULTIPOLYGON (((0 0, 5 0, 5 9, 0 9, 0 0)), ((5.0005 0, 9 0, 9 9, 5.0005 9, 5.0005 0)))"},
     *("note", "a gap to world.area", (5, 0), 5e-4, "Closed")),
    ("wall short of a wall", {"walls": [[[5, 5], [5, 9.9998]]]}, "note", "a gap to the outline", (5, 10), 2e-4, "Closed"),
    ("no length", {"walls": [[[3, 4], [3, 4]]]}, "warning", "without length", (3, 4), 0, "Taken out"),
    ("wall outside", {"walls": [[[8, 5], [13, 5]]]}, "warning", "outside the area", (10, 5), 3, "Kept"),
    ("wall in a block", {"obstacles": [[[2, 2], [6, 2], [6, 4], [2, 4]]], "walls": [[[1, 3], [3, 3]]]},
     *("warning", "in an obstacle", (2, 3), 1, "Kept")),
    ("pillar near a wall", {"obstacles": [[[0.3, 4], [1, 4], [1, 5], [0.3, 5]]]}, "note", "gap too narrow", (0.15, 4), 0.3, "through"),
    ("door", {"walls": [[[0, 5], [4, 5]], [[4.45, 5], [10, 5]]]}, "note", "gap too narrow", (4.225, 5), 0.45, "Nobody gets through"),
    ("tip", {"walls": [[[0, 5], [9.7, 5]]]}, "note", "gap too narrow", (9.85, 5), 0.3, "obody gets through"),
    ("cut in two", {"walls": [[[0, 3], [10, 3]]]}, "warning", "cut off", (5, 1.5), 30, "obody gets there"),
    ("two halls", {"area": "MULTIPOLYGON (((0 0, 5 0, 5 9, 0 9, 0 0)), ((6 0, 9 0, 9 9, 6 9, 6 0)))"},
     *("warning", "cut off", (7.5, 4.5), 27, "obody gets there")),
    ("corridor of 0.4 m", {"area": [[0, 0], [10, 0], [10, 0.4], [0, 0.4]]}, "warning", "too narrow", (0.2, 0.2), 0.4, "nobody can stand"),
    ("heights", {"area": shapely.force_3d(shapely.Polygon(ROOM), 3)}, "note", "heights", (0, 0), math.nan, "Left out"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "severity", "words", "place", "amount", "repair"), [case[1:] for case in ODD], ids=[c[0] for c in ODD]
)
def test_what_is_odd_is_told_with_place_measure_and_repair(
    plan: dict[str, Any], severity: str, words: str, place: tuple[float, float], amount: float, repair: str
) -> None:
    report = geometry_report({"world": {"area": ROOM} | plan})
    finding = found(report, words)
    assert report.ok
    assert finding.severity == severity
    np.testing.assert_allclose(finding.place, place, atol=1.1e-3)
    np.testing.assert_allclose(finding.amount, amount, rtol=1e-3, atol=1e-7)
    assert repair.lower() in finding.repair.lower()
    assert str(finding) in str(report)


def test_a_sound_plan_has_nothing_to_tell() -> None:
    assert (
        geometry_report(ROOM, obstacles=[[[3, 3], [5, 3], [4, 5]], [[5, 3], [7, 3], [5, 5]]], walls=[[[0, 8], [6, 8]]]).findings
        == ()
    )
    assert all(geometry_report(name).findings == () for name in shipped())


@pytest.mark.parametrize("by", [(0.0, 0.0), UTM])
def test_a_bow_tie_is_refused_with_its_crossing_and_the_rest_is_told_too(by: tuple[float, float]) -> None:
    bow_tie = moved([[0, 0], [10, 10], [10, 0], [0, 10]], by)
    report = geometry_report(moved(ROOM, by), obstacles=[bow_tie, moved(ROOM[:2], by), moved([[1, 1], [2, 1], [2, 2]], by)])
    first, second = report.of("error")
    assert (first.item, second.item) == ("world.obstacles[0]", "world.obstacles[1]")
    assert math.dist(first.place, np.add(by, 5)) < 1e-6
    assert "crosses or touches itself" in first.what
    assert not report.ok
    assert report.area == ""
    assert "2 errors" in str(report)
    with pytest.raises(ScenarioError, match=r"world\.obstacles\[0\]: the outline crosses") as caught:
        build({"world": {"area": moved(ROOM, by), "obstacles": [bow_tie]}})
    assert caught.value.place == first.place


def test_exits_and_goals_belong_to_the_report() -> None:
    world = {"area": ROOM, "walls": [[[9, 4], [10, 4], [10, 7]]]}
    goals = {"door": {"line": [[10.0004, 5], [10.0004, 6]]}, "moon": {"point": [12, 5]}, "desk": {"point": [3, 3]}}
    report = geometry_report({"world": world, "goals": goals})
    assert found(report, "lies on the exit goals.door").amount == pytest.approx(1, abs=0.01)
    assert found(report, "off the outline").amount == pytest.approx(4e-4)
    (error,) = report.of("error")
    assert (error.item, error.place) == ("goals.moon", (12.0, 5.0))
    del goals["moon"]
    with pytest.warns(PlanWarning, match=r"room: world\.walls\[0\]: lies on the exit goals\.door"):
        scenario = build({"world": world, "goals": goals}, name="room")
    walls = np.asarray(scenario.world.walls)
    assert not ((walls[:, :, 0] == 10).all(1) & (abs(walls[:, :, 1].mean(1) - 5.5) < 0.4)).any()  # the exit is open


def test_nothing_is_taken_out_in_silence() -> None:
    for plan in ({"walls": [[[3, 4], [3, 4]]]}, {"area": [*ROOM[:3], [5, 10], [5, 13], [5, 10], ROOM[3]]}):
        with pytest.warns(PlanWarning, match=r"Taken out"):
            build({"world": {"area": ROOM} | plan})


def test_repairs_leave_the_walls_elsewhere_as_they_are() -> None:
    """Repeated and collinear points, a spike, a tiny edge and a tiny hole: the same walls but for these."""
    odd = [[0, 0], [0, 0], [4, 0], [10, 0], [10, 10], [5, 10], [5, 11], [5, 10], [0, 10], [0, 5.001], [0, 5]]
    plain, mended = (wall_arrays(lay_floor(read_area(ring)).walls) for ring in (ROOM, odd))
    for name, values in plain.items():
        np.testing.assert_array_equal(mended[name], values)
    holed = wall_arrays(lay_floor(read_area({"outer": odd, "holes": [[[4, 4], [4.01, 4], [4.01, 4.01], [4, 4.01]]]})).walls)
    np.testing.assert_array_equal([wall for wall in holed["walls"] if not (abs(wall - 4) < 0.1).all()], plain["walls"])


def test_a_closed_gap_leaves_one_wall() -> None:
    plan = read_plan(ROOM, [[[9, 2], [9.9996, 2], [9.9996, 4], [9, 4]]], [[[5, 5], [5, 9.9998]]])
    floor = lay_floor(plan.area, plan.obstacles, [line for _, line in plan.lines])
    assert set(wall_arrays(floor.walls)["wall_part"]) == {0}
    assert floor.area.area == pytest.approx(98, abs=1e-6)


def test_the_report_shows_itself_and_takes_every_source(tmp_path: Path) -> None:
    spec = {"world": {"area": ROOM, "walls": [[[0, 5], [9.7, 5]]]}, "groups": {"wide": {"positions": [[1, 1]], "radius": 0.14}}}
    assert not geometry_report(spec).findings  # 0.3 m are enough for these
    assert geometry_report(build(spec)).radius == 0.14
    report = geometry_report(spec, radius=0.2)
    assert "<td>note</td><td>world</td>" in report._repr_html_()
    assert repr(report).splitlines()[0] == "untitled: geometry ok, 0 errors, 1 warning, 1 note"
    for source in (shapely.Polygon(ROOM), mapping(shapely.Polygon(ROOM)), shapely.Polygon(ROOM).wkt, ROOM):
        assert geometry_report(source, walls=["LINESTRING (0 5, 9.7 5)"]).area == report.area
    (tmp_path / "room.wkt").write_text(shapely.Polygon(ROOM).wkt)
    assert not geometry_report(tmp_path / "room.wkt").findings
    with pytest.raises(ScenarioError, match="there is no scenario 'two_roms'"):
        geometry_report("two_roms")
    with pytest.raises(ScenarioError, match="radius = 0 m: allowed"):
        geometry_report(ROOM, radius=0)


@pytest.mark.parametrize("law", ["normal", "lognormal", "gamma", "weibull", "exponential", "uniform", "profile"])
def test_a_scenario_and_its_file_are_measured_for_the_same_bodies(law: str) -> None:
    """Stouter than all who are drawn, of whatever law, and not much."""
    numbers = {"normal": [0.2, 0.03], "lognormal": [-1.6, 0.15], "gamma": [40, 0.005], "weibull": [8, 0.2], "uniform": [0.1, 0.3]}
    bounds = {"exponential": {"least": 0.1, "most": 0.3}, "normal": {"most": 0.31}}
    radius = {law: numbers.get(law, 0.05), **bounds.get(law, {})}
    group = {"count": 200, "area": [[0, 0], [30, 0], [30, 30], [0, 30]], "radius": 0.2 if law == "profile" else radius}
    spec: dict[str, Any] = {"world": {"area": group["area"]}, "groups": {"all": group}}
    if law == "profile":
        group["profiles"] = {"stout": 0.1, "under_30": 0.9, "giant": 0.0}
        spec["profiles"] = {"stout": {"radius": {"uniform": [0.25, 0.3]}}, "giant": {"radius": 0.9}}
    scenario = build(spec)
    drawn = float(scenario.state.radius.max())
    assert geometry_report(spec).radius == geometry_report(scenario).radius
    assert drawn <= geometry_report(spec).radius < 1.3 * drawn


def test_a_shipped_scenario_is_measured_for_its_stoutest_profile() -> None:
    assert geometry_report("square").radius == geometry_report(load("square")).radius == 0.35


def test_a_group_that_is_wrong_hides_nothing_of_the_plan() -> None:
    spec = {"world": {"area": ROOM, "walls": [[[0, 5], [9.7, 5]]]}, "groups": {"no": {"radius": -1.0}, "wide": {"radius": 0.2}}}
    report = geometry_report(spec)
    assert report.radius == 0.2
    assert [finding.severity for finding in report.of("note")] == ["note"]
    assert "groups.no.radius = -1 m" in str(report)


def test_of_many_alike_the_report_prints_the_first(tmp_path: Path) -> None:
    report = geometry_report(ROOM, obstacles=[[[x, 1], [x, 2], [x + 0.3, 2]] for x in range(1, 9)])
    assert len(report.findings) == 8
    assert "note     and 3 more: points in clockwise order" in str(report)
    assert report._repr_html_().count("<tr>") == 9


@pytest.mark.parametrize("by", [(0.0, 0.0), UTM])
def test_validate_prints_and_draws(by: tuple[float, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, drawing = tmp_path / "hall.toml", tmp_path / "hall.html"
    file.write_text(f"[world]\narea = {moved(ROOM, by)}\nwalls = [{moved([[0, 5], [9.7, 5]], by)}]\n")
    assert cli.main(["validate", str(file), "--draw", str(drawing)]) == 0
    out = capsys.readouterr().out
    assert f"at ({by[0] + 9.85:.10g}, {by[1] + 5:.10g}) m, 0.3 m wide" in out
    page = drawing.read_text()
    assert "a gap too narrow for bodies" in page
    assert ("CustomJSTickFormatter" in page.rpartition("facts")[2] or '"origin"' in page) == (by == UTM)
    file.write_text(f"[world]\narea = {moved([ROOM[0], ROOM[2], ROOM[1], ROOM[3]], by)}\n")
    assert cli.main(["validate", str(file), "--draw", str(drawing)]) == 2
    streams = capsys.readouterr()
    assert "crosses or touches itself" in streams.err
    assert "error    world.area: the outline crosses" in streams.out
    assert "crosses or touches itself" in drawing.read_text()
    assert cli.main(["validate", str(file), str(file), "--draw", str(drawing)]) == 2
    assert "one scenario at a time" in capsys.readouterr().err


def test_a_drawing_shows_every_outline_and_finding(tmp_path: Path) -> None:
    report = geometry_report(
        moved(ROOM, UTM), obstacles=[moved([[1, 1], [2, 1], [2, 2]], UTM)], walls=[moved([[3, 3], [3, 3]], UTM)]
    )
    assert [item for item, _ in report.outlines] == ["world.area", "world.obstacles[0]"]
    assert plan_html(report, tmp_path / "plan.html").stat().st_size > 100_000
    assert report.origin == UTM


ROOMS = [[0, 0], [12, 0], [12, 8], [0, 8]]
SCREEN = {"area": ROOMS, "obstacles": [[[5, -1], [6, -1], [6, 9], [5, 9]]]}  # it cuts the area in two


def test_obstacles_that_cut_the_area_in_two_leave_parts_that_are_told_and_goals_that_are_refused() -> None:
    report = geometry_report({"world": SCREEN})
    assert found(report, "cut off").amount == pytest.approx(40)
    assert shapely.from_wkt(report.area).area == 88
    crowd = {"count": 3, "area": [[6, 0], [12, 0], [12, 8], [6, 8]], "goal": "door"}
    for line in ([[12, 2], [12, 4]], [[8, 1], [8, 7]]):
        build({"world": SCREEN, "goals": {"door": {"line": line}}, "groups": {"crowd": crowd}})
    with pytest.raises(ScenarioError, match=r"goals\.door: unreachable for radius 0\.25 m from groups\.crowd\.person\[0\] at \("):
        build({"world": SCREEN, "goals": {"door": {"line": [[0, 2], [0, 4]]}}, "groups": {"crowd": crowd}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"goals": {"door": {"line": [[12, 9], [14, 9]]}}}, r"goals\.door: lies outside the walkable area near \(12, 9\) m"),
        ({"goals": {"door": {"line": [[12, 2], [12, 2]]}}}, r"goals\.door\.line: has no length, at \(12, 2\) m"),
        ({"goals": {"door": {"polygon": []}}}, r"goals\.door\.polygon = \[\]: allowed"),
        ({"groups": {"crowd": {"count": 1, "area": [[13, 0], [15, 0], [15, 2]]}}}, r"groups\.crowd\.area: lies outside"),
        (
            {"groups": {"crowd": {"positions": [[5.5, 2]]}}},
            r"groups\.crowd\.positions\[0\] at \(5\.5, 2\) m: stands inside world\.obs",
        ),
        ({"groups": {"crowd": {"count": 1, "area": ROOMS, "goal": "dor"}}}, r"groups\.crowd\.goal = 'dor': there is no such goal"),
    ],
)
def test_what_lies_outside_or_nowhere_is_named_before_the_first_step(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build({"world": SCREEN} | changes)


coordinate = st.integers(-40, 40).map(lambda number: number / 4)
point = st.tuples(coordinate, coordinate)
speck = st.sampled_from([0.0, 1e-10, 1e-7, 4e-4, 5e-3])


@st.composite
def ring(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Points at random, some twice, some a hair beside the one before, some going back."""
    points = draw(st.lists(point, min_size=3, max_size=7))
    for _ in range(draw(st.integers(0, 2))):
        where, (dx, dy) = draw(st.integers(0, len(points) - 1)), (draw(speck), draw(speck))
        points.insert(where, (points[where][0] + dx, points[where][1] + dy))
    return points


plans = given(
    outer=st.one_of(ring(), st.just(moved(ROOM, (-5, -5)))),
    holes=st.lists(ring(), max_size=2),
    blocks=st.lists(ring(), max_size=3),
    walls=st.lists(st.lists(point, min_size=2, max_size=4), max_size=2),
    by=st.sampled_from([(0.0, 0.0), UTM, (433_211.87, -5_612_345.678)]),
)


@settings(deadline=None, max_examples=40)
@example(moved(ROOM, (-5, -5)), [], [[(0.0, 5.0004), (0.0, 5.0), (5.0, 0.0)]], [], (0.0, 0.0))
@plans
def test_any_plan_is_a_sound_world_or_an_error_with_its_place(
    outer: Any, holes: Any, blocks: Any, walls: Any, by: tuple[float, float]
) -> None:
    area = {"outer": moved(outer, by), "holes": [moved(hole, by) for hole in holes]}
    report = geometry_report(area, obstacles=[moved(block, by) for block in blocks], walls=[moved(wall, by) for wall in walls])
    for finding in report.of("error"):
        assert re.match(r"world\.(area|obstacles|walls)", finding.item)
        assert "is empty" in finding.what or np.abs(np.subtract(finding.place, by)).max() <= 12
    for finding in report.findings:
        assert np.abs(np.subtract(finding.place, by)).max(initial=0, where=~np.isnan(finding.place)) <= 12
    if report.ok:
        ground = shapely.from_wkt(report.area)
        assert ground.is_valid
        assert ground.area > 0
        again = geometry_report(report.area)
        closed = any(finding.repair.startswith("Closed") for finding in again.findings)  # an obstacle as thin as a gap is one there
        assert not closed or any(finding.what.startswith(("a sliver", "a gap")) for finding in report.of("warning"))
        bound = SNAP * ground.length if closed else 1e-5
        assert shapely.from_wkt(again.area).symmetric_difference(ground).area < bound
    assert report._repr_html_().count("<tr>") in (0, len(report.findings) + 1)


@pytest.mark.filterwarnings("ignore::crowdlab.scenario.PlanWarning")
@settings(deadline=None, max_examples=60, derandomize=True)
@plans
def test_any_plan_has_ways_for_everybody_or_is_refused_with_its_place(
    outer: Any, holes: Any, blocks: Any, walls: Any, by: tuple[float, float]
) -> None:
    area = {"outer": moved(outer, by), "holes": [moved(hole, by) for hole in holes]}
    world = {"area": area, "obstacles": [moved(block, by) for block in blocks], "walls": [moved(wall, by) for wall in walls]}
    report = geometry_report({"world": world})
    ground = shapely.from_wkt(report.area) if report.ok else shapely.box(*by, by[0] + 1, by[1] + 1)
    spot = ground.representative_point().coords[0]
    people = {"crowd": {"count": 3, "area": shapely.to_wkt(ground, rounding_precision=-1), "goal": "spot"}}
    scenario, refusal = None, ""
    try:
        scenario = build({"world": world, "goals": {"spot": {"point": spot}}, "groups": people})
    except ScenarioError as error:
        refusal = str(error)
    if scenario is None:
        assert re.match("goals.spot|groups.crowd" if report.ok else "world", refusal), "what the report takes is taken"
        assert not report.ok or re.search(" (at|near) \\(|holds about", refusal)
        return
    assert report.ok
    places = scenario.on_map(np.asarray(scenario.state.position, float).T)
    assert shapely.contains_xy(ground, places).all()
    heading = np.asarray(scenario.state.heading)
    np.testing.assert_allclose(np.hypot(*heading), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("journey", "item", "what"),
    [
        (["nowhere"], "journeys.way.stages[0]", "there is no goal 'nowhere'"),
        ([{"goal": "a", "weights": [1]}], "journeys.way.stages[0].weights", "belongs to 'choose'"),
        ([{"choose": ["a"], "by": "quickest"}], "journeys.way.stages[0].by", "'quickest': goal 'a' is no line"),
    ],
)
def test_a_mistake_in_a_journey_is_filed_under_its_own_path(journey: list[Any], item: str, what: str) -> None:
    spec = {"world": {"area": ROOM}, "goals": {"a": {"point": [5, 5]}}, "journeys": {"way": {"stages": journey}}}
    finding = found(geometry_report(spec), what)
    assert (finding.severity, finding.item) == ("error", item)
    assert finding.what.startswith(what)


@pytest.mark.parametrize(
    ("message", "item", "what", "repair"),
    [
        ("goals.a: lies outside. Move it.", "goals.a", "lies outside", "Move it."),
        ("goals.a.then = 'leave': too small. Give a line.", "goals.a", "goals.a.then = 'leave': too small", "Give a line."),
        ("goals.a = 3: is no table", "goals.a", "goals.a = 3: is no table", ""),
        ("goals.ab: lies outside. Move it.", "goals.ab", "lies outside", "Move it."),
        ("journeys.way = []: has no stage", "journeys.way", "[]: has no stage", ""),
        ("nothing is known of it. Say more: what it is.", "goals.a", "nothing is known of it", "Say more: what it is."),
        ("", "goals.a", "", ""),
    ],
)
def test_a_report_never_fails_at_a_mistake_and_files_it_under_its_path(message: str, item: str, what: str, repair: str) -> None:
    notes = Notes(collects=True)
    with notes.attempt("goals.a"):
        raise ScenarioError(message)
    (finding,) = notes.findings
    assert (finding.item, finding.what, finding.repair) == (item, what, repair)
    with pytest.raises(ScenarioError), Notes().attempt("goals.a"):
        raise ScenarioError(message)


@pytest.mark.parametrize("radius", ["x", [0.2, 0.3], {}, math.nan, -1.0])
def test_a_report_is_for_one_radius(radius: Any) -> None:
    with pytest.raises(ScenarioError, match=r"^radius = .*: allowed is "):
        geometry_report([[0, 0], [9, 0], [9, 9]], radius=radius)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_report_says_that_a_name_is_missing(name: str) -> None:
    with pytest.raises(ScenarioError, match=r"the name of a scenario is missing\. Give the path"):
        geometry_report(name)
