"""Published behaviour and recorded crowds. Medians over keys and bounds with room: dense crowds are chaotic."""

import copy
import gzip
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
import pytest

from crowdlab.ensemble import Member, advance, groups
from crowdlab.params import as_arrays, replace
from crowdlab.planning import plan_for_all
from crowdlab.scenario import Scenario, build, load
from crowdlab.simulation import chunks

pytestmark = pytest.mark.slow

PIECE = 4000  # steps


def with_seed(scenario: Scenario, seed: int) -> Scenario:
    return build({**copy.deepcopy(scenario.source), "seed": seed}, name=scenario.name)


def leaving_times(speed: float, dt: float, seeds: Sequence[int], *, share: float = 0.5, limit: float = 400.0) -> np.ndarray:
    """Times, s, until `share` of the people of `one_door` have left, one for each seed; infinite where it takes longer than `limit`."""
    rooms = [with_seed(load("one_door"), seed) for seed in seeds]
    params = as_arrays(replace(replace(rooms[0].params, "people.desired_speed", speed), "motion.dt", dt))
    members = [Member(i, params, room.state, jax.random.key(seed)) for i, (room, seed) in enumerate(zip(rooms, seeds, strict=True))]
    (group,), grid = groups(members), plan_for_all(rooms[0], [(params, room.state) for room in rooms])
    people = rooms[0].state.id.shape[0]
    for _ in range(round(limit / dt / PIECE)):
        run, grid = advance(rooms[0], group, grid, steps=PIECE, every=PIECE)
        group = group._replace(state=run.final)
        arrived = np.asarray(run.final.arrived).reshape(len(seeds), people)
        times = np.sort(np.where(arrived >= 0, arrived * dt, math.inf), 1)[:, math.ceil(share * people) - 1]
        if np.isfinite(times).all():
            break
    return times


def test_faster_is_slower() -> None:
    """Helbing, Farkas & Vicsek 2000: leaving takes longer for people in no hurry, and again for people in a great hurry.

    The time is that of the first half: the stoutest may stay at a door post for long where the drive is weaker than the post's push.
    """
    medians = []
    for speed, dt in ((0.8, 0.002), (1.5, 0.002), (5.0, 0.001)):  # who is in no hurry presses less, and may take longer steps
        times = leaving_times(speed, dt, (1, 2)).tolist()
        medians.append(statistics.median(times))
        blocked = sum(math.isinf(time) for time in times)
        print(f"{speed} m/s: median time of the first half {medians[-1]:.0f} s, {blocked} of {len(times)} runs blocked")
    calm, brisk, hasty = medians
    assert calm > 1.25 * brisk
    assert hasty > 1.4 * brisk


def recorded(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Starts (75, 2) m of run 040_c_56_h- by id, and the times, s, at which y = 0 is first crossed, rising."""
    with gzip.open(data / "juelich" / "040_c_56_h-.txt.gz") as file:
        rows = np.loadtxt(file, comments="#")
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    inside = rows[rows[:, 3] < 0]
    return rows[rows[:, 1] == 0][:, 2:4], np.sort(inside[np.unique(inside[:, 0], return_index=True)[1], 1] / 25.0)


def crossing_times(scenario: Scenario, seed: int, seconds: float) -> np.ndarray:
    """Times, s, at which y = 0 is first seen to be crossed, rising, in frames of 0.04 s."""
    dt = float(scenario.params.motion.dt)
    every = round(0.04 / dt)
    steps = round(seconds / dt / every) * every
    seen = np.full(scenario.state.id.shape[0], np.inf)
    for run in chunks(scenario, scenario.params, jax.random.key(seed), steps, chunk=100 * every, every=every):
        below = np.asarray(run.frames.position)[:, :, 1] < 0
        first = np.where(below.any(0), np.asarray(run.frames.step)[below.argmax(0)] * dt, np.inf)
        seen = np.minimum(seen, first)
        if np.isfinite(seen).all():
            break
    return np.sort(seen[np.isfinite(seen)])


def passages(times: np.ndarray) -> str:
    """When each quarter of the 75 had passed: the time of the 19th, 38th, 57th and 75th, as far as so many did."""
    return ", ".join(f"{n}th {times[n - 1]:.1f} s" if n <= len(times) else f"{n}th not" for n in (19, 38, 57, 75))


def flow(times: np.ndarray) -> float:
    return (len(times) - 1) / float(times[-1] - times[0])


def test_the_recorded_bottleneck(data: Path) -> None:
    """All 75 pass from where they really stood. They pass faster than the real people, who are stouter than the recorded starts allow."""
    starts, measured = recorded(data)
    assert (len(starts), len(measured)) == (75, 75)
    assert flow(measured) == pytest.approx(1.15, abs=0.01)  # per second
    print(f"measured: {flow(measured):.2f} per second; {passages(measured)}")
    for name, seeds, through in (
        ("bottleneck", (1,), range(75, 76)),
        ("bottleneck_hfv", (2, 3), range(75)),
    ):  # somebody is mostly held
        source = copy.deepcopy(load(name).source)
        people = source["groups"]["students"]
        del people["area"], people["count"]
        people["positions"] = starts.tolist()
        scenario = build(source, name=name)
        ours = min((crossing_times(scenario, seed=seed, seconds=60.0) for seed in seeds), key=len)
        rate = f"{flow(ours):.2f} per second; " if len(ours) > 1 else ""
        print(f"{name}: {len(ours)} of 75 through in 60 s; {rate}{passages(ours)}")
        assert len(ours) in through
        if len(ours) == 75:
            assert 1.15 < flow(ours) < 4.0
