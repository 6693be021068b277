"""Slopes: how a number that a run gives changes with its parameters, by differentiation through every step."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import params as parameters
from crowdlab import planning, simulation
from crowdlab.checks import check_key, check_run, check_still
from crowdlab.commands import CommandQueue
from crowdlab.errors import NonFiniteError, ParamError
from crowdlab.neighbours import Grid
from crowdlab.params import Params
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run
from crowdlab.state import Array, State, World

Loss = Callable[[Run], Array]  # a run to one number, in jax.numpy


class Gradient(NamedTuple):
    """A number and how it changes."""

    value: float
    slopes: dict[str, np.ndarray]  # path -> change of the value per unit of the parameter; the shape is the parameter's
    run: Run  # that gave the value


def gradient(
    scenario: Scenario,
    loss: Loss,
    paths: Sequence[str],
    key: Array,
    steps: int,
    *,
    params: Params | None = None,
    every: int = 1,
    observe: tuple[str, ...] = (),
) -> Gradient:
    """Value of `loss(run)` and its slopes by the parameters `paths`, for the run that `simulate` gives.

    The memory grows with steps times people, about 60 bytes for each. What jumps has no slope (when and whether somebody arrives, who is
    alive), noise of exactly 0 is off and its slope 0, and over many encounters slopes grow without bound, as in all that is chaotic: then
    take a shorter run, or many keys.

    Raises:
        ParamError: an unknown path, a value out of bounds, or a loss that is not one real number.
        CrowdlabError: the number of steps or the observables, as for `simulate`.
        NonFiniteError: the run, as for `simulate`, or a loss or a slope that is not finite.
        UnstableError: the run, as for `simulate`.
    """
    if isinstance(paths, str) or not paths or not all(isinstance(path, str) for path in paths):
        raise ParamError(f"{scenario.name}: the paths are {paths!r}: allowed are one name or more in a list. Give such.")
    if not callable(loss):
        raise ParamError(f"{scenario.name}: the loss is a {type(loss).__name__}: allowed is a function of a run. Give one.")
    check_key(scenario.name, key)
    params = parameters.as_arrays(scenario.params if params is None else params)
    leaves = {path: parameters.get(params, path) for path in paths}
    check_run(scenario, params, steps, every, observe)
    check_still(scenario, "a gradient")
    observe = tuple(observe)
    state, queue = scenario.state, CommandQueue.of((), 0)
    planned = simulation.plan(scenario, params, state)
    # With room to spare, since a repeat compiles for half a minute.
    better: Grid | None = planned._replace(refresh=-(-planned.refresh // 2))
    while better is not None:
        grid = better
        (value, run), slopes = _slopes(
            *(leaves, params, scenario.world, state, key, queue), loss=loss, grid=grid, steps=steps, every=every, observe=observe
        )
        better = planning.repaired(scenario, grid, jax.device_get(run.health), state, steps)
    if int(run.health.first_bad_step) >= 0:  # the same run once more, for the error that says what happened
        simulation.trusted(scenario, params, state, key, queue, grid, steps=steps, every=every, observe=observe)
    if not np.isfinite(value):
        raise NonFiniteError(
            f"{scenario.name}: the loss is {value:g} after {steps} steps: allowed are finite numbers. Give such a loss."
        )
    for path, slope in slopes.items():
        if not np.isfinite(slope).all():
            raise NonFiniteError(
                f"{scenario.name}: the slope by {path} is not finite after {steps} steps. Usual cures: fewer steps, or double precision."
            )
    return Gradient(float(value), {path: np.asarray(slope) for path, slope in slopes.items()}, run)


@partial(jax.jit, static_argnames=("loss", "grid", "steps", "every", "observe"))
def _slopes(
    leaves: Mapping[str, Array],
    params: Params,
    world: World,
    state: State,
    key: Array,
    queue: CommandQueue,
    *,
    loss: Loss,
    grid: Grid,
    steps: int,
    every: int,
    observe: tuple[str, ...],
) -> tuple[tuple[Array, Run], dict[str, Array]]:
    def value(leaves: Mapping[str, Array]) -> tuple[Array, Run]:
        tree = params
        for path, leaf in leaves.items():
            tree = parameters.replace(tree, path, leaf)
        run = simulation.rollout(world, tree, state, key, queue, grid=grid, steps=steps, every=every, observe=observe)
        return _one_number(loss(run)), run

    return jax.value_and_grad(value, has_aux=True)(leaves)


def _one_number(found: Any) -> Array:
    """What a loss gave, if it is one real number; a count or a yes or no has no slopes. Raises ParamError."""
    kind = str(found.dtype) if isinstance(found, jax.Array | np.ndarray | np.generic) else type(found).__name__
    if not kind.startswith("float"):
        raise ParamError(f"the loss gives {kind}: allowed is one real number, which changes smoothly. Give one.")
    if jnp.shape(found):
        raise ParamError(f"the loss has the shape {jnp.shape(found)}: allowed is one number. Take a mean or a sum.")
    return jnp.asarray(found)
