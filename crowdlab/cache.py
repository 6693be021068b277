"""Compiled programs and long computed arrays kept on disk, so that a second start need not make them again.

JAX keeps the programs (its persistent compilation cache); here is where, for whom, and how to be rid of it. A program is kept for one kind
of processor and one version of JAX; another finds another folder. Importing crowdlab changes nothing: the command line, and through it
the lab, set what JAX reads from the environment, and what the user has set there stays.
"""

import contextlib
import functools
import hashlib
import io
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import platformdirs

MOST = 500_000_000  # bytes of arrays that are kept; the ones used longest ago go first
PLACE = "CROWDLAB_CACHE"  # environment variable: another folder; empty: keep nothing


def folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where everything is, programs of every machine and arrays; None when nothing shall be kept."""
    place = environment.get(PLACE)
    if place is None:
        return Path(platformdirs.user_cache_dir("crowdlab", appauthor=False)) / "compiled"
    return Path(place).expanduser() if place else None


def settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What JAX has to find in the environment when it starts: nothing where nothing shall be, or can be, kept."""
    place = folder(environment)
    if place is None:
        return {}
    own = place / _machine()
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(own),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        # XLA compares tuning hints with processor features when it loads a program, finds no such feature and warns of the worst at
        # length. The folder belongs to one kind of processor, so there is nothing to warn of. (1 is what JAX sets for itself and hands on.)
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    unset = {"TF_CPP_MIN_LOG_LEVEL"} if environment.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1" else set()
    return {name: value for name, value in wanted.items() if name in unset or name not in environment}


def recalled(name: str, given: Sequence[object], rooms: Sequence[str], make: Callable[[], np.ndarray]) -> np.ndarray:
    """What `make` gives, kept under `name`: made anew unless the very same was made before, by the same program.

    `given` is all that it depends on (arrays, and what has an exact repr), `rooms` are the rooms of this package whose code makes it. What
    is read back has a checksum; a damaged or unreadable file counts as none, and where nothing can be written nothing is kept.
    """
    place = folder()
    if place is None:
        return make()
    path = place / name / f"{_digest([*given, np.__version__, _code(tuple(rooms))])}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):
        content = path.read_bytes()
        if content[:32] == hashlib.sha256(content[32:]).digest():
            os.utime(path)
            return np.asarray(np.load(io.BytesIO(content[32:]), allow_pickle=False))
    made = make()
    buffer = io.BytesIO()
    np.save(buffer, made, allow_pickle=False)
    with contextlib.suppress(OSError):
        _write(path, hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    return made


def _write(path: Path, content: bytes) -> None:
    """A file that is there as a whole or not at all, for many processes at once; the oldest make room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
    files = sorted(path.parent.glob("*.npy"), key=lambda one: one.stat().st_mtime, reverse=True)
    used = 0
    for one in files:
        used += one.stat().st_size
        if used > MOST and one != path:
            one.unlink(missing_ok=True)


def _digest(given: Sequence[object]) -> str:
    """A name for values: equal for equal types, shapes and bytes only."""
    result = hashlib.sha256()
    for value in given:
        told = f"array {value.dtype.str} {value.shape}" if isinstance(value, np.ndarray) else f"{type(value).__name__} {value!r}"
        result.update(f"{len(told)} {told}".encode())
        if isinstance(value, np.ndarray):
            result.update(np.ascontiguousarray(value).tobytes())
    return result.hexdigest()


@functools.cache
def _code(rooms: tuple[str, ...]) -> str:
    """A name for the code of some rooms."""
    files = sorted(path for room in rooms for path in (Path(__file__).parent / room).rglob("*.py"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def size(place: Path) -> tuple[int, int]:
    """Number of files below a folder, and their bytes."""
    files = [path for path in place.rglob("*") if path.is_file()]
    return len(files), sum(path.stat().st_size for path in files)


def clear(place: Path) -> None:
    """Remove the folder with all that is in it."""
    shutil.rmtree(place, ignore_errors=not place.exists())


def _machine() -> str:
    """A short name for the kind of processor, down to its instructions."""
    told = [platform.system(), platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        pass
    return f"{platform.machine() or 'machine'}-{hashlib.sha256(repr(told).encode()).hexdigest()[:12]}"
