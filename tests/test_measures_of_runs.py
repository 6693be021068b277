"""Measures of runs and recordings, beside PedPy's, and of recorded people."""

import dataclasses
import gzip
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pedpy
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import measures, report, simulate
from crowdlab.commands import Command, Kind
from crowdlab.errors import MeasureError
from crowdlab.measures import Tracks
from crowdlab.record import Recorder, Recording
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import Frames, Run
from crowdlab.state import Health

EVERY, STEPS = 25, 1000
WATCHED = ("largest_contact_pressure", "largest_overlap")
AREA = [[0, 0], [8, 0], [8, 1.5], [9, 1.5], [9, 2.5], [8, 2.5], [8, 4], [0, 4]]
DOOR = [[8.5, 1.5], [8.5, 2.5]]
EXIT = [[9.0, 1.5], [9.0, 2.5]]
AISLE = [[6.5, 0.0], [6.5, 4.0]]
BEFORE = [[6, 1], [8, 1], [8, 3], [6, 3]]


@pytest.fixture(scope="module")
def room() -> Scenario:
    tables = {
        "world": {"area": AREA},
        "goals": {"exit": {"line": EXIT}},
        "groups": {"people": {"count": 12, "area": [[1, 0.5], [6, 0.5], [6, 3.5], [1, 3.5]], "goal": "exit", "radius": 0.2}},
        "forces": {"driving": {}, "contact": {"friction": 2.4e4}, "wall_contact": {"friction": 2.4e4}},
        "motion": {"dt": 0.01},
    }
    return build(tables, name="room")


@pytest.fixture(scope="module")
def recorded(room: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("recording") / "room.sqlite"
    with Recorder(path, room, seed=1, every=EVERY, observe=WATCHED) as recorder:
        for _ in recorder.run(STEPS, chunk=STEPS):
            pass
    return Recording.open(path)


@pytest.fixture(scope="module")
def seen(recorded: Recording) -> Tracks:
    return Tracks.of_recording(recorded)


def for_pedpy(tracks: Tracks, frames_per_second: float) -> pedpy.TrajectoryData:
    frame, person = np.nonzero(tracks.present)
    x, y = tracks.position[frame, person].T
    return pedpy.TrajectoryData(pd.DataFrame({"id": person, "frame": frame, "x": x, "y": y}), frame_rate=frames_per_second)


@pytest.mark.bits
def test_run_and_recording_are_the_same_tracks(room: Scenario, seen: Tracks) -> None:
    run = simulate(room, None, jax.random.key(1), STEPS, every=EVERY, observe=WATCHED)
    again = Tracks.of_run(run, room)
    for name in ("time", "position", "velocity", "present", "wanting", "arrival", "last_time", "last_place", "radius"):
        assert_array_equal(getattr(again, name), getattr(seen, name), err_msg=name)
    assert again.area == seen.area
    plain = Tracks.of_arrays(np.asarray(run.frames.position), np.asarray(run.frames.step) * 0.01, np.asarray(run.frames.alive))
    assert_array_equal(measures.crossings(plain, DOOR).person, measures.crossings(seen, DOOR).person)
    runs = jax.tree.map(lambda leaf: leaf[None], run)  # as simulate_many gives them
    with pytest.raises(MeasureError, match=r"frames of the shape \(1, 40, 12, 2\).*Of many runs take one"):
        Tracks.of_run(runs, room)


def test_who_leaves_is_followed_over_the_line_of_the_exit(recorded: Recording, seen: Tracks) -> None:
    people = recorded.people
    left = np.flatnonzero(people["outcome"] == "left")
    assert len(left) >= 5
    found = measures.crossings(seen, EXIT)
    assert_array_equal(np.sort(found.person), left)
    assert_allclose(np.sort(found.time), np.sort(people["arrived"][left] * 0.01), atol=0.011)  # in the step before it is counted
    assert_allclose(measures.travel_times(seen)[left], people["arrived"][left] * 0.01)
    assert (measures.ways(seen).detour[left] >= 1).all()


def test_the_report_says_what_is_measured(recorded: Recording, seen: Tracks) -> None:
    said = report.summary(recorded)
    assert said["flow"]["exit"]["value"] == pytest.approx(measures.mean_flow(seen.arrival[np.isfinite(seen.arrival)]))
    assert said["arrivals"]["last"]["value"] == pytest.approx(np.nanmax(seen.arrival))
    nearly = measures.evacuation_time(seen.arrival, 0.95)
    assert said["arrivals"]["of_95_percent"]["value"] == (None if math.isnan(nearly) else pytest.approx(nearly))


def test_pressure_and_overlap_are_those_of_the_loop(recorded: Recording, seen: Tracks) -> None:
    pressure = measures.contact_pressure(seen, recorded.scenario, recorded.params)
    assert pressure.shape == seen.present.shape
    assert np.isnan(pressure[~seen.present]).all()
    of_loop = recorded.series["largest_contact_pressure"]
    assert of_loop.max() > 0
    assert_allclose(np.nanmax(np.nan_to_num(pressure), axis=1)[1:], of_loop, rtol=1e-4, atol=1e-2)
    assert (measures.overlaps(seen).deepest[1:] <= recorded.series["largest_overlap"] + 1e-6).all()


def test_pressure_knows_of_doors_and_of_what_was_set_on_the_way(room: Scenario) -> None:
    spec = {**room.source, "doors": {"gate": {"line": [[8, 1.5], [8, 2.5]], "opens": [4.0]}}, "motion": {"dt": 0.01}}
    shut = build(spec, name="shut")
    softer = [Command(step=300, kind=Kind.SET, path="forces.wall_contact.compression", value=(3e4, 0.0))]
    run = simulate(shut, None, jax.random.key(1), 600, every=20, observe=WATCHED, commands=softer)
    seen = Tracks.of_run(run, shut, commands=softer)
    pressure = np.nan_to_num(measures.contact_pressure(seen, shut)).max(1)[1:]
    assert_allclose(pressure, run.series["largest_contact_pressure"], rtol=1e-4, atol=1e-2)
    assert len(set(seen.closed.tolist())) == 2  # type: ignore[union-attr]
    for without in (dataclasses.replace(seen, settings=()), dataclasses.replace(seen, closed=None)):
        assert np.abs(np.nan_to_num(measures.contact_pressure(without, shut)).max(1)[1:] - pressure).max() > 1


def test_pressure_is_the_contact_part_over_the_circumference(x64: None) -> None:
    wall = [[[-5, -0.24], [5, -0.24]]]
    state = make_state([(0, 0), (0.45, 0), (0.9, 0), (3, 1)], velocity=(0.0, 1.0), radius=0.25)
    everybody = Tracks.of_arrays(np.asarray(state.position).T[None], [0.0], radius=0.25)
    scene = make_scenario(make_world(wall), state, make_params())
    frames = Frames.at_start(state, scene.params, scene.world)
    pairs, walls, round_ = 1.2e5 * 0.05, 1.2e5 * 0.01, 2 * math.pi * 0.25
    expected = [(pairs + walls) / round_, (2 * pairs + walls) / round_, (pairs + walls) / round_, 0]
    assert_allclose(measures.contact_pressure(everybody, scene)[0], expected, rtol=1e-9)
    far = dataclasses.replace(scene, origin=(1000.0, -500.0))
    moved = Tracks.of_run(Run(frames=frames, series={}, final=state, health=Health.good()), far)
    assert_allclose(moved.position, everybody.position + far.origin)
    assert_allclose(measures.contact_pressure(moved, far)[0], expected, rtol=1e-9)
    off = make_params(changes={"switches.contact": 0.0})
    assert_allclose(measures.contact_pressure(everybody, scene, off)[0, :3], walls / round_, rtol=1e-9)
    with pytest.raises(MeasureError, match="scene: no force between bodies that touch"):
        measures.contact_pressure(everybody, scene, make_params(("driving",)))
    with pytest.raises(MeasureError, match="tracks of 1 people: this scenario has 4"):
        measures.contact_pressure(Tracks.of_arrays(np.zeros((1, 1, 2)), [0.0]), scene)


def test_densities_and_counts_are_those_of_pedpy(seen: Tracks) -> None:
    data, area, region = for_pedpy(seen, 4.0), pedpy.WalkableArea(AREA), pedpy.MeasurementArea(BEFORE)
    cells = pedpy.compute_individual_voronoi_polygons(
        traj_data=data, walkable_area=area, cut_off=pedpy.Cutoff(radius=1.0, quad_segments=16)
    )
    theirs, _ = pedpy.compute_voronoi_density(individual_voronoi_data=cells, measurement_area=region)
    ours = measures.voronoi(seen, BEFORE, reach=1.0).density
    assert ours.max() > 0.5
    assert_allclose(ours[theirs.index], theirs["density"], rtol=1e-9, atol=1e-9)
    classic = pedpy.compute_classic_density(traj_data=data, measurement_area=region)
    assert_allclose(measures.classical(seen, BEFORE).density[classic.index], classic["density"])
    counted, _ = pedpy.compute_n_t(traj_data=data, measurement_line=pedpy.MeasurementLine(AISLE))
    ours = measures.crossings(seen, AISLE).first().counted(seen.time)
    assert_array_equal(ours[counted.index], counted["cumulative_pedestrians"])


@pytest.fixture(scope="module")
def bottleneck(data: Path) -> Tracks:
    """75 people through an opening of 0.5 m, 25 frames a second, recorded by Forschungszentrum Jülich (doi 10.34735/ped.2018.1)."""
    with gzip.open(data / "juelich" / "040_c_56_h-.txt.gz", "rt") as file:
        person, frame, x, y, _ = np.loadtxt(file, comments="#").T
    _, row = np.unique(person, return_inverse=True)
    position: Any = np.full((int(frame.max()) + 1, row.max() + 1, 2), np.nan)
    position[frame.astype(int), row] = np.stack([x, y], 1)
    return Tracks.of_arrays(position, np.arange(len(position)) / 25)


def test_the_flow_of_recorded_people_is_the_published_one(bottleneck: Tracks) -> None:
    found = measures.crossings(bottleneck, [(-0.4, 0), (0.4, 0)]).first()
    assert len(found.time) == 75
    assert np.ptp(found.time) == pytest.approx(64.5, abs=0.1)
    assert 1.145 <= found.flow() <= 1.165
    times, flow = found.flow_by_windows(10.0)
    assert (flow * np.diff(times)).sum() == pytest.approx(75)


def test_the_crowd_before_the_opening_is_dense_and_slow(bottleneck: Tracks) -> None:
    some = bottleneck.between(10, 40)
    before = [(-0.4, 0.5), (0.4, 0.5), (0.4, 1.3), (-0.4, 1.3)]
    exact, counted = measures.voronoi(some, before, reach=0.8), measures.classical(some, before)
    assert 7 < exact.density.mean() < 9
    assert exact.density.std() < 0.7 * counted.density.std()  # what Voronoi cells are for
    assert exact.density.mean() == pytest.approx(counted.density.mean(), rel=0.1)
    assert 0.1 < exact.speed.mean() < 0.2
    assert (measures.queue(some, [(-0.4, 0), (0.4, 0)], [(-2.8, 0), (2.8, 0), (2.8, 6.7), (-2.8, 6.7)]).people > 15).all()
