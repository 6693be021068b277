"""Doors open and close while people walk: real walls while they are closed, and nothing is compiled for them."""

from typing import Any

import jax
import numpy as np
import pytest

import crowdlab
from crowdlab.errors import CrowdlabError, ParamError, ScenarioError
from crowdlab.scenario import Scenario, build
from crowdlab.session import Session
from crowdlab.simulation import chunks, simulate
from crowdlab.stepping import rollout

AREA = [[0, 0], [10, 0], [10, 4], [0, 4]]
WALLS = [[[5, 0], [5, 1.4]], [[5, 2.6], [5, 4]]]
GATE = {"line": [[5, 1.4], [5, 2.6]]}


def gated(people: Any, opens: Any, closes: Any, **others: Any) -> Scenario:
    return build(
        {
            "world": {"area": AREA, "walls": WALLS},
            "goals": {"out": {"line": [[10, 0], [10, 4]]}},
            "doors": {"gate": {**GATE, "opens": opens, "closes": closes}},
            "groups": {"all": {"goal": "out", **people}},
            "motion": {"dt": 0.01},
            **others,
        }
    )


CROWD = {"count": 8, "area": [[0, 0], [4, 0], [4, 4], [0, 4]]}


def test_doors_that_open_and_close_twenty_times_take_one_program() -> None:
    """People pass while the door is open only; closing waits for who stands in it."""
    scenario = gated(CROWD, [0.4 + 1.6 * k for k in range(20)], [1.6 + 1.6 * k for k in range(20)])
    steps = round(33 / scenario.params.time_step)
    programs, right, passed, switches, last = rollout._cache_size(), np.zeros(8, bool), 0, 0, 1
    for piece in chunks(scenario, scenario.params, jax.random.key(1), steps, chunk=steps):
        closed = int(piece.final.closed)
        switches += closed != last
        last = closed
        now = np.asarray(piece.frames.position)[-1, :, 0] > 5
        assert not (closed and (now != right).any()), "nobody goes through a closed door"
        passed += int((now & ~right).sum())
        right = now
    assert rollout._cache_size() - programs == 1
    assert switches >= 20
    assert passed == 8


def test_ways_go_round_by_another_door_or_wait_at_the_closed_one() -> None:
    one = gated({"positions": [[2, 2]], "radius": 0.2}, [], [0.0])
    two = build({**one.source, "world": {"area": AREA, "walls": [WALLS[0], [[5, 2.6], [5, 3.2]]]}})
    for scenario, aside, beyond in ((one, 2.5, False), (two, 3.3, True)):
        assert int(scenario.state.closed) == 1
        run = simulate(scenario, None, jax.random.key(0), 800, every=20)
        x, y = np.asarray(run.frames.position)[:, 0].T
        assert (x.max() > 5) == beyond
        assert y.max() < aside if not beyond else y.max() > aside
        assert x.max() > 4


def test_a_door_far_from_the_origin_is_the_same_door() -> None:
    """On a plan that is recentred the door stands where it is drawn."""
    near = gated({"positions": [[2, 2]]}, [], [0.0])
    far = np.array([4.5e5, 5.4e6])
    group = {"positions": [[2 + far[0], 2 + far[1]]], "goal": "out"}
    world = {"area": (np.array(AREA) + far).tolist(), "walls": [(np.array(wall) + far).tolist() for wall in WALLS]}
    gate = {"line": (np.array(GATE["line"]) + far).tolist(), "closes": [0.0]}
    goal = {"line": (np.array([[10, 0], [10, 4]]) + far).tolist()}
    there = build({"world": world, "goals": {"out": goal}, "doors": {"gate": gate}, "groups": {"all": group}})
    assert int(there.state.closed) == 1
    shift = np.asarray(there.state.position) - np.asarray(near.state.position)
    walls = np.asarray(near.world.walls) + shift.T
    stands = np.asarray(near.world.walls)[:, 0, 0] < 100
    order = [sorted(map(tuple, w.reshape(-1, 4).round(3).tolist())) for w in (walls[stands], np.asarray(there.world.walls)[stands])]
    assert order[0] == order[1]


def test_a_run_in_pieces_and_a_session_move_doors_alike() -> None:
    scenario = gated({"positions": [[3.6, 2], [2.8, 2.1]]}, [2.0], [0.7])
    steps = round(4 / scenario.params.time_step)
    whole = simulate(scenario, None, jax.random.key(3), steps)
    session = Session(scenario, 3)
    while session.step < steps:
        session.advance()
    np.testing.assert_array_equal(session.state.position, whole.final.position)
    assert int(session.state.closed) == int(whole.final.closed) == 0


@pytest.mark.parametrize(
    ("door", "message"),
    [
        ({**GATE}, r"doors\.gate: never opens nor closes"),
        ({**GATE, "opens": [2.0], "closes": [2.0]}, r"doors\.gate: opens and closes at 2 s"),
        ({"line": [[5, 0], [5, 1]], "opens": [2.0]}, r"doors\.gate\.line: lies on a wall"),
        ({**GATE, "opens": "soon"}, r"doors\.gate\.opens"),
    ],
)
def test_a_wrong_door_is_named(door: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build({"world": {"area": AREA, "walls": WALLS}, "doors": {"gate": door}})


def test_runs_that_cannot_follow_a_door_refuse_it() -> None:
    scenario = gated({"positions": [[2, 2]]}, [1.0], [])
    with pytest.raises(CrowdlabError, match=r"untitled: doors\.gate opens or closes, which runs side by side cannot follow"):
        crowdlab.simulate_many(scenario, jax.random.split(jax.random.key(0), 2), 10)
    with pytest.raises(CrowdlabError, match="which a gradient cannot follow"):
        crowdlab.gradient(scenario, lambda run: run.final.position.sum(), ["motion.dt"], jax.random.key(0), 10)
    with pytest.raises(ParamError, match="chunk = 7 steps: doors are looked at every 20 steps"):
        Session(scenario, chunk=7)
