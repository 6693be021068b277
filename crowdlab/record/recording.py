"""The reading side: a finished recording, one still being written, or one whose writer was killed."""

import dataclasses
import functools
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

from crowdlab import params as parameters
from crowdlab.commands import Command
from crowdlab.errors import CrowdlabError, RecordingError
from crowdlab.params import Params
from crowdlab.record import tables
from crowdlab.record.tables import ARRAYS
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import Frames
from crowdlab.state import COUNTED, INSIDE, LEFT, MEASURED, STANDING, State, whereabouts


class Recording:
    """Frames, series, orders, people and the manifest of one run, as NumPy arrays in public layout.

    F frames are kept, the start among them: frame 0. Series have F - 1 rows, one for each later frame. Nothing is read
    before it is asked for, and every chunk is checked against its digest.
    """

    path: Path
    manifest: dict[str, Any]  # scenario, source, origin, box, seed, every, dt, observe, float64, groups, goals, versions, complete

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._connected() as connection:
            texts = _manifest(connection, path)
            self.manifest = {key: json.loads(text) for key, text in texts.items()}
            self._leaves = connection.execute("SELECT * FROM crowdlab_parameters ORDER BY rowid").fetchall()
            sealed = [pair for pair in texts.items() if pair[0] not in ("digest", "complete")]
            if self.manifest["digest"] != tables.digest(*sealed, *(part for leaf in self._leaves for part in leaf)):
                raise tables.damaged(path, "its manifest does not have the digest it was written with")
            chunks = "SELECT number, first_frame, frames, last_step, health, digest FROM crowdlab_chunks ORDER BY number"
            self._chunks = connection.execute(chunks).fetchall()
            following = 0
            for number, chunk in enumerate(self._chunks):
                if chunk[:2] != (number, following):
                    raise tables.damaged(path, f"chunk {number} is missing")
                following += chunk[2]
            if not self._chunks:
                raise tables.damaged(path, "it has no frames")

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a recording.

        Raises:
            RecordingError: there is no such file, it is not a recording of crowdlab, or it is damaged; says which and what to do.
        """
        return cls(Path(path))

    @property
    def steps(self) -> int:
        """Steps that were run and written."""
        return self.last_step - int(self._chunks[0][3])

    @property
    def last_step(self) -> int:
        """The last step that was written; where a run starts at step 0 it is the number of steps."""
        return int(self._chunks[-1][3])

    @property
    def dt(self) -> float:
        """Time step, s."""
        return float(self.manifest["dt"])

    @property
    def complete(self) -> bool:
        """Whether the writer came to close the file; a killed run is not complete, but all that it holds is right."""
        return bool(self.manifest.get("complete", False))

    @functools.cached_property
    def frames(self) -> Frames:
        """All frames: position, velocity, heading (F, N, 2), alive, intent (F, N), step, closed (F,), exactly as computed: less the
        origin.
        """
        return _joined([arrays for arrays, _ in self.chunks()])

    @property
    def origin(self) -> tuple[float, float]:
        """What was taken off every coordinate of a plan far from (0, 0), m."""
        x, y = self.manifest.get("origin", (0.0, 0.0))
        return x, y

    @functools.cached_property
    def box(self) -> tuple[float, float] | None:
        """Sides of a periodic box, m; None where no sides are joined.

        Raises:
            RecordingError: it was written before boxes were, and the scenario, which knows the box, cannot be built again.
        """
        if "box" not in self.manifest and self.manifest["source"].get("world", {}).get("periodic"):
            return self.rebuilt.world.size
        sides = self.manifest.get("box")
        return None if sides is None else (sides[0], sides[1])

    @property
    def positions(self) -> np.ndarray:
        """(F, N, 2) m, of everybody in every frame in the coordinates of the plan; double precision."""
        return np.asarray(self.frames.position, float) + self.origin

    @functools.cached_property
    def times(self) -> np.ndarray:
        """(F,) s, of every frame."""
        return np.asarray(self.frames.step) * self.dt

    @functools.cached_property
    def series(self) -> dict[str, np.ndarray]:
        """Observable -> (F - 1, ...): its values at every frame but the start; units are `manifest["observe"]`."""
        pieces = [series for _, series in self.chunks()][1:]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in self.manifest["observe"]} if pieces else {}

    @functools.cached_property
    def orders(self) -> list[Command]:
        """Every order that was given, in order."""
        with self._connected() as connection:
            columns = "step, kind, value_0, value_1, path, agent, group_number, x_from, y_from, x_to, y_to"
            rows = connection.execute(f"SELECT {columns} FROM crowdlab_orders ORDER BY number").fetchall()
            return [tables.order_of(row) for row in rows]

    @functools.cached_property
    def people(self) -> dict[str, np.ndarray]:
        """Columns (N,): id, group, radius (m), social_radius (m), mass (kg), desired_speed (m/s), goal, alive, arrived,
        entered, stage, stopped, place, outcome.

        `arrived` is a step, or -1; `entered` is as in State, the three after it as in Trip, -1 without one; `outcome` is
        "inside", "standing", "left", "removed", "waiting" or "refused"; all as of the last step.
        """
        kept = ("id", "group", "radius", "social_radius", "mass", "desired_speed", "goal", "alive", "arrived", "entered")
        names = (*kept, "stage", "stopped", "place", "outcome")
        kinds = (np.int32, np.int32, *[float] * 4, np.int32, bool, *[np.int32] * 5, str)
        with self._connected() as connection:
            columns = ", ".join("group_number" if name == "group" else name for name in names)
            rows = connection.execute(f"SELECT {columns} FROM crowdlab_people ORDER BY number").fetchall()
            return {name: np.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(zip(names, kinds, strict=True))}

    @functools.cached_property
    def area(self) -> str:
        """Walkable area as WKT, m."""
        with self._connected() as connection:
            return str(connection.execute("SELECT wkt FROM geometry").fetchone()[0])

    @functools.cached_property
    def scenario(self) -> Scenario:
        """The scenario, built again from its source, with the state from which the run started."""
        return dataclasses.replace(self.rebuilt, state=self.start)

    @functools.cached_property
    def rebuilt(self) -> Scenario:
        """The scenario as its source gives it now, with its own start."""
        try:
            with self.precision():
                return build(self.manifest["source"], name=self.manifest["scenario"])
        except CrowdlabError as error:
            made = self.manifest["versions"].get("crowdlab")
            raise RecordingError(
                f"{self.path}: its scenario cannot be built again: {error} It was made with crowdlab {made}; use that one."
            ) from error

    @functools.cached_property
    def start(self) -> State:
        """The state from which the run started, to the bit."""
        arrays = self._arrays(self._chunks[0])
        with tables.readable(self.path), self.precision():
            return tables.state_of(
                {name.removeprefix("start."): array for name, array in arrays.items() if name.startswith("start.")}
            )

    @functools.cached_property
    def leaves(self) -> dict[str, np.ndarray]:
        """Every parameter at the start by its dotted path, () or (N,), without building anything again."""
        with tables.readable(self.path):
            return {path: tables.unpack(dtype, shape, value) for path, _, dtype, shape, value in self._leaves}

    @functools.cached_property
    def params(self) -> Params:
        """The parameters at the start, every leaf exactly as it was."""
        params = self.scenario.params
        stored = self.leaves
        with tables.readable(self.path), self.precision():
            ours = set(parameters.values(params))
            if ours != set(stored):
                raise RecordingError(
                    f"{self.path}: it was run with the parameters {', '.join(sorted(stored))}, its scenario now has "
                    f"{', '.join(sorted(ours))}. Run it again with the forces of that time, or with crowdlab "
                    f"{self.manifest['versions'].get('crowdlab')}."
                )
            for path, leaf in stored.items():
                params = parameters.replace(params, path, jax.numpy.asarray(leaf))
            return params

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Work with the number of bits that the recording was made with."""
        with jax.enable_x64(bool(self.manifest["float64"])):
            yield

    @functools.cached_property
    def health(self) -> dict[str, float]:
        """How the run went: sums of what the chunks counted, and the largest of what they measured."""
        found: dict[str, float] = {}
        for *_, text, _ in self._chunks:
            for name, value in json.loads(text).items():
                if name in COUNTED:
                    found[name] = found.get(name, 0) + value
                elif name in MEASURED:
                    found[name] = max(found.get(name, 0.0), value)
        return found

    def ledger(self) -> dict[str, np.ndarray]:
        """People inside and walking, standing at their target, left, removed, waiting outside and refused, (F,) each: N at every frame.

        Who stood and was sent on or removed by an order later on is counted as standing only where `arrived` was observed.
        """
        alive, step, arrived = np.asarray(self.frames.alive), np.asarray(self.frames.step), self.people["arrived"]
        parts = whereabouts(alive, (arrived >= 0) & (arrived <= step[:, None]), self.people["entered"], step[:, None])
        counts = {word: who.sum(1) for word, who in parts.items()}
        if "arrived" in self.series:
            counts[STANDING][1:] = self.series["arrived"] - counts[LEFT][1:]
            counts[INSIDE] = alive.sum(1) - counts[STANDING]
        return counts

    def chunks(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """The arrays and the series of one chunk after the other; the first chunk is the start alone."""
        for chunk in self._chunks:
            arrays = self._arrays(chunk)
            series = {name.removeprefix("series."): array for name, array in arrays.items() if name.startswith("series.")}
            yield {name: arrays[name] for name in ARRAYS}, series

    def _arrays(self, chunk: Sequence[Any]) -> dict[str, np.ndarray]:
        """All arrays of a chunk, checked against its digest."""
        *row, seal = chunk
        with self._connected() as connection:
            columns = "SELECT name, dtype, shape, value FROM crowdlab_arrays WHERE chunk = ? ORDER BY rowid"
            packed = connection.execute(columns, (row[0],)).fetchall()
            if seal != tables.digest(*row, *(part for one in packed for part in one)):
                raise tables.damaged(self.path, f"chunk {row[0]} does not have the digest it was written with")
            return {name: tables.unpack(dtype, shape, value) for name, dtype, shape, value in packed}

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise RecordingError(f"{self.path}: there is no such file. Give the path of a recording (.sqlite).")
        # Not read-only: SQLite itself takes back what a killed writer left half done. Where it may not write it does without.
        address = f"{self.path.resolve().as_uri()}?mode=rw"
        with tables.readable(self.path), closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            yield connection


def _manifest(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """The manifest's entries as JSON, after every check that this is a recording at all."""
    try:
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise RecordingError(f"{path}: this is no recording (no SQLite file). Give a file that crowdlab wrote.") from error
        raise
    if path.stat().st_size == 0:
        raise tables.damaged(path, "the file is empty: its writer was stopped before the first frame")
    if mark != tables.APPLICATION:
        raise RecordingError(f"{path}: this SQLite file is not a recording of crowdlab. Give a file that crowdlab wrote.")
    version, pages, page = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "page_count", "page_size")
    )
    if path.stat().st_size < pages * page:
        raise tables.damaged(path, f"{path.stat().st_size} of {pages * page} bytes are there")
    if version != tables.FORMAT:
        raise RecordingError(
            f"{path}: a recording of format {version}: this crowdlab reads format {tables.FORMAT}. Use the one that wrote it."
        )
    known = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    wanted = set(re.findall(r"CREATE TABLE (\w+)", tables.TABLES))
    if wanted - known:
        raise tables.damaged(path, f"it lacks the table {', '.join(sorted(wanted - known))}")
    return dict(connection.execute("SELECT key, value FROM crowdlab_manifest ORDER BY rowid"))


def _joined(pieces: list[dict[str, np.ndarray]]) -> Frames:
    joined: dict[str, Any] = {name: np.concatenate([piece[name] for piece in pieces]) for name in ARRAYS}
    return Frames(**joined)
