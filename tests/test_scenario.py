"""Scenario files: what is read, what is built, what is refused and with which words."""

import copy
import functools
import hashlib
import inspect
import json
import math
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import shapely

from crowdlab import params as parameters
from crowdlab.errors import CrowdlabError, ParamError, ScenarioError
from crowdlab.forces import FORCES
from crowdlab.integrate import MOTIONS
from crowdlab.scenario import build, load, schema, shipped, variant
from crowdlab.scenario.building import _share

ROOM = [[0, 0], [10, 0], [10, 10], [0, 10]]
SPEC: dict[str, Any] = {
    "title": "A room",
    "seed": 3,
    "duration": 20.0,
    "frames_per_second": 4.0,
    "world": {"area": ROOM},
    "goals": {"door": {"line": [[9, 2], [9, 8]]}, "chair": {"point": [2, 2]}},
    "groups": {
        "left": {"count": 4, "area": [[0, 0], [4, 0], [4, 10], [0, 10]], "goal": "door"},
        "one": {"positions": [[6, 6]], "goal": "chair"},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """SPEC with one entry changed; `...` takes it out."""
    spec = copy.deepcopy(SPEC)
    *tables, key = path.split(".")
    table = spec
    for name in tables:
        table = table.setdefault(name, {})
    if value is ...:
        del table[key]
    else:
        table[key] = value
    return spec


def test_a_scenario_is_ready_to_run() -> None:
    scenario = build(SPEC, name="room")
    assert (scenario.name, scenario.title, scenario.seed) == ("room", "A room", 3)
    assert (scenario.duration, scenario.frames_per_second) == (20.0, 4.0)
    assert scenario.groups == ("left", "one")
    assert scenario.goals == ("door", "chair")
    assert scenario.world.goal_leaves.tolist() == [True, False]
    assert scenario.world.lower == (-1.0, -1.0)
    assert scenario.world.size == (12.0, 12.0)
    assert shapely.from_wkt(scenario.area).area == 100
    assert sorted(scenario.params.forces) == ["contact", "driving", "repulsion", "wall_contact", "wall_repulsion"]
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(scenario.params))
    parameters.check(scenario.params)
    assert hash(scenario) != hash(build(SPEC))
    assert json.loads(json.dumps(scenario.source)) == scenario.source


def test_title_defaults_to_the_name() -> None:
    assert build(changed("title", ...), name="room").title == "room"


def test_every_world_array_has_its_shape() -> None:
    world = build(changed("world.obstacles", [[[4, 4], [6, 4], [5, 6]]])).world
    segments, vertices = len(world.walls), len(world.wall_vertices)
    assert world.walls.shape == (7, 2, 2)
    assert world.wall_directions.shape == (vertices, 2, 2)
    assert world.wall_part.shape == (segments + vertices,)
    assert world.goals.shape == (2, 1, 2, 2)
    assert world.goal_reach.shape == (2,)
    rows, columns = world.ways.shape[2:]
    assert (columns - 1) * float(world.ways_cell) >= world.size[0] - 1e-5
    assert (rows - 1) * float(world.ways_cell) >= world.size[1] - 1e-5
    assert np.isfinite(world.ways).all()
    length = np.hypot(world.ways[:, 0], world.ways[:, 1])
    assert ((abs(length - 1) < 1e-5) | (length < 1e-6)).all()


FORMS = {
    "Polygon": shapely.Polygon(ROOM),
    "array": np.array(ROOM),
    "jax": jax.numpy.asarray(ROOM),
    "WKT": shapely.Polygon(ROOM[::-1]).wkt,
    "tuples": tuple(map(tuple, ROOM)),
    "rings": {"outer": ROOM, "holes": []},
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_an_area_builds_the_same_scenario(form: str) -> None:
    scenario, plain = build(changed("world.area", FORMS[form])), build(SPEC)
    assert scenario.area == plain.area
    pair = [jax.tree.leaves((made.world, made.state)) for made in (scenario, plain)]
    for one, other in zip(*pair, strict=True):
        np.testing.assert_array_equal(one, other)
    json.dumps(scenario.source)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("world", ..., r"the scenario: key 'world' is missing\. Allowed: table with the key area"),
        ("wrold", {}, r"the scenario: unknown key 'wrold'\. Did you mean 'world'\?"),
        ("world.area", ..., r"world: key 'area' is missing"),
        ("world", [1], r"world = \[1\]: allowed is a table"),
        ("groups", [], r"groups = \[\]: allowed: one table for each group"),
        ("groups.left", 3, r"groups\.left = 3: allowed is a table"),
        ("groups.left.cuont", 3, r"groups\.left: unknown key 'cuont'\. Did you mean 'count'\?"),
        ("groups.left.count", "many", r"groups\.left\.count = 'many': expected `int \| null`, got `str`\. Allowed: whole number"),
        ("groups.left.count", -1, r"groups\.left\.count = -1: expected `int` >= 0"),
        ("groups.left.count", 2.5, r"groups\.left\.count = 2\.5"),
        ("groups.left.count", True, r"groups\.left\.count = True"),
        (
            "groups.left.desired_speed",
            {"unifrom": [1, 2]},
            r"groups\.left\.desired_speed: unknown key 'unifrom'\. Did you mean 'uniform'\?",
        ),
        ("groups.left.desired_speed", {"uniform": [1]}, r"groups\.left\.desired_speed\.uniform = \[1\]: .* length 2"),
        ("groups.left.desired_speed", "fast", r"groups\.left\.desired_speed = 'fast': .*Allowed: m/s: number"),
        ("groups.left.goal", "doro", r"groups\.left\.goal = 'doro': there is no such goal\. Did you mean 'door'\?"),
        ("groups.one.positions", [[6, 6, 6]], r"groups\.one\.positions = .* at positions\[0\]"),
        ("goals.door.lien", [], r"goals\.door: unknown key 'lien'\. Did you mean 'line'\?"),
        ("goals.door.then", "sit", r"goals\.door\.then = 'sit': .*Allowed: 'leave'"),
        ("goals.door.then", "next", r"goals\.door\.then = 'next': no journey goes on from there\. Allowed are 'leave' and 'stand'"),
        ("goals.chair.then", "next", r"goals\.chair\.then = 'next': no journey goes on"),
        ("goals.door.reach", 0, r"goals\.door\.reach = 0: expected `float` > 0\.0"),
        ("goals.door.point", [3, 3], r"goals\.door: give exactly one of line, point and polygon"),
        ("goals.chair.then", "leave", r"goals\.chair\.then = 'leave': a point is too small to walk through"),
        ("goals.chair.point", [30, 3], r"goals\.chair: lies outside the walkable area near \(30, 3\) m, 20 m away"),
        ("goals.door.line", [[9, 2], [9, 12]], r"goals\.door: .*with 2 m of 10 m outside"),
        ("goals.door", {}, r"goals\.door: give exactly one"),
        ("goals.door", {"polygon": []}, r"goals\.door\.polygon = \[\]: allowed is a list of points"),
        ("world.area", [[0, 0], [10, 10], [10, 0], [0, 10]], r"world\.area: the outline crosses or touches itself at \(5, 5\) m"),
        ("world.area", 7, r"world\.area = 7: .*Allowed: ring of points"),
        ("world.area", [[0, 0], [1, "x"], [2, 2]], r"world\.area = .* at area\[1\]\[1\]"),
        ("world.obstacles", [[[20, 0], [21, 0], [21, 1]]], r"world\.obstacles\[0\]: lies outside the area"),
        ("world.walls", [[[0, 0]]], r"world\.walls\[0\]: has 1 points"),
        ("seed", -1, r"seed = -1: .*Allowed: whole number from 0"),
        ("seed", 2**32, r"seed = 4294967296"),
        ("duration", 0, r"duration = 0: .*> 0"),
        ("duration", float("inf"), r"duration = inf: allowed: number above 0 in s"),
        ("duration", float("nan"), r"duration = nan"),
        ("frames_per_second", "x", r"frames_per_second = 'x'"),
        ("forces.repulsoin", {}, r"forces\.repulsoin: unknown force 'repulsoin'\. Did you mean 'repulsion'\?"),
        ("forces.mine", {"kind": "drivign"}, r"forces\.mine\.kind = 'drivign': unknown force\. Did you mean 'driving'\?"),
        ("forces.repulsion", {"strenght": 1}, r"forces\.repulsion: unknown parameter 'strenght'\. Did you mean 'strength'\?"),
        ("forces.repulsion", {"on": "no"}, r"forces\.repulsion\.on = 'no': allowed are true and false"),
        ("forces.repulsion", {"strength": [1.0, 2.0]}, r"forces\.repulsion\.strength: has 2 values for 5 people"),
        ("forces.repulsion", {"strength": True}, r"forces\.repulsion\.strength = True: allowed are numbers in N"),
        ("forces.repulsion", {"strength": "much"}, r"forces\.repulsion\.strength = 'much': allowed are numbers in N"),
        ("motion", {"dt": "0.002"}, r"motion\.dt = '0.002': allowed are numbers in s"),
        ("forces", 3, r"forces = 3"),
        ("motion", {"noice": 1}, r"motion: unknown parameter 'noice'\. Did you mean 'noise'\?"),
        ("motion", {"kind": "flying"}, r"motion\.kind = 'flying': unknown motion\. Did you mean 'walking'"),
    ],
)
def test_mistakes_are_named_with_path_value_and_cure(path: str, value: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("forces.repulsion", {"strength": -1}, r"forces\.repulsion\.strength = -1 N: allowed 0"),
        ("motion", {"dt": 0}, r"motion\.dt = 0 s: allowed 1e-06"),
        ("motion", {"dt": float("nan")}, r"motion\.dt = nan s"),
        ("groups.left.radius", 0, r"groups\.left\.radius = 0 m: allowed 0\.01"),
        ("groups.left.mass", {"uniform": [-5, -4]}, r"groups\.left\.mass = -4\.\d+ kg"),
    ],
)
def test_values_outside_the_law_are_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(ParamError, match=message):
        build(changed(path, value))


def test_only_listed_forces_act_and_zero_is_zero() -> None:
    spec = SPEC | {"forces": {"driving": {}, "repulsion": {"strength": 0}, "wall_repulsion": {"on": False, "falloff": 0.02}}}
    made = build(spec).params
    assert sorted(made.forces) == ["driving", "repulsion", "wall_repulsion"]
    assert float(made.forces["repulsion"].strength) == 0
    assert {name: float(on) for name, on in made.switches.items()} == {"driving": 1, "repulsion": 1, "wall_repulsion": 0}
    assert float(made.forces["wall_repulsion"].falloff) == pytest.approx(0.02)
    assert build(SPEC | {"forces": {}}).params.forces == {}


@pytest.mark.parametrize(("tau", "shown"), [(0.7, r"0\.7"), ({"uniform": [0.6, 0.9]}, r"\{'uniform': \[0\.6, 0\.9\]\}")])
def test_a_relaxation_time_without_a_driving_force_is_refused(tau: Any, shown: str) -> None:
    spec = changed("groups.left.relaxation_time", tau)
    with pytest.raises(
        ScenarioError,
        match=rf"groups\.left\.relaxation_time = {shown} \(s\): the scenario has no driving force .*\(forces: repulsion\)\. "
        r"Allowed is one of kind 'driving'\. Add \[forces\.driving\]",
    ):
        build(spec | {"forces": {"repulsion": {}}})
    build(spec | {"forces": {"mine": {"kind": "driving"}}})
    build(spec)  # the usual forces drive


def test_a_force_may_stand_twice_under_other_names() -> None:
    spec = SPEC | {"forces": {"driving": {}, "near": {"kind": "repulsion"}, "far": {"kind": "repulsion", "falloff": 0.5}}}
    made = build(spec).params
    assert type(made.forces["far"]) is FORCES["repulsion"]
    assert float(made.forces["far"].falloff) == 0.5


def test_parameters_may_differ_from_person_to_person() -> None:
    made = build(SPEC | {"forces": {"repulsion": {"strength": [1, 2, 3, 4, 5]}}, "motion": {"dt": 0.002, "noise": 0.1}}).params
    assert made.forces["repulsion"].strength.tolist() == [1, 2, 3, 4, 5]
    assert float(made.motion.dt) == pytest.approx(0.002)


@pytest.mark.parametrize("kind", sorted(MOTIONS))
def test_a_motion_is_chosen_by_its_name(kind: str) -> None:
    assert type(build(SPEC | {"motion": {"kind": kind}}).params.motion) is MOTIONS[kind]


def test_variants_are_built_anew() -> None:
    scenario = build(SPEC, name="room")
    more = variant(scenario, {"groups.left.count": 7, "motion.noise": 0.2, "world.obstacles": [[[4.5, 1], [5, 1], [5, 2]]]})
    assert more.name == "room"
    assert more.state.id.shape == (8,)
    assert float(more.params.motion.noise) == pytest.approx(0.2)
    assert len(more.world.walls) == 7
    assert scenario.source == build(SPEC).source
    given = variant(scenario, {"groups.left.area": None, "groups.left.count": None, "groups.left.positions": [[1, 1], [2, 4]]})
    np.testing.assert_array_equal(given.state.position[:, :2], [[1, 2], [1, 4]])
    with pytest.raises(ScenarioError, match=r"groups\.left: unknown key 'cuont'"):
        variant(scenario, {"groups.left.cuont": 7})
    with pytest.raises(ScenarioError, match=r"title\.of: 'title' is no table"):
        variant(scenario, {"title.of": 7})


def test_a_number_of_people_is_shared_in_proportion() -> None:
    spec = build(changed("groups.right", {"count": 2, "area": [[6, 0], [8, 0], [8, 5], [6, 5]]}))
    assert _share(spec, 7) == {"left": 4, "right": 2}
    assert _share(spec, 13) == {"left": 8, "right": 4}
    assert _share(spec, 12) == {"left": 7, "right": 4}
    assert _share(spec, 1) == {"left": 0, "right": 0}
    assert np.bincount(variant(spec, people=12).state.group).tolist() == [7, 1, 4]
    with pytest.raises(ScenarioError, match=r"people = 0: 1 have given positions"):
        _share(spec, 0)


def test_the_schema_knows_every_key_and_every_parameter() -> None:
    whole = schema()
    json.dumps(whole)
    assert whole["additionalProperties"] is False
    assert whole["required"] == ["world"]
    tables = whole["$defs"]
    assert set(tables["GroupTable"]["properties"]) >= {"count", "area", "positions", "goal", "goal_area", "radius", "mass"}
    assert {"type": "object", "required": ["type"], "description": "a GeoJSON object"} in tables["WorldTable"]["properties"][
        "area"
    ]["anyOf"]
    assert "0.01 to any size m" in tables["GroupTable"]["properties"]["radius"]["description"]
    assert all(table.get("additionalProperties") is False for table in tables.values())
    for name, force in FORCES.items():
        entries = tables[f"force.{name}"]["properties"]
        for path, law in parameters.specs(force()):
            assert law.unit in entries[path]["description"]
            assert entries[path]["default"] == law.default
            assert entries[path]["anyOf"][0]["minimum"] == law.least
    kinds = [choice["allOf"][1]["properties"]["kind"]["const"] for choice in whole["properties"]["motion"]["anyOf"]]
    assert kinds == list(MOTIONS)
    for file in shipped().values():
        spec = tomllib.loads(file.read_text())
        assert set(spec) <= set(whole["properties"])


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


def test_files_are_read_and_their_faults_named(tmp_path: Path) -> None:
    good = "[world]\narea = [[0, 0], [10, 0], [10, 10], [0, 10]]\n"
    good += "[groups.a]\ncount = 2\narea = 'POLYGON ((1 1, 9 1, 9 9, 1 9, 1 1))'\n"
    scenario = load(write(tmp_path, good))
    assert (scenario.name, scenario.state.id.shape) == ("mine", (2,))
    assert load(str(tmp_path / "mine.toml")).area == scenario.area
    assert load(write(tmp_path, "\ufeff" + good)).area == scenario.area  # as some editors save a text
    for text, kind, message in (
        ("[world\n", ScenarioError, r"mine\.toml: is not TOML: .*line 1"),
        (good + "cuont = 3\n", ScenarioError, r"mine\.toml: groups\.a: unknown key 'cuont'\. Did you mean 'count'\?"),
        (good + "radius = -1\n", ParamError, r"mine\.toml: groups\.a\.radius = -1 m"),
    ):
        with pytest.raises(kind, match=message):
            load(write(tmp_path, text))
    (tmp_path / "mine.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ScenarioError, match=r"mine\.toml: is not a text in UTF-8"):
        load(tmp_path / "mine.toml")
    with pytest.raises(ScenarioError, match=r"other\.toml: there is no such file"):
        load(tmp_path / "other.toml")
    with pytest.raises(ScenarioError, match="this is a folder"):
        load(tmp_path)
    with pytest.raises(ScenarioError, match=r"there is no scenario 'two_room'\. Did you mean 'two_rooms(_obstacle)?'\?"):
        load("two_room")


shipped_one = functools.cache(load)

EXPECTED = {
    "free_walk": (1, 1, True),
    "head_on": (2, 2, True),
    "two_rooms": (25, 25, False),
    "two_rooms_obstacle": (25, 25, False),
    "one_door": (200, 1, True),
    "bottleneck": (75, 1, True),
    "bottleneck_hfv": (75, 1, True),
    "corner": (20, 1, True),
    "own_time": (10, 1, True),
    "ring": (104, 1, False),
    "crossing": (80, 2, True),
    "square": (500, 4, True),
    "hall": (1000, 4, True),
    "two_bottlenecks": (150, 1, True),
    "stairs": (2, 2, True),
    "trap": (40, 1, True),
    "concert": (400, 3, True),
    "rooms": (23, 2, True),
    "counterflow": (120, 2, True),
    "metro": (66, 13, False),
    "shop": (18, 15, False),
    "school": (120, 2, True),
    "two_exits": (1000, 2, True),
}


def test_all_scenarios_are_shipped() -> None:
    assert set(EXPECTED) == set(shipped())


@pytest.mark.parametrize("name", EXPECTED)
def test_shipped_scenarios_say_where_they_come_from_and_load(name: str) -> None:
    text = shipped()[name].read_text()
    assert text.startswith("# ")
    people, goals, leaves = EXPECTED[name]
    scenario = shipped_one(name)
    assert scenario.name == name
    assert scenario.state.id.shape == (people,)
    assert len(scenario.goals) == goals
    assert scenario.world.goal_leaves.all() == leaves
    trip = scenario.state.trip
    assert ((scenario.state.goal >= 0) | (False if trip is None else trip.stage >= 0)).all()
    parameters.check(scenario.params)


def test_two_rooms_are_as_described() -> None:
    scenario = shipped_one("two_rooms")
    x, y = np.asarray(scenario.state.position)
    aim = np.asarray(scenario.world.goals)[np.asarray(scenario.state.goal), 0, 0]
    left = np.asarray(scenario.state.group) == 0
    assert left.sum() == 15
    assert ((x[left] >= 1) & (x[left] <= 9) & (y[left] >= 1) & (y[left] <= 19)).all()
    assert ((x[~left] >= 21) & (x[~left] <= 29)).all()
    assert ((aim[left, 0] > 20) & (aim[left, 0] < 30)).all()
    assert (aim[~left, 0] < 10).all()
    assert ((np.asarray(scenario.state.radius) > 0.2) & (np.asarray(scenario.state.radius) < 0.3)).all()
    assert ((np.asarray(scenario.state.desired_speed) > 1.1) & (np.asarray(scenario.state.desired_speed) < 1.6)).all()
    assert (scenario.seed, scenario.duration) == (42, 60)
    assert shapely.from_wkt(scenario.area).area == 440
    assert shapely.from_wkt(shipped_one("two_rooms_obstacle").area).area == 436


def test_the_two_bottlenecks_differ_in_the_wall_only() -> None:
    one, other = shipped_one("bottleneck"), shipped_one("bottleneck_hfv")
    np.testing.assert_array_equal(one.state.position, other.state.position)
    mine, theirs = parameters.values(one.params), parameters.values(other.params)
    assert [path for path in mine if not np.array_equal(mine[path], theirs[path])] == ["forces.wall_repulsion.falloff"]


def test_a_fresh_process_builds_the_same_bytes() -> None:
    def digest() -> str:
        scenario = load("bottleneck")
        leaves = jax.tree.leaves((scenario.state, scenario.world, scenario.params))
        return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()

    code = (
        "import hashlib, jax\nfrom crowdlab.scenario import load\n" + textwrap.dedent(inspect.getsource(digest)) + "print(digest())"
    )
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert fresh.strip() == digest()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups.crowd.count": 10**9}, r"groups\.crowd\.count = 1000000000: allowed are 0 to 10000000"),
        (
            {"world.area": [[0, 0], [1e9, 0], [1e9, 1e9], [0, 1e9]]},
            r"world\.area: a corner at 1e\+09 m: allowed are coordinates up to 1e\+07 m",
        ),
        ({"goals.crowd\0" + "0": {"point": [4, 4]}}, r"goals\.crowd\.0: this is the name of somebody's own goal"),
        ({"motion.dt": [0.001] * 3}, r"motion\.dt = .*: allowed is one number in s"),
        ({"motion.kind": [1]}, r"motion\.kind = \[1\]: unknown motion\. Known: explicit_euler, leapfrog, .*walking"),
        ({"forces.repulsion.strength": math.inf}, r"forces\.repulsion\.strength = inf N: allowed 0 to any finite size"),
    ],
)
def test_what_would_break_a_run_is_refused_while_building(changes: dict[str, Any], message: str) -> None:
    spec: dict[str, Any] = {
        "world": {"area": [[0, 0], [10, 0], [10, 6], [0, 6]]},
        "goals": {},
        "groups": {"crowd": {"count": 3, "area": [[1, 1], [4, 1], [4, 5], [1, 5]], "goal_area": [[6, 1], [9, 1], [9, 5], [6, 5]]}},
    }
    for path, value in changes.items():
        *tables, key = path.split(".")
        table = spec
        for name in tables:
            table = table.setdefault(name, {})
        table[key.replace("\0", ".")] = value
    with pytest.raises(CrowdlabError, match=message):
        build(spec)
