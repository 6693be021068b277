"""Compiled programs kept on disk, so that a second start need not compile again.

JAX does the keeping (its persistent compilation cache); here is where, for whom, and how to be rid of it. A program is kept for one kind
of processor and one version of JAX; another finds another folder. Importing crowdlab changes nothing: the command line, and through it
the lab, set what JAX reads from the environment, and what the user has set there stays.
"""

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

import platformdirs

PLACE = "CROWDLAB_CACHE"  # environment variable: another folder; empty: keep nothing


def folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the compiled programs of every machine are; None when nothing shall be kept."""
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
