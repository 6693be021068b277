"""Crowd and flock simulation for notebooks.

The names below are the public ones. The lab (`lab`) and the figures load Bokeh and the widgets only when they are asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdlab.views import Plaza, replay_html, timeline
    from crowdlab.widgets import lab

__version__ = "0.1.0"

_LATE = {"Plaza": "crowdlab.views", "replay_html": "crowdlab.views", "timeline": "crowdlab.views", "lab": "crowdlab.widgets"}


def __getattr__(name: str) -> Any:
    """Import what draws when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module 'crowdlab' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
