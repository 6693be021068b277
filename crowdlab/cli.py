"""The command line: the same things as in a notebook, without one."""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from crowdlab import params as parameters
from crowdlab import report, scenario
from crowdlab.errors import CrowdlabError
from crowdlab.observe import OBSERVABLES
from crowdlab.params import Params
from crowdlab.record import Recorder, Recording, verify
from crowdlab.scenario import Scenario

MISTAKE, STOPPED = 2, 130  # exit codes: the user's mistake, Ctrl-C
WATCHED = ("people", "arrived", "mean_speed", "largest_overlap")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a recording is not reproduced, 2 a mistake, 130 stopped."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except CrowdlabError as error:
        print(f"crowdlab: {error}", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:  # `crowdlab list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("crowdlab: stopped.", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="crowdlab", description="Crowd and flock simulation.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=function)
        return added

    run = command("run", _run, "simulate a scenario, record it and say what came out")
    run.add_argument("scenario", metavar="SCENARIO", help="a scenario file, or the name of a shipped one (see `crowdlab list`)")
    run.add_argument("--seed", type=int, help="for the placing and for everything random; default: the scenario's")
    run.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="e.g. forces.repulsion.strength=1500")
    run.add_argument("--duration", type=float, metavar="S", help="seconds to simulate at most; default: the scenario's")
    run.add_argument("--fps", type=float, metavar="F", help="frames to record per simulated second; default: the scenario's")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder to write into; default: runs/NAME-SEED")
    run.add_argument("--no-html", action="store_true", help="do not write replay.html")
    run.add_argument("--force", action="store_true", help="replace what an earlier run left in the folder")
    validate = command("validate", _validate, "check scenario files and show what is in them")
    validate.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    replay = command("replay", _replay, "run a recording again and say whether the same bytes come out")
    replay.add_argument("recording", type=Path, metavar="RECORDING")
    replay.add_argument("--html", type=Path, metavar="FILE", help="write it as one HTML file instead of running it again")
    command("list", _list, "show the shipped scenarios, the forces with their parameters, and the observables")
    command("schema", _schema, "print the JSON schema of scenario files")
    lab = command("lab", _lab, "open JupyterLab on the notebooks, or on a scenario")
    lab.add_argument("scenario", nargs="?", metavar="SCENARIO")
    lab.add_argument("--no-browser", action="store_true", help="start the server only and print its address")
    bench = command("bench", _bench, "measure how fast the simulation runs here")
    bench.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


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
        return float(str(np.asarray(self.params.motion.dt)[()]))


def _run(options: argparse.Namespace) -> int:
    task = _task(options)
    path = task.folder / "recording.sqlite"
    _make(task.folder)
    trouble: BaseException | None = None
    print(f"{task.scenario.title or task.scenario.name}, seed {task.seed}", flush=True)
    recorder = Recorder(
        path,
        task.scenario,
        task.params,
        seed=task.seed,
        every=task.every,
        observe=[name for name in WATCHED if name in OBSERVABLES],
        overwrite=options.force,
    )
    try:
        with recorder:
            cost = _advance(task, recorder)
    except (CrowdlabError, KeyboardInterrupt) as error:
        if recorder.step == 0:  # refused before the first step: nothing is left behind
            path.unlink(missing_ok=True)
            raise
        trouble, cost = error, {}
    recording = Recording.open(path)
    found = {**report.summary(recording), "cost": cost}
    found["columns"] = report.write_measures(task.folder / "measures.csv", recording)
    report.write_summary(task.folder / "summary.json", found)
    written = ["recording.sqlite", "measures.csv", "summary.json"]
    print("\n".join([f"simulated {recording.steps * recording.dt:g} s", *report.lines(found)]))
    if cost:
        print(f"speed     {cost['wall']['value']:.1f} s on the clock, {cost['rate']['value']:.3g} agent-steps per second")
    if trouble is None and not options.no_html:
        importlib.import_module("crowdlab.views").replay_html(recording, task.folder / "replay.html")
        written.append("replay.html")
    print(f"written   {task.folder}: {', '.join(written)}", flush=True)
    if trouble is not None:
        reason = "stopped by Ctrl-C" if isinstance(trouble, KeyboardInterrupt) else str(trouble)
        kept = f"The run up to {recording.steps * recording.dt:g} s is kept in {path}."
        print(f"crowdlab: {reason.rstrip('.')}. {kept}", file=sys.stderr)
        return STOPPED if isinstance(trouble, KeyboardInterrupt) else MISTAKE
    return 0


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
    every = max(1, round(1.0 / (fps * task.dt)))
    frames = max(1, math.ceil(duration / (every * task.dt) - 1e-6))
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
    return parameters.rescale(params, path, value)


def _positive(given: float | None, default: float, name: str, unit: str) -> float:
    value = default if given is None else given
    if not 0 < value < math.inf:
        raise CrowdlabError(f"{name} {value:g}: allowed are numbers of {unit} above 0. Give such a number.")
    return float(value)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CrowdlabError(f"{folder}: this folder cannot be made ({error.strerror}). Give another with --out.") from error


def _advance(task: Task, recorder: Recorder) -> dict[str, Any]:
    """Run until the time is over or nobody walks any more, with a progress bar. Returns what it cost."""
    steps, began, done, first = task.frames * task.every, time.perf_counter(), 0, 0.0
    counted = 0  # agent-steps after the first chunk, which compiles
    line = "{desc}{percentage:3.0f}%|{bar}| {n:.1f}/{total:.1f} s [{elapsed}<{remaining}{postfix}]"
    with tqdm(total=steps * task.dt, bar_format=line, disable=None, leave=False) as bar:
        for piece in recorder.run(steps, chunk=task.chunk):
            alive, arrived = np.asarray(piece.final.alive), np.asarray(piece.final.arrived)
            bar.set_postfix_str(f"{alive.sum()} inside", refresh=False)
            bar.update((recorder.step - done) * task.dt)
            if first:
                counted += int(np.asarray(piece.frames.alive).sum()) * task.every
            first, done = first or time.perf_counter() - began, recorder.step
            if not (alive & (arrived < 0)).any():
                break
    wall = time.perf_counter() - began
    rate = counted / (wall - first) if counted else None
    return {
        "wall": {"value": round(wall, 3), "unit": "s"},
        "first_chunk": {"value": round(first, 3), "unit": "s"},
        "rate": {"value": rate, "unit": "agent-steps/s"},
    }


def _validate(options: argparse.Namespace) -> int:
    wrong = 0
    for name in options.scenarios:
        try:
            loaded = scenario.load(name)
            parameters.check(loaded.params)
        except CrowdlabError as error:
            wrong += 1
            print(f"crowdlab: {error}", file=sys.stderr)
            continue
        print("\n".join(report.described(loaded)))
        print(f"{loaded.name}: ok")
    return MISTAKE if wrong else 0


def _replay(options: argparse.Namespace) -> int:
    recording = Recording.open(options.recording)
    if options.html is not None:
        importlib.import_module("crowdlab.views").replay_html(recording, options.html)
        print(f"written {options.html}")
        return 0
    if not recording.complete:
        print(f"This run was cut off; it holds all up to {recording.steps * recording.dt:g} s.")
    verdict = verify(recording)
    print(verdict)
    return 0 if verdict.same else 1


def _list(options: argparse.Namespace) -> int:
    print("Scenarios")
    for name, path in scenario.shipped().items():
        print(f"  {name:<18} {tomllib.loads(path.read_text(encoding='utf-8')).get('title', '')}")
    print("\n".join(report.vocabulary()))
    return 0


def _schema(options: argparse.Namespace) -> int:
    print(json.dumps(scenario.schema(), indent=2))
    return 0


def _lab(options: argparse.Namespace) -> int:
    """Open JupyterLab; the server runs until it is stopped."""
    target = notebooks() if options.scenario is None else notebook_for(options.scenario)
    command = [sys.executable, "-m", "jupyterlab", str(target), *(["--no-browser"] if options.no_browser else [])]
    return subprocess.run(command, check=False).returncode


def notebooks() -> Path:
    """Folder of the tutorial notebooks: the checkout's, the installation's, or else the current one."""
    package = Path(__file__).parent
    for folder in (package.parent / "notebooks", package / "_notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    return Path.cwd()


def notebook_for(name: str) -> Path:
    """A small notebook that opens the lab on a scenario, in the current folder or, where one cannot write, in a temporary one."""
    loaded = scenario.load(name)  # a mistake shows here and not in the browser
    shown = str(Path(name).resolve()) if Path(name).is_file() else name
    texts = {
        "markdown": f"# {loaded.title or loaded.name}",
        "code": f"import crowdlab\n\ncrowdlab.lab({shown!r})",
    }
    blank: dict[str, dict[str, Any]] = {"markdown": {}, "code": {"execution_count": None, "outputs": []}}
    cells = [{"cell_type": kind, "id": kind, "metadata": {}, "source": text, **blank[kind]} for kind, text in texts.items()]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    path = Path.cwd() / f"{loaded.name}.ipynb"
    if path.exists():
        return path  # the user's own by now
    if not os.access(Path.cwd(), os.W_OK):
        path = Path(tempfile.mkdtemp(prefix="crowdlab-")) / path.name
    path.write_text(content, encoding="utf-8")
    return path


def _bench(options: argparse.Namespace) -> int:
    return int(importlib.import_module("crowdlab.bench").main(options.arguments) or 0)


if __name__ == "__main__":
    raise SystemExit(main())
