"""What stops a run: every guard provoked, with agent, step, place and the last good state; and healthy runs that provoke none."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import guards
from crowdlab import params as numbers
from crowdlab.errors import NonFiniteError, RunError, UnstableError
from crowdlab.guards import EVERY
from crowdlab.scenario import Scenario, load
from crowdlab.simulation import Run, chunks, simulate

KEY, SLOW = jax.random.key(5), pytest.mark.slow


def pressing(changes: dict[str, Any], *, speed: float = 0.5) -> Scenario:
    """Two who walk into each other along one line, starting in touch, and one far off in a row of its own."""
    state = make_state(
        [(-0.25, 0.0), (0.25, 0.0), (0.0, 9.0)], [(speed, 0.0), (-speed, 0.0), (0.0, 0.0)], goal=[0, 1, -1], id=[7, 4, 2]
    )
    params = make_params(None, {"people.desired_speed": speed, "forces.repulsion.strength": 0.0} | changes)
    return make_scenario(make_world(goals=[(99.0, 0.0), (-99.0, 0.0)]), state, params, "pair")


def dense(**changes: Any) -> Scenario:
    """A crowd in contact with itself and a wall, pressed towards it."""
    generator = np.random.default_rng(7)
    place = np.stack(np.meshgrid(np.arange(6) * 0.47, np.arange(4) * 0.47), -1).reshape(-1, 2) + generator.uniform(
        -0.02, 0.02, (24, 2)
    )
    state = make_state(place, generator.normal(0, 0.3, (24, 2)), goal=0)
    world = make_world([[(-1.0, -0.3), (4.0, -0.3)]], [(1.2, -9.0)])
    return make_scenario(world, state, make_params(None, {"people.desired_speed": 1.3} | changes), "dense")


def caught(scenario: Scenario, kind: type[RunError], steps: int = 400) -> RunError:
    with pytest.raises(kind) as error:
        simulate(scenario, None, KEY, steps, every=steps)
    found = error.value
    assert isinstance(found.state, type(scenario.state))
    assert found.state.step == found.step - 1
    for name in ("position", "velocity"):
        assert np.isfinite(getattr(found.state, name)).all()
    row = np.asarray(found.state.id).tolist().index(found.agent)
    np.testing.assert_allclose(found.place, np.asarray(found.state.position)[:, row], rtol=1e-6)
    x, y = found.place
    assert f"agent {found.agent} " in str(found)
    bound = "limits." in str(found)
    kept = "it was seen in the state" if bound else "the last good state is that"
    assert f"at step {found.step}; {kept} of step {found.step - 1}, where it stood at ({x:.2f}, {y:.2f}) m." in str(found)
    return found


def test_bodies_deeper_in_each_other_than_allowed() -> None:
    soft = {"forces.contact.compression": 1.0, "forces.contact.friction": 0.0}
    found = caught(pressing(soft), UnstableError, 1000)
    assert found.step % EVERY == 0
    assert found.agent == 4  # the smaller id of a pair that is equally deep
    assert "overlapped by 0.9" in str(found)
    assert "(limits.overlap = 0.9)" in str(found)
    earlier = caught(pressing(soft | {"limits.overlap": 0.5}), UnstableError, 1000)
    assert earlier.step < found.step
    # Who does not resist may be passed through: bodies that are not stiff, or a force that is switched off.
    for other in ({"forces.contact.compression": 0.0}, {"switches.contact": 0.0}):
        run = simulate(pressing(soft | other), None, KEY, 1000, every=1000)
        assert float(run.final.position[0, 0]) > 0.2 > -0.2 > float(run.final.position[0, 1])
        assert float(run.health.strain) == 0


def test_deep_in_a_wall() -> None:
    state = make_state([(0.0, 0.2)], [(0.0, -0.4)], goal=0)
    params = make_params(
        None, {"people.desired_speed": 0.4, "forces.wall_contact.compression": 1.0, "switches.wall_repulsion": 0.0}
    )
    scenario = make_scenario(make_world([[(-9.0, 0.0), (9.0, 0.0)]], [(0.0, -9.0)]), state, params)
    assert "overlapped by 0.9" in str(caught(scenario, UnstableError, 1000))


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_friction_out_of_all_measure(factor: float) -> None:
    friction = {f"forces.{name}.friction": factor * 2.4e5 for name in ("contact", "wall_contact")}
    found = caught(dense(**friction), UnstableError)
    assert found.step <= EVERY
    assert "a smaller motion.dt (now 0.001 s; springs and drags are stable below" in str(found)
    least = float(str(found).split("stable below ")[1].split(" s ")[0])
    assert 0 < least < 2e-3 / factor * 10


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({"limits.overlap": 0.0}, True),
        ({"limits.overlap": np.array([0.01, 0.0])}, True),
        ({"limits.overlap": np.array([0.01, 0.0])}, [True, False]),
        ({"limits.step_ratio": 0.0}, [True, False]),
    ],
)
def test_who_has_nothing_turns_nobody_elses_guard_off(changes: dict[str, Any], alive: Any) -> None:
    """One lies in a wall, too heavy to get out of it before the first look; the other is free or gone."""
    state = make_state([(0.0, 0.2), (5.0, 5.0)], mass=8e4, alive=alive)
    scenario = make_scenario(
        make_world([[(-3.0, 0.0), (3.0, 0.0)]]), state, make_params(None, {"people.desired_speed": 0.0} | changes)
    )
    assert caught(scenario, UnstableError, EVERY).agent == 0


def test_a_graze_between_two_looks_is_noticed() -> None:
    # They pass each other within a few steps, and the first look comes after that.
    state = make_state([(-0.02, 0.0), (0.02, 0.499)], [(1.0, 0.0), (-1.0, 0.0)])
    params = make_params(("contact",), {"forces.contact.friction": 2.4e11})
    found = caught(make_scenario(make_world(), state, params), UnstableError)
    assert found.step < EVERY
    assert "was pressed so hard that the step is" in str(found)


def test_one_kick_out_of_all_measure() -> None:
    found = caught(pressing({"forces.repulsion.strength": 1e9}), UnstableError)
    assert (found.step, found.agent) == (1, 4)
    assert "was to change its velocity by 1.25e+04 m/s (allowed are 1000)" in str(found)


def test_the_finite_numbers_go_first() -> None:
    found = caught(pressing({"forces.repulsion.strength": 1e38, "forces.repulsion.falloff": 0.001}), NonFiniteError)
    assert (found.step, found.agent) == (1, 4)
    assert "agent 4 left the finite numbers at step 1" in str(found)


def test_a_wall_that_cannot_hold() -> None:
    state = make_state([(0.0, 3.0), (0.0, 0.9)], [(0.0, 0.0), (0.0, -60.0)], id=[1, 0])
    params = make_params(("wall_repulsion",), {"motion.top_speed": 100.0})
    found = caught(make_scenario(make_world([[(-9.0, 0.0), (9.0, 0.0)]]), state, params), NonFiniteError)
    assert found.agent == 0
    assert "agent 0 went through a wall" in str(found)


def test_who_walks_to_where_steps_are_lost_in_rounding() -> None:
    state = make_state([(0.0, 0.0), (0.0, -1677.6)], (0.0, -5.0), id=[3, 1])
    found = caught(make_scenario(make_world(), state, make_params(())), RunError)
    assert found.agent == 1
    assert found.step == pytest.approx(0.122 / 0.005, abs=2)  # 2 x 0.1 m/s x 1 ms / 2^-23 = 1677.7216 m
    assert "a longer motion.dt or double precision" in str(found)


@pytest.mark.bits
def test_no_error_hangs_on_how_a_run_is_cut() -> None:
    friction = {f"forces.{name}.friction": 2.4e7 for name in ("contact", "wall_contact")}
    whole = caught(dense(**friction), UnstableError, 200)
    for chunk in (20, 70):
        with pytest.raises(UnstableError) as error:
            list(chunks(dense(**friction), dense(**friction).params, KEY, 200, chunk=chunk, every=10))
        assert (error.value.step, error.value.agent, error.value.place) == (whole.step, whole.agent, whole.place)
        np.testing.assert_array_equal(error.value.state.position, whole.state.position)


def test_looks_come_at_fixed_steps_and_are_counted() -> None:
    scenario = dense()
    whole = simulate(scenario, None, KEY, 230, every=10)
    pieces = list(chunks(scenario, scenario.params, KEY, 230, chunk=70, every=10))
    assert 230 // EVERY <= int(whole.health.looks) == sum(int(piece.health.looks) for piece in pieces)
    assert 0 < float(whole.health.step_ratio) < 2
    for name in ("step_ratio", "strain"):
        assert float(getattr(whole.health, name)) == max(float(getattr(piece.health, name)) for piece in pieces)


# Healthy


def hasty(name: str, speed: float, dt: float = 0.001) -> Iterator[Run]:
    """The first seconds of a shipped scenario with everybody at `speed` m/s, in pieces of a second."""
    scenario = load(name)
    params = numbers.rescale(numbers.replace(scenario.params, "motion.dt", dt), "people.desired_speed", speed)
    steps = round(1 / dt)
    return chunks(scenario, numbers.replace(params, "motion.top_speed", 10.0), KEY, 12 * steps, chunk=steps, every=steps)


@pytest.mark.parametrize(
    ("name", "speed"),
    [("bottleneck_hfv", 1.6), pytest.param("one_door", 5.0, marks=SLOW), pytest.param("bottleneck_hfv", 5.0, marks=SLOW)],
)
def test_a_healthy_crowd_is_left_alone(name: str, speed: float) -> None:
    for second, run in enumerate(hasty(name, speed)):
        assert int(run.health.looks) == 1000 // EVERY
        assert int(run.health.long_looks) == 0
        assert float(run.health.strain) < 0.7
        if second == 4 and speed < 2:
            break
    assert 0.001 < float(run.health.step_ratio) < 1


@SLOW
def test_ten_milliseconds_are_too_long_for_haste_at_a_door() -> None:
    with pytest.raises(
        UnstableError, match=r"one_door: agent \d+ was pressed so hard that the step is \S+ times the longest"
    ) as error:
        list(hasty("one_door", 2.0, 0.01))
    assert "motion.dt (now 0.01 s; springs and drags are stable below 0.00" in str(error.value)


def test_a_bound_of_ones_own_is_named_with_ones_own_numbers() -> None:
    """Who is worst is so by the own limit; the message tells that person's overlap and that person's limit."""
    state = make_state([(0.0, 0.0), (5.0, 0.0)])
    nothing = jnp.zeros(2)
    signs = guards.Signs(
        id=state.id,
        alive=state.alive,
        position=state.position,
        reason=jnp.zeros(2, jnp.int32),
        move=nothing,
        kick=nothing,
        step_ratio=nothing,
        strain=jnp.asarray([0.5, 0.3]),
        capped=nothing > 0,
        separated=nothing > 0,
    )
    params = numbers.replace(make_params(), "limits.overlap", jnp.asarray([0.9, 0.1]))
    health = guards._summed_up(jnp.asarray(EVERY), signs, params.limits)
    assert float(health.strain) == 0.5
    error = guards.broken("scene", health, state, params, make_world(), None)
    assert str(error).startswith("scene: agent 1 overlapped by 0.3 of the radii (limits.overlap = 0.1) at step 50; it was seen in")
