"""How much memory a process takes, and how much the machine has left."""

import os
import sys
from pathlib import Path


def peak() -> int | None:
    """Most bytes that this process has held at any time; None where the system does not say."""
    held = _status("VmHWM")
    # The system's own count of a child begins with what its parent held when it was born, so it comes second.
    return held if held is not None else _usage()


def now() -> int | None:
    """Bytes that this process holds now; None where the system does not say."""
    held = _status("VmRSS")
    return held if held is not None else _usage()


def free() -> int | None:
    """Bytes that new processes may still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    limits = [_number(Path("/sys/fs/cgroup/memory.max")), _number(Path("/sys/fs/cgroup/memory.current"))]
    if limits[0] is not None and limits[1] is not None:
        found.append(limits[0] - limits[1])
    return min(found, default=None)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _number(path: Path) -> int | None:
    """A number in a file of the system; None where there is none, or no limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _usage() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
