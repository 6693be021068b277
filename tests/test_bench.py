"""The bench measures what it says: the same people for every code, rounds in turn, numbers that follow from the rounds."""

import dataclasses
import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crowdlab import bench
from crowdlab.bench import crowd, flock, lanes, plain, roofline, rounds, tables
from crowdlab.bench.command import QUICK_LANES, Progress
from crowdlab.bench.crowd import Task
from crowdlab.bench.floor import work
from crowdlab.bench.lanes import LANES, Choice
from crowdlab.bench.measures import Measure, Report, drift, exponent, reference
from crowdlab.bench.page import write
from crowdlab.bench.processes import PeerError, Process
from crowdlab.bench.rounds import NEEDS, Entry, Heat, Slowness
from crowdlab.bench.worker import Worker
from crowdlab.errors import CrowdlabError
from crowdlab.forces import base
from crowdlab.neighbours import find
from crowdlab.scenario import build
from crowdlab.state import Array, State
from crowdlab.views import DARK, LIGHT, Growth

if TYPE_CHECKING:
    from playwright.sync_api import Page

GIB = 2**30


# The crowd ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("people", "density"), [(7, 0.5), (100, 2.0), (400, 4.0), (50, 4.5)])
def test_nobody_overlaps_at_the_start(people: int, density: float) -> None:
    task = Task(people=people, density=density)
    places, (left, right, width) = crowd.places(people, density), crowd.hall(task)
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) + np.eye(people) * 9
    assert places.shape == (people, 2)
    assert apart.min() > 2 * crowd.RADIUS
    assert places.min() > crowd.RADIUS
    assert places[:, 1].max() < width - crowd.RADIUS
    assert left == 0.0
    assert places[:, 0].max() < right - crowd.SPACE


def test_density_is_that_of_the_lattice() -> None:
    places = crowd.places(10_000, 4.0)
    middle = places[(np.abs(places - places.mean(0)) < 15).all(-1)]
    assert len(middle) / 30**2 == pytest.approx(4.0, rel=0.02)


def test_far_walls_are_many_and_far() -> None:
    task = Task(people=100, far_walls=200)
    scenario = build(crowd.scenario(task))
    walls = np.asarray(scenario.world.walls)
    assert len(walls) == 4 + 200
    assert (np.sort(walls[..., 0].min(-1))[:200] < crowd.places(100, 2.0)[:, 0].min() - 10).all()


@pytest.mark.parametrize("density", [1.0, 2.0])
def test_columns_take_the_places_of_people(density: float) -> None:
    """A plan of 1 000 walls and 500 people who touch none of them, with as many people and columns together per area as without."""
    empty, task = (Task(people=500, density=density, columns=columns) for columns in (0, 125))
    scenario = build(crowd.scenario(task))
    assert len(scenario.world.walls) == 4 + 1000
    assert crowd.hall(task) == crowd.hall(empty)
    people, columns = np.asarray(scenario.state.position).T, np.array(crowd.scenario(task)["world"]["obstacles"])
    apart = np.hypot(*(people[:, None] - columns.mean(1)).transpose(2, 0, 1))
    assert people.shape == (500, 2)
    assert apart.min() > 2 * crowd.RADIUS
    among = 500 + (columns.mean(1)[:, 0] < people[:, 0].max()).sum()
    assert among / people[:, 0].max() == pytest.approx(500 / crowd.places(500, density)[:, 0].max(), rel=0.03)


def test_the_others_stand_where_they_stood() -> None:
    whole, fewer = (crowd.scenario(task) for task in (Task(people=100), Task(people=100, absent=90)))
    assert fewer["world"] == whole["world"]
    assert fewer["groups"]["crowd"]["positions"] == whole["groups"]["crowd"]["positions"][:10]


# Engines written for the bench ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
def test_plain_engine_and_ours_agree_on_every_force() -> None:
    """All five forces in double precision, with overlaps, sliding and people pressed against walls."""
    task = Task(people=60, density=4.5)
    scenario = build(crowd.scenario(task))
    random = np.random.default_rng(5)
    _, _, width = crowd.hall(task)
    place = crowd.places(60, 4.5) + random.uniform(-0.2, 0.2, (60, 2))
    place[:8, 1], place[8:16, 1] = 0.2, width - 0.2
    velocity = random.normal(0, 1, (60, 2))
    state = scenario.state.with_(position=jnp.asarray(place.T), velocity=jnp.asarray(velocity.T))

    @jax.jit
    def pushes(state: State) -> dict[str, Array]:
        near, _ = find(state, scenario.world, None, jax.random.key(0))
        return base.by_name(scenario.params, state, near, scenario.world)

    ours = {name: np.asarray(push).T for name, push in pushes(state).items()}
    walls = np.asarray(scenario.world.walls)  # rounded to a nanometre when built
    np.testing.assert_allclose(np.sort(walls.reshape(-1)), np.sort(crowd.walls(task).reshape(-1)), atol=1e-8)
    theirs = plain.accelerations(plain.Walkers(place, velocity, walls, crowd.exit_line(task)))
    assert ours.keys() == theirs.keys()
    for name, push in theirs.items():
        who = slice(16, None) if name == "driving" else slice(None)  # whoever is pressed to a wall does not see the exit plainly
        assert np.abs(push[who]).max() > 1.0, f"{name} acts"
        np.testing.assert_allclose(ours[name][who], push[who], rtol=1e-9, atol=1e-9, err_msg=name)


def test_plain_engine_does_not_depend_on_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(people=30)
    walkers = plain.Walkers(crowd.places(30, 2.0), np.ones((30, 2)), crowd.walls(task), crowd.exit_line(task))
    whole = plain.accelerations(walkers)
    monkeypatch.setattr(plain, "PAIRS", 70)
    for name, push in plain.accelerations(walkers).items():
        assert np.array_equal(push, whole[name]), name


def test_plain_engine_parts_people_on_one_point() -> None:
    task = Task(people=2)
    place = np.tile(crowd.places(2, 2.0)[:1], (2, 1))
    push = plain.accelerations(plain.Walkers(place, np.zeros((2, 2)), crowd.walls(task), crowd.exit_line(task)))
    assert np.linalg.norm(push["repulsion"], axis=-1) == pytest.approx(plain.STRENGTH * math.exp((0.5 - 1e-6) / 0.08) / crowd.MASS)
    assert np.array_equal(push["repulsion"][0], -push["repulsion"][1])


def test_flock_by_cells_is_the_flock_by_all_pairs() -> None:
    random = np.random.default_rng(2)
    places = [(float(x), float(y)) for x, y in random.uniform(0, (flock.WIDTH, flock.HEIGHT), (150, 2))]
    velocities = [(float(u), float(v)) for u, v in random.normal(0, 1, (150, 2))]
    for whole, cells in zip(*(flock.tick(places, velocities, grid=grid) for grid in (False, True)), strict=True):
        np.testing.assert_allclose(cells, whole, rtol=1e-9, atol=1e-9)


def test_birds_turn_to_each_other_across_the_seam() -> None:
    _, ((left, _), (right, _)) = flock.tick([(1.0, 400.0), (flock.WIDTH - 29.0, 400.0)], [(0.0, 0.0)] * 2, grid=True)
    assert left == pytest.approx(-flock.COHESION * flock.MOST_FORCE)
    assert right == -left


# Numbers that follow --------------------------------------------------------------------------------------------------------------


def measured(code: str = "crowdlab", *, ours: bool = True, people: int = 1000, seconds: float = 2.0, **changes: Any) -> Measure:
    facts = {"ours": True, "device": "cpu", "platform": "cpu", "precision": "float32", "reach": 1.66} if ours else {}
    made = Measure(
        lane="codes",
        code=code,
        people=people,
        density=2.0,
        dt=0.001,
        steps=1000,
        rounds=(seconds * 1.5, seconds, seconds * 3),
        busy=1.9,
        peak=500_000_000,
        loaded=200_000_000,
        facts=facts,
    )
    return dataclasses.replace(made, **changes)


def report(*measures: Measure) -> Report:
    machine = {"processor": "A & B", "cores": 2, "load": 0.1, "platform": "cpu", "time": "today"}
    return Report(machine=machine | {"versions": {"crowdlab": "1", "jax": "2"}}, measures=measures)


def test_numbers_of_the_table_follow_from_the_rounds() -> None:
    own = measured(seconds=0.25)
    coarse = measured(seconds=0.5, dt=0.01)
    peer = measured("another", ours=False, seconds=25.0)
    far = measured("far", ours=False, seconds=2.0, dt=0.4)
    assert (own.step_time, own.median_step_time, own.agent_steps) == (0.25e-3, 0.375e-3, 4e6)
    assert own.person_seconds == pytest.approx(4000)
    assert own.memory == 300_000_000
    assert reference(peer, [own, coarse, peer, far]) == own
    assert reference(dataclasses.replace(peer, dt=0.01), [own, coarse, peer, far]) == coarse
    assert reference(far, [own, coarse, peer, far]) == own
    rows = {
        tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in tables.told(report(own, coarse, peer, far)).splitlines()
    }
    assert ("crowdlab", "0.001", "0.25", "0.375", "4 million", "4 000", "1", "1", "300", "–") in rows
    assert ("another", "0.001", "25", "37.5", "40 000", "40", "100", "100", "300", "–") in rows
    assert ("far", "0.4", "2", "3", "500 000", "200 000", "8", "0.02", "300", "–") in rows


def test_what_has_no_number_says_why() -> None:
    broken = Measure(lane="codes", code="another", people=10, density=2.0, fault="its process ended (SIGSEGV)")
    assert math.isnan(broken.step_time)
    assert math.isnan(broken.person_seconds)
    assert "- another, 10 people at 2 per m²: its process ended (SIGSEGV)" in tables.told(report(measured(people=10), broken))
    assert tables.told(report(broken)).endswith("SIGSEGV)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (1234567, "1.23 million"),
        (999_900, "1 million"),
        (12345, "12 300"),
        (0.00123456, "0.00123"),
        (5.0, "5"),
    ],
)
def test_three_digits(value: float | None, text: str) -> None:
    assert tables.number(value) == text


def test_exponent_is_the_slope() -> None:
    law = [measured(people=people, seconds=people**1.25 / 1e4) for people in (100, 1000, 10_000, 100_000, 1_000_000)]
    assert exponent(law, 1e3, 1e5) == pytest.approx(1.25)
    assert exponent(law[:2], 1e3, 1e5) is None
    assert "- crowdlab, dt 0.001 s, 2 per m²: 1.25 up to 100 000, 1.25 up to 1 million" in tables.told(report(*law))


def test_drift_compares_the_best_of_each_piece() -> None:
    one = measured(lane="steady", pieces=((1.0, 5.0, 2.0), (4.0, 1.5, 1.1)))
    assert drift(one) == pytest.approx(1.1)
    assert "Last over first: 1.10" in tables.told(report(one))
    assert drift(measured()) is None


def test_pairs_of_cases_are_divided_the_right_way() -> None:
    few, many = (
        measured(f"{runs} runs", lane="batch", people=200 * runs, seconds=seconds) for runs, seconds in ((1, 1.0), (64, 32.0))
    )
    assert "Throughput of 64 runs over 1 runs: 2.00" in tables.told(report(few, many))
    near, far = (measured(name, lane="walls", seconds=seconds) for name, seconds in (("10", 1.0), ("1 000", 1.25)))
    assert "Step time of 1 000 over 10: 1.25" in tables.told(report(near, far))


def test_claims_stand_beside_what_is_measured() -> None:
    cells = measured("boids in pure Python, by cells", ours=False, lane="claims", people=3000, seconds=220.0)
    text = tables.told(report(cells))
    assert re.search(r"by cells \| +3 000 \| +220 \| +22 \| +10 \|", text)


def test_floor_is_the_slowest_of_three() -> None:
    rates = {"bytes_per_second": 1e3, "flops_per_second": 1e9, "transcendentals_per_second": 1e9}
    asked = work(100, 1500, 40, 20)
    assert asked.seconds(rates) == asked.moved / 1e3
    assert asked.seconds(rates | {"bytes_per_second": 1e12, "flops_per_second": 1.0}) == asked.flops
    machine = measured("machine", lane="roofline", people=0, steps=0, rounds=(), facts=rates)
    seen = {"pairs": 15_000, "touching": 500, "near_walls": 200, "slots": 20_000, "touching_slots": 4000, "wall_slots": 3000}
    counts = measured("counts", lane="roofline", steps=0, rounds=(), facts=seen)
    floor = work(1000, 15_000, 500, 200).seconds(rates)
    text = tables.told(report(machine, counts, measured(lane="roofline", seconds=2 * 1000 * floor)))
    assert re.search(r"in reach +\| +15 \|.*\| +50% \|", text)


def test_counts_are_those_of_all_pairs() -> None:
    counted = roofline.Counts(Task(people=50, density=3.0)).prepare()
    places = crowd.places(50, 3.0)
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) + np.eye(50) * 99
    reach = 0.5 + 0.08 * math.log(2000.0 / 1e-3) + 1e-4
    assert counted["pairs"] == (apart < reach).sum()
    assert counted["slots"] >= counted["pairs"]
    assert counted["touching"] == 0, "nobody overlaps at the start"
    assert counted["xla"]["flops"] > 0


def test_bytes_that_differ_are_seen() -> None:
    def ran(*digests: str) -> Measure:
        return measured(lane="bytes", facts={"ours": True, "digest": list(digests)})

    assert tables.same_bytes(report(ran("a", "a"), ran("a", "a")))
    assert not tables.same_bytes(report(ran("a", "a"), ran("a", "b")))
    assert not tables.same_bytes(report(ran("a"), dataclasses.replace(ran(), facts={})))
    assert "1 000 people: 4 runs in 2 processes: NOT the same bytes" in tables.told(report(ran("a", "a"), ran("b", "b")))


def test_report_comes_back_from_its_file(tmp_path: Path) -> None:
    before = report(measured(pieces=((1.0, 2.0),)), Measure(lane="codes", code="another", people=3, fault="left out"))
    before.write(tmp_path / "bench.json")
    assert Report.read(tmp_path / "bench.json") == before
    row = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["measures"][0]
    assert row["agent_steps"] == before.measures[0].agent_steps
    (tmp_path / "other.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(CrowdlabError, match="no report of the bench"):
        Report.read(tmp_path / "other.json")


def test_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    measures = [measured(people=people, seconds=people / 1e3) for people in (1000, 10_000)]
    written = write(report(*measures, measured("<another>", ours=False)), tmp_path / "bench.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="|https?://', written)
    assert "A &amp; B" in written
    assert "&lt;another&gt;" in written
    facts = json.loads(re.findall(r'<script id="facts"[^>]*>(.*?)</script>', written, re.DOTALL)[0])
    assert facts["theme"]["paints"]
    assert "time of a step [ms]" in json.dumps(facts["item"])


@pytest.mark.browser
def test_page_draws_from_disk_in_both_themes(page: "Page", tmp_path: Path) -> None:
    measures = [measured(people=people, seconds=people / 1e3) for people in (1000, 10_000)]
    asked: list[str] = []
    page.context.set_offline(True)
    page.emulate_media(color_scheme="light")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(write(report(*measures, measured("another", ours=False)), tmp_path / "bench.html").as_uri())
    page.wait_for_function("() => window.Bokeh && Bokeh.index.roots.length && document.querySelector('#scene').childElementCount")
    colour = "() => Bokeh.index.roots[0].model.children[0].below[0].axis_label_text_color"
    assert page.evaluate(colour) == LIGHT.text
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"({colour})() === '{DARK.text}'")
    assert page.evaluate("() => document.body.scrollWidth <= innerWidth")
    assert all(url.startswith(("file:", "blob:", "data:")) for url in asked)


def test_growth_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(CrowdlabError, match="10 curves: allowed are up to 9"):
        Growth({str(number): ([1.0], [1.0]) for number in range(10)}, x="people", y="s")
    with pytest.raises(CrowdlabError, match="'a' has values that are not above zero"):
        Growth({"a": ([1.0, 2.0], [1.0, 0.0])}, x="people", y="s")


# What is run ----------------------------------------------------------------------------------------------------------------------

CHOICE = Choice(people=(10, 20), densities=(2.0, 4.0), lanes=tuple(LANES), peers=True, rounds=2, whole=True)


def test_every_lane_has_its_heats() -> None:
    made = lanes.heats(CHOICE)
    assert list(dict.fromkeys(heat.lane for heat in made)) == list(LANES)
    assert {entry.runs for heat in made for entry in heat.entries} == set(NEEDS)
    alone = lanes.heats(CHOICE._replace(peers=False, lanes=("codes",)))
    assert {entry.runs for heat in alone for entry in heat.entries} == {"crowdlab"}
    assert [heat.title for heat in alone] == [f"{people} people at {density} per m²" for density in (2, 4) for people in (10, 20)]
    on_gpu = lanes.heats(CHOICE._replace(lanes=("devices",), platform="gpu"))
    assert [entry.code for entry in on_gpu[0].entries] == ["crowdlab on GPU", "crowdlab on CPU", "NumPy, all pairs"]


def test_what_does_not_fit_is_left_out_beforehand() -> None:
    million = Entry("crowdlab", "crowdlab", Task(people=1_000_000))
    assert rounds.too_large(million, 16 * GIB) == ""
    assert rounds.too_large(million, None) == ""
    assert re.fullmatch(r"left out: needs about \d\.\d GiB of memory, 2\.7 GiB can be spared", rounds.too_large(million, 3 * GIB))
    pairs = Entry("PySocialForce", "pysocialforce", Task(people=100_000))
    assert "left out" in rounds.too_large(pairs, 100 * GIB)


def test_what_takes_too_long_is_left_out_beforehand() -> None:
    slowness = Slowness(0.5)
    few, many = (Entry("plain", "numpy", Task(people=people)) for people in (1000, 10_000))
    assert slowness.too_slow(many) == ""
    slowness.note(few, 0.1)
    assert slowness.too_slow(many).startswith("left out: a step would take about 10 s")
    slowness.note(Entry("crowdlab", "crowdlab", few.task), 10.0)
    assert slowness.too_slow(Entry("crowdlab", "crowdlab", many.task)) == ""


@pytest.mark.parametrize("code", [code for code in NEEDS if not NEEDS[code].ours])
def test_every_peer_runs(code: str) -> None:
    if rounds.missing(code):
        pytest.skip(f"{code}: pip install {rounds.missing(code)}")
    said: list[str] = []
    heat = Heat("codes", "", (Entry(code, code, Task(people=12, dt=0.01)),), 2)
    (one,) = rounds.run(heat, patience=120, slowness=Slowness(0.01), say=said.append)
    assert (one.fault, one.code, one.people, len(one.rounds)) == ("", code, 12, 2)
    assert one.dt == {"pysocialforce": 0.4, "mesa_boids": None, "flock": None, "flock_grid": None}.get(code, 0.01)
    assert one.step_time > 0
    assert said[-1] == f"round 2 of 2: {code}"


def test_we_run() -> None:
    heat = Heat("codes", "", (Entry("crowdlab", "crowdlab", Task(people=12, digest=True, steps=20, pieces=2)),), 2)
    (one,) = rounds.run(heat, patience=300, slowness=Slowness(0.01), say=lambda text: None)
    assert (one.fault, one.people, one.steps, one.dt) == ("", 12, 40, pytest.approx(0.001))
    assert [len(piece) for piece in one.pieces] == [2, 2]
    assert one.facts["ours"]
    assert len(one.facts["digest"]) == 2
    assert len(set(one.facts["digest"])) == 1
    assert one.compiling is not None
    assert one.memory is None or one.memory > 0


@pytest.mark.parametrize(
    ("code", "task", "people"), [("thinned", Task(people=12, gone=8), 12), ("batch", Task(people=12, runs=3), (36,))]
)
def test_our_other_lanes_run(code: str, task: Task, people: Any) -> None:
    worker = Worker()
    answer = worker.prepare(code, dataclasses.asdict(task), 0.001)
    turn = worker.round()
    state = worker.runner.groups[0].state if code == "batch" else worker.runner.state
    assert turn["steps"] % worker.runner.steps == 0
    assert answer["facts"]["dt"] == pytest.approx(0.001)
    assert int(np.asarray(state.alive).sum()) == {"thinned": 4, "batch": 36}[code]
    assert np.asarray(state.step).max() > 0
    if code == "batch":
        assert state.alive.shape == people
        assert len(np.unique(np.asarray(state.position)[0, ::12])) == 3, "each run has its own places"


def test_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "LARGE", 1000)
    monkeypatch.setattr(roofline, "MIDDLE", 1000)
    machine = roofline.Machine(Task(people=0))
    assert machine.prepare()["platform"] == "cpu"
    assert all(0 < rate < 1e13 for rate in machine.measure().values())


def test_a_code_that_breaks_is_a_row() -> None:
    heat = Heat("codes", "", (Entry("wrong", "numpy", Task(people=0)), Entry("flock", "flock", Task(people=5))), 1)
    broken, whole = rounds.run(heat, patience=60, slowness=Slowness(0.01), say=lambda text: None)
    assert "Error" in broken.fault
    assert not broken.rounds
    assert whole.rounds


def test_a_process_that_ends_or_hangs_says_so() -> None:
    order = {"code": "flock", "task": dataclasses.asdict(Task(people=400)), "seconds": 0.01}
    with Process(bare=True) as process:
        process.ask("prepare", order, within=60)
        with pytest.raises(PeerError, match="no answer within 0 s"):
            process.ask("round", within=1e-9)
        assert process.answers.get(timeout=60)  # it comes all the same
        process.process.kill()
        process.process.wait()
        with pytest.raises(PeerError, match="SIGKILL"):
            process.ask("round", within=60)
    assert process.process.poll() is not None


def test_peers_do_not_carry_our_libraries() -> None:
    order, held = {"code": "flock", "task": dataclasses.asdict(Task(people=2)), "seconds": 0.01}, []
    for bare in (True, False):
        with Process(bare=bare) as process:
            held.append(process.ask("prepare", order, within=60)["loaded"])
    assert None in held or max(held) < 100e6  # JAX alone takes more


# The command ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--people", "0"], "--people 0: allowed are 1 to"),
        (["--density", "5"], r"--density 5 per m²: allowed are 0\.01 to 4\.57, where bodies with a radius of 0\.25 m touch"),
        (["--density", "nan"], "--density nan"),
        (["--seconds", "nan"], "--seconds nan"),
        (["--seconds", "0"], "allowed are more than 0 to 600 s"),
        (["--rounds", "0"], "1 to 100 rounds"),
        (["--lanes", "cods"], "--lanes cods: there is no such lane. Did you mean 'codes'"),
        (["--out", "no/such/folder.json"], "there is no folder"),
        (["--page", "."], "no file can be written there"),
        (["--out", "same.html", "--page", "./same.html"], "same.html: both --out and --page"),
        (["--lanes", "claims", "--no-peers"], "--no-peers leaves nothing of claims"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(CrowdlabError, match=f"^bench: .*{said}"):
        bench.main(arguments)


def test_missing_peers_are_named_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr(rounds, "missing", lambda runs: {"jupedsim": "jupedsim", "mesa": "mesa"}.get(runs.split("_")[0], ""))
    monkeypatch.setattr(
        rounds, "run", lambda heat, **rest: [measured(entry.code, people=entry.task.people) for entry in heat.entries]
    )
    out = tmp_path / "bench.json"
    assert bench.main(["--people", "10", "20", "--out", str(out), "--lanes", "codes"]) == 0
    said = capsys.readouterr().out
    assert (
        said.count(
            "jupedsim is not installed, so JuPedSim social force, JuPedSim collision-free are left out: pip install jupedsim"
        )
        == 1
    )
    assert said.count("mesa is not installed, so Mesa boids is left out: pip install mesa") == 1
    codes = {one.code for one in Report.read(out).measures}
    assert codes & {"JuPedSim social force", "Mesa boids"} == set()
    assert "crowdlab" in codes


def test_time_left_follows_how_the_plan_held(monkeypatch: pytest.MonkeyPatch) -> None:
    heats = lanes.heats(CHOICE._replace(lanes=QUICK_LANES))
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(heats, 0.5)
    planned = [lanes.cost(heat, 0.5) for heat in heats]
    assert progress.left() == pytest.approx(sum(planned))
    now[0] = 2 * planned[0]
    progress.end()
    assert progress.left() == pytest.approx(2 * sum(planned[1:]))


def test_stopping_ends_the_children() -> None:
    command = [sys.executable, "-m", "crowdlab", "bench", "--lanes", "claims", "--all", "--seconds", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[1]) as process:
        listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not listing.exists():
            process.kill()
            pytest.skip("this system does not list the children of a process")
        assert process.stdout is not None
        while b"boids in pure Python" not in process.stdout.readline():
            assert process.poll() is None
        end = time.monotonic() + 60
        while not (children := listing.read_text().split()) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert children
    end = time.monotonic() + 60  # one that was only just beginning sees by itself that nobody is there
    while left := [child for child in children if Path(f"/proc/{child}").exists()]:
        assert time.monotonic() < end, left
        time.sleep(0.05)
