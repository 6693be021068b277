"""Plans as planners bring them: every form in and out again, coordinates far from (0, 0), and what is found before anybody walks."""

import copy
import functools
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from shapely.geometry import mapping

from crowdlab import guards, simulation
from crowdlab.commands import Command, Kind
from crowdlab.errors import ScenarioError
from crowdlab.measures import not_arrived
from crowdlab.record import Recorder, Recording, verify
from crowdlab.report import described
from crowdlab.scenario import Scenario, build, load
from crowdlab.state import Health

ROOM = [[0, 0], [10, 0], [10, 10], [0, 10]]
PILLAR = [[4, 4], [5, 4], [5, 5.5], [4, 5.5]]
SCREEN = [[2, 7], [3.1, 8.2], [6, 8.2]]
SPEC: dict[str, Any] = {
    "seed": 5,
    "world": {"area": ROOM, "obstacles": [PILLAR], "walls": [SCREEN]},
    "goals": {"door": {"line": [[10, 2], [10, 4.3]]}, "desk": {"point": [1.2, 9.1]}},
    "groups": {
        "crowd": {"count": 5, "area": [[0, 0], [4, 0], [4, 4], [0, 4]], "goal": "door"},
        "guests": {"count": 2, "gaussian": {"centre": [7, 6], "deviation": 0.8}},
        "clerk": {"positions": [[8.1, 8.7]], "goal": "desk"},
    },
}
PLACED = {"area", "obstacles", "walls", "line", "point", "positions", "goal_area", "centre"}  # keys that hold coordinates


def shifted(spec: Any, by: tuple[float, float], key: str = "") -> Any:
    """The same tables with every coordinate moved."""
    if isinstance(spec, dict):
        return {name: shifted(value, by, name) for name, value in spec.items()}
    if key in PLACED and isinstance(spec, list):
        if spec and not isinstance(spec[0], list):
            return [spec[0] + by[0], spec[1] + by[1]]
        return [shifted(item, by, key) for item in spec]
    return spec


def changed(path: str, value: Any) -> dict[str, Any]:
    """SPEC with one entry changed."""
    spec = copy.deepcopy(SPEC)
    *tables, key = path.split(".")
    table = spec
    for name in tables:
        table = table[name]
    table[key] = value
    return spec


@functools.cache
def plain() -> Scenario:
    return build(SPEC)


def same_bits(one: Any, other: Any) -> None:
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def feature(shape: shapely.Geometry, **properties: str) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": mapping(shape)}


AREA, BLOCK, LINE = shapely.Polygon(ROOM), shapely.Polygon(PILLAR), shapely.LineString(SCREEN)
HALVES = [shapely.box(0, 0, 10, 5), shapely.box(0, 5, 10, 10)]
WORLDS: dict[str, dict[str, Any]] = {
    "shapely": {"area": AREA, "obstacles": [BLOCK], "walls": [LINE]},
    "WKT": {"area": AREA.wkt, "obstacles": [BLOCK.wkt], "walls": [LINE.wkt]},
    "GeoJSON geometries": {"area": mapping(AREA), "obstacles": [mapping(BLOCK)], "walls": [mapping(LINE)]},
    "GeoJSON features": {"area": feature(AREA), "obstacles": [feature(BLOCK)], "walls": [feature(LINE)]},
    "GeoJSON collections": {
        name: {"type": "FeatureCollection", "features": [feature(shape)]}
        for name, shape in (("area", AREA), ("obstacles", BLOCK), ("walls", LINE))
    },
    "GeoJSON text": {
        "area": json.dumps(mapping(AREA)),
        "obstacles": json.dumps(mapping(BLOCK)),
        "walls": json.dumps(mapping(LINE)),
    },
    "many in one": {
        "area": shapely.MultiPolygon(HALVES),
        "obstacles": shapely.MultiPolygon([BLOCK]),
        "walls": shapely.MultiLineString([LINE.coords[:2], LINE.coords[1:]]),
    },
    "one collection": {
        "type": "FeatureCollection",
        "features": [feature(AREA, crowdlab="area"), feature(BLOCK, crowdlab="obstacle"), feature(LINE, crowdlab="wall")],
    },
    "with heights": {"area": shapely.force_3d(AREA, 2.0), "obstacles": [PILLAR], "walls": [shapely.force_3d(LINE).wkt]},
}


@pytest.mark.parametrize("form", WORLDS)
def test_every_form_of_a_plan_builds_the_same_world(form: str) -> None:
    scenario = build(SPEC | {"world": WORLDS[form]})
    assert scenario.area == plain().area
    same_bits((scenario.world, scenario.state), (plain().world, plain().state))
    assert build(json.loads(json.dumps(scenario.source))).area == plain().area
    assert any(finding.what == "heights" for finding in scenario.findings) == (form == "with heights")


def test_a_plan_goes_out_and_comes_in_again() -> None:
    far = build(shifted(SPEC, (500_000, 5_600_000)))
    for scenario in (plain(), far):
        again = build(SPEC | {"world": scenario.geojson(), "goals": scenario.source["goals"], "groups": scenario.source["groups"]})
        assert shapely.from_wkt(again.area).equals(shapely.from_wkt(scenario.area))
        assert again.geojson() == scenario.geojson()
        same_bits(again.world, scenario.world)
    assert shapely.from_wkt(far.area).bounds == (500_000, 5_600_000, 500_010, 5_600_010)


def test_a_scenario_takes_its_plan_from_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "hall.geojson").write_text(json.dumps(feature(AREA)))
    (tmp_path / "pillar.wkt").write_text(BLOCK.wkt + "\n")
    file = tmp_path / "hall.toml"
    file.write_text("[world]\narea = 'hall.geojson'\nobstacles = ['pillar.wkt']\n")
    scenario = load(file)
    assert shapely.from_wkt(scenario.area).area == 98.5
    (tmp_path / "hall.geojson").unlink()
    assert build(scenario.source).area == scenario.area  # it holds all that it was made of
    with pytest.raises(ScenarioError, match=r"world\.area = 'hall\.geojson': cannot be read \(.*No such file"):
        load(file)
    (tmp_path / "hall.geojson").write_text("{")
    with pytest.raises(ScenarioError, match=r"world\.area: unreadable GeoJSON"):
        load(file)
    (tmp_path / "all.geojson").write_text(json.dumps(plain().geojson()))
    assert build({"world": tmp_path / "all.geojson"}).area == plain().area


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ({"area": {"type": "Polygone", "coordinates": []}}, r"world\.area: unreadable GeoJSON"),
        ({"area": mapping(LINE)}, r"world\.area: LineString has no area"),
        ({"area": ROOM, "walls": [AREA]}, r"world\.walls\[0\]: Polygon is no line\. .*under obstacles"),
        ({"area": ROOM, "walls": "LINESTRING (0 0, x)"}, r"world\.walls: unreadable WKT"),
        ({"type": "FeatureCollection", "features": [feature(AREA, crowdlab="aera")]}, r"crowdlab = 'aera': .*Did you mean 'area'"),
        ({"area": {"type": "FeatureCollection", "features": []}}, r"world\.area: is empty"),
        ({"area": "CURVEPOLYGON (CIRCULARSTRING (0 0, 4 0, 4 4, 0 4, 0 0))"}, r"world\.area: unreadable WKT .*with straight edges"),
        ({"type": "FeatureCollection", "features": [{**feature(AREA), "properties": ["x"]}]}, r"features\[0\].*crowdlab = None"),
        ({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": None}]}, r"features\[0\]: has no geometry"),
        ({"area": {**mapping(AREA), "crs": {"properties": {"name": "EPSG:4326"}}}}, r"world\.area\.crs = .*in degrees"),
    ],
)
def test_what_is_no_plan_is_refused_by_its_key(world: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build({"world": world})


FAR = [(500_000, 5_600_000), (2_000, 1_000), (-123, 457), (1e6 + 7, 3)]


@pytest.mark.parametrize("by", FAR)
def test_a_plan_far_away_is_the_same_plan_to_the_last_bit(by: tuple[float, float]) -> None:
    near, far = plain(), build(shifted(SPEC, by))
    assert near.origin == (0, 0)
    assert far.origin == by
    same_bits((far.world, far.state, far.params), (near.world, near.state, near.params))
    assert (far.world.lower, far.world.size) == (near.world.lower, near.world.size)
    np.testing.assert_allclose(far.on_map(far.state.position.T) - by, near.state.position.T, atol=1e-6)


def test_in_double_precision_too() -> None:
    with jax.enable_x64(True):
        near, far = build(SPEC), build(shifted(SPEC, (4e5, 5.5e6)))
    assert near.state.position.dtype == np.float64
    same_bits((far.world, far.state), (near.world, near.state))


@pytest.mark.parametrize("by", [(500_000.25, 5_600_000.5), (433_211.87, 5_612_345.678)])
def test_odd_offsets_lose_nothing_that_single_precision_holds(by: tuple[float, float]) -> None:
    near, far = plain(), build(shifted(SPEC, by))
    np.testing.assert_allclose(far.on_map(far.state.position.T) - by, near.state.position.T, atol=4e-6)


def test_doors_far_away_stand_in_the_same_places() -> None:
    spec = {"world": {"area": ROOM, "walls": [[[0, 6.3], [4.1, 6.3]], [[5.7, 6.3], [10, 6.3]]]}}
    spec["doors"] = {"gate": {"line": [[4.1, 6.3], [5.7, 6.3]], "opens": [3.0], "closes": [0.0]}}
    near, far = build(spec), build(shifted(spec, FAR[0]))
    assert near.doors is not None
    assert far.doors is not None
    same_bits((far.doors.lines, far.doors.shut, far.world), (near.doors.lines, near.doors.shut, near.world))


def test_an_origin_may_be_given() -> None:
    spec = shifted(SPEC, (-700, 300))
    given = build(spec | {"world": spec["world"] | {"origin": [-700, 300]}})
    same_bits(given.world, plain().world)
    assert build(shifted(SPEC, (-5, -3))).origin == (0, 0)  # near enough


def pushed(scenario: Scenario, by: tuple[float, float]) -> simulation.Run:
    """A run with an order for a part of the plan."""
    zone = (by[0] + 7, by[1] + 7, by[0] + 9, by[1] + 10)
    order = Command(step=20, kind=Kind.PUSH, value=(-0.5, 0.0), zone=zone)
    return simulation.simulate(scenario, None, jax.random.key(3), 60, every=20, commands=[order])


@pytest.fixture(scope="module")
def run() -> simulation.Run:
    return pushed(plain(), (0, 0))


@pytest.mark.parametrize("by", [*FAR, (4e5, 5.5e6)])
def test_a_run_far_away_has_the_same_bits(by: tuple[float, float], run: simulation.Run) -> None:
    far = build(shifted(SPEC, by))
    other = pushed(far, by)
    same_bits(run, other)
    assert float(run.frames.velocity[1, 7, 0]) < -0.3  # the order hit the clerk
    np.testing.assert_allclose(far.on_map(other.frames.position) - by, run.frames.position, atol=1e-6)


def test_at_any_offset_a_run_is_the_same_to_a_micrometre_in_double_and_to_a_millimetre_in_single(run: simulation.Run) -> None:
    by = (433_211.87, 5_612_345.678)
    far = build(shifted(SPEC, by))
    np.testing.assert_allclose(far.on_map(pushed(far, by).frames.position) - by, run.frames.position, atol=1e-3)
    with jax.enable_x64(True):
        near, far = build(SPEC), build(shifted(SPEC, by))
        np.testing.assert_allclose(
            far.on_map(pushed(far, by).frames.position) - by, pushed(near, (0, 0)).frames.position, atol=1e-6
        )


@pytest.mark.bits
def test_all_that_is_told_is_in_the_coordinates_of_the_plan(tmp_path: Path) -> None:
    x, y = FAR[0]
    far = build(shifted(SPEC, FAR[0]), name="far")
    assert "within x 500000 to 500010 m, y 5600000 to 5600010 m" in "\n".join(described(far))
    with Recorder(tmp_path / "far.sqlite", far, seed=3, every=20) as recorder:
        zone = (x + 7, y + 7, x + 9, y + 10)
        list(recorder.run(60, chunk=60, commands=[Command(step=20, kind=Kind.PUSH, value=(-0.5, 0.0), zone=zone)]))
    recording = Recording.open(tmp_path / "far.sqlite")
    assert recording.origin == far.origin == recording.scenario.origin
    assert recording.orders[0].zone == zone
    np.testing.assert_array_equal(recording.positions, far.on_map(recording.frames.position))
    assert (recording.positions > FAR[0]).all()
    assert verify(recording).same
    with closing(sqlite3.connect(tmp_path / "far.sqlite")) as connection:
        least = connection.execute("SELECT min(pos_x), min(pos_y) FROM trajectory_data").fetchone()
        wkt = connection.execute("SELECT wkt FROM geometry").fetchone()[0]
        box = dict(connection.execute("SELECT key, value FROM metadata"))
    np.testing.assert_array_equal(least, recording.positions.min((0, 1)))
    assert shapely.from_wkt(wkt).bounds == (x, y, x + 10, y + 10)
    assert float(box["ymax"]) == y + 10
    assert not_arrived(recording)[7].position[1] == pytest.approx(y + 8.7, abs=0.3)


@pytest.mark.parametrize(
    ("path", "value", "message", "place"),
    [
        ("world.area", [[0, 0], [10, 10], [10, 0], [0, 10]], r"at \(500005, 5600005\) m", (5, 5)),
        ("goals.desk.point", [12, 5], r"near \(500012, 5600005\) m, 2 m away", (12, 5)),
        ("goals.desk.point", [4.5, 5], r"lies in world\.obstacles\[0\]", (4.5, 5)),
        ("groups.clerk.positions", [[9.9, 8.7]], r"\(500009\.9, 5600008\.7\) m: its centre is 0\.1 m from a wall", None),
        ("groups.crowd.area", [[0, 0], [1, 1], [2, 2]], r"starting at \(500000, 5600000\) m", (0, 0)),
        (
            "groups.guests.gaussian",
            {"centre": [7, 6], "deviation": 1e-3},
            r"0\.001 m or so from \(500007, 5600006\) m, count = 2",
            None,
        ),
        ("groups.guests.gaussian", {"centre": [-7, 6], "deviation": 1}, r"centre: \(499993, 5600006\) m lies outside", (-7, 6)),
        ("world.obstacles", [[[20, 20], [21, 20], [21, 21]]], "lies outside the area", (20.5, 20.5)),
    ],
)
def test_errors_name_places_of_the_plan(path: str, value: Any, message: str, place: Any) -> None:
    spec = shifted(changed(path, value), FAR[0])
    spec["groups"]["crowd"]["area"] = (
        shifted(value, FAR[0], "area") if path == "groups.crowd.area" else spec["groups"]["crowd"]["area"]
    )
    with pytest.raises(ScenarioError, match=message) as caught:
        build(spec)
    if place:
        assert math.dist(caught.value.place, np.add(place, FAR[0])) < 1


def test_a_broken_run_names_the_place_of_the_plan() -> None:
    far = build(shifted(SPEC, FAR[0]))
    health = Health.good().with_(
        first_bad_step=jnp.int32(7), bad_agent=jnp.int32(7), bad_reason=jnp.int32(guards.WALL), bad_place=far.state.position[:, 7]
    )
    error = guards.broken("far", jax.device_get(health), far.state, far.params, far.world, None, far.origin)
    assert "at (500008.10, 5600008.70) m" in str(error)
    np.testing.assert_allclose(error.place, (500_008.1, 5_600_008.7), atol=1e-5)


@pytest.mark.parametrize("far", [1.1e7, -1e20, 1e300])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("world.area", lambda far: [[0, 0], [far, 0], [5, 5]]),
        ("world.obstacles", lambda far: [[[1, 1], [far, 1], [5, 5]]]),
        ("world.walls", lambda far: [[[1, 5], [far, 5]]]),
        ("world.walls", lambda far: [f"LINESTRING (1 1, {far} 5)"]),
        ("world.origin", lambda far: [far, 0]),
        ("goals.door.line", lambda far: [[10, 2], [10, far]]),
        ("goals.desk.point", lambda far: [far, 3]),
        ("groups.clerk.positions", lambda far: [[far, 3]]),
        ("doors", lambda far: {"gate": {"line": [[5, 0], [5, far]], "closes": [1.0]}}),
    ],
)
def test_coordinates_beyond_any_map_are_refused(path: str, value: Any, far: float) -> None:
    with pytest.raises(
        ScenarioError, match=rf"^{path}.*: a corner at 1.* m: allowed are coordinates up to 1e\+07 m\. Is the unit metres"
    ):
        build(changed(path, value(far)))
