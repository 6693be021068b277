"""Cases of the RiMEA guideline (version 3.0, 2016) among the shipped scenarios, each with the verdict that the guideline asks for."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
import shapely

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
    scenario = load("corner")
    time, place, arrived = walked(scenario)
    inside = place[time[:, None] < arrived]
    assert shapely.contains_xy(shapely.from_wkt(scenario.area), inside[:, 0], inside[:, 1]).all()


def test_9_with_half_of_the_doors_a_hall_takes_about_twice_as_long() -> None:
    two_doors: Mapping[str, Any] = {"groups.bottom_right.goal": "bottom_left", "groups.top_right.goal": "top_left"}
    four, two = (walked(variant(load("hall"), changes))[2].max() for changes in ({}, two_doors))
    assert 1.6 < two / four < 2.4


def test_12_there_is_no_jam_before_the_second_of_two_equal_bottlenecks() -> None:
    scenario = load("two_bottlenecks")
    time, place, arrived = walked(scenario)
    through = time[np.argmax(place[:, :, 0] > 15.0, axis=0)]  # when each came out of the corridor, to a frame
    first, second = (148 / (np.sort(when)[-1] - np.sort(when)[1]) for when in (through, arrived))  # flow without the first two, 1/s
    assert first - second > -0.05
    pace = (26.2 - 15.0) / (arrived - through), (15.0 - np.asarray(scenario.state.position)[0]) / through  # m/s, of each
    assert np.median(pace[0]) > max(1.34 / 2, 1.5 * np.median(pace[1]))
