"""Begins the process of one code: run as a file, with `bare` behind it for the codes of others."""

import importlib
import os
import sys
import types
from pathlib import Path

ROOT = Path(__file__).parents[2]


def begin() -> None:
    """Make way to the worker and serve."""
    sys.path[0] = str(ROOT)  # it was this folder, whose names are not for everybody
    if "bare" in sys.argv:
        # A peer's process holds nothing of ours but the bench: it comes in beside the front door, which would load JAX.
        package = types.ModuleType("crowdlab")
        package.__path__ = [str(ROOT / "crowdlab")]
        sys.modules["crowdlab"] = package
    # Libraries may print; what they print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    importlib.import_module("crowdlab.bench.worker").serve(sys.stdin, answers)


if __name__ == "__main__":
    begin()
