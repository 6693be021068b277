"""Rounds in turn: all codes of one heat stand ready, each in its process, and run one round after the other."""

import contextlib
import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

from crowdlab.bench import memory
from crowdlab.bench.crowd import Task
from crowdlab.bench.measures import Measure
from crowdlab.bench.processes import PeerError, Process

GIB = 2**30
SPARE = 0.9  # share of the free memory that may be planned for
LONGEST_STEP = 10.0  # rounds: a code whose step alone would take longer is left out


class Entry(NamedTuple):
    """One code in a heat."""

    code: str  # what the table calls it
    runs: str  # which class runs it, see worker.CODES
    task: Task
    environment: dict[str, str] = {}  # noqa: RUF012 - never changed


class Heat(NamedTuple):
    """Codes that run in turn."""

    lane: str
    title: str
    entries: tuple[Entry, ...]
    rounds: int


class Needs(NamedTuple):
    """Memory that a code takes at most, measured once with some to spare, and the library it needs."""

    base: float  # GiB
    per_person: float = 0.0  # bytes
    per_pair: float = 0.0  # bytes; all ordered pairs, reach or not
    growth: int = 1  # power of the number of people that a step grows with
    library: str = ""
    package: str = ""
    ours: bool = False


OWN = Needs(0.8, per_person=5000, ours=True)
NEEDS = {
    "crowdlab": OWN,
    "thinned": OWN,
    "batch": OWN,
    "counts": OWN,
    "machine": Needs(1.0, ours=True),
    "jupedsim_social_force": Needs(0.4, per_person=3000, library="jupedsim", package="jupedsim"),
    "jupedsim_collision_free_speed": Needs(0.4, per_person=3000, library="jupedsim", package="jupedsim"),
    "pysocialforce": Needs(0.4, per_pair=200, growth=2, library="pysocialforce", package="pysocialforce"),
    "mesa_boids": Needs(0.4, per_person=3000, growth=2, library="mesa", package="mesa"),
    "numpy": Needs(0.8, growth=2),
    "flock": Needs(0.3, per_person=1000, growth=2),
    "flock_grid": Needs(0.3, per_person=1000, growth=2),
}


def missing(runs: str) -> str:
    """The package without which this code cannot run; empty where it is there."""
    needs = NEEDS[runs]
    return needs.package if needs.library and importlib.util.find_spec(needs.library) is None else ""


def too_large(entry: Entry, free: int | None) -> str:
    """Why a code does not fit into the memory that is free; empty where it does."""
    needs, people = NEEDS[entry.runs], entry.task.people * entry.task.runs
    wanted = needs.base * GIB + needs.per_person * people + needs.per_pair * people**2
    if free is None or wanted <= SPARE * free:
        return ""
    return f"left out: needs about {wanted / GIB:.1f} GiB of memory, {SPARE * free / GIB:.1f} GiB can be spared"


class Slowness:
    """What one step took so far, by code, to see before a heat what would take too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  # of one round
        self.seen: dict[tuple[str, float], tuple[int, float]] = {}  # code, density -> people, s per step

    def note(self, entry: Entry, step: float) -> None:
        """A step of this code took so many seconds."""
        self.seen[entry.code, entry.task.density] = (entry.task.people, step)

    def too_slow(self, entry: Entry) -> str:
        """Why a peer would take too long, judged from the size before; empty where it would not, or nobody knows."""
        people, step = self.seen.get((entry.code, entry.task.density), (0, 0.0))
        if not people or entry.task.people <= people or NEEDS[entry.runs].ours:
            return ""
        expected = step * (entry.task.people / people) ** NEEDS[entry.runs].growth
        longest = LONGEST_STEP * self.seconds
        return (
            f"left out: a step would take about {expected:.0f} s (allowed {longest:g} s, see --seconds)"
            if expected > longest
            else ""
        )


@dataclasses.dataclass
class Running:
    """One code while its heat goes on."""

    entry: Entry
    process: Process | None = None
    answer: dict[str, Any] = dataclasses.field(default_factory=dict)
    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    last: dict[str, Any] = dataclasses.field(default_factory=dict)
    fault: str = ""

    def ask(self, do: str, order: dict[str, Any] | None = None, *, within: float) -> dict[str, Any]:
        """The answer, or nothing from now on: a code that breaks is a row that says so."""
        if self.process is None or self.fault:
            return {}
        try:
            return self.process.ask(do, order, within=within)
        except PeerError as fault:
            self.fault = str(fault)
            self.process.stop()
            return {}

    def measure(self, lane: str) -> Measure:
        """What came out."""
        task, facts = self.entry.task, dict(self.answer.get("facts", {}))
        seconds = [sum(one["pieces"]) for one in self.rounds]
        timed = bool(self.rounds) and self.rounds[0]["steps"] > 0
        best = seconds.index(min(seconds)) if timed else 0
        for one in (*self.rounds, self.last):
            for name, value in one.get("facts", {}).items():
                facts[name] = [*facts.get(name, []), value] if name == "digest" else max(value, facts.get(name, value))
        dt = facts.pop("dt", None)
        return Measure(
            lane=lane,
            code=self.entry.code,
            people=(task.people - task.gone - task.absent) * task.runs,
            density=task.density,
            dt=dt,
            steps=self.rounds[0]["steps"] if timed else 0,
            rounds=tuple(seconds) if timed else (),
            pieces=tuple(tuple(one["pieces"]) for one in self.rounds) if task.pieces and timed else (),
            busy=self.rounds[best]["busy"] if timed else None,
            compiling=self.answer.get("compiling"),
            building=self.answer.get("building"),
            peak=self.last.get("peak"),
            loaded=self.answer.get("loaded"),
            version=self.answer.get("version", ""),
            facts=facts,
            fault=self.fault,
        )


def run(heat: Heat, *, patience: float, slowness: Slowness, say: Callable[[str], None]) -> list[Measure]:
    """Measure all codes of a heat in turn. Every second round goes backwards, so that nobody always follows the same one."""
    with contextlib.ExitStack() as stack:
        codes = [Running(entry) for entry in heat.entries]
        for one in codes:
            one.fault = too_large(one.entry, memory.free()) or slowness.too_slow(one.entry)
            if one.fault:
                continue
            say(f"{one.entry.code} gets ready")
            one.process = stack.enter_context(Process(one.entry.environment, bare=not NEEDS[one.entry.runs].ours))
            order = {"code": one.entry.runs, "task": dataclasses.asdict(one.entry.task), "seconds": slowness.seconds}
            one.answer = one.ask("prepare", order, within=patience)
            if "step" in one.answer:
                slowness.note(one.entry, one.answer["step"])
        for number in range(heat.rounds):
            for one in codes[:: -1 if number % 2 else 1]:
                say(f"round {number + 1} of {heat.rounds}: {one.entry.code}")
                answer = one.ask("round", within=patience)
                one.rounds += [answer] if answer else []
        for one in codes:
            one.last = one.ask("end", within=patience)
        return [one.measure(heat.lane) for one in codes]
