"""People who come in over time: when they are due, who finds room, and the same bytes however a run is cut."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import shuffled

import crowdlab
from crowdlab import planning
from crowdlab.abreast import rows_of
from crowdlab.demand import Group, Source
from crowdlab.demand.sources import due_times
from crowdlab.errors import CrowdlabError, ParamError, ScenarioError
from crowdlab.measures import Tracks, travel_times
from crowdlab.report import described
from crowdlab.scenario import Scenario, build, geometry_report, variant
from crowdlab.scenario.tables import decode
from crowdlab.session import Session
from crowdlab.simulation import Run, between, chunks, simulate
from crowdlab.stability import all_together
from crowdlab.state import MOST, OUTSIDE, TURNED_AWAY, State
from crowdlab.stepping import rollout, with_people
from crowdlab.views.plaza import headline

DT, TICK, KEY = 0.01, 20, jax.random.key(5)
STEPS = 20 * TICK
DOOR = [[1.5, 0.0], [1.5, 3.0]]
WATCHED = ("people", "arrived", "left", "removed", "waiting", "refused", "mean_speed")


def corridor(source: dict[str, Any] | None, area: Any = ((0, 0), (1, 0), (1, 3), (0, 3)), **more: Any) -> dict[str, Any]:
    """A corridor of 6 x 3 m that people leave on the right; the source is on the left."""
    group = {"area": [list(point) for point in area], "goal": "out", **({} if source is None else {"source": source})}
    return {
        "world": {"area": [[0, 0], [6, 0], [6, 3], [0, 3]]},
        "goals": {"out": {"line": [[6, 0], [6, 3]]}},
        "groups": {"all": group | more.pop("group", {})},
        "forces": {"driving": {}, "repulsion": {}},
        "motion": {"dt": DT, "noise": 0.05},
        **more,
    }


def due(source: dict[str, Any], **group: Any) -> np.ndarray:
    own = Group(area=[[0, 0], [1, 0], [1, 1]], **group)
    return due_times("all", own, decode(source, Source), jax.random.key(3), 10**6)


def test_when_people_are_due() -> None:
    np.testing.assert_allclose(due({"rate": 2.0, "start": 1.0, "stop": 3.0}), [1.5, 2.0, 2.5, 3.0])
    np.testing.assert_allclose(due({"every": 2.0}, count=3), [2.0, 4.0, 6.0])
    np.testing.assert_allclose(due({"every": [1.0, 0.5, 4.0], "stop": 5.0}), [1.0, 1.5])
    np.testing.assert_allclose(due({"times": [3.0, 0.0, 3.0]}), [3.0, 0.0, 3.0])
    in_turn = due({"counts": [[0, 10, 3], [20, 30, 5], [30, 40, 0]]})
    assert ((in_turn > [0] * 3 + [20] * 5) & (in_turn < [10] * 3 + [30] * 5)).all()
    many = due({"every": {"exponential": 0.5}}, count=2000)
    gaps = np.diff(many, prepend=0.0)
    assert gaps.mean() == pytest.approx(0.5, rel=5 / np.sqrt(2000))  # mean and deviation of the law are the same
    assert gaps.std() == pytest.approx(0.5, rel=0.1)
    few = due({"every": {"exponential": 0.5}, "stop": 30.0})
    np.testing.assert_array_equal(few, many[many <= 30.0])


@pytest.mark.parametrize(
    ("source", "group", "message"),
    [
        ({}, {"count": 3}, r"source: has none of them: allowed is one of rate, every, times, counts"),
        ({"rate": 1.0, "times": [1.0]}, {}, r"source: has rate and times"),
        ({"rate": 0.0}, {"count": 3}, r"source\.rate = 0 \(1/s\): allowed are finite numbers above 0"),
        ({"rate": -1.0}, {"count": 3}, r"source\.rate = -1 "),
        ({"every": {"exponential": 0.0}}, {"count": 3}, r"source\.every\.exponential = 0: allowed is a mean above zero"),
        ({"every": -2.0}, {"count": 3}, r"source\.every"),
        ({"rate": 1.0}, {}, r"keys 'count' and 'source.stop' are missing"),
        ({"rate": 1.0, "start": 4.0, "stop": 4.0}, {}, r"source\.stop = 4 s: allowed are finite numbers above start = 4 s"),
        ({"rate": 1e9, "stop": 4.0}, {}, r"source: more than 10000000 people come until 4 s"),
        ({"times": [1.0, -2.0]}, {}, r"source\.times\[1\] = -2 s: allowed are finite numbers of 0 and more"),
        ({"times": [float("nan")]}, {}, r"source\.times\[0\] = nan s"),
        ({"times": [1.0], "stop": 4.0}, {}, r"start and stop belong to rate and every"),
        ({"times": [1.0]}, {"count": 2}, r"groups\.all\.count = 2: .*times has 1 people"),
        ({"counts": [[5, 4, 2]]}, {}, r"source\.counts\[0\] = \[5, 4, 2\]: allowed are two times"),
        ({"times": [1.0], "patience": -1.0}, {}, r"source\.patience = -1 s"),
        ({"times": [1.0], "gap": -1.0}, {}, r"source\.gap = -1 m"),
        ({"times": [1.0]}, {"density": 1.0}, r"source: people come in in an area"),
        ({"times": [1.0]}, {"area": [[9, 9], [10, 9], [10, 10]]}, r"groups\.all\.area: lies outside the walkable area"),
        ({"times": [1.0]}, {"area": [[0, 0], [0.3, 0], [0.3, 0.2], [0, 0.2]]}, r"area: nobody of radius 0\.25 m can come in there"),
        ({"times": [1.0], "pace": 2.0}, {}, r"groups\.all\.source: unknown key 'pace'"),
    ],
)
def test_a_wrong_source_is_named(source: dict[str, Any], group: dict[str, Any], message: str) -> None:
    with pytest.raises((ScenarioError, ParamError), match=message):
        build(corridor(source, group=group))


def test_every_entry_must_have_a_way() -> None:
    """Also where the place that somebody tries first has one."""
    world = {"area": [[0, 0], [6, 0], [6, 3], [0, 3]], "walls": [[[0.8, 0], [0.8, 3]]]}
    for seed in (1, 2):
        with pytest.raises(ScenarioError, match=r"goals\.out: unreachable for radius 0.25 m from groups\.all\.(area|person)"):
            build(corridor({"times": [1.0]}, [[0, 0], [2, 0], [2, 3], [0, 3]], world=world, seed=seed))


def looked(scenario: Scenario, state: State, step: int) -> State:
    """The state after a look at a step at which nobody has moved since."""
    return between(scenario, scenario.params, state.with_(step=jnp.asarray(step, jnp.int32)))[0]


def overlaps(state: State, gap: float = 0.0) -> bool:
    here = np.asarray(state.position, float).T[np.asarray(state.alive)]
    radius = np.asarray(state.radius, float)[np.asarray(state.alive)]
    apart = np.hypot(*(here[:, None] - here).transpose(2, 0, 1)) + 9.0 * np.eye(len(here))
    return bool((apart < radius[:, None] + radius + gap).any())


@pytest.mark.parametrize(("patience", "gap"), [(0.0, 0.0), (1.0, 0.2), (None, 0.2)])
def test_who_is_due_comes_in_while_there_is_room(patience: float | None, gap: float) -> None:
    """Thirty people for 3 m²: nobody overlaps, the ones due first come in, the others are refused when their patience is over."""
    source = {"rate": 10.0, "gap": gap, **({} if patience is None else {"patience": patience})}
    scenario = build(corridor(source, group={"count": 30}))
    state, full = scenario.state, False
    assert not state.alive.any()
    for step in range(0, 30 * TICK, TICK):
        before, state = state, looked(scenario, state, step)
        assert not overlaps(state, gap)
        moved = np.flatnonzero(np.asarray(before.entered) != np.asarray(state.entered))
        assert (np.asarray(before.entered)[moved] == OUTSIDE).all()
        inside = np.asarray(state.alive)
        assert (inside == (np.asarray(state.entered) >= 0)).all()
        full |= bool(inside.sum() < round(step * DT * 10))
    assert full, "the room must get full"
    late = np.asarray(state.entered) < 0
    assert 3 <= (~late).sum() <= 15
    asked = np.ceil(np.round((1 + np.arange(30)) / 10 / (TICK * DT), 6)) * TICK
    if patience is None:
        assert (np.asarray(state.entered)[late] == OUTSIDE).all()
    else:
        np.testing.assert_array_equal(TURNED_AWAY - np.asarray(state.entered)[late], (asked + patience / DT)[late])
    np.testing.assert_array_equal(np.asarray(state.entered)[:3], asked[:3])
    assert looked(scenario, state, step + 1).entered.tolist() == state.entered.tolist()


def test_they_walk_in_unless_they_have_a_time_to_spend() -> None:
    walking = build(corridor({"times": [0.0]}, group={"desired_speed": 1.2}))
    state = looked(walking, walking.state, 0)
    np.testing.assert_allclose(state.velocity, [[1.2], [0.0]], atol=1e-6)
    np.testing.assert_allclose(state.heading, [[1.0], [0.0]], atol=1e-6)
    waiting = build(corridor({"times": [0.5]}, group={"desired_speed": 1.2, "pre_movement": 2.0}))
    state = looked(waiting, waiting.state, 3 * TICK)
    assert int(state.entered[0]) == 3 * TICK
    assert not state.velocity.any()
    speeds = [
        float(with_people(state.with_(step=jnp.int32(step)), waiting.params, waiting.world).desired_speed[0]) for step in (259, 260)
    ]
    assert speeds == [0.0, pytest.approx(1.2)], "pre_movement counts from coming in"
    for wait, speed in ((0.4 * DT, 1.2), (0.6 * DT, 0.0)):  # to the nearest step, as for everybody else
        hurried = build(corridor({"times": [0.0]}, group={"desired_speed": 1.2, "pre_movement": wait}))
        assert float(looked(hurried, hurried.state, 0).velocity[0, 0]) == pytest.approx(speed)


def test_closed_doors_are_walls_for_who_comes_in() -> None:
    area = ((1, 0), (2, 0), (2, 3), (1, 3))
    spec = corridor({"rate": 20.0, "gap": 0.0}, area, group={"count": 40}, doors={"bar": {"line": DOOR, "opens": [4.0]}})
    scenario = build(spec)
    assert int(scenario.state.closed) == 1
    state = looked(scenario, scenario.state, 10 * TICK)
    x = np.asarray(state.position)[0, np.asarray(state.alive)]
    assert len(x) > 3
    assert (np.abs(x - 1.5) >= 0.25).all()
    opened = build({**spec, "doors": {"bar": {"line": DOOR, "closes": [4.0]}}})
    x = np.asarray(looked(opened, opened.state, 10 * TICK).position)[0]
    assert (np.abs(x - 1.5) < 0.25).any()


@pytest.fixture(scope="module")
def stream() -> Scenario:
    """Eighty who come in faster than the corridor has room for, in an order that is not that of their numbers, and two at the start."""
    spec = corridor({"times": [*np.linspace(3.9, 0.0, 80)], "patience": 0.6})
    spec["groups"]["first"] = {"positions": [[3.0, 1.0], [3.0, 2.0]], "goal": "out"}
    return build(spec)


@pytest.fixture(scope="module")
def whole(stream: Scenario) -> Run:
    return simulate(stream, None, KEY, STEPS, every=TICK, observe=WATCHED)


def same(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_the_ledger_holds_and_few_programs_are_compiled(stream: Scenario, whole: Run) -> None:
    counts = {name: np.asarray(values) for name, values in whole.series.items()}
    assert (sum(counts[name] for name in ("people", "left", "removed", "waiting", "refused")) == 82).all()
    assert counts["refused"][-1] > 5
    assert counts["left"][-1] > 0
    assert counts["people"].max() > 15
    assert counts["waiting"][-1] > 0
    entered = np.asarray(whole.final.entered)
    assert (entered[-2:] == 0).all()
    assert (np.asarray(whole.final.alive) <= (entered >= 0)).all()
    simulate(stream, None, KEY, STEPS, every=TICK, observe=WATCHED)
    before = rollout._cache_size()
    simulate(stream, None, KEY, STEPS, every=TICK, observe=WATCHED)
    assert rollout._cache_size() == before


@pytest.mark.bits
def test_pieces_copies_and_others_abreast_change_no_bit(stream: Scenario, whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "COMPILING", 0)  # every copy that can be smaller is smaller
    parts = list(chunks(stream, stream.params, KEY, STEPS, chunk=TICK, every=TICK, observe=WATCHED))
    same(jax.tree.map(lambda *leaves: np.concatenate(leaves), *[part.frames for part in parts]), whole.frames)
    same([np.concatenate([part.series[name] for part in parts]) for name in WATCHED], [whole.series[name] for name in WATCHED])
    same(parts[-1].final, whole.final)
    many = crowdlab.simulate_many(stream, jnp.stack([jax.random.key(9), KEY]), STEPS, every=TICK, observe=WATCHED)
    same(jax.tree.map(lambda leaf: leaf[1], (many.frames, many.series)), (whole.frames, whole.series))
    same(many.final.entered[1], whole.final.entered)
    assert many.final.step[0] == STEPS


@pytest.mark.bits
def test_a_session_has_the_same_bytes(stream: Scenario, whole: Run) -> None:
    session = Session(stream, chunk=TICK, every=TICK, observe=WATCHED)
    session._key = KEY
    for _ in range(5):
        session.advance()
    same(session.state.position, np.asarray(whole.frames.position)[4].T)
    assert "waiting outside" in headline(stream, session.state, session.seconds)


def test_a_start_with_nobody_has_room_for_all(stream: Scenario) -> None:
    """The plan of an empty scene with many to come, and of a full one, are made by the same rule."""
    empty = stream.state.with_(alive=jnp.zeros(82, bool), entered=jnp.full(82, OUTSIDE, jnp.int32))
    grid = planning.plan(stream, stream.params, empty)
    assert grid.copy_rows == 82
    assert grid.capacity >= 32
    later = looked(stream, stream.state, STEPS)
    smaller = planning.thinned(stream, stream.params, later, grid._replace(copy_rows=1), 10**9)
    assert smaller.copy_rows >= int(later.alive.sum())


@pytest.mark.bits
def test_rows_in_another_order_come_in_alike(stream: Scenario) -> None:
    order = np.random.default_rng(1).permutation(82)
    state = looked(stream, stream.state, 10 * TICK)
    turned = between(stream, rows_of(stream.params, order), shuffled(stream.state.with_(step=jnp.int32(10 * TICK)), order))[0]
    same(shuffled(state, order), turned)


def test_another_number_of_people_and_a_report() -> None:
    scenario = build(corridor({"rate": 1.0, "stop": 5.0}))
    assert scenario.state.id.shape == (5,)
    assert variant(scenario, people=12).state.id.shape == (12,)
    listed = build(corridor({"times": [1.0, 2.0]}))
    with pytest.raises(ScenarioError, match="people = 3: 2 have given positions or times and 0 groups start in areas"):
        variant(listed, people=3)
    assert geometry_report(scenario).ok
    assert "  group      all: 5 people to out, due from 1.00 to 5.00 s" in described(scenario)


def test_the_advised_step_is_for_those_who_are_yet_to_come() -> None:
    later = build(corridor({"rate": 1.0}, group={"count": 4}, forces={"driving": {}, "contact": {}}))
    here = later.state.with_(alive=jnp.ones(4, bool), entered=jnp.zeros(4, jnp.int32))
    assert all_together(later.params, later.state) == all_together(later.params, here)
    assert all_together(later.params, here).step < 1


def test_runs_that_cannot_follow_refuse(stream: Scenario) -> None:
    with pytest.raises(CrowdlabError, match="people come in over time, which a gradient cannot follow"):
        crowdlab.gradient(stream, lambda run: run.final.position.sum(), ["motion.dt"], KEY, 10)
    with pytest.raises(ParamError, match="chunk = 7 steps: sources are looked at every 20 steps"):
        Session(stream, chunk=7)
    alone = build(corridor(None, group={"count": 2}))
    lost = alone.state.with_(entered=jnp.full(2, OUTSIDE, jnp.int32), alive=jnp.zeros(2, bool))
    with pytest.raises(CrowdlabError, match=r"agent 0 waits outside .*and there is no source"):
        list(chunks(alone, alone.params, KEY, 2, chunk=2, state=lost))
    with pytest.raises(CrowdlabError, match=r"agent 0 is alive with state\.entered = -1"):
        list(chunks(stream, stream.params, KEY, 2, chunk=2, state=stream.state.with_(alive=jnp.ones(82, bool))))


def test_travel_times_count_from_coming_in(stream: Scenario, whole: Run) -> None:
    tracks = Tracks.of_run(whole, stream)
    arrived, entered = np.asarray(whole.final.arrived), np.asarray(whole.final.entered)
    gone = arrived >= 0
    assert gone.sum() > 2
    np.testing.assert_allclose(travel_times(tracks)[gone], (arrived - entered)[gone] * DT, rtol=1e-6)
    assert np.isnan(tracks.entry[entered < 0]).all()


@pytest.mark.parametrize(
    "source",
    [
        {"times": [1e20, 1e18, 1e308]},
        {"rate": 1e-300},
        {"rate": 1e-308},
        {"every": 1.0, "start": 1e20},
        {"rate": 2.0, "start": 1e308},
    ],
)
def test_who_is_due_after_every_run_never_comes_in(source: dict[str, Any]) -> None:
    group = {} if "times" in source else {"group": {"count": 3}}
    scenario = build(corridor(source, **group))
    assert scenario.sources is not None
    assert (scenario.sources.waited(np.arange(3), MOST, DT) < 0).all()
    final = simulate(scenario, scenario.params, jax.random.key(1), 2 * TICK).final
    assert not np.asarray(final.alive).any()
