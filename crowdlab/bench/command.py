"""`crowdlab bench`: what was asked for, how far it is, and what came out."""

import argparse
import contextlib
import importlib
import os
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from crowdlab.bench import lanes, memory, rounds
from crowdlab.bench.lanes import LANES, LONE, Choice
from crowdlab.bench.measures import Measure, Report
from crowdlab.bench.processes import PeerError, Process
from crowdlab.bench.rounds import Heat, Slowness
from crowdlab.bench.tables import same_bytes, told
from crowdlab.errors import CrowdlabError, nearest

QUICK, WHOLE = (1000, 10_000), (100, 1000, 10_000, 100_000, 1_000_000)
QUICK_LANES = ("codes", "batch", "roofline")
BUSY = 0.5  # share of the cores in use by others above which the machine is called busy


def main(arguments: list[str]) -> int:
    """Entry of `crowdlab bench`. Returns 1 if --same-bytes found other bytes."""
    options = _options(arguments)
    choice = _choice(options)
    machine = _machine(options.patience)
    wanted = lanes.heats(choice._replace(platform=machine["platform"]))
    _say_first(machine, wanted)
    heats = _installed(wanted)
    measures: list[Measure] = []
    progress, slowness = Progress(heats, options.seconds), Slowness(options.seconds)
    try:
        for heat in heats:
            progress.begin(heat)
            measures += rounds.run(heat, patience=options.patience, slowness=slowness, say=progress.say)
            progress.end()
    finally:  # stopped or broken: what was measured until then is told
        progress.clear()
        report = Report(machine=machine, measures=tuple(measures))
        if measures:
            print(f"\n{told(report)}\n", flush=True)
            _write(report, options)
    return 0 if same_bytes(report) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    text = "Measure crowdlab beside other codes, in turn in one run; without options in about two minutes."
    parser = argparse.ArgumentParser(
        prog="crowdlab bench",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="lanes:\n" + "\n".join(f"  {name:<10} {meaning}" for name, meaning in LANES.items()),
    )
    parser.add_argument("--people", type=int, nargs="+", metavar="N", help=f"sizes of the crowd (default {_listed(QUICK)})")
    parser.add_argument("--density", type=float, nargs="+", metavar="D", help="people per m² at the start (default 2)")
    parser.add_argument("--lanes", nargs="+", metavar="LANE", help=f"what to measure, see below (default {' '.join(QUICK_LANES)})")
    parser.add_argument("--all", action="store_true", help=f"every lane, {_listed(WHOLE)} people, 0.5, 2 and 4 per m²: takes long")
    parser.add_argument("--no-peers", action="store_true", help="crowdlab alone")
    parser.add_argument("--same-bytes", action="store_true", help="also the lane bytes; exit code 1 if other bytes come out")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="about how long a round of one code takes (default 0.3, with --all 2)"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="rounds of each code; the best counts (default 3)")
    parser.add_argument(
        "--patience", type=float, metavar="S", help="longest wait for one answer of a code (default 300, with --all 1200)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the measures to this JSON file")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="also write a page with figures, one HTML file that needs no network"
    )
    options = parser.parse_args(arguments)
    if options.seconds is None:
        options.seconds = 2.0 if options.all else 0.3
    if options.patience is None:
        options.patience = 1200.0 if options.all else 300.0
    return options


def _listed(numbers: tuple[int, ...]) -> str:
    return " ".join(str(number) for number in numbers)


def _choice(options: argparse.Namespace) -> Choice:
    """What was asked for. Raises CrowdlabError for what cannot be measured."""
    for name in options.lanes or ():
        if name not in LANES:
            raise CrowdlabError(f"bench: --lanes {name}: there is no such lane. {nearest(name, list(LANES))}")
    if not (0 < options.seconds <= 600 and 1 <= options.rounds <= 100 and 1 <= options.patience <= 1e5):
        raise CrowdlabError(
            f"bench: --seconds {options.seconds:g}, --rounds {options.rounds}, --patience {options.patience:g}: allowed are more than "
            "0 to 600 s, 1 to 100 rounds and 1 to 100 000 s. Give such numbers."
        )
    for path in filter(None, (options.out, options.page)):
        if not path.resolve().parent.is_dir():
            raise CrowdlabError(f"bench: {path}: there is no folder {path.parent}. Make it, or give another place.")
        if path.is_dir() or not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
            raise CrowdlabError(f"bench: {path}: no file can be written there. Give another place.")
    if options.out and options.page and options.out.resolve() == options.page.resolve():
        raise CrowdlabError(f"bench: {options.out}: both --out and --page: allowed are two files. Give another name to one.")
    chosen = tuple(options.lanes or (LANES if options.all else QUICK_LANES))
    alone = tuple(lane for lane in chosen if lane in LONE or lane == "codes")
    if options.no_peers and not alone:
        raise CrowdlabError(
            f"bench: --no-peers leaves nothing of {', '.join(chosen)}: allowed are other lanes. Leave one of the two out."
        )
    choice = Choice(
        people=tuple(dict.fromkeys(options.people or (WHOLE if options.all else QUICK))),
        densities=tuple(dict.fromkeys(options.density or ((0.5, 2.0, 4.0) if options.all else (2.0,)))),
        lanes=(*(alone if options.no_peers else chosen), *(("bytes",) if options.same_bytes else ())),
        peers=not options.no_peers,
        rounds=options.rounds,
        whole=options.all,
    )
    trouble = lanes.impossible(choice)
    if trouble:
        raise CrowdlabError(f"bench: {trouble}")
    return choice


def _machine(patience: float) -> dict[str, Any]:
    """What these measures hold for. Raises CrowdlabError if JAX does not work here."""
    try:
        with Process() as process:
            answer = process.ask("about", within=patience)
    except PeerError as fault:
        raise CrowdlabError(
            f"bench: JAX finds nothing to compute on: {fault}. Mend its installation, or set JAX_PLATFORMS=cpu."
        ) from None
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    return {
        "processor": name,
        "cores": memory.cores(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        **answer,
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }


def _say_first(machine: dict[str, Any], heats: list[Heat]) -> None:
    """What is measured on, and which codes are missing."""
    cores, jax = machine["cores"], machine["versions"]["jax"]
    print(f"{machine['processor']}, {cores} core{'s' * (cores > 1)}; JAX {jax} computes on {machine['platform'].upper()}")
    if machine["load"] is not None and machine["load"] > BUSY * cores:
        print(
            f"The machine is busy (load {machine['load']:.1f} on {cores} cores): ratios of this run count, its figures do so less."
        )
    absent: dict[str, list[str]] = {}
    for entry in (entry for heat in heats for entry in heat.entries):
        codes = absent.setdefault(rounds.missing(entry.runs), [])
        codes += [entry.code] if entry.code not in codes else []
    absent.pop("", None)
    for package, codes in absent.items():
        are = "are" if len(codes) > 1 else "is"
        print(f"{package} is not installed, so {', '.join(codes)} {are} left out: pip install {package} (all: 'crowdlab[bench]')")


def _installed(heats: list[Heat]) -> list[Heat]:
    """The heats without the codes whose library is missing."""
    kept = [heat._replace(entries=tuple(entry for entry in heat.entries if not rounds.missing(entry.runs))) for heat in heats]
    return [heat for heat in kept if heat.entries]


class Progress:
    """Which heat it is, what is under way and about how long it will take yet; on a terminal in one line that is overwritten."""

    def __init__(self, heats: list[Heat], seconds: float) -> None:
        self.costs = [lanes.cost(heat, seconds) for heat in heats]
        self.start, self.done, self.title, self.width = time.monotonic(), 0, "", 0
        self.live = sys.stderr.isatty()

    def begin(self, heat: Heat) -> None:
        """The next heat."""
        self.title = heat.title
        self.say("")
        if not self.live:
            print(self._line(""), file=sys.stderr, flush=True)

    def say(self, what: str) -> None:
        """What is under way in it."""
        if self.live:
            line = self._line(what)[: shutil.get_terminal_size().columns - 1]
            print(f"\r{line.ljust(self.width)}", end="", file=sys.stderr, flush=True)
            self.width = len(line)

    def end(self) -> None:
        """The heat is over."""
        self.done += 1

    def clear(self) -> None:
        """Nothing is under way any more."""
        if self.live:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)

    def left(self) -> float:
        """Seconds: what was planned for the rest, corrected by how the plan held so far."""
        planned, spent = sum(self.costs[: self.done]), time.monotonic() - self.start
        return sum(self.costs[self.done :]) * (spent / planned if planned else 1.0)

    def _line(self, what: str) -> str:
        left = f"about {self.left() / 60:.0f} min left" if self.left() > 90 else f"about {self.left():.0f} s left"
        return f"[{self.done + 1}/{len(self.costs)}] {self.title}{f': {what}' if what else ''} ({left})"


def _write(report: Report, options: argparse.Namespace) -> None:
    """The files that were asked for."""
    if options.out:
        report.write(options.out)
        print(f"written {options.out}")
    if options.page:
        importlib.import_module("crowdlab.bench.page").write(report, options.page)
        print(f"written {options.page}")
