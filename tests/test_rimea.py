"""Cases of the RiMEA guideline (version 3.0, 2016) among the shipped scenarios, each with the verdict that the guideline asks for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import pytest
import shapely

from crowdlab import measures
from crowdlab.scenario import Scenario, load, variant
from crowdlab.simulation import chunks

pytestmark = pytest.mark.slow
CHUNK = 4000  # steps


def walked(scenario: Scenario) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of the frames, (F,) s, places, (F, N, 2) m, and when each person arrived, (N,) s, once everybody is gone."""
    dt, last = scenario.params.time_step, round(scenario.duration / scenario.params.time_step)
    step, place = [], []
    for run in chunks(scenario, scenario.params, jax.random.key(scenario.seed), last // CHUNK * CHUNK, chunk=CHUNK, every=200):
        step.append(np.asarray(run.frames.step))
        place.append(np.asarray(run.frames.position))
        if not np.asarray(run.final.alive).any():
            break
    arrived = np.asarray(run.final.arrived)
    assert (arrived >= 0).all(), f"{(arrived < 0).sum()} of {arrived.size} have not arrived after {scenario.duration:g} s"
    return np.concatenate(step) * dt, np.concatenate(place), arrived * dt


def test_1_a_corridor_of_40_metres_takes_26_to_34_seconds() -> None:
    assert 26 < walked(load("free_walk"))[2][0] < 34


@pytest.mark.parametrize(("person", "speed"), [(0, 0.610), (1, 0.694)], ids=["up", "down"])
def test_2_and_3_ten_metres_of_stairs_take_as_long_as_the_speed_there_says(person: int, speed: float) -> None:
    """Within 5 %: the foot of the stairs is passed at the speed of the flat, and slowing down takes a moment."""
    time, place, _ = walked(load("stairs"))
    x = place[:, person, 0] * (-1) ** person
    on, off = (np.interp(edge, x[: np.argmax(x)], time[: np.argmax(x)]) for edge in (-5.0, 5.0))
    assert off - on == pytest.approx(10 / speed, rel=0.05)


def test_5_nobody_walks_before_the_own_time() -> None:
    scenario = load("own_time")
    time, place, arrived = walked(scenario)
    start = np.asarray(scenario.params.people.pre_movement)
    assert 10 < start.min() < start.max() < 100
    going = (time[:, None] > start) & (time[:, None] < arrived)
    away = np.hypot(*np.moveaxis(place[:, :, None] - place[:, None, :], -1, 0))  # (F, N, N) m
    passed = np.where(going[:, None, :], away, np.inf).min(2) < 2.0  # those whom a walker comes near may have to make way
    speed = np.hypot(*np.moveaxis(np.diff(place, axis=0), -1, 0)) / np.diff(time)[:, None]
    settled = time[1:, None] > 5  # who stands close to a wall or to others steps back first
    assert speed[settled & (time[1:, None] <= start) & ~passed[1:] & ~passed[:-1]].max() < 0.05
    assert (arrived > start + 1).all()


def test_6_twenty_people_walk_round_a_corner_and_through_no_wall() -> None:
    """Beside each other too: their bodies cover more than 1.2 m of the corner, from its inner to its outer edge."""
    scenario = load("corner")
    time, place, arrived = walked(scenario)
    inside = place[time[:, None] < arrived]
    assert shapely.contains_xy(shapely.from_wkt(scenario.area), inside[:, 0], inside[:, 1]).all()
    people = measures.Tracks.of_arrays(place, time, time[:, None] < arrived)
    turn = measures.crossings(people, [(10, 2), (12, 0)])
    assert len(np.unique(turn.person)) == 20
    assert np.ptp(turn.place[:, 0]) * 2**0.5 + 2 * 0.2 > 1.2


def in_no_hurry(name: str, changes: Mapping[str, Any] = MappingProxyType({})) -> Scenario:
    """A scenario with steps of 2 ms: who is in no hurry presses less than what those bear, and the guards of a run see to it."""
    return variant(load(name), {"motion.dt": 0.002, **changes})


def test_9_with_half_of_the_doors_a_hall_takes_about_twice_as_long() -> None:
    two_doors: Mapping[str, Any] = {"groups.bottom_right.goal": "bottom_left", "groups.top_right.goal": "top_left"}
    four, two = (walked(in_no_hurry("hall", changes))[2].max() for changes in ({}, two_doors))
    assert 1.6 < two / four < 2.4


def test_10_everybody_uses_the_exit_assigned() -> None:
    """Rooms 1 to 4 and 7 to 10 the main one, at the top; the others the second one, at the right end of the corridor."""
    scenario = load("rooms")
    time, place, arrived = walked(scenario)
    last = place[np.maximum(np.searchsorted(time, arrived) - 1, 0), np.arange(arrived.size)]  # the last frame of each
    main = np.asarray(scenario.state.group) == scenario.groups.index("main")
    assert main.sum() == 15
    assert (last[main, 1] > 10).all()
    assert (last[~main, 0] > 17).all()


def test_11_the_nearer_of_two_exits_is_preferred_and_some_take_the_other() -> None:
    scenario = in_no_hurry("two_exits")
    steps = round(60 / scenario.params.time_step)
    for run in chunks(scenario, scenario.params, jax.random.key(scenario.seed), steps, chunk=2000, every=2000):
        final = run.final
    near, far = (((np.asarray(final.arrived) >= 0) & (np.asarray(final.goal) == goal)).sum() for goal in (0, 1))
    assert 2 * far > near > far


def test_12_there_is_no_jam_before_the_second_of_two_equal_bottlenecks() -> None:
    scenario = in_no_hurry("two_bottlenecks")
    time, place, arrived = walked(scenario)
    through = time[np.argmax(place[:, :, 0] > 15.0, axis=0)]  # when each came out of the corridor, to a frame
    first, second = (148 / (np.sort(when)[-1] - np.sort(when)[1]) for when in (through, arrived))  # flow without the first two, 1/s
    assert first - second > -0.05
    pace = (26.2 - 15.0) / (arrived - through), (15.0 - np.asarray(scenario.state.position)[0]) / through  # m/s, of each
    assert np.median(pace[0]) > max(1.34 / 2, 1.5 * np.median(pace[1]))
