"""Scenario files with joined sides, and goals that are a direction."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from crowdlab.commands import Command, Kind
from crowdlab.errors import ScenarioError
from crowdlab.measures import Tracks, moved
from crowdlab.record import Recorder, Recording
from crowdlab.scenario import Scenario, build, geometry_report, load
from crowdlab.simulation import simulate
from crowdlab.state import PUSHED_OUT
from crowdlab.views.drawing import picture
from crowdlab.views.marks import drawn_goals, fixed_walls

WIDE, HIGH = 10.0, 3.0
AREA = [[0, 0], [WIDE, 0], [WIDE, HIGH], [0, HIGH]]


def ring(groups: dict[str, Any], periodic: str = "x", *, area: Any = AREA, world: Any = None, **more: Any) -> Scenario:
    goals = {"east": {"direction": [2, 0]}, "north": {"direction": [0, 3]}, "mark": {"point": [5, 1]}}
    return build({"world": {"area": area, "periodic": periodic, **(world or {})}, "goals": goals, "groups": groups, **more})


def test_who_walks_round_is_as_fast_as_in_the_open_and_turns_when_told() -> None:
    scenario = ring({"one": {"positions": [[9.5, 1.5], [2.0, 1.4]], "goal": "east"}}, "both", forces={"driving": {}})
    away = scenario.goals.index("north")
    turn = Command(4000, Kind.GOAL, agent=1, value=(float(away), 0.0))
    final = simulate(scenario, None, jax.random.key(1), 8000, every=4000, commands=[turn]).final
    dt, tau, speed = scenario.params.time_step, 0.5, float(np.ravel(scenario.params.people.desired_speed)[0])
    far = speed * (8000 * dt - tau)  # from rest
    place = np.asarray(final.position).T
    assert place[0] == pytest.approx([(9.5 + far) % WIDE, 1.5], abs=2e-3)
    np.testing.assert_allclose(np.asarray(final.velocity).T, [[speed, 0], [0, speed]], atol=2e-3)
    assert np.asarray(final.alive).all()


@pytest.mark.parametrize("periodic", ["x", "both"])
def test_a_recording_knows_the_box_as_the_run_does(periodic: str, tmp_path: Path) -> None:
    """Whoever goes round goes on, and crosses what lies there; also in a file of a time when boxes were not written down."""
    pair = {"positions": [[9.5, 2.7], [2.0, 1.4]], "goal": "east" if periodic == "x" else "north"}
    scenario = ring({"pair": pair}, periodic, forces={"driving": {}}, motion={"dt": 0.02})
    with Recorder(tmp_path / "ring.sqlite", scenario, seed=1, every=5) as recorder:
        (run,) = recorder.run(100, chunk=100)
    recording = Recording.open(tmp_path / "ring.sqlite")
    seen, again = Tracks.of_recording(recording), Tracks.of_run(run, scenario)
    for field in dataclasses.fields(Tracks):
        np.testing.assert_array_equal(getattr(seen, field.name), getattr(again, field.name), err_msg=field.name)
    assert np.nanmax(moved(seen, 0.1)) < 0.2, "nobody jumps across the box"
    laps = seen.strides().lap
    assert (laps != 0).any(0).tolist() == [periodic == "x", periodic != "x"]
    assert seen.box is not None
    del recording.manifest["box"]
    del recording.box
    assert recording.box == tuple(seen.box)


ACROSS = [("x", [0.1, 1.5], [9.8, 1.5]), ("y", [5, 0.1], [5, 2.8]), ("both", [0.1, 0.1], [9.8, 2.8])]


@pytest.mark.parametrize(("periodic", "first", "other"), ACROSS, ids=["x", "y", "both"])
def test_people_stand_beside_each_other_across_joined_sides(periodic: str, first: list[float], other: list[float]) -> None:
    with pytest.raises(ScenarioError, match=r"positions\[0\] and .*positions\[1\]: overlap by"):
        ring({"pair": {"positions": [first, other], "radius": 0.3}}, periodic)
    apart = ring({"pair": {"positions": [first, other], "radius": 0.05}}, periodic)
    push = np.asarray(simulate(apart, None, jax.random.key(1), 5, every=5).final.velocity)
    gap = np.sign(np.subtract(other, first))  # the shorter way is round the box, so they are pushed towards each other inside
    assert (push[:, 0] * gap >= 0).all()
    assert np.abs(push).max() > 1e-3


@settings(max_examples=15, deadline=None)
@given(periodic=some.sampled_from(["x", "y", "both"]), count=some.integers(2, 60), seed=some.integers(0, 99))
def test_nobody_is_placed_across_joined_sides_into_somebody(periodic: str, count: int, seed: int) -> None:
    state = ring({"all": {"count": count, "area": AREA, "radius": 0.25}}, periodic, seed=seed).state
    gap = np.abs(np.asarray(state.position, float)[:, :, None] - np.asarray(state.position, float)[:, None])
    for axis, side in enumerate((WIDE, HIGH)):
        if periodic in ("xy"[axis], "both"):
            gap[axis] = np.minimum(gap[axis], side - gap[axis])
    apart = np.hypot(*gap)[~np.eye(count, dtype=bool)]
    assert apart.min() >= 0.5


@pytest.mark.bits
def test_sides_that_are_not_joined_stay_walls_and_nobody_is_felt_through_them() -> None:
    scenario = ring({"pair": {"positions": [[5, 0.3], [5, HIGH - 0.3]]}})
    assert sorted(np.unique(fixed_walls(scenario)[..., 1]).tolist()) == [0.0, HIGH]
    alone = ring({"one": {"positions": [[5, 0.3]]}})
    both, one = (
        np.asarray(simulate(each, None, jax.random.key(1), 50, every=50).final.velocity)[:, 0] for each in (scenario, alone)
    )
    np.testing.assert_array_equal(both, one)
    assert fixed_walls(ring({}, "both")).shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ({"area": [[0, 0], [10, 0], [12, 3], [0, 3]]}, "no rectangle"),
        ({"area": [[0, 0], [10, 0], [10, 3], [5, 3], [5, 2], [0, 2]]}, "no rectangle"),
        ({"obstacles": [[[0, 1], [1, 1], [1, 2], [0, 2]]]}, "open where a wall stands"),
        ({"obstacles": [[[4, -1], [6, -1], [6, 4], [4, 4]], [[-1, -1], [1, -1], [1, 4], [-1, 4]]]}, "open where a wall stands"),
        ({"periodic": "z"}, "periodic"),
    ],
)
def test_sides_that_cannot_be_joined_are_refused_with_the_place(world: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        ring({}, world=world)


def test_an_obstacle_at_a_joined_side_goes_on_at_the_other() -> None:
    halves = [[[0, 1], [1, 1], [1, 2], [0, 2]], [[9, 1], [10, 1], [10, 2], [9, 2]]]
    scenario = ring({"one": {"positions": [[8.0, 1.5]], "goal": "east"}}, world={"obstacles": halves})
    assert not (fixed_walls(scenario)[..., 0] == 0).all(1).any()
    final = simulate(scenario, None, jax.random.key(1), 3000, every=3000).final
    assert 8.0 < float(final.position[0, 0]) < 9.0, "stands before the block that lies across the joined sides"
    assert geometry_report(scenario.source).findings == ()


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"direction": [0, 0]}, r"goals.odd.direction = \[0.0, 0.0\]: allowed is any vector"),
        ({"direction": [1, 0], "reach": 0.3, "point": [1, 1]}, r"goals.odd: .* Leave point, reach out"),
        ({"direction": [1]}, r"goals.odd.direction"),
    ],
)
def test_a_wrong_direction_is_named(goal: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build({"world": {"area": AREA}, "goals": {"odd": goal}})


@pytest.mark.parametrize(
    "stages",
    [
        ["east", "mark"],
        ["mark", {"goal": "east"}, "north"],
        [{"visit": ["east", "mark"]}],
        [{"choose": ["east", "mark"], "by": "shortest"}],
    ],
)
def test_a_direction_on_the_way_of_a_journey_needs_an_end(stages: list[Any]) -> None:
    with pytest.raises(ScenarioError, match=r"journeys.on.stages\[\d\]: '(east|north)' is a direction"):
        ring({"one": {"positions": [[1, 1]], "journey": "on"}}, journeys={"on": {"stages": stages}})
    patient = [{"goal": "east", "patience": 2.0}, "mark", {"choose": ["north", "east"]}]
    assert ring({"one": {"positions": [[1, 1]], "journey": "on"}}, journeys={"on": {"stages": patient}}).directions == (
        "east",
        "north",
    )


@pytest.mark.parametrize(
    ("item", "more"),
    [
        ("doors.gate", {"doors": {"gate": {"line": [[5, 0], [5, 3]], "opens": [1.0]}}}),
        ("groups.late.source", {"groups": {"late": {"count": 2, "area": AREA, "source": {"rate": 1.0}}}}),
    ],
)
def test_what_there_is_not_in_a_periodic_world_is_refused(item: str, more: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=f"^{item}: there are none in a periodic world"):
        build({"world": {"area": AREA, "periodic": "x"}, **more})
    report = geometry_report({"world": {"area": AREA, "periodic": "x"}, **more})
    assert [finding.item for finding in report.findings if finding.severity == "error"] == [item]


def test_in_the_open_a_direction_leads_on_beside_goals_that_are_somewhere() -> None:
    """Straight, out by an exit that lies there; it is drawn nowhere."""
    groups = {"east": {"positions": [[1, 1]], "goal": "east"}, "mark": {"positions": [[1, 2]], "goal": "mark"}}
    goals = {"mark": {"point": [5, 1]}, "east": {"direction": [1, 0]}, "exit": {"line": [[10, 0.5], [10, 1.5]]}}
    scenario = build(
        {"world": {"area": AREA, "obstacles": [[[3, 1.5], [4, 1.5], [4, 3], [3, 3]]]}, "goals": goals, "groups": groups}
    )
    assert drawn_goals(scenario)[0] == ["mark", "exit"]
    final = simulate(scenario, None, jax.random.key(1), 9000, every=9000).final
    assert PUSHED_OUT - int(final.goal[0]) == scenario.goals.index("exit"), "went out where the direction led"
    assert not bool(final.alive[0])
    assert int(final.arrived[1]) > 0
    assert picture(scenario, width=200)


def test_the_ring_of_the_library_is_rimea_4() -> None:
    scenario = load("ring")
    assert (scenario.world.size[0], np.ptp(fixed_walls(scenario)[..., 1])) == (26.0, 2.0)
    run = simulate(scenario, None, jax.random.key(4), 1000, every=500, observe=("people", "mean_speed"))
    assert np.asarray(run.series["people"]).tolist() == [104, 104]
    assert np.asarray(run.series["mean_speed"])[-1] > 0.8
