"""The command that runs: simulate, record, watch, and say what came out."""

import argparse
import contextlib
import dataclasses
import importlib
import math
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from crowdlab import params as parameters
from crowdlab import report, scenario
from crowdlab.cli.looking import RECORDING
from crowdlab.errors import CrowdlabError
from crowdlab.geometry import WARNING
from crowdlab.params import Params
from crowdlab.precision import use_precision
from crowdlab.record import Recorder, Recording
from crowdlab.record.tables import exactly
from crowdlab.scenario import Scenario
from crowdlab.session import SHOWN
from crowdlab.state import INSIDE, MOST, STANDING, WAITING, whereabouts


class Task(NamedTuple):
    """One run as asked for."""

    scenario: Scenario
    params: Params
    seed: int
    every: int  # steps between two frames
    frames: int  # to record at most
    folder: Path

    @property
    def chunk(self) -> int:
        """Steps per chunk: about one simulated second, and if possible a divisor of the whole, which saves a compilation."""
        near = max(1, round(1.0 / (self.every * self.dt)))
        divisors = [n for n in range(max(1, near // 2), 2 * near + 1) if self.frames % n == 0]
        return self.every * min(divisors, key=lambda n: abs(n - near), default=near)

    @property
    def dt(self) -> float:
        """Time step, s."""
        return exactly(self.params.motion.dt)


@dataclasses.dataclass
class Cost:
    """What a run cost so far."""

    wall: float = 0.0  # s
    first: float = 0.0  # s, until the first chunk was there: this one is compiled
    agent_steps: int = 0  # after the first chunk
    stopped: bool = False  # by the user

    def add(self, wall: float, agent_steps: int) -> None:
        """Note one more chunk, `wall` seconds after the start."""
        if self.first:
            self.agent_steps += agent_steps
        self.wall, self.first = wall, self.first or wall

    @property
    def rate(self) -> float | None:
        """Agent-steps per second after the first chunk; None when there was no other."""
        return self.agent_steps / (self.wall - self.first) if self.agent_steps else None

    def quantities(self) -> dict[str, Any]:
        """For the summary, with units."""
        wall, first = ({"value": round(value, 3), "unit": "s"} for value in (self.wall, self.first))
        return {"wall": wall, "first_chunk": first, "rate": {"value": self.rate, "unit": "agent-steps/s"}}

    def lines(self) -> list[str]:
        """For people."""
        rate = "" if self.rate is None else f", then {self.rate:.3g} agent-steps per second"
        return [
            f"speed     {self.wall:.1f} s on the clock, {self.first:.1f} s of them for the first chunk with its compilation{rate}"
        ]


def run(options: argparse.Namespace) -> int:
    """Simulate and record. Returns 130 after Ctrl-C and raises what broke the run, both once all that was recorded is safe."""
    if options.precision:
        use_precision(options.precision)
    task = _task(options)
    path = task.folder / RECORDING
    if path.exists() and not options.force:
        raise CrowdlabError(f"{task.folder} holds an earlier run. Add --force to replace it, or --out FOLDER to write elsewhere.")
    with _folder(task.folder):
        return _recorded(task, options)


def _recorded(task: Task, options: argparse.Namespace) -> int:
    """The run, told and written."""
    path = task.folder / RECORDING
    print(
        f"{task.scenario.title or task.scenario.name}, seed {task.seed}; the first steps may have to wait for the compiler",
        flush=True,
    )
    for finding in task.scenario.findings:
        if finding.severity == WARNING:
            print(f"crowdlab: {finding}", file=sys.stderr)
    if warning := report.too_long(task.params, task.scenario.state):
        print(f"crowdlab: {warning}", file=sys.stderr)
    recorder = Recorder(path, task.scenario, task.params, seed=task.seed, every=task.every, observe=SHOWN, overwrite=options.force)
    cost, trouble = Cost(), None
    try:
        with recorder:
            _advance(task, recorder, cost)
    except BaseException as error:
        if recorder.step == 0:  # nothing is left behind when not one step was taken
            path.unlink(missing_ok=True)
            raise
        if not isinstance(error, CrowdlabError | KeyboardInterrupt):
            raise
        cost.stopped, trouble = isinstance(error, KeyboardInterrupt), error
    recording = Recording.open(path)
    written = _write(task, recording, cost)
    if not (options.no_html or cost.stopped or trouble):
        importlib.import_module("crowdlab.views").replay_html(recording, task.folder / "replay.html")
        written.append("replay.html")
    print(f"written   {task.folder}: {', '.join(written)}", flush=True)
    page = f"open {task.folder / written[-1]}; " if "replay.html" in written else ""
    print(f"next      {page}check with: crowdlab replay {shlex.quote(str(task.folder))}", flush=True)
    kept = f"The run up to {recording.last_step * recording.dt:g} s is kept in {path}."
    if cost.stopped:
        print(f"crowdlab: stopped by Ctrl-C. {kept}", file=sys.stderr)
        return 130
    if trouble is not None:
        raise CrowdlabError(f"{str(trouble).rstrip('.')}. {kept}") from trouble
    return 0


def _write(task: Task, recording: Recording, cost: Cost) -> list[str]:
    """Print the summary and write it with the table of measures. Returns the names of all files."""
    found = {**report.summary(recording), "cost": cost.quantities()}
    found["columns"] = report.write_measures(task.folder / "measures.csv", recording)
    report.write_summary(task.folder / "summary.json", found)
    print(f"simulated {recording.steps * recording.dt:g} s")
    print("\n".join([*report.lines(found), *cost.lines()]))
    return [RECORDING, "measures.csv", "summary.json"]


def _task(options: argparse.Namespace) -> Task:
    """What `crowdlab run` was asked to do."""
    loaded = scenario.load(options.scenario)
    if options.seed is not None and options.seed != loaded.seed:
        if not 0 <= options.seed < 2**32:
            raise CrowdlabError(f"--seed {options.seed}: allowed are 0 to {2**32 - 1}. Give such a number.")
        loaded = scenario.build({**loaded.source, "seed": options.seed}, name=loaded.name)
    params = loaded.params
    for setting in options.set:
        params = _moved(params, setting)
    parameters.check(params)
    duration = _positive(options.duration, loaded.duration, "--duration", "s")
    fps = _positive(options.fps, loaded.frames_per_second, "--fps", "frames per second")
    folder = options.out or Path("runs") / f"{loaded.name}-{loaded.seed}"
    task = Task(loaded, params, loaded.seed, 1, 1, folder)
    if not task.dt <= duration <= MOST * task.dt:
        raise CrowdlabError(
            f"{duration:g} s to simulate with a step of {task.dt:g} s: allowed are {task.dt:g} to {MOST * task.dt:.3g} s. "
            "Give such a number with --duration, or another motion.dt."
        )
    if 1.0 / fps > duration or fps * task.dt > 1:
        raise CrowdlabError(
            f"{fps:g} frames per second: with a step of {task.dt:g} s and {duration:g} s to simulate, allowed are {1 / duration:g} to "
            f"{1 / task.dt:g}. Give such a number with --fps, or another --duration."
        )
    every = round(1.0 / (fps * task.dt))
    frames = max(1, math.floor(duration / (every * task.dt) + 1e-6))
    return task._replace(every=every, frames=frames)


def _moved(params: Params, setting: str) -> Params:
    """The parameters with one `--set PATH=VALUE` carried out: a value per person keeps its ratios."""
    path, sign, text = setting.partition("=")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not sign or math.isnan(value):
        raise CrowdlabError(f"--set {setting}: allowed is PATH=NUMBER, as in forces.repulsion.strength=1500. Correct the number.")
    parameters.check_value(path, value, parameters.spec_of(params, path))
    return parameters.moved(params, path, value)


def _positive(given: float | None, default: float, name: str, unit: str) -> float:
    value = default if given is None else given
    if not 0 < value < math.inf:
        raise CrowdlabError(f"{name} {value:g}: allowed are numbers of {unit} above 0. Give such a number.")
    return float(value)


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """The folder to write into, made where there is none. What was made is taken away again when nothing was written."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CrowdlabError(f"{folder}: this folder cannot be made ({error.strerror}). Give another with --out.") from error
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # it holds something
            for one in made:
                one.rmdir()
        raise


def _advance(task: Task, recorder: Recorder, cost: Cost) -> None:
    """Run until the time is over, nobody walks any more or the user has had enough, with a progress bar."""
    steps, began, done = task.frames * task.every, time.perf_counter(), 0
    line = "{desc}{percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} s [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=steps * task.dt, bar_format=line, disable=None, leave=False) as bar, _stop_button(recorder) as pressed:
        for piece in recorder.run(steps, chunk=task.chunk):
            people = whereabouts(*(np.asarray(part) for part in (piece.final.alive, piece.final.arrived >= 0, piece.final.entered)))
            inside, waiting = int((people[INSIDE] | people[STANDING]).sum()), int(people[WAITING].sum())
            bar.set_postfix_str(f"{inside} inside" + (f", {waiting} waiting" if waiting else ""), refresh=False)
            bar.update((recorder.step - done) * task.dt)
            done = recorder.step
            cost.add(time.perf_counter() - began, int(np.asarray(piece.frames.alive).sum()) * task.every)
            cost.stopped = pressed()
            if cost.stopped or not (people[INSIDE].any() or waiting):
                break


@contextlib.contextmanager
def _stop_button(recorder: Recorder) -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop after the present chunk; a second one, or one before anything is recorded, stops at once.

    An exception in the middle of a compiled step may be lost or leave threads at work behind, a note is never lost.
    """
    pressed = 0

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1 or recorder.step == 0:
            raise KeyboardInterrupt
        print("\ncrowdlab: stopping after this chunk; Ctrl-C again stops at once.", file=sys.stderr)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # as for a job in the background
        signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed > 0
    finally:
        signal.signal(signal.SIGINT, before)
