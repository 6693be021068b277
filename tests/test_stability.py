"""How long a step may be: from parameters, and from what somebody really touches. Simulated in test_dynamics and test_integrate."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
import pytest
from scenes import make_params, make_state, make_world, real

from crowdlab import report
from crowdlab.forces.base import FORCES, force
from crowdlab.neighbours import Neighbours, find
from crowdlab.params import Params
from crowdlab.stability import TOGETHER, Limit, advice, all_together, alone, longest_step
from crowdlab.state import Array, State, World
from crowdlab.trees import param

K, KAPPA, M, A, B = 1.2e5, 2.4e5, 80.0, 2000.0, 0.08
PAIR = make_state([(0, 0), (1, 0)])


def step_of(rows: list[Limit], name: str, mode: str, where: str) -> float:
    (found,) = [row.step for row in rows if (row.force, row.mode) == (name, mode) and row.where.startswith(where)]
    return found


def test_many_contacts(x64: None) -> None:
    rows = advice(make_params(), make_state(np.zeros((9, 2))), contacts=6, overlap=0.03)
    assert step_of(rows, "contact", "swing", "6 neighbours") == pytest.approx(2 / math.sqrt(2 * 6 * K / M), rel=1e-12)
    assert step_of(rows, "contact", "damping", "6 neighbours") == pytest.approx(M / (6 * KAPPA * 0.03), rel=1e-12)
    assert step_of(rows, "contact", "damping", "6 neighbours") == pytest.approx(1.85e-3, abs=5e-6)
    assert [row.step for row in rows[:-1]] == sorted(row.step for row in rows[:-1])
    drag = 1 / 0.5 + 2 * 6 * KAPPA * 0.03 / M
    stiff = 2 * 6 * (K + A / B * math.exp(0.03 / B)) / M
    h = rows[-1].step
    assert rows[-1][:3] == (TOGETHER, "both", "6 neighbours, 3 cm deep")
    assert h * drag / 2 + h**2 * stiff / 4 == pytest.approx(1, rel=1e-12)
    assert all_together(make_params(), make_state(np.zeros((9, 2)))).step < h


def test_the_worst_of_all_counts(x64: None) -> None:
    state = make_state(np.zeros((3, 2)), mass=[80.0, 40.0, 60.0])
    friction, tau = real([1e5, 1e5, 2e5]), real([0.5, 0.4, 0.6])
    params = make_params(None, {"forces.contact.friction": friction, "forces.driving.relaxation_time": tau})
    rows = advice(params, state, overlap=0.02)
    assert step_of(rows, "contact", "damping", "a neighbour") == pytest.approx(60 / (2e5 * 0.02), rel=1e-12)
    assert step_of(rows, "contact", "swing", "2 neighbours") == pytest.approx(2 / math.sqrt(2 * 2 * K / 40), rel=1e-12)
    assert [(row.force, row.step) for row in alone(params, state)] == [("driving", pytest.approx(0.8, rel=1e-12))]


def test_a_force_switched_off_limits_nothing() -> None:
    params = make_params(None, {"switches.contact": 0.0, "switches.driving": 0.0})
    assert {row.force for row in advice(params, PAIR)} == {"repulsion", "wall_contact", "wall_repulsion", TOGETHER}
    assert advice(make_params(()), PAIR)[-1].step == math.inf


@pytest.mark.parametrize("people", [0, 1, 2])
def test_hardly_anybody(people: int) -> None:
    rows = advice(make_params(), make_state(np.zeros((people, 2))))
    assert all(row.step > 0 for row in rows)
    touched = {0: [], 1: ["a wall"], 2: ["a neighbour", "a wall"]}[people]
    assert sorted({row.where.partition(",")[0] for row in rows[:-1]} - {"alone"}) == touched


def test_no_step_is_stable_for_a_spring_in_explicit_euler() -> None:
    rows = advice(make_params(motion="explicit_euler"), PAIR)
    assert {row.step for row in rows if row.mode == "swing"} == {0.0}
    assert all(row.step > 0 for row in rows if row.mode != "swing")


def test_what_is_really_touched(x64: None) -> None:
    # The second is pressed between two neighbours and a wall, the third by one, the fourth touches nobody; a dead row lies on them.
    place = [(0.0, 0.2), (0.46, 0.24), (0.94, 0.3), (5.0, 0.3), (0.46, 0.24)]
    state = make_state(place, mass=[80, 70, 60, 50, 1], alive=[True] * 4 + [False])
    world = make_world([[(-50.0, 0.0), (50.0, 0.0)]])
    params = make_params(("contact", "wall_contact"), {"forces.contact.compression": 0.0, "forces.wall_contact.compression": 0.0})

    @jax.jit
    def steps(params: Params, state: State, world: World) -> Array:
        return longest_step(params, state, find(state, world, None, jax.random.key(0))[0])

    one, other = 0.5 - math.hypot(0.46, 0.04), 0.5 - math.hypot(0.48, 0.06)
    pressed = [one + 0.05 / 2, one + other + 0.01 / 2, other]
    expected = [mass / (KAPPA * overlap) for mass, overlap in zip((80, 70, 60), pressed, strict=True)]
    np.testing.assert_allclose(steps(params, state, world), [*expected, math.inf, math.inf], rtol=1e-9)


def test_an_own_force_is_heard() -> None:
    before = dict(FORCES)

    @force
    class Syrup:
        """A drag."""

        rate: float = param(default=4.0, unit="1/s", low=0.0, high=9.0, doc="decay of velocities", source="this test, 2026")

        def __call__(self, state: State, near: Neighbours, world: World) -> Array:
            return -self.rate * state.velocity

        def rates(self, state: State, near: Neighbours) -> tuple[Any, Any]:
            return 0.0, self.rate

        def reach(self, radius: float) -> float:
            return 0.0

    try:
        params = make_params(("syrup",))
        assert advice(params, PAIR)[0] == Limit("syrup", "damping", "alone", 0.5)
        higher = dataclasses.replace(params, motion=make_params(motion="runge_kutta").motion)
        assert advice(higher, PAIR)[0].step == pytest.approx(2.785 / 4)
    finally:
        FORCES.clear()
        FORCES.update(before)


def test_the_table_and_the_sentence() -> None:
    state = make_state(np.zeros((9, 2)))
    text = report.advised(make_params(), state)
    assert text[0] == "  step       motion.dt = 0.001 s; springs and drags are stable below"
    assert text[1] == "    0.00111 s  contact, damping: 6 neighbours, 5 cm deep"
    assert text[-1] == "    0.0011 s   all together: 6 neighbours, 5 cm deep"
    assert report.too_long(make_params(), state) == ""
    assert report.too_long(make_params(None, {"motion.dt": 0.01}), state) == (
        "motion.dt = 0.01 s: springs and drags are stable below 0.0011 s where the crowd is dense (6 neighbours, 5 cm deep); "
        "if it gets so dense, give motion.dt=0.001."
    )
    assert "    none       contact, swing: a neighbour, 5 cm deep" in report.advised(make_params(motion="explicit_euler"), state)
