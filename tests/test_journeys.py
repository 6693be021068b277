"""Journeys: which goal comes next, stays, waiting areas, queues, lists to visit, and their mistakes in scenario files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from crowdlab import gradient, measures, planning, simulate, simulate_many
from crowdlab.commands import Command, Kind
from crowdlab.errors import CommandError, ParamError, ScenarioError
from crowdlab.measures.reasons import not_arrived
from crowdlab.record import Recorder, Recording, verify
from crowdlab.scenario import Scenario, build, load, variant
from crowdlab.simulation import Run, chunks
from crowdlab.state import Intent

ROOM = {"area": [[0, 0], [20, 0], [20, 10], [0, 10]]}
END = {"line": [[20, 0], [20, 10]]}
DT = 0.01  # s; nobody touches anybody here
KEY = jax.random.key(0)
DRIVEN = {"driving": {}}  # walkers who do not see each other


def scene(goals: dict[str, Any], stages: list[Any], *, forces: Any = None, loop: bool = False, **group: Any) -> Scenario:
    """People of 1 m/s who start at (1, 5), unless they are placed otherwise, with one journey."""
    people: dict[str, Any] = {"positions": [[1, 5]]} if not {"count", "positions"} & set(group) else {}
    return build(
        {
            "world": ROOM,
            "goals": {**goals, "end": END},
            "journeys": {"way": {"stages": stages, "loop": loop}},
            "groups": {"walkers": {**people, "journey": "way", "desired_speed": 1.0, "radius": 0.2, **group}},
            "forces": DRIVEN if forces is None else forces,
            "motion": {"dt": DT},
        }
    )


def walked(scenario: Scenario, seconds: float, **given: Any) -> Run:
    steps = round(seconds / DT)
    return simulate(scenario, None, KEY, steps, every=10, **given)


def left_at(run: Run) -> np.ndarray:
    """When each came to the end, s; negative before."""
    return np.asarray(run.final.arrived) * DT


def test_a_line_on_the_way_is_crossed_without_losing_a_step() -> None:
    straight, by_way = scene({}, ["end"]), scene({"gate": {"line": [[8, 3], [8, 7]]}}, ["gate", "end"])
    times = [left_at(walked(scenario, 25)) for scenario in (straight, by_way)]
    assert times[0] == times[1]
    assert_allclose(times[0], 19.0 + 0.5, atol=0.02)  # distance over speed, and the relaxation time


def test_waypoints_are_visited_in_order_each_within_its_reach() -> None:
    run = walked(scene({"a": {"point": [5, 8]}, "b": {"point": [5, 2], "reach": 0.1}}, ["a", "b", "end"]), 40)
    place = np.asarray(run.frames.position)[:, 0]
    near_a, near_b = (np.hypot(*(place - point).T) for point in ((5, 8), (5, 2)))
    assert 0.2 < near_a.min() < 0.5  # turned round within half a metre, and rolled on for a while
    assert near_b.min() < 0.2
    assert near_a.argmin() < near_b.argmin()
    assert left_at(run) > 0


def test_a_loop_goes_round_for_ever() -> None:
    run = walked(scene({"a": {"point": [3, 5]}, "b": {"point": [6, 5]}}, ["a", "b"], loop=True), 30)
    x = np.asarray(run.frames.position)[:, 0, 0]
    turns = np.flatnonzero(np.diff(np.sign(np.diff(x))))
    assert len(turns) >= 8
    assert run.final.alive.all()
    assert (np.asarray(run.final.arrived) == -1).all()


@pytest.mark.parametrize(("wait", "step"), [(0.0, 0), (0.004, 0), (0.006, 1), (1.0, 100), (1.004, 100), (1.006, 101)])
def test_everybody_begins_in_the_step_nearest_to_the_own_time(wait: float, step: int) -> None:
    """The same step for who chooses among goals then, who wants to walk and who moves."""
    choice = {"choose": ["end", "other"], "by": "shortest"}
    run = simulate(scene({"other": {"line": [[0, 0], [0, 9]]}}, [choice], pre_movement=wait), None, KEY, 110, every=1)
    assert np.asarray(run.final.trip.set_out).tolist() == [step]
    moves, wants = np.asarray(run.frames.velocity)[:, 0].any(-1), np.asarray(run.frames.intent)[:, 0] == Intent.WALKS
    for seen in (moves, wants):
        assert np.asarray(run.frames.step)[seen].min() == step + 1


@pytest.mark.parametrize("stay", [0.0, 3.0])
def test_a_stay_takes_as_long_as_it_says(stay: float) -> None:
    shop = {"shop": {"point": [8, 5], "reach": 0.3, "stay": stay}}
    run = walked(scene(shop, ["shop", "end"]), 30)
    x = np.asarray(run.frames.position)[:, 0, 0]
    # From 1 m/s it rolls out in half a metre, unless it goes on at once, and starts anew: twice the relaxation time.
    assert_allclose(left_at(run), 19.5 + stay, atol=0.12)
    assert (np.abs(x - 8.2) < 0.03).sum() >= 10 * (stay - 2.5)


def test_a_stay_is_a_parameter_that_can_be_moved_and_drawn() -> None:
    shop = {"shop": {"point": [8, 5], "stay": {"uniform": [1.0, 4.0]}}}
    scenario = scene(shop, ["shop", "end"], positions=[[1, 5], [1, 3], [1, 7]])
    stays = np.asarray(scenario.params.stops["shop"].stay)
    assert ((stays >= 1) & (stays <= 4)).all()
    assert len(set(stays.tolist())) == 3
    late = walked(scenario, 30, commands=[Command(step=0, kind=Kind.SET, path="stops.shop.stay", value=(10.0, 0.0))])
    assert (left_at(late) < 0).any()
    with pytest.raises(ParamError, match=r"stops\.shop\.stay = -1 s"):
        walked(scenario, 1, commands=[Command(step=0, kind=Kind.SET, path="stops.shop.stay", value=(-1.0, 0.0))])


def test_people_wait_until_they_are_called() -> None:
    scenario = scene({"gate": {"point": [8, 5], "until": [4.0, 15.0]}}, ["gate", "end"])
    run = walked(scenario, 35)
    # It comes at about 7 s: too late for the first call.
    assert_allclose(left_at(run), 15.0 + 12.0 + 0.5, atol=0.3)
    seen = measures.Tracks.of_run(run, scenario)
    assert (measures.moved(seen) < measures.HARDLY).any()
    assert measures.stuck_time(seen) == 0  # who waits by plan is not stuck
    assert measures.slow_time(seen) < 1  # sets out twice


def test_a_call_of_the_very_step_of_the_arrival_is_heard() -> None:
    def gate(until: float) -> Scenario:
        return scene({"gate": {"point": [8, 5], "until": [until]}}, ["gate", "end"])

    def stopped(until: float, seconds: float) -> int:
        return int(walked(gate(until), seconds).final.trip.stopped[0])

    there = stopped(60.0, 10)
    assert there > 600
    assert stopped(there * DT, 10) == -1, "it went on at once"
    assert stopped((there - 1) * DT, 10) == there, "too late for an earlier one"


def test_braking_halves_the_speed_at_half_the_distance() -> None:
    run = walked(scene({"seat": {"point": [10, 5], "brake": 4.0, "reach": 0.05}}, ["seat"]), 30)
    x, v = np.asarray(run.frames.position)[:, 0, 0], np.asarray(run.frames.velocity)[:, 0, 0]
    assert_allclose(v[np.argmin(np.abs(x - 5.9))], 1.0, atol=0.01)
    # dv/dt = (v0 d / b - v) / tau is followed with a delay of about tau: v = lambda d with lambda^2 tau - lambda + 1/b = 0.
    assert_allclose(v[np.argmin(np.abs(x - 9.0))], (1 - (1 - 4 * 0.5 / 4) ** 0.5) / (2 * 0.5), rtol=0.05)
    assert np.asarray(run.final.arrived) > 0


def choice(by: str, **more: Any) -> Scenario:
    exits = {"up": {"line": [[20, 6], [20, 9]]}, "down": {"line": [[20, 1], [20, 4]]}}
    spots = [[1.0 + 0.5 * column, 0.5 + 0.5 * row] for row in range(18) for column in range(5)]
    return scene(exits, [{"choose": ["up", "down"], "by": by, **more}], positions=spots)


def chosen(scenario: Scenario, key: Any = KEY) -> np.ndarray:
    return np.asarray(simulate(scenario, None, key, 1).final.goal)


def test_the_shortest_way_is_chosen_by_where_somebody_stands() -> None:
    scenario = choice("shortest")
    y = np.asarray(scenario.state.position)[1]
    away = np.abs(y - 5) > 0.3
    assert_allclose(chosen(scenario)[away], np.where(y[away] > 5, 0, 1))


def test_the_least_crowded_exit_is_chosen_one_after_the_other() -> None:
    assert np.bincount(chosen(choice("least_crowded"))).tolist() == [45, 45]


def test_the_quickest_exit_counts_the_way_and_those_who_wait() -> None:
    exits = {"near": {"line": [[20, 4.5], [20, 5.5]]}, "far": {"line": [[0, 4.5], [0, 5.5]]}}
    spots = [[12.2 + 0.6 * (number % 2), 0.5 + 0.45 * (number // 2)] for number in range(40)]
    goals = chosen(scene(exits, [{"choose": ["near", "far"], "by": "quickest"}], positions=spots))
    # All lie some 7.5 m from the near one and 12.5 m from the far one: 5 s more, in which 6.5 people pass a metre.
    assert (goals == 0).sum() - (goals == 1).sum() == pytest.approx(6.5, abs=2)
    with pytest.raises(ScenarioError, match="goal 'a' is no line"):
        scene({"a": {"point": [5, 5]}}, [{"choose": ["a", "end"], "by": "quickest"}])


def test_weights_are_shares_that_depend_on_the_key_alone() -> None:
    scenario = choice("weights", weights=[3, 1])
    draws = np.concatenate([chosen(scenario, jax.random.key(seed)) for seed in range(8)])
    assert_allclose((draws == 0).mean(), 0.75, atol=4 * (0.75 * 0.25 / draws.size) ** 0.5)
    assert (chosen(scenario) == chosen(scenario)).all()
    assert (chosen(choice("weights", weights=[0, 1])) == 1).all()


@pytest.mark.parametrize("scale", [1e-320, 1e-50, 1e50, 1e307])
def test_weights_are_shares_whatever_their_scale(scale: float) -> None:
    same = chosen(choice("weights", weights=[1, 1]))
    np.testing.assert_array_equal(chosen(choice("weights", weights=[scale, scale])), same)
    assert (chosen(choice("weights", weights=[0, scale])) == 1).all()


@pytest.mark.bits
def test_runs_abreast_choose_as_each_would_alone() -> None:
    shop = {"shop": {"point": [8, 5], "stay": 0.35}, "up": {"line": [[20, 6], [20, 9]]}, "down": {"line": [[20, 1], [20, 4]]}}
    stages = ["shop", {"choose": ["up", "down"]}]
    scenario = scene(shop, stages, positions=[[1, y] for y in (2, 4, 6, 8)])
    keys = jax.random.split(jax.random.key(4), 5)
    together = simulate_many(scenario, keys, 1200, every=40)
    goals = np.asarray(together.final.goal)
    assert len({tuple(row) for row in goals.tolist()}) > 1
    for number, key in enumerate(keys):
        alone = simulate(scenario, None, key, 1200, every=40)
        assert (np.asarray(alone.frames.position) == np.asarray(together.frames.position)[number]).all()
        assert (np.asarray(alone.final.goal) == goals[number]).all()


def test_an_exit_that_closes_is_left_for_another_when_thought_over() -> None:
    spec: dict[str, Any] = {
        "world": ROOM,
        "goals": {"near": {"line": [[20, 4], [20, 6]]}, "far": {"line": [[8, 10], [10, 10]]}},
        "journeys": {"out": {"stages": [{"choose": ["near", "far"], "by": "shortest", "rethink": 1.0}]}},
        "doors": {"gate": {"line": [[20, 4], [20, 6]], "closes": [2.0]}},
        "groups": {"walkers": {"positions": [[16, 5]], "journey": "out", "desired_speed": 1.0}},
        "forces": DRIVEN,
        "motion": {"dt": DT},
    }
    run = walked(build(spec), 20)
    assert run.final.goal.tolist() == [1]
    assert not run.final.alive.any()


def test_a_waiting_area_that_is_shut_off_is_left_for_another_when_thought_over() -> None:
    halls = {
        "near": {"polygon": [[16, 3], [19, 3], [19, 7], [16, 7]], "places": [[18, 5]]},
        "far": {"polygon": [[1, 3], [4, 3], [4, 7], [1, 7]], "places": [[3, 5], [2, 5]]},
    }
    scenario = scene(halls, [{"choose": ["near", "far"], "by": "shortest", "rethink": 0.5}], positions=[[12, 5], [9, 5]])
    spec = {**scenario.source, "doors": {"gate": {"line": [[14, 0], [14, 10]], "closes": [1.0]}}}
    run = walked(build(spec), 14)
    assert run.final.goal.tolist() == [1, 1]
    assert run.final.trip.place.tolist() == [2, 1]
    assert (np.asarray(run.final.arrived) > 0).all()


def test_patience_ends_and_the_next_stage_comes() -> None:
    far = {"far": {"point": [19, 9]}}
    run = walked(scene(far, [{"goal": "far", "patience": 2.0}, "end"]), 25)
    y = np.asarray(run.frames.position)[:, 0, 1]
    assert_allclose(y[25:].std(), 0, atol=0.02)  # it turned round at 2 s
    assert y[-1] < 6
    assert left_at(run) > 0


def test_a_list_is_visited_nearest_first_or_as_given() -> None:
    shelves = {name: {"point": [x, 5], "reach": 0.1} for name, x in (("a", 12), ("b", 4), ("c", 8))}
    for order, expected in (("nearest", ["b", "c", "a"]), ("given", ["a", "b", "c"])):
        run = walked(scene(shelves, [{"visit": ["a", "b", "c"], "order": order}, "end"]), 60)
        x = np.asarray(run.frames.position)[:, 0, 0]
        first = {name: np.argmin(np.abs(x - shelves[name]["point"][0])) for name in expected}
        assert left_at(run) > 0
        if order == "nearest":
            assert first["b"] < first["c"] < first["a"]
        else:
            turns = x[1:-1][np.diff(np.sign(np.diff(x))) != 0]
            roll = 0.5 * (1 - np.log(2))  # m, from 1 m/s until it comes back
            assert_allclose(turns[:2], [11.9 + roll, 4.1 - roll], atol=0.02)


@pytest.mark.parametrize("order", ["nearest", "given"])
def test_a_list_in_the_order_given_waits_for_a_place_and_any_other_goes_on(order: str) -> None:
    goals = {
        "w": {"polygon": [[4, 3], [7, 3], [7, 7], [4, 7]], "places": [[5.5, 5]], "stay": 3.0},
        "p": {"point": [12, 5], "reach": 0.3},
    }
    run = walked(scene(goals, [{"visit": ["w", "p"], "order": order}, "end"], positions=[[2, 5], [1, 5]]), 24)
    x = np.asarray(run.frames.position)[:, :, 0]
    passed = (np.abs(x - 12) < 0.4).argmax(0) * 0.1  # s; the first is not kept waiting
    assert_allclose(passed, [13, 11 if order == "nearest" else 21], atol=0.5)
    assert (x[-1, 1] < 10) == (order == "nearest")  # he came back


def test_everybody_visits_a_list_of_their_own() -> None:
    shelves = {f"p{i}": {"point": [3 + 2 * i, 5], "reach": 0.3, "stay": 0.2} for i in range(6)}
    scenario = scene(shelves, [{"visit": list(shelves), "some": 2}, "end"], positions=[[1, 1 + 0.5 * i] for i in range(16)])
    visited = np.zeros((16, 6), bool)
    run = walked(scenario, 45)
    place = np.asarray(run.frames.position)
    for number in range(6):
        gap = np.hypot(*(place - np.array(shelves[f"p{number}"]["point"])).transpose(2, 0, 1))
        rests = np.hypot(*np.asarray(run.frames.velocity).transpose(2, 0, 1)) < 0.75  # braking for a stay
        visited[:, number] = ((gap < 0.32) & rests).any(0)
    assert (left_at(run) > 0).all()
    assert (visited.sum(1) == 2).all()
    assert len({tuple(row) for row in visited.tolist()}) > 4


def queue(many: int, people: int) -> Scenario:
    places = [[15 - 0.8 * number, 5] for number in range(many)]
    usual = {name: {} for name in ("driving", "repulsion", "contact", "wall_repulsion", "wall_contact")}
    spots = [[1 + 1.2 * (number % 4), 3 + 1.2 * (number // 4)] for number in range(people)]
    return scene({"till": {"queue": places, "stay": 2.0}}, ["till", "end"], positions=spots, forces=usual)


@pytest.mark.parametrize("many", [3, 10])
def test_a_queue_serves_one_after_the_other_in_the_order_of_joining(many: int) -> None:
    scenario = queue(many, 7)
    joined: list[int] = []
    served: list[int] = []
    for run in pieces(scenario, 70.0):
        place = np.asarray(run.final.trip.place)
        held = place[place >= 0]
        assert len(set(held.tolist())) == len(held)  # nobody shares a place
        joined += [one for one in np.flatnonzero(place >= 0).tolist() if one not in joined]
        served += [one for one in np.flatnonzero(place == 0).tolist() if one not in served]
    assert served == joined
    gone = np.sort(left_at(run))
    assert (gone > 0).all()
    assert np.diff(gone).min() > 2.0 - 0.2  # a service takes two seconds


def test_who_passes_the_end_of_a_queue_does_not_join_it_nor_the_own_one_from_there() -> None:
    """The last place of all belongs to the queue that is passed."""
    tills = {"own": {"queue": [[15, 5], [14, 5]], "stay": 2.0}, "passed": {"queue": [[4, 5], [3, 5]]}}
    run = walked(scene(tills, ["own", "end"]), 4)
    assert 3.5 < float(run.final.position[0, 0]) < 5
    assert int(run.final.trip.place[0]) == -1


def pieces(scenario: Scenario, seconds: float) -> Iterator[Run]:
    return chunks(scenario, scenario.params, KEY, round(seconds / DT), chunk=20, every=20)


def test_a_waiting_area_holds_as_many_as_it_has_places() -> None:
    hall = {"hall": {"polygon": [[8, 3], [13, 3], [13, 7], [8, 7]], "places": 6, "until": [20.0]}}
    usual = {name: {} for name in ("driving", "repulsion", "contact", "wall_repulsion", "wall_contact")}
    spots = [[1 + 1.5 * (number % 3), 3 + 1.5 * (number // 3)] for number in range(9)]
    scenario = scene(hall, ["hall", "end"], positions=spots, forces=usual)
    before, after = walked(scenario, 19), walked(scenario, 60)
    place = np.asarray(before.final.trip.place)
    assert sorted(place.tolist()) == [-1, -1, -1, 0, 1, 2, 3, 4, 5]
    x = np.asarray(before.final.position)[0]
    assert (x[place >= 0] > 8).all()
    assert (x[place < 0] < 5).all()  # who found no place stayed where they were
    assert (np.asarray(before.final.trip.stopped)[place >= 0] > 0).all()
    assert ((left_at(after) > 20) == (place >= 0)).all()
    inside = np.asarray(after.final.trip.place) >= 0
    assert inside.sum() == 3  # for whom there was room then, and no second call


def test_orders_send_somebody_on_a_journey_and_off_it() -> None:
    scenario = scene({"a": {"point": [5, 8]}}, ["a", "end"])
    stray = [Command(step=0, kind=Kind.GOAL, value=(1.0, 0.0)), Command(step=300, kind=Kind.JOURNEY, value=(0.0, 0.0))]
    run = walked(scenario, 35, commands=stray)
    y = np.asarray(run.frames.position)[:, 0, 1]
    assert_allclose(y[:30], 5, atol=0.01)
    assert y.max() > 7.5
    assert left_at(run) > 0
    with pytest.raises(CommandError, match=r"journey 7 does not exist. Journeys are 0 to 0 \(way\)"):
        walked(scenario, 1, commands=[Command(step=0, kind=Kind.JOURNEY, value=(7.0, 0.0))])


@pytest.mark.bits
def test_a_journey_is_the_same_however_a_run_is_cut_and_whoever_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces that run, from the second on, on a copy without half of the rows."""
    few = queue(4, 5)
    whole = simulate(few, None, KEY, 3000, every=100)
    others = [[16.6 + 0.5 * (number % 7), 0.5 + 0.95 * (number // 7)] for number in range(65)]
    many = variant(few, {"groups.walkers.positions": [*few.source["groups"]["walkers"]["positions"], *others]})
    monkeypatch.setattr(planning, "COMPILING", 0)
    gone = Command(step=0, kind=Kind.REMOVE, zone=(16.0, 0.0, 20.0, 10.0))
    *_, cut = chunks(many, many.params, KEY, 3000, chunk=20, every=20, commands=[gone])
    assert cut.final.alive[5:].sum() == 0
    assert (np.asarray(whole.final.position) == np.asarray(cut.final.position)[:, :5]).all()
    for one, other in zip(*(jax.tree.leaves(run.final.trip) for run in (whole, cut)), strict=True):
        assert (np.asarray(one) == np.asarray(other)[:5]).all()


def test_only_as_many_get_a_place_as_there_are_and_nobody_holds_one_without_a_goal() -> None:
    hall = {"a": {"point": [5, 8]}, "b": {"point": [5, 2]}, "hall": {"polygon": [[8, 3], [13, 3], [13, 7], [8, 7]], "places": 1}}
    spec = scene(hall, ["hall", {"choose": ["a", "b"]}], positions=[[1, 4], [1, 6]]).source
    spec["goals"].pop("end")
    spec["goals"]["hall"]["until"] = [12.0]
    run = walked(build(spec), 30)
    places, goals = np.asarray(run.final.trip.place), np.asarray(run.final.goal)
    assert sorted(places.tolist()) == [-1, 0]  # the second took it over, and was not called any more
    assert goals[places == 0] == 2
    assert np.asarray(run.final.arrived)[places < 0] > 0


def test_the_least_crowded_exit_is_never_one_that_is_shut() -> None:
    exits = {"up": {"line": [[20, 6], [20, 9]]}, "down": {"line": [[20, 1], [20, 4]]}}
    spec = scene(exits, [{"choose": ["up", "down"], "by": "least_crowded"}], positions=[[1, y] for y in (2, 4, 6, 8)]).source
    spec["doors"] = {"gate": {"line": [[20, 6], [20, 9]], "opens": [50.0]}}
    assert (chosen(build(spec)) == 1).all()


def test_patience_at_a_list_that_is_full_ends_the_whole_of_it() -> None:
    hall = {"hall": {"polygon": [[8, 3], [13, 3], [13, 7], [8, 7]], "places": 1, "until": [90.0]}}
    run = walked(scene(hall, [{"visit": ["hall"], "patience": 15.0}, "end"], positions=[[1, 4], [1, 6]]), 40)
    assert (left_at(run) > 0).sum() == 1


def test_a_journey_begins_after_the_time_before_walking() -> None:
    far = {"far": {"point": [19, 9]}}
    run = walked(scene(far, [{"goal": "far", "patience": 3.0}, "end"], pre_movement=10.0), 14)
    assert run.final.goal.tolist() == [1]
    assert int(run.final.trip.set_out[0]) == 1300


def test_an_order_to_a_goal_with_places_is_refused() -> None:
    with pytest.raises(CommandError, match=r"at goal 0 \(till\) everybody has a place of the own"):
        walked(queue(3, 2), 1, commands=[Command(step=0, kind=Kind.GOAL, value=(0.0, 0.0))])


def test_nobody_on_a_journey_is_no_trouble() -> None:
    scenario = variant(load("shop"), people=0)
    assert scenario.params.stops["bread"].stay == 0
    assert simulate(scenario, None, KEY, 20).final.id.shape == (0,)


@pytest.mark.bits
def test_a_journey_is_recorded_and_comes_out_again(tmp_path: Path) -> None:
    scenario = queue(4, 5)
    with Recorder(tmp_path / "run.sqlite", scenario, seed=0, every=20) as recorder:
        for _ in recorder.run(1800, chunk=600):
            pass
    recording = Recording.open(tmp_path / "run.sqlite")
    assert verify(recording).same
    reasons = {one.id: one.reason for one in not_arrived(recording)}
    assert any("stays at till" in reason for reason in reasons.values())
    assert any("stands in the queue at till, number 2" in reason for reason in reasons.values())
    seen = measures.Tracks.of_recording(recording)
    assert measures.stuck_time(seen).max() == 0
    stand = measures.queue(seen, [[15.3, 4.5], [15.3, 5.5]], [[11, 4], [15, 4], [15, 6], [11, 6]])
    assert stand.people.max() == 3  # of four places, the first of which is served
    assert (stand.queueing <= seen.queued | seen.wanting).all()


@pytest.mark.bits
def test_runs_abreast_queue_and_wait_as_each_would_alone() -> None:
    hall = {"hall": {"polygon": [[8, 3], [13, 3], [13, 7], [8, 7]], "places": 3}, "till": {"queue": [[6, 5], [5, 5]], "stay": 0.4}}
    scenario = scene(hall, ["till", {"choose": ["hall", "end"], "by": "shortest"}], positions=[[2, y] for y in (2, 3.5, 5, 6.5, 8)])
    keys = jax.random.split(jax.random.key(9), 3)
    together = simulate_many(scenario, keys, 800, every=800)
    alone = simulate(scenario, None, keys[1], 800, every=800)
    for one, other in zip(jax.tree.leaves(alone.final), jax.tree.leaves(together.final), strict=True):
        assert (np.asarray(one) == np.asarray(other)[1]).all()


def test_slopes_go_through_stays_brakes_and_queues() -> None:
    shop = {"seat": {"point": [5, 5], "brake": 2.0, "stay": 0.3}, "till": {"queue": [[9, 5], [8, 5]]}}
    scenario = scene(shop, ["seat", "till", "end"], positions=[[3.5, 5], [3, 6]])
    paths = ["people.desired_speed", "stops.seat.brake"]

    def reached(run: Run) -> jax.Array:
        return run.frames.position[-1, :, 0].mean()

    found = gradient(scenario, reached, paths, KEY, steps=100)
    for path in paths:
        slope = np.asarray(found.slopes[path]).sum()
        assert np.isfinite(slope)
        assert slope != 0


def test_who_comes_in_over_time_goes_on_the_journey_too() -> None:
    scenario = build(
        {
            "world": ROOM,
            "goals": {"gate": {"line": [[8, 3], [8, 7]]}, "end": END},
            "journeys": {"way": {"stages": ["gate", "end"]}},
            "groups": {
                "late": {
                    "area": [[0.5, 4], [2, 4], [2, 6], [0.5, 6]],
                    "source": {"times": [1.0, 3.0, 5.0]},
                    "journey": "way",
                    "desired_speed": 1.0,
                }
            },
            "forces": DRIVEN,
            "motion": {"dt": DT},
        }
    )
    run = walked(scenario, 30)
    assert (left_at(run) > 18).all()
    assert (np.asarray(run.final.trip.stage) == -1).all()


MISTAKES = [
    ({"a": {"line": [[5, 4], [5, 6]], "stay": 5.0}}, ["end"], "goals.a: nobody goes on from there"),
    ({"a": {"line": [[5, 4], [5, 6]], "then": "next"}}, ["end"], "goals.a.then = 'next': no journey goes on from there"),
    ({"a": {"line": [[5, 4], [5, 6]], "then": "next"}}, ["end", "a"], "goals.a.then = 'next': no journey goes on from there"),
    ({"a": {"line": [[5, 4], [5, 6]], "reach": 0.4}}, ["end"], "goals.a: who leaves over a line"),
    ({"a": {"polygon": [[5, 2], [8, 2], [8, 4], [5, 4]], "places": [[12, 3]]}}, ["a", "end"], r"places\[0\] at .* lies outside"),
    ({"a": {"polygon": [[5, 2], [8, 2], [8, 4], [5, 4]], "places": 2, "brake": 1.0}}, ["a", "end"], "walks up to it"),
    ({"a": {"queue": [[5, 5], [6, 5]]}}, ["a"], "ends in the queue 'a'"),
    ({"a": {"point": [5, 5]}}, [{"goal": "a", "patience": 3.0}], "nothing follows the last stage"),
    ({"a.b": {"point": [5, 5], "stay": 1.0}}, ["a.b", "end"], "a dot in the name"),
    ({"a": {"line": [[5, 4], [5, 6]]}, "b": {"point": [3, 3]}}, ["a", "b", "a"], "people go on from there and others end there"),
    ({}, ["nowhere", "end"], r"journeys.way.stages\[0\]: there is no goal 'nowhere'"),
    ({}, [], "journeys.way.stages: is empty"),
    ({"a": {"point": [5, 5]}}, ["a", "a"], r"stages\[0\]: 'a' follows itself"),
    ({"a": {"point": [5, 5]}}, [{"goal": "a", "visit": ["a"]}], "has goal, visit. Give one of these three"),
    ({"a": {"point": [5, 5]}}, [{"goal": "a", "weights": [1]}], "weights: belongs to 'choose', not to 'goal'"),
    ({"a": {"point": [5, 5]}}, [{"choose": ["a", "end"], "weights": [1]}], "one number of 0 and more for each of 2 goals"),
    ({"a": {"point": [5, 5]}}, [{"choose": ["a", "end"], "weights": [0, 0]}], "not all 0"),
    (
        {"a": {"point": [5, 5]}},
        [{"choose": ["a", "end"], "weights": [1, 1e-40]}],
        "one is 1e-40 of the largest: allowed are 0, and",
    ),
    ({"a": {"point": [5, 5]}}, [{"choose": ["a", "end"], "rethink": 1.0}], "chance does not think again"),
    ({"a": {"point": [5, 5]}}, [{"visit": ["a"], "some": 2}, "end"], "some = 2: there are 1 goals to visit"),
    ({"a": {"point": [5, 5]}}, [{"visit": ["a"], "sum": 2}, "end"], r"stages\[0\]: unknown key 'sum'"),
    ({"a": {"line": [[5, 4], [5, 6]], "then": "leave"}}, ["a", "end"], "a journey goes on from there"),
    ({"a": {"queue": []}}, ["a", "end"], "goals.a.queue: is empty"),
    ({"a": {"queue": [[5, 5], [5.1, 5]]}}, ["a", "end"], r"goals.a.queue\[0\] and goals.a.queue\[1\]: overlap"),
    ({"a": {"queue": [[25, 5]]}}, ["a", "end"], "lies outside the walkable area"),
    ({"a": {"point": [5, 5], "queue": [[5, 5]]}}, ["a", "end"], "a queue is its places"),
    ({"a": {"point": [5, 5], "places": 3}}, ["a", "end"], "people wait in an area"),
    ({"a": {"polygon": [[5, 5], [7, 5], [7, 7], [5, 7]], "places": 42}}, ["a", "end"], "goals.a.places: holds about"),
    *(
        (
            {"a": {"polygon": [[5, 5], [7, 5], [7, 7], [5, 7]], "places": places}},
            ["a", "end"],
            rf"goals.a.places = {places}: allowed are as many",
        )
        for places in (90, 10**9, 10**30)
    ),
    ({"a": {"polygon": [[5, 2], [9, 2], [9, 8], [8, 8], [8, 3], [5, 3]], "places": 2}}, ["a", "end"], "a straight way"),
    ({"a": {"point": [5, 5], "until": [-1.0]}}, ["a", "end"], r"goals.a.until = \[-1.0\]"),
    ({"a": {"point": [5, 5], "stay": -1.0}}, ["a", "end"], "goals.a.stay = -1 s"),
    ({"a": {"point": [5, 5], "brake": -1.0}}, ["a", "end"], "goals.a.brake = -1 m"),
]


@pytest.mark.parametrize(("goals", "stages", "message"), MISTAKES)
def test_mistakes_name_the_stage(goals: dict[str, Any], stages: list[Any], message: str) -> None:
    with pytest.raises((ScenarioError, ParamError), match=message):
        scene(goals, stages)


HALL = [[5, 2], [8, 2], [8, 4], [5, 4]]


@pytest.mark.parametrize(
    ("b", "message"),
    [
        ({"queue": [[5, 5], [5, 2.9]]}, r"^goals\.b\.queue\[1\] and goals\.a\.places\[0\]: overlap by 0\.3 m"),
        ({"polygon": HALL, "places": [[7, 3], [5.3, 3]]}, r"^goals\.b\.places\[1\] and goals\.a\.places\[0\]: overlap by 0\.1"),
    ],
)
def test_places_of_two_goals_do_not_overlap(b: Any, message: str) -> None:
    a = {"polygon": HALL, "places": [[5, 3]]}
    with pytest.raises(ScenarioError, match=message):
        scene({"a": a, "b": b}, ["a", "b", "end"])


def test_random_places_keep_clear_of_those_of_other_goals() -> None:
    goals = {"a": {"polygon": HALL, "places": 5}, "b": {"polygon": HALL, "places": 5}, "c": {"queue": [[6, 3], [6.5, 3]]}}
    plan = scene(goals, ["a", "b", "c", "end"]).world.journeys
    assert plan is not None
    places = np.asarray(plan.places, float)
    assert len(places) == 12
    assert np.hypot(*(places[:, None] - places).transpose(2, 0, 1))[~np.eye(12, dtype=bool)].min() >= 0.4


def test_a_loop_of_one_stage_is_refused() -> None:
    with pytest.raises(ScenarioError, match="a loop of one stage"):
        scene({"a": {"point": [5, 5]}}, ["a"], loop=True)


@pytest.mark.parametrize("x", [8.0, 7.999, 8.001])
def test_nobody_stays_on_the_edge_of_a_waiting_area(x: float) -> None:
    hall = {"hall": {"polygon": [[8, 3], [13, 3], [13, 7], [8, 7]], "places": [[11, 5]]}}
    run = walked(scene(hall, ["hall"], positions=[[x, 5]]), 8)
    assert (np.asarray(run.final.arrived) > 0).all()
    assert_allclose(np.asarray(run.final.position)[:, 0], [11, 5], atol=0.05)
