"""The processes that run the codes: started, asked, watched, and ended whatever happens."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

PATIENCE = 5.0  # s, that a process gets to end by itself
QUIET = {
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # compiling is measured, not remembered
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes share one GPU, and what they take is measured
    "PYTHONUNBUFFERED": "1",
}


class PeerError(Exception):
    """Why a process has no answer, in words."""


class Process:
    """One code at one size in a process of its own. Leaving the `with` block ends it."""

    def __init__(self, environment: dict[str, str] | None = None, *, bare: bool = False) -> None:
        """With `bare` nothing of crowdlab but the bench is loaded there."""
        self.told: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `stop`
        self.folder = tempfile.TemporaryDirectory()  # some libraries leave files where they stand
        # A session of its own: Ctrl-C reaches the bench, which ends its children one by one.
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), *(["bare"] if bare else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.told,
            text=True,
            encoding="utf-8",
            cwd=self.folder.name,
            env={**os.environ, **QUIET, **(environment or {})},
            start_new_session=True,
        )
        self.answers: queue.Queue[str] = queue.Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")  # nothing more will come

    def ask(self, do: str, order: dict[str, Any] | None = None, *, within: float) -> dict[str, Any]:
        """The answer to an order with these arguments.

        Raises:
            PeerError: it broke, the process ended, or no answer came within so many seconds.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then its end is the answer
            self.process.stdin.write(json.dumps({"do": do, **(order or {})}) + "\n")
            self.process.stdin.flush()
        try:
            line = self.answers.get(timeout=within)
        except queue.Empty:
            raise PeerError(f"no answer within {within:.0f} s (--patience)") from None
        if not line:
            raise PeerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def _last_words(self) -> str:
        """How it ended."""
        code = self.process.wait(PATIENCE)
        self.told.seek(0)
        lines = [line.strip() for line in self.told.read().decode("utf-8", "replace").splitlines() if line.strip()]
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        # A library that is stopped by the system for memory says nothing.
        return f"its process ended ({how})" + (f": {re.sub(r' +', ' ', lines[-1])[:120]}" if lines else "")

    def stop(self) -> None:
        """End it: asked, then told, then made."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):  # what was not read is lost with it
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.listener.join(PATIENCE)
        self.process.stdout.close()
        self.told.close()
        self.folder.cleanup()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *trouble: object) -> None:
        self.stop()
