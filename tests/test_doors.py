"""Doors open and close while people walk: real walls while they are closed, and nothing is compiled for them."""

import copy
from typing import Any

import jax
import numpy as np
import pytest

import crowdlab
from crowdlab import geometry_report
from crowdlab.demand.ticks import tick
from crowdlab.errors import CrowdlabError, ParamError, ScenarioError
from crowdlab.scenario import PlanWarning, Scenario, build
from crowdlab.session import Session
from crowdlab.simulation import chunks, plan, simulate
from crowdlab.state import MOST
from crowdlab.stepping import rollout

AREA = [[0, 0], [10, 0], [10, 4], [0, 4]]
WALLS = [[[5, 0], [5, 1.4]], [[5, 2.6], [5, 4]]]
GATE = {"line": [[5, 1.4], [5, 2.6]]}


def gated(people: Any, opens: Any, closes: Any, **others: Any) -> Scenario:
    return build(
        {
            "world": {"area": AREA, "walls": WALLS},
            "goals": {"out": {"line": [[10, 0], [10, 4]]}},
            "doors": {"gate": {**GATE, "opens": opens, "closes": closes}},
            "groups": {"all": {"goal": "out", **people}},
            "motion": {"dt": 0.01},
            **others,
        }
    )


CROWD = {"count": 8, "area": [[0, 0], [4, 0], [4, 4], [0, 4]]}


def test_doors_that_open_and_close_twenty_times_take_one_program() -> None:
    """People pass while the door is open only; closing waits for who stands in it."""
    scenario = gated(CROWD, [0.4 + 1.6 * k for k in range(20)], [1.6 + 1.6 * k for k in range(20)])
    steps = round(33 / scenario.params.time_step)
    programs, right, passed, switches, last = rollout._cache_size(), np.zeros(8, bool), 0, 0, 1
    for piece in chunks(scenario, scenario.params, jax.random.key(1), steps, chunk=steps):
        closed = int(piece.final.closed)
        switches += closed != last
        last = closed
        now = np.asarray(piece.frames.position)[-1, :, 0] > 5
        assert not (closed and (now != right).any()), "nobody goes through a closed door"
        passed += int((now & ~right).sum())
        right = now
    assert rollout._cache_size() - programs == 1
    assert switches >= 20
    assert passed == 8


@pytest.mark.bits
def test_frames_off_the_beat_of_doors_take_few_programs_and_change_nothing() -> None:
    scenario = gated({"positions": [[3, 2]]}, [1.0], [0.0])
    frames, programs = [], []
    grid = plan(scenario, scenario.params, scenario.state)._replace(walls=8)
    for every in (10, 14):  # steps; doors are looked at every 20
        before = rollout._cache_size()
        run = simulate(scenario, None, jax.random.key(0), 280, every=every, grid=grid)
        programs.append(rollout._cache_size() - before)
        frames.append(
            {int(step): place.tobytes() for step, place in zip(run.frames.step, np.asarray(run.frames.position), strict=True)}
        )
    assert programs == [1, 3]
    assert len(frames[1]) == 20
    assert all(frames[0][step] == frames[1][step] for step in range(70, 281, 70))


def test_ways_go_round_by_another_door_or_wait_at_the_closed_one() -> None:
    one = gated({"positions": [[2, 2]], "radius": 0.2}, [], [0.0])
    two = build({**one.source, "world": {"area": AREA, "walls": [WALLS[0], [[5, 2.6], [5, 3.2]]]}})
    for scenario, aside, beyond in ((one, 2.5, False), (two, 3.3, True)):
        assert int(scenario.state.closed) == 1
        run = simulate(scenario, None, jax.random.key(0), 800, every=20)
        x, y = np.asarray(run.frames.position)[:, 0].T
        assert (x.max() > 5) == beyond
        assert y.max() < aside if not beyond else y.max() > aside
        assert x.max() > 4


def test_a_door_far_from_the_origin_is_the_same_door() -> None:
    """On a plan that is recentred the door stands where it is drawn."""
    near = gated({"positions": [[2, 2]]}, [], [0.0])
    far = np.array([4.5e5, 5.4e6])
    group = {"positions": [[2 + far[0], 2 + far[1]]], "goal": "out"}
    world = {"area": (np.array(AREA) + far).tolist(), "walls": [(np.array(wall) + far).tolist() for wall in WALLS]}
    gate = {"line": (np.array(GATE["line"]) + far).tolist(), "closes": [0.0]}
    goal = {"line": (np.array([[10, 0], [10, 4]]) + far).tolist()}
    there = build({"world": world, "goals": {"out": goal}, "doors": {"gate": gate}, "groups": {"all": group}})
    assert int(there.state.closed) == 1
    shift = np.asarray(there.state.position) - np.asarray(near.state.position)
    walls = np.asarray(near.world.walls) + shift.T
    stands = np.asarray(near.world.walls)[:, 0, 0] < 100
    order = [sorted(map(tuple, w.reshape(-1, 4).round(3).tolist())) for w in (walls[stands], np.asarray(there.world.walls)[stands])]
    assert order[0] == order[1]


@pytest.mark.bits
def test_a_run_in_pieces_and_a_session_move_doors_alike() -> None:
    scenario = gated({"positions": [[3.6, 2], [2.8, 2.1]]}, [2.0], [0.7])
    steps = round(4 / scenario.params.time_step)
    whole = simulate(scenario, None, jax.random.key(3), steps)
    session = Session(scenario, 3)
    while session.step < steps:
        session.advance()
    np.testing.assert_array_equal(session.state.position, whole.final.position)
    assert int(session.state.closed) == int(whole.final.closed) == 0


@pytest.mark.parametrize(
    ("door", "message"),
    [
        ({**GATE}, r"doors\.gate: never opens nor closes"),
        ({**GATE, "opens": [2.0], "closes": [2.0]}, r"doors\.gate: opens and closes at 2 s"),
        ({"line": [[5, 0], [5, 1]], "opens": [2.0]}, r"doors\.gate\.line: lies on a wall"),
        ({**GATE, "opens": "soon"}, r"doors\.gate\.opens"),
        ({**GATE, "closes": [-1.0]}, r"doors\.gate: a time of -1 s: allowed are finite numbers of 0 and more"),
        ({**GATE, "closes": [1e400]}, r"doors\.gate: a time of inf s"),
        ({"line": [[13, 1], [13, 3]], "closes": [1.0]}, r"gate\.line: lies outside the walkable area near \(13, 1\) m, 3 m away"),
        ({"line": [[2, 1.2], [2, 1.8]], "closes": [1.0]}, r"doors\.gate\.line: lies in world\.obstacles\[0\]\. Move it"),
        ({"line": [[8, 0.5], [8, 1.5]], "closes": [1.0]}, r"doors\.gate\.line: at \(8, 1\) m it lies on door first"),
        ({"line": [[8, 3], [8, 0]], "closes": [1.0]}, r"doors\.gate\.line: at \(8, 1.5\) m it lies on door first"),
    ],
)
def test_a_wrong_door_is_named(door: dict[str, Any], message: str) -> None:
    """By the report too, which goes on."""
    first = {"line": [[8, 0], [8, 2]], "closes": [1.0]}
    world = {"area": AREA, "walls": WALLS, "obstacles": [[[1, 1], [3, 1], [3, 2], [1, 2]]]}
    spec = {"world": world, "doors": {"first": first, "gate": door}}
    with pytest.raises(ScenarioError, match=message) as told:
        build(spec)
    if door.get("opens") != "soon":
        finding = next(one for one in geometry_report(spec).findings if one.severity == "error")
        np.testing.assert_array_equal(finding.place, told.value.place)
        assert finding.item.startswith("doors.gate")


def test_a_door_that_crosses_others_or_reaches_out_is_taken_and_that_is_noted() -> None:
    crossing = {"line": [[7, 0], [9, 2]], "closes": [1.0]}
    spec = {"world": {"area": AREA}, "doors": {"first": {"line": [[8, 0], [8, 5]], "opens": [1.0]}, "gate": crossing}}
    found = build(spec).findings
    assert [(one.item, one.what, round(one.amount, 1)) for one in found] == [
        ("doors.first", "reaches out of the walkable area", 1.0)
    ]
    assert geometry_report(spec).findings == found


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (
            {"queue": [[9.4, 2], [8.4, 2], [4.4, 2]]},
            r"goals.out.queue\[1\] at \(8.4, 2\) m: door gate stands between it and the next",
        ),
        (
            {"polygon": [[3, 1], [7, 1], [7, 3], [3, 3]], "places": [[4, 2], [6, 2]]},
            r"goals.out.polygon: at \(5, 2\) m door gate cuts it",
        ),
    ],
)
def test_places_that_a_door_parts_are_refused(goal: dict[str, Any], message: str) -> None:
    """A door at the edge of a waiting area does no harm."""
    spec: dict[str, Any] = {
        "world": {"area": AREA},
        "goals": {"out": goal, "end": {"line": [[10, 0], [10, 4]]}},
        "journeys": {"way": {"stages": ["out", "end"]}},
        "doors": {"gate": {"line": [[5, 0], [5, 4]], "closes": [9.0]}},
    }
    with pytest.raises(ScenarioError, match=message):
        build(spec)
    spec["doors"]["gate"]["line"] = [[3, 0], [3, 4]]
    assert build(spec).doors


@pytest.mark.parametrize("by", [0.0, 4e5])
def test_who_is_placed_in_a_closed_door_keeps_it_open_and_that_is_said(by: float) -> None:
    spec = copy.deepcopy(gated({"positions": [[2, 2], [3, 3]]}, [], [0.0]).source)
    assert not build(spec).findings
    spec["groups"]["all"]["positions"] = [[2, 2], [4.9, 2]]
    for table, key in (
        (spec["world"], "area"),
        (spec["goals"]["out"], "line"),
        (spec["doors"]["gate"], "line"),
        (spec["groups"]["all"], "positions"),
    ):
        table[key] = (np.array(table[key]) + by).tolist()
    spec["world"]["walls"] = (np.array(spec["world"]["walls"]) + by).tolist()
    words = (
        rf"doors\.gate: open though it is closed .*: agent 1 was placed in it at \({4.9 + by:.10g}, {2 + by:.10g}\) m\. It closes"
    )
    with pytest.warns(PlanWarning, match=words):
        scenario = build(spec)
    assert int(scenario.state.closed) == 0
    assert scenario.findings[-1].item == "doors.gate"


def test_runs_that_cannot_follow_a_door_refuse_it() -> None:
    scenario = gated({"positions": [[2, 2]]}, [1.0], [])
    with pytest.raises(CrowdlabError, match=r"untitled: doors\.gate opens or closes, which runs side by side cannot follow"):
        crowdlab.simulate_many(scenario, jax.random.split(jax.random.key(0), 2), 10)
    with pytest.raises(CrowdlabError, match="which a gradient cannot follow"):
        crowdlab.gradient(scenario, lambda run: run.final.position.sum(), ["motion.dt"], jax.random.key(0), 10)
    with pytest.raises(ParamError, match="chunk = 7 steps: doors are looked at every 20 steps"):
        Session(scenario, chunk=7)


@pytest.mark.parametrize("never", [1e8, 1e18, 1e20, 1e308])
def test_a_door_that_opens_after_every_run_stays_shut(never: float) -> None:
    doors = gated(CROWD, [never], [0.0]).doors
    assert doors is not None
    assert [doors.asked(step, 0.01) for step in (0, 100, MOST)] == [1, 1, 1]
    assert [doors.asked(step, 1e-4) for step in (0, MOST)] == [1, 1]


WIDE = {
    "world": {"area": [[0, 0], [8, 0], [8, 10], [0, 10]]},
    "goals": {"near": {"line": [[8, 2], [8, 8]]}, "far": {"line": [[4, 10], [6, 10]]}},
    "journeys": {"out": {"stages": [{"choose": ["near", "far"], "by": "shortest"}]}},
    "groups": {"all": {"positions": [[6.5, 5], [6.5, 4.2]], "journey": "out"}},
    "forces": {"driving": {}, "wall_contact": {}},
    "motion": {"dt": 0.01},
}


@pytest.mark.parametrize(
    ("line", "radius", "goal"),
    [
        ([[8, 4.7], [8, 5.3]], 0.3, 0),  # 2.7 m are left on either side
        ([[8, 2], [8, 7.5]], 0.24, 0),  # 0.5 m are left
        ([[8, 2], [8, 7.5]], 0.26, 1),
        ([[8, 2.3], [8, 7.7]], 0.2, 1),  # 0.3 m are left twice
        ([[8, 1], [8, 9]], 0.2, 1),
    ],
)
def test_an_exit_is_shut_where_no_body_fits_beside_its_closed_doors(line: Any, radius: float, goal: int) -> None:
    """And those who fit go out where it is open."""
    spec = copy.deepcopy({**WIDE, "doors": {"gate": {"line": line, "closes": [0.0]}}})
    spec["groups"]["all"]["radius"] = radius
    final = simulate(build(spec), None, jax.random.key(1), 800).final
    assert final.goal.tolist() == [goal] * 2
    assert not np.asarray(final.alive).any()


def test_a_door_that_nobody_would_see_move_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"doors.gate: opens at 1.01 s and closes at 1.15 s: doors are looked at every 0.2 s"):
        gated({"positions": [[2, 2]]}, [1.01], [1.15])


@pytest.mark.parametrize("dt", [0.0015, 0.003, 0.006, 0.007, 0.012, 0.03, 0.07])
def test_a_session_goes_on_between_looks_whatever_the_step(dt: float) -> None:
    """Also where the step is set at its beginning: a chunk ends where doors are looked at."""
    scenario = gated({"positions": [[2, 2]]}, [0.3], [])
    session = Session(scenario)
    session.set("motion.dt", dt)
    assert tick(dt) % session.chunk == 0
    assert tick(dt) % Session(gated({"positions": [[2, 2]]}, [0.3], [], motion={"dt": dt})).chunk == 0
    with pytest.raises(ParamError, match="doors are looked at every"):
        Session(scenario, chunk=20).set("motion.dt", 0.007)


@pytest.mark.bits
def test_a_session_whose_step_was_set_is_replayed_from_its_log() -> None:
    scenario = gated({"positions": [[4.5, 2]], "desired_speed": 1.0}, [0.3], [])
    session = Session(scenario)
    session.set("motion.dt", 0.007)
    while session.step < 4 * tick(0.007):
        session.advance()
    again = simulate(scenario, scenario.params, jax.random.key(session.seed), session.step, commands=session.log)
    assert int(session.state.closed) == 0
    np.testing.assert_array_equal(session.state.position, again.final.position)
