"""Orders: who is meant, when they are due, in which sequence, and what is refused before the first step."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab.commands import Command, CommandQueue, Kind, apply, in_order
from crowdlab.errors import CommandError, CrowdlabError, ParamError
from crowdlab.scenario import Scenario
from crowdlab.simulation import simulate
from crowdlab.state import State

NOW = 7


@pytest.fixture(scope="module")
def scene() -> Scenario:
    """Six people in a row, two in the second group, the last one dead; at step NOW."""
    state = make_state([(float(x), 0.0) for x in range(6)], goal=0, alive=[True] * 5 + [False])
    state = state.with_(group=np.array([0, 0, 0, 1, 1, 0], np.int32), step=np.int32(NOW))
    scenario = make_scenario(make_world(goals=[(9.0, 0.0), (-9.0, 0.0)]), state, make_params())
    return dataclasses.replace(scenario, groups=("early", "late"))


carried_out = jax.jit(lambda queue, state: apply(queue, state, make_world()))


def after(scene: Scenario, *orders: Command, **changes: Any) -> State:
    return carried_out(CommandQueue.of(orders), scene.state.with_(**changes))


def pushed(state: State) -> list[int]:
    return np.flatnonzero(np.asarray(state.velocity[0])).tolist()


@pytest.mark.parametrize(
    ("whom", "who"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"agent": 2}, [2]),
        ({"agent": 0}, [0]),
        ({"agent": 5}, []),  # dead
        ({"group": 1}, [3, 4]),
        ({"group": 0}, [0, 1, 2]),
        ({"zone": (1.0, -1.0, 3.0, 0.0)}, [1, 2, 3]),  # borders belong to the zone
        ({"zone": (1.0, 0.1, 3.0, 1.0)}, []),
        ({"zone": (3.0, -math.inf, math.inf, math.inf), "group": 1, "agent": 4}, [4]),
        ({"group": 1, "agent": 0}, []),
    ],
)
def test_an_order_meets_whom_it_names(whom: dict[str, Any], who: list[int], scene: Scenario) -> None:
    assert pushed(after(scene, Command(NOW, Kind.PUSH, (1.0, 0.0), **whom))) == who


@pytest.mark.parametrize("step", [NOW - 1, NOW + 1, -1])
def test_an_order_is_due_at_its_step_only(step: int, scene: Scenario) -> None:
    state = after(scene, Command(step, Kind.PUSH, (1.0, 0.0)), Command(step, Kind.REMOVE))
    jax.tree.map(np.testing.assert_array_equal, state, scene.state)


@pytest.mark.bits
def test_ids_count_and_not_rows(scene: Scenario) -> None:
    state = after(scene, Command(NOW, Kind.PUSH, (1.0, 0.0), agent=2), id=np.array([5, 4, 3, 2, 1, 0], np.int32))
    assert pushed(state) == [3]


def test_push_adds_to_the_velocity(scene: Scenario) -> None:
    state = after(scene, Command(NOW, Kind.PUSH, (0.5, -0.25), agent=1), Command(NOW, Kind.PUSH, (0.25, 0.5), agent=1))
    np.testing.assert_array_equal(state.velocity[:, 1], [0.75, 0.25])


def test_goal_gives_and_takes_goals_and_wakes_who_has_arrived(scene: Scenario) -> None:
    orders = (Command(NOW, Kind.GOAL, (1.0, 0.0), agent=1), Command(NOW, Kind.GOAL, (-1.0, 0.0), agent=2))
    state = after(scene, *orders, arrived=np.array([-1, 3, 3, 3, -1, 3], np.int32))
    assert state.goal.tolist() == [0, 1, -1, 0, 0, 0]
    assert state.arrived.tolist() == [-1, -1, -1, 3, -1, 3]


def test_who_is_removed_is_dead_and_has_not_arrived(scene: Scenario) -> None:
    state = after(scene, Command(NOW, Kind.REMOVE, group=1), arrived=np.array([-1, -1, -1, 4, -1, 4], np.int32))
    assert state.alive.tolist() == [True, True, True, False, False, False]
    assert state.arrived.tolist() == [-1, -1, -1, -1, -1, 4]  # the dead one had left before


def test_orders_of_one_step_are_carried_out_in_the_sequence_given(scene: Scenario) -> None:
    push, remove = Command(NOW, Kind.PUSH, (1.0, 0.0), agent=1), Command(NOW, Kind.REMOVE, agent=1)
    assert pushed(after(scene, push, remove)) == [1]
    assert pushed(after(scene, remove, push)) == []
    first, second = (Command(NOW, Kind.GOAL, (goal, 0.0), agent=0) for goal in (1.0, -1.0))
    assert after(scene, first, second).goal[0] == -1
    assert after(scene, second, first).goal[0] == 1


def test_orders_are_sorted_by_step_and_else_keep_their_sequence() -> None:
    given = [
        Command(5, Kind.REMOVE, agent=1),
        Command(2, Kind.REMOVE, agent=2),
        Command(5, Kind.PUSH, agent=0),
        Command(2, Kind.PUSH),
    ]
    assert in_order(given) == [given[1], given[3], given[0], given[2]]


@pytest.mark.parametrize(("count", "room"), [(0, 8), (1, 8), (8, 8), (9, 16), (33, 64)])
def test_a_queue_doubles_so_that_few_sizes_are_compiled(count: int, room: int) -> None:
    queue = CommandQueue.of([Command(NOW, Kind.REMOVE)] * count)
    assert queue.step.shape == (room,)
    assert (np.asarray(queue.step) == NOW).sum() == count


@pytest.mark.bits
def test_an_empty_queue_changes_nothing(scene: Scenario) -> None:
    assert apply(CommandQueue.of((), 0), scene.state, scene.world) is scene.state
    jax.tree.map(np.testing.assert_array_equal, after(scene), scene.state)


def test_a_queue_refuses_parameters() -> None:
    with pytest.raises(CommandError, match=r"order at step 3 sets motion\.noise: a queue holds orders to people only"):
        CommandQueue.of([Command(3, Kind.SET, (0.1, 0.0), path="motion.noise")])


WRONG: list[Any] = [math.nan, math.inf, None, "a", (1, 2), [[1], [1, 2]]]


@pytest.mark.parametrize(
    ("order", "kind", "message"),
    [
        (
            Command(6, Kind.PUSH),
            CommandError,
            "scene: order PUSH at step 6: the run is at step 7 already. Give a step of 7 or later",
        ),
        (
            Command(8, Kind.GOAL, (2.0, 0.0)),
            CommandError,
            r"goal 2 does not exist\. Goals are 0 to 1 \(goal 0, goal 1\), and -1",
        ),
        (Command(8, Kind.GOAL, (-2.0, 0.0)), CommandError, "goal -2 does not exist"),
        (Command(8, Kind.REMOVE, group=2), CommandError, r"group 2 does not exist\. Groups: early, late\."),
        (Command(8, Kind.REMOVE, agent=-2), CommandError, "agent -2 does not exist"),
        (Command(8, Kind.REMOVE, group=-2), CommandError, "group -2 does not exist"),
        (Command(8, Kind.REMOVE, agent=6), CommandError, r"agent 6 does not exist\. Ids are 0 to 5\."),
        (Command(8, Kind.SET, (1.0, 0.0), path="people.speed"), ParamError, r"unknown parameter 'people\.speed'\. Did you mean"),
        (Command(8, Kind.SET, (-1.0, 0.0), path="people.desired_speed"), ParamError, r"people\.desired_speed = -1 m/s: allowed 0"),
        (Command(8, Kind.SET, (math.nan, 0.0), path="motion.noise"), ParamError, r"motion\.noise = nan"),
        (Command(8, Kind.GOAL, (math.nan, 0.0)), CommandError, "goal nan does not exist"),
        (Command(8, Kind.GOAL, (0.5, 0.0)), CommandError, r"goal 0\.5 does not exist"),
        (Command(8, Kind.PUSH, (math.nan, 0.0)), CommandError, r"push \(nan, 0\) m/s: allowed are finite numbers"),
        (Command(8, Kind.PUSH, (0.0, math.inf)), CommandError, r"push \(0, inf\) m/s: allowed are finite numbers"),
        (Command(8, Kind.SET, (1.0, 0.0), path="people.desired_speed", agent=1), CommandError, "moves for everybody in proportion"),
        (Command(8, Kind.SET, (0.002, 0.0), path="motion.dt"), CommandError, r"motion\.dt counts the time itself"),
        (Command(8, Kind.PUSH, path="motion.dt"), CommandError, r"path 'motion\.dt' belongs to SET only"),
        (Command(8, Kind.PUSH, zone=(1.0, 0.0, -1.0, 2.0)), CommandError, "holds no point"),
        (Command(8, Kind.PUSH, agent=1.5), CommandError, r"agent = 1\.5: allowed are whole numbers"),
        (Command(8, 9), CommandError, "allowed is a Command of a kind of SET, GOAL, REMOVE, PUSH"),
        (Command(8, Kind.PUSH, (1.0,)), CommandError, r"value = \(1\.0,\): allowed are two numbers\. Give \(x, y\) in m/s"),
        *(
            (Command(step, Kind.REMOVE), CommandError, "order REMOVE at step .*: step = .*: allowed are whole numbers")
            for step in WRONG
        ),
        *(
            (Command(8, Kind.REMOVE, agent=agent), CommandError, "agent = .* whole numbers. Leave it out for any")
            for agent in WRONG
        ),
        *(
            (Command(8, Kind.REMOVE, group=group), CommandError, "group = .* whole numbers. Leave it out for any")
            for group in WRONG
        ),
        *((Command(8, Kind.PUSH, (0.0, one)), CommandError, "value = .* allowed are two numbers") for one in WRONG[2:]),
        (Command(8, Kind.GOAL, ("exit", 0)), CommandError, r"value = \('exit', 0\): .* Goals are 0 to 1 \(goal 0, goal 1\)"),
        (Command(8, Kind.JOURNEY, ("way", 0)), CommandError, r"value = \('way', 0\): .* There are none"),
        (Command(8, Kind.SET, ("fast", 0), path="people.desired_speed"), CommandError, r"value = \('fast', 0\)"),
        (Command(8, Kind.SET, (1.0, 0.0), path=3), CommandError, "path = 3: allowed is the name of a parameter"),
        (Command(8, Kind.PUSH, 1.0), CommandError, "value = 1.0: allowed are two numbers"),
        (Command(8, Kind.PUSH, zone=(0.0, 1.0, "a", 2.0)), CommandError, "zone = .*: allowed are four numbers in m"),
        (Command(8, Kind.PUSH, zone=3.0), CommandError, "zone = 3.0: allowed are four numbers in m"),
        ((8, Kind.PUSH), CommandError, "allowed is a Command of a kind"),
        (Command(17, Kind.PUSH), CommandError, "the run ends before it, at step 17"),
    ],
)
def test_what_is_refused_before_the_first_step(order: Command, kind: type[CrowdlabError], message: str, scene: Scenario) -> None:
    fine: Sequence[Command] = (Command(9, Kind.PUSH), Command(7, Kind.GOAL, (-1.0, 0.0)))
    with pytest.raises(kind, match=message):
        simulate(scene, None, jax.random.key(0), 10, commands=(*fine, order))
