"""Crowd and flock simulation for notebooks.

The names below are the public ones. Each is imported when it is first asked for: an import of crowdlab alone loads neither JAX nor what
draws, and whoever wants to set JAX up can still do so.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdlab import measures
    from crowdlab.commands import Command, Kind
    from crowdlab.ensemble import simulate_many
    from crowdlab.errors import CrowdlabError
    from crowdlab.gradients import Gradient, gradient
    from crowdlab.params import Params, replace
    from crowdlab.precision import use_precision
    from crowdlab.record import Recorder, Recording, replay
    from crowdlab.scenario import Scenario, build, geometry_report, load
    from crowdlab.session import Session
    from crowdlab.simulation import Run, rollout, simulate
    from crowdlab.trees import param
    from crowdlab.views import Plaza, replay_html, timeline
    from crowdlab.widgets import lab

__all__ = [
    "Command",
    "CrowdlabError",
    "Gradient",
    "Kind",
    "Params",
    "Plaza",
    "Recorder",
    "Recording",
    "Run",
    "Scenario",
    "Session",
    "build",
    "geometry_report",
    "gradient",
    "lab",
    "load",
    "measures",
    "param",
    "replace",
    "replay",
    "replay_html",
    "rollout",
    "simulate",
    "simulate_many",
    "timeline",
    "use_precision",
]

_HOMES = {
    "commands": ("Command", "Kind"),
    "ensemble": ("simulate_many",),
    "errors": ("CrowdlabError",),
    "gradients": ("Gradient", "gradient"),
    "params": ("Params", "replace"),
    "precision": ("use_precision",),
    "record": ("Recorder", "Recording", "replay"),
    "scenario": ("Scenario", "build", "geometry_report", "load"),
    "session": ("Session",),
    "simulation": ("Run", "rollout", "simulate"),
    "trees": ("param",),
    "views": ("Plaza", "replay_html", "timeline"),
    "widgets": ("lab",),
}
_ROOMS = ("measures",)  # rooms that are public as a whole
_HOME = {name: room for room, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its room when it is first asked for."""
    if name in _ROOMS:
        return importlib.import_module(f"crowdlab.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'crowdlab' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"crowdlab.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
