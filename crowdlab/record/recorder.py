"""The writing side: chunks go to disk while the run goes on."""

import json
import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import jax
import numpy as np

from crowdlab import params as parameters
from crowdlab import simulation
from crowdlab.commands import Command, Kind
from crowdlab.errors import RecordingError, nearest
from crowdlab.observe import OBSERVABLES
from crowdlab.params import Params
from crowdlab.record import tables
from crowdlab.record.chunk import Chunk, people_of
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run

WAITING = 4  # chunks that may wait for the disk before the simulation is held up
PATIENCE = 60.0  # s, how long a chunk waits for somebody else who reads the file


class Recorder:
    """Writes chunks as they come; every chunk is one transaction, so a crash loses at most the chunks not yet written.

    Use it as a context manager. The start of the run is written at once, as frame 0. A thread of its own writes; `add` waits only
    when that thread is four chunks behind. What goes wrong there is raised by the next `add` or by `close`.
    """

    def __init__(
        self,
        path: str | Path,
        scenario: Scenario,
        params: Params | None = None,
        *,
        seed: int,
        every: int = 1,
        observe: Sequence[str] = (),
        overwrite: bool = False,
    ) -> None:
        self.path, self.scenario, self.seed, self.every = Path(path), scenario, int(seed), int(every)
        self.params = scenario.params if params is None else params
        self.observe = tuple(observe)
        self.first = self.step = int(scenario.state.step)  # where it starts, and the last step that was added
        self._frames = 0
        self._chunks = 0
        self._orders = 0
        self._error: BaseException | None = None
        self._closed = False
        self._last = people_of(scenario.state)  # as last written, to write only what changed
        manifest = _manifest(self)
        _clear(self.path, overwrite)
        try:
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            self._begin(manifest)
        except sqlite3.Error as error:
            raise RecordingError(
                f"{self.path}: cannot write a recording here ({error}). Choose a folder that can be written to."
            ) from error
        self._queue: queue.Queue[Chunk | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name=f"recording {self.path.name}", daemon=True)
        self._thread.start()

    def add(self, run: Run, orders: Sequence[Command] = ()) -> None:
        """Append the next chunk and the orders given for it.

        Raises:
            RecordingError: the chunk does not continue the last one, or an earlier one could not be written.
        """
        self._complain()
        if self._closed:
            raise RecordingError(f"{self.path}: this recording is closed. Start another one.")
        chunk = Chunk(run, orders)
        self._check(chunk)
        self.step = chunk.last_step
        self._queue.put(chunk)

    def run(self, steps: int, *, chunk: int, commands: Sequence[Command] = ()) -> Iterator[Run]:
        """Simulate `steps` steps of the scenario and record them, yielding each piece once it is on its way to the disk."""
        waiting = list(commands)
        key = jax.random.key(self.seed)
        pieces = simulation.chunks(
            self.scenario, self.params, key, steps, chunk=chunk, every=self.every, observe=self.observe, commands=commands
        )
        for piece in pieces:
            self.add(piece, waiting)
            waiting = []
            yield piece

    def close(self) -> None:
        """Write what still waits, make the index and close the file. Does nothing the second time.

        Raises:
            RecordingError: something could not be written; the chunks before it are kept.
        """
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()
            self._connection.close()
        self._complain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _complain(self) -> None:
        if self._error is not None:
            raise RecordingError(
                f"{self.path}: could not be written ({self._error}). The {self._frames} frames before are kept. Free some space or "
                "choose another folder, and run again."
            ) from self._error

    def _check(self, chunk: Chunk) -> None:
        """A chunk continues the last one when it holds every frame due since, of the same people and observables."""
        before, after = ((step - self.first) // self.every for step in (self.step, chunk.last_step))
        due = self.first + np.arange(before + 1, after + 1) * self.every
        found = chunk.arrays["step"]
        if chunk.last_step <= self.step or not np.array_equal(due, found):
            shown = f"frames of the steps {found[:1].tolist()} to {found[-1:].tolist()} and ends at step {chunk.last_step}"
            raise RecordingError(
                f"{self.path}: a chunk holds {shown}: allowed are chunks that continue step {self.step} with a frame every "
                f"{self.every} steps. Add every chunk once, in order."
            )
        people = len(self._last["id"])
        if chunk.arrays["position"].shape[1] != people:
            raise RecordingError(
                f"{self.path}: a chunk has {chunk.arrays['position'].shape[1]} people: this recording has {people}. "
                "Record another scenario in another file."
            )
        names = tuple(sorted(chunk.series))
        if names != tuple(sorted(self.observe)):
            raise RecordingError(
                f"{self.path}: a chunk observes {', '.join(names) or 'nothing'}: this recording was opened for "
                f"{', '.join(self.observe) or 'nothing'}. Give both the same `observe`."
            )
        for order in chunk.orders:
            if order.step < self.step:
                raise RecordingError(
                    f"{self.path}: an order for step {order.step} comes with the chunk that starts at step {self.step}. "
                    "Add orders with the chunk in which they are carried out."
                )
            if order.kind == Kind.SET and order.path == "motion.dt":
                raise RecordingError(
                    f"{self.path}: an order sets motion.dt to {order.value[0]:g} s, but the frames are counted in steps of "
                    f"{self.params.motion.dt:g} s. Give the recorder parameters with that step from the start."
                )

    # From here on everything runs in the constructor or in the thread, one after the other.

    def _begin(self, manifest: dict[str, str]) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = TRUNCATE")
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA application_id = {tables.APPLICATION}")
        run(f"PRAGMA user_version = {tables.FORMAT}")
        for statement in tables.TABLES.split(";"):
            run(statement)
        many = self._connection.executemany
        wkt = self.scenario.area
        dt = tables.exactly(self.params.motion.dt)
        metadata = {"version": "2", "fps": repr(1.0 / (dt * self.every)), **tables.bounds(wkt)}
        many("INSERT INTO metadata VALUES(?, ?)", metadata.items())
        run("INSERT INTO geometry VALUES(?, ?)", (tables.geometry_hash(wkt), wkt))
        many("INSERT INTO crowdlab_manifest VALUES(?, ?)", manifest.items())
        units = dict(parameters.specs(self.params))
        leaves = [(path, units[path].unit, *tables.pack(leaf)) for path, leaf in parameters.values(self.params).items()]
        many("INSERT INTO crowdlab_parameters VALUES(?, ?, ?, ?, ?)", leaves)
        run(
            "INSERT INTO crowdlab_manifest VALUES('digest', ?)",
            (json.dumps(tables.digest(*manifest.items(), *(part for leaf in leaves for part in leaf))),),
        )
        people = [column.tolist() for column in self._last.values()]
        rows = zip(range(len(people[0])), *people, strict=True)
        many("INSERT INTO crowdlab_people VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._insert(Chunk.first(self.scenario.state, self.params, self.scenario.world))
        run("COMMIT")

    def _work(self) -> None:
        while (chunk := self._queue.get()) is not None:
            if self._error is None:  # after an error the queue is only emptied, so that nobody waits for ever
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    self._insert(chunk)
                    self._connection.execute("COMMIT")
                except BaseException as error:
                    self._fail(error)
        if self._error is None:
            try:
                self._connection.execute("CREATE INDEX frame_id_idx ON trajectory_data(frame, id)")
                self._connection.execute("INSERT INTO crowdlab_manifest VALUES('complete', 'true')")
                self._connection.execute("PRAGMA journal_mode = DELETE")
            except BaseException as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = error
        if self._connection.in_transaction:
            self._connection.rollback()

    def _insert(self, chunk: Chunk) -> None:
        run, many = self._connection.execute, self._connection.executemany
        first, number = self._frames, self._chunks
        step, alive, position, heading = (chunk.arrays[name] for name in ("step", "alive", "position", "heading"))
        frame, agent = np.nonzero(alive)
        places = self.scenario.on_map(position[frame, agent])
        columns = (frame + first, self._last["id"][agent], *places.T, *heading[frame, agent].T)
        many("INSERT INTO trajectory_data VALUES(?, ?, ?, ?, ?, ?)", zip(*(column.tolist() for column in columns), strict=True))
        area = tables.geometry_hash(self.scenario.area)
        many("INSERT INTO frame_data VALUES(?, ?)", [(first + index, area) for index in range(len(step))])
        packed = {name: tables.pack(array) for name, array in chunk.named()}
        many("INSERT INTO crowdlab_arrays VALUES(?, ?, ?, ?, ?)", [(number, name, *parts) for name, parts in packed.items()])
        orders = [tables.order_row(order) for order in chunk.orders]
        many(
            "INSERT INTO crowdlab_orders VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(self._orders + index, *row) for index, row in enumerate(orders)],
        )
        row = (number, first, len(step), chunk.last_step, chunk.health)
        seal = tables.digest(*row, *(part for name, parts in packed.items() for part in (name, *parts)))
        run("INSERT INTO crowdlab_chunks VALUES(?, ?, ?, ?, ?, ?)", (*row, seal))
        self._update_people(chunk.people)
        self._frames, self._chunks, self._orders = first + len(step), number + 1, self._orders + len(orders)

    def _update_people(self, people: dict[str, np.ndarray]) -> None:
        changing = ("desired_speed", "goal", "alive", "arrived", "entered", "stage", "stopped", "place", "outcome")
        changed = np.flatnonzero(np.any([people[name] != self._last[name] for name in changing], axis=0))
        rows = zip(*(people[name][changed].tolist() for name in changing), changed.tolist(), strict=True)
        assignments = ", ".join(f"{name} = ?" for name in changing)
        self._connection.executemany(f"UPDATE crowdlab_people SET {assignments} WHERE number = ?", rows)
        self._last = people


def _manifest(recorder: Recorder) -> dict[str, str]:
    """Everything needed to run again, each value as JSON."""
    scenario = recorder.scenario
    if recorder.every < 1:
        raise RecordingError(f"a frame every {recorder.every} steps: allowed are 1 and more. Give every = 1 to record each step.")
    unknown = [name for name in recorder.observe if name not in OBSERVABLES]
    if unknown:
        raise RecordingError(f"unknown observable '{unknown[0]}'. {nearest(unknown[0], list(OBSERVABLES))}")
    values = {
        "scenario": scenario.name,
        "source": scenario.source,
        "origin": scenario.origin,
        "box": scenario.world.size if scenario.world.periodic else None,
        "seed": recorder.seed,
        "every": recorder.every,
        "dt": tables.exactly(recorder.params.motion.dt),
        "observe": {name: OBSERVABLES[name].unit for name in recorder.observe},
        "float64": bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
        "groups": scenario.groups,
        "goals": scenario.goals,
        "versions": tables.versions(),
    }
    try:
        return {key: json.dumps(value, default=tables.plain) for key, value in values.items()}
    except (TypeError, ValueError) as error:
        raise RecordingError(
            f"scenario '{scenario.name}' cannot be stored ({error}): allowed are texts, numbers, lists and tables as in a scenario "
            "file. Give areas as WKT or lists of corners."
        ) from error


def _clear(path: Path, overwrite: bool) -> None:
    """Make room for a new file; a journal left by a killed writer goes with the file it belongs to."""
    if path.exists() and not overwrite:
        raise RecordingError(
            f"{path}: there is a file already. Choose another name, or allow it to be replaced with overwrite=True."
        )
    if not path.parent.is_dir():
        raise RecordingError(f"{path}: the folder {path.parent} does not exist. Make it first.")
    try:
        path.unlink(missing_ok=True)
        Path(f"{path}-journal").unlink(missing_ok=True)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be replaced ({error.strerror}). Choose another name.") from error
