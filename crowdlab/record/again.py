"""Running a recording again, and saying whether the same bytes come out."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from crowdlab import simulation
from crowdlab.record import tables
from crowdlab.record.recording import Recording
from crowdlab.simulation import Frames, Run

PIECE = 64  # frames that `verify` computes at a time


class Verdict(NamedTuple):
    """What `verify` found."""

    same: bool
    frames: int  # that were compared
    frame: int = -1  # first that differs
    step: int = -1  # of that frame
    what: str = ""  # a field of Frames or the name of an observable
    agent: int = -1  # id of the first agent that differs; -1 for an observable
    recorded: str = ""
    again: str = ""
    notes: tuple[str, ...] = ()  # other versions or another machine than the recording's

    def __str__(self) -> str:
        notes = "".join(f"\nNote: {note}" for note in self.notes)
        if self.same:
            return f"Same bytes in all {self.frames} frames.{notes}"
        who = f" of agent {self.agent}" if self.agent >= 0 else ""
        where = f"frame {self.frame} (step {self.step})"
        start = (
            ""
            if self.frame
            else (
                " The source of the scenario gives another start now, or the run was begun from a state of its own; "
                "`replay` begins from the one that was recorded."
            )
        )
        return f"Differs first at {where}: {self.what}{who} was {self.recorded}, is now {self.again}.{start}{notes}"


def replay(recording: Recording) -> Run:
    """Simulate again from the manifest alone; the same bytes as the recording on the same machine and versions.

    The Run has the recording's frames without the start, which is `recording.scenario.state`.

    Raises:
        RecordingError: the scenario or its parameters cannot be built again.
    """
    last = int(recording.start.step) + recording.steps  # of a run that was cut off; orders for later were never carried out
    with recording.precision():
        return simulation.simulate(
            recording.scenario,
            recording.params,
            jax.random.key(recording.manifest["seed"]),
            recording.steps,
            every=recording.manifest["every"],
            observe=tuple(recording.manifest["observe"]),
            commands=[order for order in recording.orders if order.step < last],
        )


def verify(recording: Recording) -> Verdict:
    """Run again, piece by piece, and compare every byte; stops at the first difference."""
    notes = tuple(differing_versions(recording))
    stored = _frame_by_frame(recording)
    compared = 0
    for arrays, series in _again(recording):
        for index in range(len(arrays["step"])):
            frame, old, old_series = next(stored)
            found = _difference(old, {name: array[index] for name, array in arrays.items()})
            found = found or _difference(old_series, {name: array[index] for name, array in series.items()})
            if found:
                what, row, recorded, again = found
                agent = int(recording.people["id"][row]) if what in ("position", "velocity", "heading", "alive", "intent") else -1
                return Verdict(False, compared, frame, int(old["step"]), what, agent, recorded, again, notes)
            compared += 1
    return Verdict(True, compared, notes=notes)


def differing_versions(recording: Recording) -> Iterator[str]:
    """One sentence for everything that may change bytes and is not as it was."""
    then = recording.manifest["versions"]
    for name, now in tables.versions().items():
        if then.get(name) != now:
            yield f"recorded with {name} {then.get(name)}, this is {name} {now}: other bytes are to be expected."


def _again(recording: Recording) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """The start, that of the scenario's source if it is at step 0, then what the simulation gives now, as arrays and series."""
    with recording.precision():
        begins = recording.scenario if int(recording.start.step) else recording.rebuilt
        start = Frames.at_start(begins.state, recording.params, begins.world)
        yield {name: np.asarray(array) for name, array in vars(start).items()}, {}
        pieces = simulation.chunks(
            recording.scenario,
            recording.params,
            jax.random.key(recording.manifest["seed"]),
            recording.steps,
            chunk=PIECE * recording.manifest["every"],
            every=recording.manifest["every"],
            observe=tuple(recording.manifest["observe"]),
            commands=recording.orders,
        )
        for piece in pieces:
            arrays = {name: np.asarray(array) for name, array in vars(piece.frames).items()}
            yield arrays, {name: np.asarray(array) for name, array in piece.series.items()}


def _frame_by_frame(recording: Recording) -> Iterator[tuple[int, dict[str, np.ndarray], dict[str, np.ndarray]]]:
    frame = 0
    for arrays, series in recording.chunks():
        for index in range(len(arrays["step"])):
            yield frame, {name: a[index] for name, a in arrays.items()}, {name: a[index] for name, a in series.items()}
            frame += 1


def _difference(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> tuple[str, int, str, str] | None:
    """Name, row and both values of the first array whose bytes are not the same."""
    for name, before in old.items():
        now = new[name]
        if before.shape == now.shape and before.dtype == now.dtype and before.tobytes() == now.tobytes():
            continue
        if before.shape != now.shape or before.dtype != now.dtype:
            return name, -1, f"{before.dtype} {before.shape}", f"{now.dtype} {now.shape}"
        pairs = zip(np.atleast_1d(before), np.atleast_1d(now), strict=True)
        row, old_value, new_value = next((row, a, b) for row, (a, b) in enumerate(pairs) if a.tobytes() != b.tobytes())
        return name, row, str(old_value), str(new_value)
    return None
