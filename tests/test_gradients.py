"""Slopes through a whole run: finite everywhere, and equal to central differences."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world, real

import crowdlab
from crowdlab import gradients
from crowdlab import params as numbers
from crowdlab.arithmetic import Vector, angle
from crowdlab.commands import Command, CommandQueue, Kind
from crowdlab.errors import NonFiniteError, ParamError
from crowdlab.neighbours import Grid
from crowdlab.params import Params
from crowdlab.simulation import plan, rollout, simulate
from crowdlab.state import State, World

KEY = jax.random.key(11)
SLOW = pytest.mark.slow
Scene = tuple[World, Params, State]

# Two on one point, three in contact with each other and a wall, one in a corner, one alone and at rest, one who may not move at all, one
# on the way to a target nearby, one who arrives at it, and dead rows on top of the first.
PLACES = [(0, 0), (0, 0), (0.3, 0.4), (0.7, -0.2), (2.75, -0.1), (8, 8), (4, 3), (1.2, 1.6), (1.8, 1.1), (0, 0), (0.3, 0.4)]
ALIVE = np.arange(11) < 9
WALLS = [[(-1, -0.3), (2, -0.45)], [(2, -0.45), (3, -0.3)], [(3, -0.3), (3, 2)]]
FAR, NEAR = (15.0, 3.0), (2.0, 1.05)


def hard(noise: float = 0.1, near: Any = NEAR, leaves: bool = False) -> Scene:
    moving = np.zeros((11, 2))
    moving[[2, 3, 8]] = (-0.2, 0.1), (0.5, 1.0), (0.9, -0.2)
    goals = [0, 0, 0, 0, 0, -1, 0, 1, 1, 0, 0]
    state = make_state(PLACES, moving, mass=np.linspace(60, 95, 11), goal=goals, alive=ALIVE, radius=np.linspace(0.24, 0.3, 11))
    changes = {"motion.dt": 0.002, "motion.noise": noise, "forces.driving.braking_distance": 1.0, "motion.speed_factor": 1.3}
    changes["limits.step_ratio"] = 1e3  # some lie deep in others
    speed = {"people.desired_speed": np.where(np.arange(11) == 6, 0.0, np.linspace(1.0, 1.6, 11))}
    return make_world(WALLS, [FAR, near], reach=0.15, leaves=leaves), make_params(None, changes | speed), state


GRID = Grid(columns=12, rows=12, half=0, span=11, capacity=11, touching=11, walls=7, reach=1.8, wall_reach=1.6, skin=0.3, refresh=5)


def compare(
    scene: Scene, *, grid: Grid | None, steps: int, every: int, orders: tuple[Command, ...] = (), observe: tuple[str, ...] = ()
) -> None:
    """Slopes by every parameter and by all that is continuous in the state against central differences, to a ten-thousandth."""
    world, params, state = scene
    queue = CommandQueue.of(orders, 8 if orders else 0)
    weights = jnp.cos(jnp.arange(2.0 * state.id.size)).reshape(2, -1)

    @jax.jit
    def loss(leaves: Mapping[str, Any], own: Mapping[str, Any]) -> jax.Array:
        tree = params
        for path, leaf in leaves.items():
            tree = numbers.replace(tree, path, leaf)
        moved = state.with_(**{name: getattr(state, name) + change for name, change in own.items()})
        done = rollout(world, tree, moved, KEY, queue, grid=grid, steps=steps, every=every, observe=observe)
        last = done.final
        felt = jnp.where(state.alive, weights * (last.position + 0.1 * last.velocity + 0.1 * last.heading), 0.0).sum()
        return (
            felt
            + (done.frames.position * jnp.where(state.alive, 0.1, 0.0)[:, None]).mean()
            + sum(v.mean() for v in done.series.values())
        )

    leaves = {path: real(value) for path, value in numbers.values(params).items() if np.isfinite(value).all()}
    own = {name: jnp.zeros_like(getattr(state, name)) for name in ("position", "velocity", "mass", "radius", "social_radius")}
    slopes = jax.jit(jax.grad(loss, argnums=(0, 1)))(leaves, own)
    generator = np.random.default_rng(4)
    for which, tree in enumerate((leaves, own)):
        for name, leaf in tree.items():
            assert np.isfinite(slopes[which][name]).all(), name
            direction = generator.normal(size=leaf.shape)
            if leaf.ndim:
                smooth = state.alive if which else leaf != 0  # who may not move at all stands at a kink of the speed limit
                direction = np.where(smooth, direction, 0.0)
                direction[..., 1] = direction[..., 0]  # who stand on one point stay there
            size = 1e-5 * (float(np.abs(leaf).max()) if which == 0 else 80.0 if name == "mass" else 0.1)

            def moved(way: float, tree: Any = tree, name: str = name, direction: Any = size * direction) -> jax.Array:
                changed = {**tree, name: tree[name] + way * direction}
                return loss(changed, own) if tree is leaves else loss(leaves, changed)

            central = (moved(1) - moved(-1)) / 2
            found = float((slopes[which][name] * size * direction).sum())
            np.testing.assert_allclose(found, central, rtol=1e-4, atol=1e-11, err_msg=name)


def test_slopes_of_a_run_are_central_differences(x64: None) -> None:
    compare(hard(), grid=GRID, steps=50, every=10)


@SLOW
def test_slopes_with_an_exit_orders_and_observables(x64: None) -> None:
    orders = (
        Command(10, Kind.PUSH, (0.3, 0.1), agent=3),
        Command(20, Kind.GOAL, (1, 0), agent=2),
        Command(25, Kind.REMOVE, agent=8),
    )
    scene = hard(near=[(1.9, 0.5), (1.9, 1.5)], leaves=True)
    grid = GRID._replace(half=2, refresh=3)
    compare(scene, grid=grid, steps=50, every=25, orders=orders, observe=("mean_speed", "kinetic_energy"))


@SLOW
def test_slopes_along_ways_round_corners(x64: None) -> None:
    scenario = crowdlab.load("two_rooms")
    walked = simulate(scenario, None, KEY, 6000, every=6000).final  # in the passage
    scene = (scenario.world, scenario.params, walked)
    compare(scene, grid=plan(scenario, scenario.params, walked), steps=60, every=30)


@SLOW
def test_slopes_in_a_periodic_box(x64: None) -> None:
    generator = np.random.default_rng(3)
    place = generator.uniform((0, 0), (4, 3), (12, 2))
    place[1] = place[0]
    state = make_state(place, generator.normal(0, 1, (12, 2)))
    world = make_world(size=(4.0, 3.0), lower=(0.0, 0.0), periodic=True)
    compare((world, make_params(None, {"motion.dt": 0.002, "motion.noise": 0.1}), state), grid=None, steps=50, every=50)


@SLOW
def test_slopes_in_single_precision_are_those_in_double() -> None:
    def slopes() -> dict[str, np.ndarray]:
        world, params, state = hard()
        names = [
            f"forces.{name}"
            for name in ("repulsion.strength", "repulsion.falloff", "driving.relaxation_time", "contact.compression")
        ]

        def mean(leaves: Mapping[str, Any]) -> jax.Array:
            tree = params
            for path, leaf in leaves.items():
                tree = numbers.replace(tree, path, leaf)
            final = rollout(world, tree, state, KEY, CommandQueue.of((), 0), grid=GRID, steps=50, every=50).final
            return jnp.where(state.alive, final.position, 0.0).sum() / state.alive.sum()

        return jax.device_get(jax.jit(jax.grad(mean))({name: numbers.get(params, name) for name in names}))

    single = slopes()
    with jax.enable_x64(True):
        double = slopes()
    for name, slope in double.items():
        assert single[name].dtype == np.float32
        np.testing.assert_allclose(single[name], slope, rtol=1e-3, err_msg=name)


def test_an_angle_has_a_slope_straight_ahead_too(pick: Callable[..., float]) -> None:
    around = np.linspace(-np.pi, np.pi, 9)  # ahead, aside, back and between: there the pieces of the polynomial meet
    one = Vector.of(real([[1.0] * 9, [0.0] * 9]))
    other = 2.0 * Vector.of(real([np.cos(around), np.sin(around)]))
    by = jax.grad(lambda v: angle(one, v).sum())(other)
    np.testing.assert_allclose(by.x, -np.sin(around) / 2, atol=pick(1e-12, 1e-6))
    np.testing.assert_allclose(by.y, np.cos(around) / 2, atol=pick(1e-12, 1e-6))
    nowhere = jax.grad(lambda v: angle(one, v).sum())(0.0 * other)
    assert not np.asarray(nowhere).any()


# The public way


@pytest.mark.bits
def test_a_gradient_is_that_of_the_run_that_simulate_gives() -> None:
    world, params, state = hard(noise=0.0)
    scenario = make_scenario(world, state, params)
    loss, path = partial(_spread, alive=ALIVE), "people.desired_speed"
    found = crowdlab.gradient(scenario, loss, [path], KEY, 20, every=10)
    again = simulate(scenario, None, KEY, 20, every=10)
    np.testing.assert_array_equal(found.run.frames.position, again.frames.position)
    assert found.value == pytest.approx(float(loss(again)), rel=1e-6)
    assert found.slopes[path].shape == (11,)
    assert not found.slopes[path][~ALIVE].any()
    assert found.slopes[path][0] != 0


def _spread(run: crowdlab.Run, alive: np.ndarray) -> jax.Array:
    return (run.frames.position[-1] ** 2 * alive[:, None]).sum()


def test_what_has_no_gradient_is_refused() -> None:
    world, params, state = hard()
    scenario = make_scenario(world, state, params)
    with pytest.raises(ParamError, match=r"the loss has the shape \(1, 11, 2\): allowed is one number"):
        crowdlab.gradient(scenario, lambda run: run.frames.position, ["motion.noise"], KEY, 1)
    with pytest.raises(ParamError, match=r"Did you mean 'motion\.noise'"):
        crowdlab.gradient(scenario, _spread, ["motion.nose"], KEY, 1)
    with pytest.raises(NonFiniteError, match=r"slope by motion\.noise is not finite after 1 steps"):
        crowdlab.gradient(scenario, lambda run: jnp.sqrt(0.0 * run.frames.position.sum()), ["motion.noise"], KEY, 1)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (None, "NoneType"),
        (3, "int"),
        (jnp.int32(3), "int32"),
        (np.True_, "bool"),
        (jnp.ones((2,)) * 1j, "complex64"),
        ((1.0,), "tuple"),
    ],
)
def test_a_loss_is_one_real_number(found: Any, kind: str) -> None:
    with pytest.raises(ParamError, match=f"the loss gives {kind}: allowed is one real number"):
        gradients._one_number(found)


@pytest.mark.parametrize("given", [{"paths": [3]}, {"loss": 3}], ids=str)
def test_what_is_no_path_and_no_function(given: dict[str, Any]) -> None:
    scenario = make_scenario(make_world(), make_state([]), make_params(()))
    with pytest.raises(ParamError, match=r"scene: the (paths are \[3\]|loss is a int): allowed"):
        crowdlab.gradient(**{"scenario": scenario, "loss": jnp.sum, "paths": ["motion.dt"], "key": KEY, "steps": 1} | given)


def test_a_loss_that_is_not_finite_is_refused() -> None:
    scenario = make_scenario(make_world(), make_state([]), make_params(()))  # a mean over nobody
    with pytest.raises(NonFiniteError, match="scene: the loss is nan after 1 steps: allowed are finite numbers"):
        crowdlab.gradient(scenario, lambda run: run.final.position.mean(), ["motion.noise"], KEY, 1)


MEMORY = """
import jax
jax.config.update("jax_enable_x64", True)
import crowdlab
from crowdlab.bench import memory
from crowdlab.bench.crowd import Task, scenario
scenario = crowdlab.build(scenario(Task(people=200)))
path = "forces.repulsion.falloff"
found = crowdlab.gradient(scenario, lambda run: run.frames.position.mean(), [path], jax.random.key(0), 1000, every=100)
print(found.value, found.slopes)
print(memory.peak())
"""


@SLOW
def test_a_thousand_steps_of_two_hundred_people_fit_into_two_gigabytes() -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=600, check=True)
    assert int(done.stdout.splitlines()[-1]) < 2e9
