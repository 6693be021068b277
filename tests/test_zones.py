"""Zones: people walk slower or faster where they stand in one, and nowhere else."""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import make_state, make_world, real

import crowdlab
from crowdlab import params as numbers
from crowdlab.abreast import rows_of
from crowdlab.errors import CrowdlabError, ParamError, ScenarioError
from crowdlab.navigation import pad_goals
from crowdlab.record import Recorder, Recording, verify
from crowdlab.scenario import Scenario, build, geometry_report, schema, variant
from crowdlab.session import Session
from crowdlab.simulation import simulate
from crowdlab.stepping import with_people
from crowdlab.zones import Plain, Stairs, fastest, paced

KEY = jax.random.key(0)
V0, TAU, DT = 1.34, 0.5, 0.001
LONG = 16_000  # steps


def square(left: float, right: float) -> list[list[float]]:
    return [[left, -2], [right, -2], [right, 2], [left, 2]]


def corridor(zones: dict[str, Any], *, back: bool = False, **others: Any) -> Scenario:
    """One person walks 12 m along an empty corridor; the zones lie from x = 4 m on."""
    start, end = (12, 0) if back else (0, 12)
    return build(
        {
            "world": {"area": [[-1, -3], [13, -3], [13, 3], [-1, 3]]},
            "goals": {"end": {"line": [[end, -3], [end, 3]]}},
            "groups": {"walker": {"positions": [[start, 0]], "goal": "end", "desired_speed": V0, "radius": 0.2}},
            "forces": {"driving": {"relaxation_time": TAU}},
            "motion": {"dt": DT},
            "zones": zones,
            **others,
        }
    )


def arrival(scenario: Scenario, params: Any = None) -> float:
    run = simulate(scenario, params, KEY, LONG, every=500)
    return int(run.final.arrived[0]) * DT


def closed_form(*legs: tuple[float, float]) -> float:
    """Time from rest over legs (m, factor): on each v(t) = f v0 + (u - f v0) exp(-t / tau), long enough to come to f v0."""
    before, time = 0.0, 0.0
    for length, factor in legs:
        time += length / (factor * V0) - (before - factor) / factor * TAU
        before = factor
    return time


SLOW = {"polygon": square(4, 8), "speed": 0.5}
STEPS = {"kind": "stairs", "polygon": square(4, 8), "up": [2, 0]}


def test_a_zone_costs_the_time_of_the_closed_form(x64: None) -> None:
    """Each change of speed happens at a whole step, so up to 2 dt may go astray at each of the two borders."""
    assert arrival(corridor({})) == pytest.approx(closed_form((12, 1)), abs=2 * DT)
    assert arrival(corridor({"mud": SLOW})) == pytest.approx(closed_form((4, 1), (4, 0.5), (4, 1)), abs=4 * DT)
    quick = corridor({"belt": SLOW | {"speed": 1.5}})
    assert arrival(quick) == pytest.approx(closed_form((4, 1), (4, 1.5), (4, 1)), abs=4 * DT)


def test_stairs_know_up_from_down(x64: None) -> None:
    for back, factor in ((False, 0.455), (True, 0.518)):
        time = arrival(corridor({"steps": STEPS}, back=back))
        assert time == pytest.approx(closed_form((4, 1), (4, factor), (4, 1)), abs=5 * DT)


def test_zones_that_overlap_multiply(x64: None) -> None:
    both = corridor({"b": SLOW, "a": {"polygon": square(6, 10), "speed": 0.8}})
    assert arrival(both) == pytest.approx(closed_form((4, 1), (2, 0.5), (2, 0.4), (2, 0.8), (2, 1)), abs=8 * DT)


def test_nobody_outside_is_touched() -> None:
    """To the last bit: a zone that lies beside the way, one of factor 1 on it, and none at all."""
    aside = {"polygon": [[0, 1], [12, 1], [12, 2], [0, 2]], "speed": 0.1}
    runs = [simulate(corridor(zones), None, KEY, 4000, every=500) for zones in ({}, {"a": aside}, {"a": {**SLOW, "speed": 1.0}})]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.frames.position, runs[0].frames.position)


def test_zero_means_zero() -> None:
    run = simulate(corridor({"wall": SLOW | {"speed": 0.0}}), None, KEY, LONG, every=500)
    last = np.asarray(run.frames.position)[-2:, 0, 0]
    assert last[0] == last[1] == pytest.approx(4 + V0 * TAU, abs=3 * DT * V0)  # what is left of v0 takes one v0 tau
    assert int(run.final.arrived[0]) == -1


def test_the_limit_on_speed_follows() -> None:
    scenario = corridor({"mud": SLOW}, motion={"dt": DT, "speed_factor": 1.0})
    frames = simulate(scenario, None, KEY, 8000, every=10).frames
    x, speed = np.asarray(frames.position)[:, 0, 0], np.asarray(frames.velocity)[:, 0, 0]
    within = (x > 4 + V0 * DT) & (x < 8)
    assert speed[within].max() <= 0.5 * V0 * (1 + 1e-6)  # at once, without relaxation


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=20, max_size=20),
    st.floats(0, 3, allow_subnormal=False, width=32),
    st.booleans(),
)
def test_a_zone_is_where_its_centre_lies(places: list[tuple[float, float]], factor: float, hole: bool) -> None:
    """Even-odd in a ring with or without a hole, padded or not; the dead keep what they had."""
    ring = np.array([[-3, -3], [3, -3], [3, 3], [-3, 3]], float)
    inner = ring[::-1] / 3
    edges = [np.stack([part, np.roll(part, -1, 0)], 1) for part in ((ring, inner) if hole else (ring,))]
    world = make_world()
    world = type(world)(**{**vars(world), "zones": real(pad_goals([np.concatenate(edges)])), "zone_up": real(np.zeros((1, 2)))})
    state = make_state(places).with_(desired_speed=real(np.full(len(places), 2.0)))
    alive = np.arange(len(places)) % 3 > 0
    found = np.asarray(paced(state.with_(alive=jnp.asarray(alive)), {"z": Plain(speed=factor)}, world).desired_speed)
    x, y = np.abs(np.asarray(state.position))
    edge = (np.abs(np.maximum(x, y) - 3) < 1e-5) | (np.abs(np.maximum(x, y) - 1) < 1e-5)  # either side will do
    within = (np.maximum(x, y) < 3) & ~(hole & (np.maximum(x, y) < 1)) & alive
    np.testing.assert_allclose(found[~edge], np.where(within, 2.0 * np.float32(factor), 2.0)[~edge], rtol=1e-6)


def test_who_goes_along_a_step_takes_the_larger_factor() -> None:
    stairs = Stairs(ascending=0.4, descending=0.5)
    np.testing.assert_allclose(stairs.factor(jnp.array([1.0, -1.0, 0.0, 1e-6, -1e-6])), [0.4, 0.5, 0.5, 0.5, 0.5])


def test_the_plan_expects_those_who_are_hastened() -> None:
    assert fastest({}) == fastest({"a": Plain(speed=0.2)}) == 1
    assert fastest({"a": Plain(speed=1.5), "b": Stairs(ascending=0.5, descending=1.2)}) == pytest.approx(1.8)


def crowd() -> Scenario:
    return corridor(
        {"mud": SLOW, "steps": {"kind": "stairs", "polygon": square(6, 10), "up": [0.3, 1]}},
        groups={
            "all": {"count": 6, "area": [[0, -2], [5, -2], [5, 2], [0, 2]], "goal": "end", "radius": 0.2},
        },
        forces={"driving": {}, "repulsion": {}},
        motion={"dt": 0.005, "noise": 0.05},
    )


@pytest.mark.bits
def test_runs_side_by_side_have_their_own_zones() -> None:
    scenario, keys = crowd(), jax.random.split(KEY, 3)
    params = [numbers.replace(scenario.params, "zones.mud.speed", jnp.float32(speed)) for speed in (0.2, 1.0, 1.7)]
    many = crowdlab.simulate_many(scenario, keys, 400, params=params, every=100)
    for number, own in enumerate(params):
        alone = simulate(scenario, own, keys[number], 400, every=100)
        np.testing.assert_array_equal(many.frames.position[number], alone.frames.position)
        np.testing.assert_array_equal(many.final.desired_speed[number], alone.final.desired_speed)


@pytest.mark.bits
def test_the_order_of_rows_and_who_has_one_changes_no_bit() -> None:
    scenario = crowd()
    order = np.array([3, 0, 5, 1, 4, 2])
    turned = with_people(rows_of(scenario.state, order), rows_of(scenario.params, order), scenario.world)
    straight = with_people(scenario.state, scenario.params, scenario.world)
    np.testing.assert_array_equal(turned.desired_speed, np.asarray(straight.desired_speed)[order])


def test_a_factor_has_a_slope(x64: None) -> None:
    """Somebody who stands in the zone all the time: v = f v0, so the way grows by its own length per factor."""
    scenario = corridor({"mud": SLOW | {"polygon": square(-1, 13)}})
    result = crowdlab.gradient(scenario, lambda run: run.final.position[0, 0], ["zones.mud.speed"], KEY, 500)
    assert float(result.slopes["zones.mud.speed"]) == pytest.approx(float(result.value) / 0.5, rel=1e-9)


def test_a_slider_moves_a_zone_and_compiles_nothing() -> None:
    session = Session(corridor({"mud": SLOW}), 0)
    value, spec = session.controls()["zones.mud.speed"]
    assert (value, spec.low, spec.high) == (0.5, 0.0, 2.0)
    session.advance()
    programs = crowdlab.rollout._cache_size()
    session.set("zones.mud.speed", 0.0)
    while session.step < 5000:
        session.advance()
    assert crowdlab.rollout._cache_size() == programs
    assert float(session.state.position[0, 0]) < 5


@pytest.mark.bits
def test_a_recording_is_done_again_with_its_zones(tmp_path: Any) -> None:
    scenario = corridor({"mud": SLOW, "steps": STEPS})
    params = numbers.replace(scenario.params, "zones.steps.ascending", jnp.float32(0.3))
    with Recorder(tmp_path / "run.sqlite", scenario, params, seed=0, every=100) as recorder:
        for _ in recorder.run(6000, chunk=2000):
            pass
    recording = Recording.open(tmp_path / "run.sqlite")
    assert float(recording.params.zones["steps"].ascending) == pytest.approx(0.3)
    assert verify(recording).same


ZONE: dict[str, Any] = {"polygon": square(4, 8), "speed": 0.5}


@pytest.mark.parametrize(
    ("zone", "error", "message"),
    [
        ({"polygon": square(4, 8)}, ScenarioError, r"zones\.a: key 'speed' is missing"),
        ({"speed": 0.5}, ScenarioError, r"zones\.a: key 'polygon' is missing"),
        (ZONE | {"speed": -0.5}, ParamError, r"zones\.a\.speed = -0\.5: allowed 0 to any size"),
        (ZONE | {"speed": "slow"}, ScenarioError, r"zones\.a\.speed = 'slow'"),
        (ZONE | {"sped": 1.0}, ScenarioError, r"zones\.a: unknown key 'sped'\. Did you mean 'speed'"),
        (ZONE | {"kind": "stair"}, ScenarioError, r"zones\.a\.kind = 'stair'"),
        (ZONE | {"up": [1, 0]}, ScenarioError, r"zones\.a\.up = .*: belongs to a zone of kind 'stairs', and this is 'plain'"),
        (STEPS | {"speed": 0.5}, ScenarioError, r"zones\.a\.speed = 0\.5: belongs to a zone of kind 'plain', and this is 'stairs'"),
        (STEPS | {"up": [0, 0]}, ScenarioError, r"zones\.a\.up = \[0\.0, 0\.0\]: has no direction"),
        ({"kind": "stairs", "polygon": square(4, 8)}, ScenarioError, r"zones\.a: key 'up' is missing"),
        (
            ZONE | {"polygon": [[4, -2], [8, 2], [8, -2], [4, 2]]},
            ScenarioError,
            r"zones\.a\.polygon: the outline crosses or touches itself at \(6, 0\) m",
        ),
        (
            ZONE | {"polygon": square(20, 22)},
            ScenarioError,
            r"zones\.a: lies outside the walkable area near \(21, 0\) m, 7 m away from it",
        ),
    ],
)
def test_a_wrong_zone_is_named(zone: dict[str, Any], error: type[CrowdlabError], message: str) -> None:
    with pytest.raises(error, match=message):
        corridor({"a": zone})


def test_a_dot_in_the_name_would_part_the_path() -> None:
    with pytest.raises(ScenarioError, match=r"zones\.a\.b: a name with a dot"):
        corridor({"a.b": ZONE})


def test_the_report_knows_zones() -> None:
    """One outside is told with its place, one that reaches out is fine; both are among the outlines."""
    spec = copy.deepcopy(corridor({}).source)
    spec["zones"] = {"far": ZONE | {"polygon": square(20, 22)}, "half": ZONE | {"polygon": square(8, 22)}}
    report = geometry_report(spec)
    assert [(one.item, one.place) for one in report.of("error")] == [("zones.far", (21.0, 0.0))]
    assert {item for item, _ in report.outlines} >= {"zones.far.polygon", "zones.half.polygon"}


def test_far_coordinates_geojson_and_other_rings_are_the_same_zone() -> None:
    far = np.array([4.5e5, 5.4e6])
    spec = copy.deepcopy(corridor({"a": ZONE, "b": STEPS}).source)
    spec["world"]["area"] = (np.array(spec["world"]["area"]) + far).tolist()
    spec["goals"]["end"]["line"] = (np.array(spec["goals"]["end"]["line"]) + far).tolist()
    spec["groups"]["walker"]["positions"] = (np.array(spec["groups"]["walker"]["positions"]) + far).tolist()
    ring = (np.array([*square(4, 8), square(4, 8)[0]]) + far).tolist()
    spec["zones"]["a"]["polygon"] = {"type": "Polygon", "coordinates": [ring]}
    spec["zones"]["b"]["polygon"] = "POLYGON ((" + ", ".join(f"{x} {y}" for x, y in ring) + "))"
    there = build(spec)
    off = np.asarray(there.origin) - far
    np.testing.assert_allclose(there.world.zones[0], there.world.zones[1])
    corners = np.unique(np.asarray(there.world.zones[0]).reshape(-1, 2) + off, axis=0)
    np.testing.assert_allclose(corners, [[4, -2], [4, 2], [8, -2], [8, 2]], atol=1e-4)


def test_parameters_of_other_zones_are_refused() -> None:
    with pytest.raises(ParamError, match=r"zones: parameters of 0 \(none\) for a world with 1"):
        simulate(corridor({"a": ZONE}), corridor({}).params, KEY, 10)


def test_the_schema_has_units_and_sources() -> None:
    table = schema()["$defs"]["ZoneTable"]["properties"]
    assert "Weidmann 1993" in table["ascending"]["description"]
    assert {"type": "number", "minimum": 0.0} in table["speed"]["anyOf"]
    assert any(part.get("description") == "a GeoJSON object" for part in table["polygon"]["anyOf"])


def test_a_variant_changes_a_zone() -> None:
    other = variant(corridor({"a": ZONE}), {"zones.a.speed": 0.25})
    assert float(other.params.zones["a"].speed) == 0.25


@pytest.mark.parametrize("periodic", ["x", "y", "both"])
def test_a_zone_across_joined_sides_goes_on_at_the_other(periodic: str) -> None:
    """Over one side it is two pieces, over the corner four."""
    spec = {
        "world": {"area": [[0, 0], [20, 0], [20, 10], [0, 10]], "periodic": periodic},
        "zones": {"mud": {"polygon": [[19, 9], [24, 9], [24, 12], [19, 12]], "speed": 0.2}},
        "groups": {"all": {"positions": [[19.5, 9.5], [2, 9.5], [19.5, 1], [2, 1], [10, 5]], "desired_speed": 1.0}},
    }
    scenario = build(spec)
    speeds = np.asarray(paced(scenario.state, scenario.params.zones, scenario.world).desired_speed)
    x, y = periodic != "y", periodic != "x"
    assert (speeds < 0.5).tolist() == [True, x, y, x and y, False]
