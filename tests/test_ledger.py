"""Demanded = waiting + active + left + removed + refused at every step, and who did not arrive is listed with a reason."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crowdlab.commands import Command, Kind
from crowdlab.measures import Missing, Reason, not_arrived
from crowdlab.record import Recorder, Recording, verify
from crowdlab.report import lines, summary
from crowdlab.scenario import Scenario, build, load, shipped
from crowdlab.simulation import chunks
from crowdlab.state import INSIDE, LEFT, PUSHED_OUT, REFUSED, REMOVED, STANDING, WAITING, whereabouts

COUNTS = ("people", "left", "removed", "waiting", "refused")
CROWDED = 200  # people; of more the first seconds are looked at: they are followed to their end where their times are asked for


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_ledger_holds_at_every_step_of_every_shipped_scenario_and_no_guard_is_near(name: str) -> None:
    """So long that people come in, meet and leave, and to the end where doors open and close: one program for both."""
    scenario = load(name)
    people = scenario.state.id.shape[0]
    steps = 8000 if people <= CROWDED else 1000 if scenario.sources is None else 3000
    if scenario.doors is not None:
        steps = round(scenario.duration / scenario.params.time_step)
    alive, been = (np.asarray(scenario.state.alive),) * 2  # in the frame before; ever
    key = jax.random.key(scenario.seed)
    for piece in chunks(scenario, scenario.params, key, steps, chunk=200, every=1, observe=(*COUNTS, "arrived")):
        assert float(piece.health.step_ratio) < 0.5
        assert float(piece.health.strain) < 0.5
        counts = {word: np.asarray(values) for word, values in piece.series.items()}
        np.testing.assert_array_equal(sum(counts[word] for word in COUNTS), people)
        now = np.asarray(piece.frames.alive)
        np.testing.assert_array_equal(counts["people"], now.sum(1))
        before, had_been = np.concatenate((alive[None], now[:-1])), np.logical_or.accumulate(np.concatenate((been[None], now)))
        assert not (now & ~before & had_been[:-1]).any(), "nobody comes back"
        assert (np.asarray(piece.final.entered) >= 0)[now.any(0)].all(), "who is there has come in"
        alive, been = now[-1], had_been[-1]
    assert scenario.sources is None or counts["people"][-1] > 2


def test_everybody_is_in_exactly_one_place() -> None:
    """For all that a state may say, now and in the frame of any earlier step."""
    alive, arrived, entered, step = np.meshgrid([False, True], [False, True], [-7, -2, -1, 0, 5, 9], [0, 5, 6], indexing="ij")
    for parts in (whereabouts(alive, arrived, entered), whereabouts(alive, arrived, entered, step)):
        assert list(parts) == [INSIDE, STANDING, LEFT, REMOVED, WAITING, REFUSED]
        assert (np.sum(list(parts.values()), axis=0) == 1).all()
    gone = {"alive": np.zeros(4, bool), "arrived": np.zeros(4, bool), "entered": np.array([-1, -7, 3, 6])}
    for step, expected in ((5, (WAITING, WAITING, REMOVED, WAITING)), (6, (WAITING, REFUSED, REMOVED, WAITING))):
        parts = whereabouts(**gone, step=step)
        assert all(parts[word][row] for row, word in enumerate(expected))
    parts = whereabouts(**gone)
    assert all(parts[word][row] for row, word in enumerate((WAITING, REFUSED, REMOVED, REMOVED)))


@pytest.mark.filterwarnings("ignore:.*Opened there")
@pytest.mark.parametrize("goal", ["right", "spot", None])
def test_who_is_pushed_out_by_another_exit_is_gone(goal: str | None, tmp_path: Path) -> None:
    """And listed, not lost beyond the outline; a gate inside is walked through."""
    scenario = build(
        {
            "title": "Pushed",
            "duration": 1.0,
            "world": {"area": [[0, 0], [10, 0], [10, 4], [0, 4]], "walls": [[[5, 0], [5, 4]]]},
            "goals": {
                "left": {"line": [[0, 1], [0, 3]]},
                "right": {"line": [[10, 1], [10, 3]]},
                "gate": {"line": [[5, 1], [5, 3]]},
                "spot": {"point": [9, 0.5]},
            },
            "groups": {
                "pushed": {"positions": [[0.35, 2.6], [4.65, 2], [4.65, 2.6], [0.0, 1.4]], **({"goal": goal} if goal else {})}
            },
        }
    )
    rush = jnp.asarray(np.array([[-4.0, 4.0, 4.0, 3.0], [0.0, 0.0, 0.0, 0.0]], scenario.state.velocity.dtype))
    scenario = dataclasses.replace(scenario, state=scenario.state.with_(velocity=rush))
    assert [scenario.goals[owner] for owner in np.asarray(scenario.world.outlet_goal)] == ["left", "right"]
    with Recorder(tmp_path / "pushed.sqlite", scenario, seed=1, every=250) as recorder:
        for _ in recorder.run(500, chunk=500):
            pass
    recording = Recording.open(tmp_path / "pushed.sqlite")
    assert recording.people["outcome"].tolist() == [REMOVED, INSIDE, INSIDE, INSIDE]
    assert (recording.positions[-1, 1:3, 0] > 5.2).all()
    assert recording.positions[-1, 3, 0] > 0.5, "who comes in over an exit is not taken for somebody who goes out"
    assert PUSHED_OUT - recording.people["goal"][0] == scenario.goals.index("left")
    assert recording.people["arrived"][0] == -1
    told = {one.id: one.reason for one in not_arrived(recording)}
    assert told[0] == "pushed out over the exit left"


AREA = [[0, 0], [10, 0], [10, 4], [0, 4]]
GATE = {"line": [[5, 1], [5, 3]]}
SPEC: dict[str, Any] = {
    "title": "A gate that closes at five seconds",
    "duration": 14.0,
    "frames_per_second": 5.0,
    "world": {"area": AREA, "walls": [[[5, 0], [5, 1]], [[5, 3], [5, 4]], [[7, 0.0], [7, 1.5], [8.5, 1.5], [8.5, 0]]]},
    "goals": {
        "out": {"line": [[10, 2], [10, 4]]},
        "pen": {"point": [7.7, 0.7]},
    },
    "doors": {"gate": {**GATE, "closes": [5.0]}},
    "groups": {
        "early": {"positions": [[3, 2]], "goal": "out"},
        "slow": {"positions": [[2, 1]], "goal": "out", "desired_speed": 0.3},
        "late": {"positions": [[2, 3]], "goal": "out", "pre_movement": 60.0},
        "lost": {"positions": [[8, 3.5]]},
        "sent": {"positions": [[6, 0.5]], "goal": "out", "desired_speed": 0.05},
        "taken": {"positions": [[9, 0.5]]},
        "comers": {
            "area": [[0, 0], [0.6, 0], [0.6, 0.6], [0, 0.6]],
            "goal": "out",
            "desired_speed": 0.0,
            "source": {"times": [1.0, 2.0, 40.0], "patience": 3.0, "gap": 1.0},
        },
        "patient": {
            "area": [[0, 3.4], [0.6, 3.4], [0.6, 4], [0, 4]],
            "goal": "out",
            "desired_speed": 0.0,
            "source": {"times": [1.0, 2.0], "gap": 1.0},
        },
    },
    "forces": {"driving": {}, "repulsion": {}, "wall_repulsion": {}},
    "motion": {"dt": 0.02},
}
ORDERS = [Command(100, Kind.GOAL, (1.0, 0.0), agent=4), Command(200, Kind.REMOVE, agent=5)]


@pytest.fixture(scope="module")
def gate() -> Scenario:
    return build(SPEC, name="gate")


@pytest.fixture(scope="module")
def recorded(gate: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The gate closes at 5 s; the run ends at its limit of 14 s."""
    path = tmp_path_factory.mktemp("ledger") / "gate.sqlite"
    with Recorder(path, gate, seed=1, every=10, observe=("arrived", *COUNTS)) as recorder:
        for _ in recorder.run(700, chunk=10, commands=ORDERS):
            pass
    return Recording.open(path)


def test_who_did_not_arrive_is_listed_with_the_reason(recorded: Recording) -> None:
    """A door closed at 5 s, a goal without a way, and all the other ways not to arrive."""
    found = not_arrived(recorded)
    told = {one.id: re.sub(r", \d\.\d m away,", "", one.reason) for one in found}
    assert told == {
        1: "the way is shut: door gate is closed",
        2: "the way is shut: door gate is closed",
        3: "has no goal",
        4: "no way to the goal for this body",
        5: "removed by an order",
        6: "the way is shut: door gate is closed",
        7: "refused at 5 s: no room for 3 s",
        8: "not due before 40.00 s",
        9: "the way is shut: door gate is closed",
        10: "no room to come in for 12 s",
    }
    shut = Reason.CLOSED_DOOR
    assert [one.kind for one in found] == [
        *(shut, shut, Reason.NO_GOAL, Reason.NO_ROUTE, Reason.REMOVED),
        *(shut, Reason.REFUSED, Reason.NOT_DUE, shut, Reason.NO_ROOM),
    ]
    assert [(one.outcome, one.group, one.goal) for one in found[3:8]] == [
        (INSIDE, "sent", "pen"),
        (REMOVED, "taken", None),
        (INSIDE, "comers", "out"),
        (REFUSED, "comers", "out"),
        (WAITING, "comers", "out"),
    ]
    x = found[0].position[0]
    assert 4 < x < 5
    assert found[0].reason == f"the way is shut: door gate, {5 - x:.1f} m away, is closed"


def test_the_ledger_of_a_recording_and_its_summary(recorded: Recording) -> None:
    ledger = recorded.ledger()
    assert (np.sum(list(ledger.values()), axis=0) == 11).all()
    for word in (LEFT, REMOVED, WAITING, REFUSED):
        np.testing.assert_array_equal(ledger[word][1:], recorded.series[word])
    told = summary(recorded)
    assert told["people"] == {"in": 11, LEFT: 1, STANDING: 0, REMOVED: 1, INSIDE: 6, WAITING: 2, REFUSED: 1}
    # Of each source one came in at once and one tried every 0.2 s from 2 s on, to 5 s or to the end.
    words = ("due", "came_in", "refused", "waiting", "looks_without_room")
    assert {name: [one[word] for word in words] for name, one in told["entries"].items()} == {
        "comers": [2, 1, 1, 0, 16],
        "patient": [2, 1, 0, 1, 60],
    }
    waits = [(one["mean_wait"], one["longest_wait"]) for one in told["entries"].values()]
    assert waits == [({"value": mean, "unit": "s"}, {"value": most, "unit": "s"}) for mean, most in ((1.5, 3.0), (6.0, 12.0))]
    text = "\n".join(lines(told))
    assert "entry     comers: 1 of 2 who were due came in; waited for room 1.50 s in the mean, 3.00 s at most, 16 looks" in text
    assert "6 still inside, 2 waiting outside, 1 refused" in text
    assert "refused   agent 7 (comers) at (0." in text


@pytest.mark.bits
def test_a_recording_of_sources_and_doors_runs_again(recorded: Recording) -> None:
    assert recorded.frames.closed[-1] == 1
    assert verify(recorded).same
    entered = recorded.people["entered"]
    np.testing.assert_array_equal(entered, [0, 0, 0, 0, 0, 0, 50, -252, -1, 50, -1])


def test_who_is_stuck_or_has_not_set_out_or_walks_on(tmp_path: Path) -> None:
    open_gate = build({**SPEC, "doors": {"gate": {**GATE, "closes": [50.0]}}})
    with Recorder(tmp_path / "open.sqlite", open_gate, seed=1, every=10) as recorder:
        for _ in recorder.run(700, chunk=700):
            pass
    told = {one.id: one.reason for one in not_arrived(Recording.open(tmp_path / "open.sqlite"))}
    assert told[1] == "still walking"
    assert told[2] == "has not set out: waits for another 46.00 s (pre_movement)"
    assert told[6] == "does not walk: the desired speed is 0 m/s (people.desired_speed)"


def test_who_stands_at_a_target_and_is_pushed_out_has_not_left(tmp_path: Path) -> None:
    """At the end of a journey too; whoever stood is taken out of those who stand, as by an order."""
    spec = {
        "world": {"area": AREA},
        "goals": {"left": {"line": [[0, 1], [0, 3]]}, "spot": {"point": [0.6, 1.4]}, "seat": {"point": [0.6, 2.6]}},
        "journeys": {"way": {"stages": ["seat"]}},
        "groups": {
            "walkers": {"positions": [[0.7, 1.4]], "goal": "spot"},
            "travellers": {"positions": [[0.7, 2.6]], "journey": "way"},
        },
    }
    found = listed(tmp_path, spec, 2, [Command(50, Kind.PUSH, (-9.0, 0.0))])
    recording = Recording.open(tmp_path / "run.sqlite")
    assert recording.people["outcome"].tolist() == [REMOVED, REMOVED]
    assert recording.people["arrived"].tolist() == [-1, -1]
    assert {one.reason for one in found.values()} == {"pushed out over the exit left"}
    standing = recording.ledger()[STANDING].tolist()
    assert (standing[1], standing[-1]) == (2, 0)


def listed(path: Path, spec: dict[str, Any], seconds: float, orders: Sequence[Command] = ()) -> dict[int, Missing]:
    """Who did not arrive after so many seconds, by id."""
    scenario = build({"forces": {"driving": {}}, "motion": {"dt": 0.02}, **spec})
    steps = round(seconds / scenario.params.time_step)
    with Recorder(path / "run.sqlite", scenario, seed=1, every=25, observe=("arrived",), overwrite=True) as recorder:
        for _ in recorder.run(steps, chunk=25, commands=orders):
            pass
    return {one.id: one for one in not_arrived(Recording.open(path / "run.sqlite"))}


@pytest.mark.parametrize("line", [[[10, 0], [10, 4]], [[9, 0], [9, 4]]], ids=["along the exit", "before it"])
def test_who_waits_at_a_door_that_is_shut_is_told_so(line: Any, tmp_path: Path) -> None:
    """Wherever the door is, also along the exit itself, which is never without a way."""
    spec = {
        "world": {"area": AREA},
        "goals": {"out": {"line": [[10, 0], [10, 4]]}},
        "doors": {"gate": {"line": line, "closes": [0.0]}},
        "groups": {"all": {"positions": [[8.5, 2], [2, 2]], "goal": "out"}},
        "forces": {"driving": {}, "wall_contact": {}},
    }
    found = listed(tmp_path, spec, 8)
    assert [one.kind for one in found.values()] == [Reason.CLOSED_DOOR] * 2
    assert "door gate, 0." in found[0].reason


@pytest.mark.parametrize(
    ("doors", "told"),
    [
        ({"gate": [[5, 0], [5, 4]]}, "door gate, 3.0 m away, is closed"),
        ({"gate": [[5, 0], [5, 4]], "exit": [[8, 0], [8, 4]]}, "doors gate, exit, the nearest 3.0 m away, are closed"),
    ],
)
def test_the_door_that_shuts_the_way_is_named_and_no_other(doors: dict[str, Any], told: str, tmp_path: Path) -> None:
    """Not the nearest, which stands free in the room; where several are shut one behind the other, all of these."""
    spec = {
        "world": {"area": AREA},
        "goals": {"out": {"line": [[10, 0], [10, 4]]}},
        "doors": {name: {"line": line, "closes": [0.0]} for name, line in {"closet": [[1, 3], [3, 3]], **doors}.items()},
        "groups": {"all": {"positions": [[2, 2.4]], "goal": "out", "pre_movement": 60.0}},
    }
    found = listed(tmp_path, spec, 0.5)[0]
    assert (found.kind, found.reason) == (Reason.CLOSED_DOOR, f"the way is shut: {told}")


def test_who_stands_in_a_zone_where_nobody_walks_is_told_which(tmp_path: Path) -> None:
    spec = {
        "world": {"area": AREA},
        "goals": {"out": {"line": [[10, 0], [10, 4]]}},
        "zones": {
            "ice": {"polygon": [[0, 0], [2, 0], [2, 4], [0, 4]], "speed": 0.5},
            "mud": {"polygon": [[1.5, 0], [4, 0], [4, 4], [1.5, 4]], "speed": 0.0},
        },
        "groups": {"all": {"positions": [[3, 1], [0.5, 2]], "goal": "out"}},
    }
    found = listed(tmp_path, spec, 0.5)
    assert found[0][-2:] == (Reason.NO_SPEED, "does not walk: zone mud lets nobody walk (zones.mud)")
    assert found[1].kind == Reason.WALKING


def test_a_direction_has_no_end_but_reasons_not_to_be_walked_in(tmp_path: Path) -> None:
    """Who has not set out, who stands at a wall, who walks."""
    spec = {
        "world": {"area": AREA},
        "goals": {"east": {"direction": [1, 0]}},
        "groups": {
            "late": {"positions": [[1, 1]], "goal": "east", "pre_movement": 100.0},
            "there": {"positions": [[9.6, 2]], "goal": "east"},
            "slow": {"positions": [[1, 3]], "goal": "east", "desired_speed": 0.5},
        },
        "forces": {"driving": {}, "wall_contact": {}},
        "motion": {"dt": 0.01},
    }
    assert [one.kind for one in listed(tmp_path, spec, 8).values()] == [Reason.NOT_SET_OUT, Reason.WALLED, Reason.WALKING]


def test_who_is_in_the_way_or_a_wall_is_or_nobody(tmp_path: Path) -> None:
    """Three lanes: behind somebody who stands, in a gap whose jambs push harder than the drive, at a crawl with nobody near."""
    gap = [[[5, 2], [5, 2.7]], [[5, 3.3], [5, 4]]]
    spec = {
        "world": {
            "area": [[0, 0], [10, 0], [10, 6], [0, 6]],
            "walls": [[[0, 0.7], [10, 0.7]], [[0, 2], [10, 2]], [[0, 4], [10, 4]], *gap],
        },
        "goals": {"out": {"line": [[10, 0], [10, 6]]}},
        "groups": {
            "behind": {"positions": [[1.2, 0.35]], "goal": "out", "desired_speed": 0.2, "radius": 0.25},
            "before": {"positions": [[2, 0.35]], "goal": "out", "desired_speed": 0.0, "radius": 0.25, "mass": 400.0},
            "narrow": {"positions": [[3.5, 3]], "goal": "out", "radius": 0.25},
            "slow": {"positions": [[1, 5]], "goal": "out", "desired_speed": 0.03},
            "beyond": {"positions": [[2.7, 5]], "goal": "out", "desired_speed": 0.0, "radius": 0.2},
        },
        "forces": {"driving": {}, "contact": {}, "wall_repulsion": {}},
        "motion": {"dt": 0.01},
    }
    found = listed(tmp_path, spec, 8)
    assert [found[row].kind for row in range(5)] == [
        *(Reason.BLOCKED, Reason.NO_SPEED, Reason.WALLED, Reason.STUCK, Reason.NO_SPEED)
    ]
    assert found[0].reason.endswith("blocked by agent 1, who is in the way")


def test_the_time_before_walking_is_the_one_in_force(tmp_path: Path) -> None:
    """On a journey that begins with a choice too; an order on the way changes it for those who wait, and for how long."""
    spec = {
        "world": {"area": AREA},
        "goals": {"a": {"polygon": [[6, 0], [9, 0], [9, 1], [6, 1]], "places": 2}, "out": {"line": [[10, 0], [10, 4]]}},
        "journeys": {"way": {"stages": [{"choose": ["a"]}, "out"]}},
        "groups": {
            "travellers": {"positions": [[1, 1]], "journey": "way", "pre_movement": 60.0},
            "walkers": {"positions": [[1, 3]], "goal": "out", "pre_movement": 60.0},
        },
    }
    told = {row: (one.kind, one.reason) for row, one in listed(tmp_path, spec, 6).items()}
    waits = (Reason.NOT_SET_OUT, "has not set out: waits for another 54.00 s (pre_movement)")
    assert told == {0: waits, 1: waits}
    longer = Command(100, Kind.SET, (90.0, 0.0), path="people.pre_movement")
    assert listed(tmp_path, spec, 6, [longer])[1].reason == waits[1].replace("54", "84")
    sooner = Command(100, Kind.SET, (1.0, 0.0), path="people.pre_movement")
    assert listed(tmp_path, spec, 6, [sooner])[1].kind == Reason.WALKING


def test_more_than_are_listed_are_counted_by_kind(recorded: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdlab.report.LISTED", 2)
    assert lines(summary(recorded))[-1] == (
        "missing   and 8 more: 2 waiting at a closed door, 1 no goal, 1 no route, 1 removed, 1 refused, 1 not due, "
        "1 no room to come in; summary.json names all"
    )
