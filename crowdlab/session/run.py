"""A live run: the one mutable object in the house. It is tested without a browser.

Whatever influences the run is an order (`Command`) that enters at a step boundary and is kept in `log`. Replaying the log with
`simulation.simulate(scenario, scenario.params, key, steps, commands=session.log)` gives the same bytes. So it does after a reset,
which starts the log anew with one order per parameter that was moved.
"""

import math
import threading
from functools import partial
from typing import Any

import jax
import numpy as np

from crowdlab import neighbours, simulation
from crowdlab import params as parameters
from crowdlab.checks import check_run, check_steps
from crowdlab.commands import Command, CommandQueue, Kind, ids, in_order
from crowdlab.errors import CommandError, ParamError, RecordingError
from crowdlab.forces import base
from crowdlab.params import Params
from crowdlab.record import Recorder
from crowdlab.scenario import Scenario, variant
from crowdlab.session.pace import cut
from crowdlab.session.plan import plan_with_room
from crowdlab.simulation import Run
from crowdlab.state import Array, State, World
from crowdlab.trees import Spec

ALL_PAIRS = 500  # people up to whom all pairs are looked at when one person is inspected
SHOWN = ("people", "arrived", "mean_speed", "largest_overlap")  # observed unless others are asked for
WATCHED = 60.0  # s, how long somebody is expected to go on watching: what a smaller plan has to pay within
FROZEN = ("motion.dt",)  # parameters that count time itself: moved at step 0 only


@partial(jax.jit, static_argnames="grid")
def _pushes(params: Params, state: State, world: World, key: Array, *, grid: neighbours.Grid | None) -> dict[str, Array]:
    near, _ = neighbours.find(state, world, grid, key)
    return base.by_name(params, state, near, world)


class Session:
    """Advance a scenario chunk by chunk while parameters and orders change.

    `set` and `send` may be called from any thread, also while `advance` computes in another one.
    """

    scenario: Scenario
    seed: int
    params: Params  # in force now
    state: State  # after the last chunk
    log: list[Command]  # every order carried out, in sequence
    grid: neighbours.Grid | None  # the plan in use, kept as long as it is large enough
    series: dict[str, np.ndarray]  # "t" in s and every observable so far, one value per chunk

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None = None,
        *,
        chunk: int | None = None,
        every: int | None = None,
        observe: tuple[str, ...] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`advance` runs `chunk` steps (default: 0.04 s of them) and keeps a frame `every` so many (default: one per chunk)."""
        self._busy = threading.RLock()  # held while the run itself changes
        self._notes = threading.Lock()  # held for an instant, for orders that come from other threads
        self.recorder = recorder
        if recorder is not None:
            every, observe = recorder.every if every is None else every, recorder.observe if observe is None else observe
        self._given = (chunk, every)
        self.chunk, self.every = cut(scenario, scenario.params.time_step, *self._given)
        self.observe = SHOWN if observe is None else observe
        self._moved: dict[str, float] = {}  # last order for each parameter
        self._waiting: list[Command] = []  # orders not yet due
        check_run(scenario, scenario.params, self.chunk, self.every, self.observe)
        self._begin(scenario, scenario.seed if seed is None else seed)

    def _begin(self, scenario: Scenario, seed: int) -> None:
        """Stand at the first step with everything that was moved, moved again."""
        with self._busy, self._notes:
            self.scenario, self.seed = scenario, seed
            self._key = jax.random.key(seed)
            self.state, self.params = scenario.state, parameters.as_arrays(scenario.params)
            self.grid = None
            self.plans = 0  # neighbour plans made; each costs one compilation
            self._boundary = self.step  # first step that is not yet being computed
            self._moved |= {command.path: command.value[0] for command in self._waiting if command.kind == Kind.SET}
            self._waiting = []
            self.log = []
            self.series = {name: np.zeros(0) for name in ("t", *self.observe)}
            for path, value in self._moved.items():
                self.params = parameters.moved(self.params, path, value)
                self.log.append(Command(step=self.step, kind=Kind.SET, value=(value, 0.0), path=path))

    @property
    def step(self) -> int:
        """Absolute step reached."""
        return int(self.state.step)

    @property
    def dt(self) -> float:
        """Time step in force, s."""
        return self.params.time_step

    @property
    def seconds(self) -> float:
        """Simulated time reached, s."""
        return self.step * self.dt

    @property
    def chunk_seconds(self) -> float:
        """Simulated time in one chunk, s."""
        return self.chunk * self.dt

    def set(self, path: str, value: float) -> None:
        """Move a parameter from the next chunk on, for everybody in proportion; never recompiles while the planned reach holds.

        Raises:
            ParamError: unknown path, value out of bounds, or a parameter that counts time itself while the run is under way.
        """
        value = float(value)
        parameters.check_value(path, value, parameters.spec_of(self.params, path))
        with self._notes:
            if path in FROZEN and self._boundary > 0:
                raise ParamError(
                    f"{path} = {value:g}: the run stands at step {self._boundary} and its clock counts in it. Call reset() first."
                )
            if path in FROZEN:
                self.chunk, self.every = cut(self.scenario, value, *self._given)
            self._waiting.append(Command(step=self._boundary, kind=Kind.SET, value=(value, 0.0), path=path))

    def send(self, command: Command) -> None:
        """Queue an order for a step to come.

        Raises:
            CommandError: its step has passed or is being computed, it names nobody, or it moves a parameter between two chunks.
            ParamError: it sets an unknown parameter or to a value out of bounds.
        """
        with self._notes:
            simulation.check_order(self.scenario, self.params, command, self._boundary)
            if command.path in FROZEN:
                self.chunk, self.every = cut(self.scenario, command.value[0], *self._given)
            off = (command.step - self._boundary) % self.chunk
            if command.kind == Kind.SET and off:
                raise CommandError(
                    f"order SET {command.path} at step {command.step}: parameters move between chunks of {self.chunk} steps. "
                    f"Give step = {command.step - off + self.chunk}."
                )
            self._waiting.append(command)

    def _due(self) -> list[Command]:
        """Take the orders of the coming chunk out of the mailbox and close its steps to new ones."""
        with self._notes:
            end = self._boundary + self.chunk
            due = in_order([command for command in self._waiting if command.step < end])
            self._waiting = [command for command in self._waiting if command.step >= end]
            self._boundary = end
            return due

    def _file(self, done: list[Command]) -> None:
        """Write orders carried out into the log and keep the last one for each parameter."""
        self.log += done
        self._moved |= {command.path: command.value[0] for command in done if command.kind == Kind.SET}

    def advance(self) -> Run:
        """Run one chunk and return it. After an error the session stands where it stood before the chunk."""
        with self._busy:
            check_steps(self.scenario.name, self.state, self.chunk)
            due = self._due()
            moved = self.params
            for command in due:
                if command.kind == Kind.SET:
                    moved = parameters.moved(moved, command.path, command.value[0])
            try:
                run = self._compute(moved, due)
            except BaseException:
                with self._notes:  # orders that broke the run stay out: the user must be able to go on with better ones
                    self._boundary = self.step
                raise
            times = np.asarray(run.frames.step) * self.dt
            new = {"t": times, **{name: np.asarray(values, float) for name, values in run.series.items()}}
            with self._notes:
                self.state, self.params = run.final, moved
                self.series = {name: np.concatenate([old, new[name]]) for name, old in self.series.items()}
            self._file(due)
            if self.recorder is not None:
                self.recorder.add(run, due)
            return run

    def _compute(self, params: Params, due: list[Command]) -> Run:
        """One trusted chunk. The plan is kept, so that every chunk runs the same compiled program, until a reach outgrows it."""
        state, _ = simulation.between(self.scenario, params, self.state)
        if self.grid is None or not simulation.suffices(self.grid, params, state):
            self.grid = plan_with_room(self.scenario, params, state)
            self.plans += 1
        run, grid = simulation.trusted(
            self.scenario,
            params,
            state,
            self._key,
            CommandQueue.of([command for command in due if command.kind != Kind.SET], origin=self.scenario.origin),
            self.grid,
            steps=self.chunk,
            every=self.every,
            observe=self.observe,
            ahead=round(WATCHED / self.dt),
        )
        self.plans += grid != self.grid
        self.grid = grid
        return run

    def reset(self, seed: int | None = None) -> None:
        """Back to step 0 with the present parameters, and with another seed if one is given.

        Raises:
            RecordingError: the run is being recorded, and a recording does not go back.
        """
        self._refuse_recording()
        with self._busy:
            self._begin(self.scenario, self.seed if seed is None else seed)

    def people(self, number: int) -> None:
        """Start again with another number of people; the groups keep their shares.

        Raises:
            ScenarioError: so many do not fit.
            RecordingError: the run is being recorded.
        """
        self._refuse_recording()
        with self._busy:
            self._begin(variant(self.scenario, people=number), self.seed)

    def _refuse_recording(self) -> None:
        if self.recorder is not None:
            raise RecordingError(
                f"{self.recorder.path}: a recording does not go back to step 0. Close it and set session.recorder = None, "
                "or begin another session."
            )

    def inspect(self, agent: int) -> dict[str, Any]:
        """Everything about one person now; `forces` holds each force in N as a vector (2,), those switched off too.

        Raises:
            CommandError: nobody has this id.
        """
        state, world = self.state, self.scenario.around(self.state)
        rows = np.flatnonzero(np.asarray(state.id) == agent)
        if not rows.size:
            raise CommandError(f"inspect({agent}): nobody has this id. {ids(state.id.size)}")
        row = int(rows[0])
        goal = int(state.goal[row])
        report: dict[str, Any] = {
            "id": agent,
            "group": self.scenario.groups[int(state.group[row])],
            "goal": self.scenario.goals[goal] if goal >= 0 else None,
            "alive": bool(state.alive[row]),
            "arrived": int(state.arrived[row]),
        }
        for name in ("position", "velocity", "heading"):
            report[name] = np.asarray(getattr(state, name))[:, row]
        report["position"] = self.scenario.on_map(report["position"])
        for name in ("radius", "social_radius", "mass", "desired_speed"):
            report[name] = float(np.asarray(getattr(state, name))[row])
        report["speed"] = math.hypot(*report["velocity"])
        few = state.id.shape[0] <= ALL_PAIRS
        grid = None if few else simulation.plan(self.scenario, self.params, state)
        pushes = _pushes(self.params, state, world, self._key, grid=grid)
        report["forces"] = {name: np.asarray(push[:, row] * state.mass[row]) for name, push in pushes.items()}
        return report

    def snapshot(self) -> tuple[State, dict[str, np.ndarray], float]:
        """State, series and simulated time in s that belong together, also while another thread advances."""
        with self._notes:
            return self.state, self.series, self.seconds

    def controls(self, of: Params | None = None) -> dict[str, tuple[float, Spec]]:
        """Value (mean over people; the usual one where there is nobody) and Spec of every parameter that may be slid.

        As ordered last, or in other parameters.
        """
        tree = self.params if of is None else of
        found = parameters.values(tree) | (self._waiting_values() if of is None else {})
        known = {path: spec for path, spec in parameters.specs(tree) if path not in FROZEN}
        return {path: (float(np.mean(found[path])) if np.size(found[path]) else spec.default, spec) for path, spec in known.items()}

    def _waiting_values(self) -> dict[str, float]:
        with self._notes:
            return {command.path: command.value[0] for command in self._waiting if command.kind == Kind.SET}
