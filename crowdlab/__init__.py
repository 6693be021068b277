"""Crowd and flock simulation for notebooks.

The names below are the public ones. The lab (`lab`) and the figures load Bokeh and the widgets only when they are asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from crowdlab.commands import Command, Kind
from crowdlab.errors import CrowdlabError
from crowdlab.params import Params, param, replace
from crowdlab.record import Recorder, Recording, replay
from crowdlab.scenario import Scenario, build, load
from crowdlab.session import Session
from crowdlab.simulation import Run, rollout, simulate

if TYPE_CHECKING:
    from crowdlab.views import Plaza, replay_html, timeline
    from crowdlab.widgets import lab

__all__ = [
    "Command",
    "CrowdlabError",
    "Kind",
    "Params",
    "Plaza",
    "Recorder",
    "Recording",
    "Run",
    "Scenario",
    "Session",
    "build",
    "lab",
    "load",
    "param",
    "replace",
    "replay",
    "replay_html",
    "rollout",
    "simulate",
    "timeline",
]

_LATE = {"Plaza": "crowdlab.views", "replay_html": "crowdlab.views", "timeline": "crowdlab.views", "lab": "crowdlab.widgets"}


def __getattr__(name: str) -> Any:
    """Import what draws when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module 'crowdlab' has no attribute '{name}'")
    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
