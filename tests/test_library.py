"""Shipped scenarios that are no case of a guideline: what each is there to show comes true."""

import jax
import numpy as np
import pytest
from test_rimea import walked

from crowdlab.scenario import load
from crowdlab.simulation import chunks

pytestmark = pytest.mark.slow


def test_everybody_gets_out_of_the_trap() -> None:
    """Those in the pocket go back first, and nobody takes longer than twice the longest way round."""
    scenario = load("trap")
    _, place, arrived = walked(scenario)
    within = np.asarray(scenario.state.group) == scenario.groups.index("within")
    assert (place[:, within, 0].min(0) < 7.5).all()
    assert arrived.max() < 40


def test_after_the_concert_everybody_leaves_by_the_exit_of_the_own_part() -> None:
    scenario = load("concert")
    _, place, arrived = walked(scenario)
    x, y = place[-1].T  # who has left stays in the frames where the exit was crossed
    goal = np.asarray(scenario.state.goal)
    for number, gone in enumerate((x < -0.9, x > 30.9, y < 0.3)):
        assert gone[goal == number].all(), scenario.goals[number]
    assert arrived.max() < 60


def test_a_train_is_left_and_boarded_while_its_doors_are_open() -> None:
    scenario = load("metro")
    group, opened = np.asarray(scenario.state.group), False
    for run in chunks(scenario, scenario.params, jax.random.key(scenario.seed), 60_000, chunk=1000, every=1000):
        here, seconds = np.asarray(run.final.position), int(run.final.step) * scenario.params.time_step
        in_car = np.asarray(run.final.alive) & (here[1] > 5.5)
        if seconds <= 12:
            assert in_car[group == 1].all()  # the doors are shut
        elif seconds <= 22:
            opened |= not in_car[group == 1].all()
            assert not in_car[group == 0].any()  # who waits lets people off
    assert opened
    assert in_car[group == 0].mean() > 0.9
    assert (np.asarray(run.final.arrived)[group == 1] >= 0).all()


def test_customers_visit_four_goods_and_one_till_each() -> None:
    scenario = load("shop")
    last = round(scenario.duration / scenario.params.time_step)
    stopped: dict[int, list[int]] = {person: [] for person in range(scenario.state.id.size)}
    for run in chunks(scenario, scenario.params, jax.random.key(scenario.seed), last, chunk=500, every=500):
        trip, goal = run.final.trip, np.asarray(run.final.goal)
        assert trip is not None
        for person in np.flatnonzero(np.asarray(trip.stopped) >= 0).tolist():
            if goal[person] not in stopped[person][-1:]:
                stopped[person].append(int(goal[person]))
    tills = [scenario.goals.index(name) for name in ("till_below", "till_above")]
    out = np.asarray(run.final.arrived) >= 0
    assert out.mean() > 0.8  # two who meet at the corner of a shelf may hold each other up: the law knows no giving way
    for goals in (stopped[person] for person in np.flatnonzero(out).tolist()):
        assert len(goals) == len(set(goals)) == 5  # each stay is longer than the pieces of the run
        assert goals[-1] in tills
        assert not set(goals[:-1]) & set(tills)


def test_pupils_leave_a_school_by_both_exits() -> None:
    scenario = load("school")
    *_, run = chunks(scenario, scenario.params, jax.random.key(scenario.seed), 60_000, chunk=5000, every=5000)
    assert (np.asarray(run.final.arrived) >= 0).all()
    assert np.bincount(np.asarray(run.final.goal)).min() > 30
