"""Recordings: one SQLite file per run, written while it runs, that can be shown, run again and cited.

`Recorder` writes, `Recording` reads, `replay` runs again, `verify` says whether the same bytes came out.
"""

from crowdlab.record.again import Verdict, replay, verify
from crowdlab.record.recorder import Recorder
from crowdlab.record.recording import Recording

__all__ = ["Recorder", "Recording", "Verdict", "replay", "verify"]
