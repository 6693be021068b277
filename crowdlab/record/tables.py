"""What stands in a recording: tables, conversions, digests. Both sides, writing and reading, take them from here."""

import hashlib
import importlib.metadata
import json
import platform
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from crowdlab import geometry
from crowdlab.commands import Command, Kind
from crowdlab.errors import RecordingError
from crowdlab.state import State, Trip, whereabouts

APPLICATION = 0x63726F77  # "crow": SQLite's application_id of our files
FORMAT = 3  # user_version; raised when the tables, or the fields of a State, change
ARRAYS = ("step", "position", "velocity", "heading", "alive", "intent", "closed")  # of Frames

# The first four tables are JuPedSim's, version 2, for everybody who reads those. Ours hold the run exactly as it was computed.
TABLES = """
CREATE TABLE trajectory_data(frame INTEGER NOT NULL, id INTEGER NOT NULL,
    pos_x REAL NOT NULL, pos_y REAL NOT NULL, ori_x REAL NOT NULL, ori_y REAL NOT NULL);
CREATE TABLE frame_data(frame INTEGER NOT NULL, geometry_hash INTEGER NOT NULL);
CREATE TABLE geometry(hash INTEGER NOT NULL UNIQUE, wkt TEXT NOT NULL);
CREATE TABLE metadata(key TEXT NOT NULL UNIQUE PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE crowdlab_manifest(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE crowdlab_parameters(path TEXT PRIMARY KEY, unit TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL,
    value BLOB NOT NULL);
CREATE TABLE crowdlab_chunks(number INTEGER PRIMARY KEY, first_frame INTEGER NOT NULL, frames INTEGER NOT NULL,
    last_step INTEGER NOT NULL, health TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE crowdlab_arrays(chunk INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY(chunk, name));
CREATE TABLE crowdlab_people(number INTEGER PRIMARY KEY, id INTEGER NOT NULL, group_number INTEGER NOT NULL, radius REAL NOT NULL,
    social_radius REAL NOT NULL, mass REAL NOT NULL, desired_speed REAL NOT NULL,
    goal INTEGER NOT NULL, alive INTEGER NOT NULL, arrived INTEGER NOT NULL, entered INTEGER NOT NULL,
    stage INTEGER NOT NULL, stopped INTEGER NOT NULL, place INTEGER NOT NULL, outcome TEXT NOT NULL);
CREATE TABLE crowdlab_orders(number INTEGER PRIMARY KEY, step INTEGER NOT NULL, kind TEXT NOT NULL, value_0 REAL NOT NULL,
    value_1 REAL NOT NULL, path TEXT NOT NULL, agent INTEGER NOT NULL, group_number INTEGER NOT NULL,
    x_from REAL NOT NULL, y_from REAL NOT NULL, x_to REAL NOT NULL, y_to REAL NOT NULL);
"""


def outcomes(alive: np.ndarray, arrived: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """(N,) the word for each person, from `alive`, the step of arrival (-1 before) and that of coming in, as in State."""
    parts = whereabouts(alive, arrived >= 0, entered)
    return np.select(list(parts.values()), list(parts), default="")


def pack(array: Any) -> tuple[str, str, bytes]:
    """An array as dtype, shape and bytes, little-endian whatever the machine."""
    array = np.asarray(array)
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return little.dtype.str, json.dumps(list(array.shape)), little.tobytes()


def unpack(dtype: str, shape: str, value: bytes) -> np.ndarray:
    """The array that `pack` was given. Raises ValueError when the three do not belong together."""
    return np.frombuffer(value, np.dtype(dtype)).reshape(json.loads(shape)).copy()


def digest(*parts: object) -> str:
    """SHA-256 of several texts, numbers and blobs, each with its length."""
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def leaves_of(state: State) -> dict[str, np.ndarray]:
    """All that a state holds, by the names of its fields; what belongs to a trip as `trip.NAME`."""
    found = {name: value for name, value in vars(state).items() if name != "trip"}
    trip = {} if state.trip is None else {f"trip.{name}": value for name, value in vars(state.trip).items()}
    return {name: np.asarray(value) for name, value in (found | trip).items()}


def state_of(leaves: Mapping[str, np.ndarray]) -> State:
    """The state that `leaves_of` was given. Raises TypeError for leaves of another version of State."""
    arrays = {name: jax.numpy.asarray(value) for name, value in leaves.items()}
    trip = {name.removeprefix("trip."): arrays.pop(name) for name in leaves if name.startswith("trip.")}
    return State(**arrays, trip=Trip(**trip) if trip else None)


def geometry_hash(wkt: str) -> int:
    """Signed 64-bit number of a geometry, the same in every process."""
    return int.from_bytes(hashlib.sha256(wkt.encode()).digest()[:8], "big", signed=True)


def bounds(wkt: str) -> dict[str, str]:
    """Box round a geometry as JuPedSim's metadata want it, m."""
    points = np.concatenate([ring for rings in geometry.polygons(wkt) for ring in rings])
    least, most = points.min(0).tolist(), points.max(0).tolist()
    return {"xmin": repr(least[0]), "xmax": repr(most[0]), "ymin": repr(least[1]), "ymax": repr(most[1])}


def exactly(leaf: Any) -> float:
    """A parameter as the decimal number that was meant: 0.001 for the float32 nearest to 0.001."""
    return float(str(np.asarray(leaf)[()]))


def plain(value: Any) -> Any:
    """For JSON: arrays and their scalars as lists and numbers."""
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | set):
        return list(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def versions() -> dict[str, str]:
    """What the bytes of a run depend on beside its input."""
    try:
        ours = importlib.metadata.version("crowdlab")
    except importlib.metadata.PackageNotFoundError:
        ours = "not installed"
    device = jax.devices()[0]
    return {
        "crowdlab": ours,
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "device": f"{device.platform} {device.device_kind}",
    }


def order_row(command: Command) -> tuple[Any, ...]:
    """One order as plain columns."""
    first, second = (float(v) for v in command.value)
    people = int(command.agent), int(command.group)
    return (int(command.step), Kind(command.kind).name, first, second, command.path, *people, *(float(z) for z in command.zone))


def order_of(row: Sequence[Any]) -> Command:
    """The order that `order_row` was given."""
    step, kind, first, second, path, agent, group, *zone = row
    return Command(step, Kind[kind], (first, second), path, agent, group, (zone[0], zone[1], zone[2], zone[3]))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Everything that a damaged or foreign file can do to its reader becomes one RecordingError that says what to do."""
    try:
        yield
    except RecordingError:
        raise
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise RecordingError(f"{path}: another program is writing to this recording just now. Try again.") from error
        if "readonly" in str(error) or "unable to open" in str(error):
            raise RecordingError(
                f"{path}: cannot be opened ({error}). A recording whose writer was killed needs write access to itself and its "
                "folder once, to take back the unfinished chunk. "
                f"Copy it, with '{path.name}-journal' if there is one, to a folder of your own."
            ) from error
        raise damaged(path, error) from error
    except (sqlite3.Error, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError, AttributeError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, reason: object) -> RecordingError:
    """The error for a file of ours that cannot be trusted."""
    return RecordingError(f"{path}: this recording is damaged or cut short ({reason}). Use another copy or run the scenario again.")
