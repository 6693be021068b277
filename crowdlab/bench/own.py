"""Crowdlab itself, by the doors that everybody uses: one run, many at once, a crowd of which most have left."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.bench import crowd
from crowdlab.bench.crowd import RADIUS, SPEED, Task
from crowdlab.commands import CommandQueue
from crowdlab.ensemble import Group, Member, advance, groups
from crowdlab.forces import base
from crowdlab.params import Params, as_arrays, replace
from crowdlab.planning import bare, plan_for_all
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import Run, chunks, plan, trusted
from crowdlab.state import MOST, State

T = TypeVar("T")


def walking(task: Task) -> tuple[Scenario, Params, State]:
    """The crowd as a scenario, its parameters, and its state with everybody walking."""
    scenario = build(crowd.scenario(task), name=f"bench_{task.people}")
    state, params = scenario.state, as_arrays(scenario.params)
    velocity = jnp.broadcast_to(jnp.array([[SPEED], [0.0]], state.velocity.dtype), state.velocity.shape)
    state = state.with_(velocity=velocity)
    if task.digest:
        params = replace(params, "motion.noise", jnp.asarray(0.1, state.position.dtype))
    return scenario, params, state


def finished(result: T) -> T:
    """The same once it is computed."""
    return jax.block_until_ready(result)  # type: ignore[no-untyped-call]


def device() -> dict[str, Any]:
    """What JAX computes on, and how precisely."""
    return {
        "ours": True,
        "device": jax.devices()[0].device_kind,
        "platform": jax.devices()[0].platform,
        "precision": jnp.result_type(float).name,
    }


def device_memory() -> dict[str, Any]:
    """Most bytes held on the device, where it has its own memory and counts."""
    held = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {} if held is None else {"device_peak": int(held)}


class Crowd:
    """One run, piece after piece, each looked at as every run is."""

    compiles = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self.steps = task.steps or int(np.clip(400_000 / task.people, 50, 2000))
        self.pieces = task.pieces or max(1, int(crowd.WATCHED / (task.dt * self.steps)))

    def load(self) -> str:
        """Version."""
        jax.devices()
        return f"JAX {jax.__version__}"

    def prepare(self) -> dict[str, Any]:
        """Everybody in the hall, and a plan for their neighbours."""
        self.scenario, self.params, self.start = walking(self.task)
        self.key, self.queue = jax.random.key(self.task.seed), CommandQueue.of((), 0)
        self.grid = bare(plan(self.scenario, self.params, self.start), self.params)
        self.restart()
        reach, _ = base.reaches(self.params.forces, RADIUS)
        return {"dt": float(self.params.motion.dt), "reach": reach, **device()}

    def restart(self) -> None:
        """Everybody back to the start."""
        self.state = self.start

    def advance(self) -> int:
        """One piece."""
        run, self.grid = trusted(
            *(self.scenario, self.params, self.state, self.key, self.queue, self.grid),
            steps=self.steps,
            every=self.steps,
            ahead=MOST,  # a step is timed as one of many
        )
        self.state = finished(run.final)
        return self.steps

    def outcome(self) -> dict[str, Any]:
        """A digest of the state reached, where it was asked for."""
        if not self.task.digest:
            return {}
        leaves = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(self.state)]
        return {"digest": hashlib.sha256(b"".join(leaves)).hexdigest()}

    def end(self) -> dict[str, Any]:
        """What can only be said at the end."""
        return device_memory()


class Thinned(Crowd):
    """Those in front have left; the others go on in pieces, as in `simulate`.

    The steps of a piece are few, because room is given up between pieces.
    """

    def prepare(self) -> dict[str, Any]:
        """The same, but for those who have left."""
        facts = super().prepare()
        # They stand in rows from the back to the front, so the last are in front.
        present = np.arange(self.start.id.shape[0]) < self.task.people - self.task.gone
        self.start = self.start.with_(alive=jnp.asarray(present))
        self.restart()
        return facts

    def restart(self) -> None:
        """Everybody back to the start, and past the first piece, which plans."""
        self.steps = 250
        self.pieces = max(1, int(crowd.WATCHED / (self.task.dt * self.steps)) - 1)
        whole = self.steps * (self.pieces + 1)
        self.going: Iterator[Run] = chunks(
            self.scenario, self.params, self.key, whole, chunk=self.steps, every=self.steps, state=self.start
        )
        self.state = next(self.going).final

    def advance(self) -> int:
        """One piece."""
        self.state = finished(next(self.going).final)
        return self.steps


class Batch(Crowd):
    """Several runs abreast, each with its own places and key, as in `simulate_many`; one run goes alone."""

    at_start: Sequence[Group] = ()

    def prepare(self) -> dict[str, Any]:
        """All crowds, and one plan with room for each of them."""
        facts = super().prepare()
        self.steps = int(np.clip(400_000 / (self.task.people * self.task.runs), 250, 2000))
        self.pieces = max(1, int(crowd.WATCHED / (self.task.dt * self.steps)))
        if self.task.runs > 1:
            members = []
            for seed in range(self.task.runs):
                spots = jnp.asarray(crowd.places(self.task.people, self.task.density, seed).T, self.start.position.dtype)
                members.append(Member(seed, self.params, self.start.with_(position=spots), jax.random.key(seed)))
            self.grid = plan_for_all(self.scenario, [(one.params, one.state) for one in members])
            self.at_start = groups(members)
        self.restart()
        return facts

    def restart(self) -> None:
        """Everybody back to the start."""
        super().restart()
        self.groups = self.at_start

    def advance(self) -> int:
        """One piece of all runs."""
        if self.task.runs == 1:
            return super().advance()
        moved = []
        for group in self.groups:
            run, self.grid = advance(self.scenario, group, self.grid, steps=self.steps, every=self.steps)
            moved.append(group._replace(state=finished(run.final)))
        self.groups = moved
        return self.steps
