"""What runs in the process of one code at one size: orders come in, a line of JSON each, and answers go out likewise."""

import importlib
import json
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from crowdlab.bench import memory
from crowdlab.bench.crowd import Task

# What can be run, by name: its class.
CODES = {
    "crowdlab": "crowdlab.bench.own:Crowd",
    "thinned": "crowdlab.bench.own:Thinned",
    "batch": "crowdlab.bench.own:Batch",
    "jupedsim_social_force": "crowdlab.bench.peers:SocialForce",
    "jupedsim_collision_free_speed": "crowdlab.bench.peers:CollisionFreeSpeed",
    "pysocialforce": "crowdlab.bench.peers:PySocialForce",
    "mesa_boids": "crowdlab.bench.peers:MesaBoids",
    "numpy": "crowdlab.bench.plain:Plain",
    "flock": "crowdlab.bench.flock:Flock",
    "flock_grid": "crowdlab.bench.flock:GriddedFlock",
    "machine": "crowdlab.bench.roofline:Machine",
    "counts": "crowdlab.bench.roofline:Counts",
}


class Runner(Protocol):
    """A code with a crowd, as the worker drives it."""

    compiles: bool  # its first piece is slower because it compiles
    pieces: int  # that may be run before it must begin anew

    def load(self) -> str:
        """Import the library; returns its name and version."""
        ...

    def prepare(self) -> dict[str, Any]:
        """Make everything ready; returns facts, `dt` among them where a step is a time."""
        ...

    def restart(self) -> None:
        """Everybody back to the start."""
        ...

    def advance(self) -> int:
        """Run one piece and wait for its end; returns the number of steps."""
        ...


class Worker:
    """One code at one size, between orders."""

    def __init__(self) -> None:
        self.runner: Any = None
        self.per_round = 1

    def about(self) -> dict[str, Any]:
        """What JAX computes on when it may choose, and all versions. Asked in a process of its own: whoever asks takes the device."""
        import jax

        from crowdlab.record.tables import versions

        return {"platform": jax.default_backend(), "versions": versions()}

    def prepare(self, code: str, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Load, build, compile, and choose how many pieces a round of `seconds` has."""
        module, name = CODES[code].split(":")
        self.runner = getattr(importlib.import_module(module), name)(Task(**task))
        version, loaded = self.runner.load(), memory.now()
        building, facts = timed(self.runner.prepare)
        answer = {"version": version, "loaded": loaded, "building": building, "facts": facts}
        if hasattr(self.runner, "measure"):
            return answer
        first, steps = timed(self.runner.advance)
        again, steps = timed(self.runner.advance) if self.runner.compiles or first < seconds / 4 else (first, steps)
        fixed = Task(**task).pieces
        self.per_round = fixed or max(1, round(seconds / max(again, 1e-6)))
        if self.runner.compiles and again < seconds:
            self.round()  # whatever has to be planned anew on the way is
        return answer | {"step": again / steps, "compiling": max(0.0, first - again) if self.runner.compiles else None}

    def round(self) -> dict[str, Any]:
        """One round: seconds and steps by piece. Beginning anew does not count."""
        if hasattr(self.runner, "measure"):
            return {"pieces": [], "steps": 0, "busy": None, "facts": self.runner.measure()}
        seconds, steps, left, cpu = [], 0, 0, 0.0
        for _ in range(self.per_round):
            if not left:
                self.runner.restart()
                left = self.runner.pieces
            start = time.process_time()
            spent, taken = timed(self.runner.advance)
            cpu += time.process_time() - start
            seconds.append(spent)
            steps, left = steps + taken, left - 1
        facts = self.runner.outcome() if hasattr(self.runner, "outcome") else {}
        return {"pieces": seconds, "steps": steps, "busy": cpu / max(sum(seconds), 1e-9), "facts": facts}

    def end(self) -> dict[str, Any]:
        """What it took."""
        facts = self.runner.end() if hasattr(self.runner, "end") else {}
        return {"peak": memory.peak(), "facts": facts}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def serve(orders: TextIO, answers: TextIO) -> None:
    """Answer order after order until there are none; trouble is an answer too."""
    worker = Worker()
    for line in orders:
        order = json.loads(line)
        try:
            answer = getattr(worker, order.pop("do"))(**order)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
