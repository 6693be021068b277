"""What the machine can do at most, and what a step asks for at least: together the shortest time a step could take here.

The machine's three rates (memory, multiply-add, transcendental functions) are measured in the same run by small kernels. The work of a
step comes from a written model (`floor`), because XLA counts the body of a loop once, however often it runs; its own count is
given beside.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp

from crowdlab.bench.crowd import Task
from crowdlab.bench.own import device, finished, walking
from crowdlab.commands import CommandQueue
from crowdlab.neighbours import find, with_wall_table
from crowdlab.simulation import plan, rollout

LARGE, MIDDLE = 32_000_000, 4_000_000  # numbers: far beyond any cache; enough to keep all cores busy
CHAIN, EXPONENTIALS = 64, 8  # operations on each number between reading and writing it
TRIES = 5


@jax.jit
def _multiply_add(values: jax.Array) -> jax.Array:
    for _ in range(CHAIN):
        values = values * 0.999 + 0.001
    return values


@jax.jit
def _exponentials(values: jax.Array) -> jax.Array:
    for _ in range(EXPONENTIALS):
        values = jnp.exp(-values)
    return values


_add_scaled = jax.jit(lambda sums, values: sums + 0.5 * values, donate_argnums=0)  # in place: no new memory is asked for


class Machine:
    """Rates of the device that JAX computes on."""

    compiles, pieces = False, 1

    def __init__(self, task: Task) -> None:
        self.task = task

    def load(self) -> str:
        """Version."""
        return f"JAX {jax.__version__}"

    def prepare(self) -> dict[str, Any]:
        """Compile the kernels."""
        self.sums, self.values = jnp.zeros(LARGE, jnp.float32), jnp.ones(LARGE, jnp.float32)
        self.middle = jnp.ones(MIDDLE, jnp.float32)
        self.measure()
        return device()

    def measure(self) -> dict[str, float]:
        """Bytes, flops and exponentials per second, each the best of a few tries."""
        best = [float("inf")] * 3
        for _ in range(TRIES):
            start = time.perf_counter()
            self.sums = finished(_add_scaled(self.sums, self.values))
            after = time.perf_counter()
            best[0] = min(best[0], after - start)
            for number, kernel in ((1, _multiply_add), (2, _exponentials)):
                start = time.perf_counter()
                finished(kernel(self.middle))
                best[number] = min(best[number], time.perf_counter() - start)
        return {
            "bytes_per_second": 3 * 4 * LARGE / best[0],
            "flops_per_second": 2 * CHAIN * MIDDLE / best[1],
            "transcendentals_per_second": EXPONENTIALS * MIDDLE / best[2],
        }


class Counts:
    """What one step looks at: list entries, pairs truly in reach, walls; and XLA's count of one step."""

    compiles, pieces = False, 1

    def __init__(self, task: Task) -> None:
        self.task = task

    def load(self) -> str:
        """Version."""
        return f"JAX {jax.__version__}"

    def prepare(self) -> dict[str, Any]:
        """Per step: ordered pairs and wall features, in the lists and in reach."""
        scenario, params, state = walking(self.task)
        grid, key = plan(scenario, params, state), jax.random.key(self.task.seed)
        world = with_wall_table(scenario.world, grid)
        near = jax.jit(find, static_argnames="grid")(state, world, grid=grid, key=key)[0]
        compiled = rollout.lower(world, params, state, key, CommandQueue.of((), 0), grid=grid, steps=1, every=1).compile()
        cost = compiled.cost_analysis()
        cost = cost[0] if isinstance(cost, list) else cost or {}
        return {
            "pairs": int(near.mask.sum()),
            "touching": int(near.touching.mask.sum()),
            "near_walls": int((near.walls.weight > 0).sum()),
            "slots": near.mask.size,
            "touching_slots": near.touching.mask.size,
            "wall_slots": near.walls.weight.size,
            "xla": {name: float(cost[name]) for name in ("flops", "bytes accessed", "transcendentals") if name in cost},
        }

    def measure(self) -> dict[str, float]:
        """Nothing to time."""
        return {}
