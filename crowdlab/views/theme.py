"""Colours by meaning, so that a page can repaint a figure when its reader changes between light and dark."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Theme(NamedTuple):
    """Colours by meaning. Blue, orange and green are told apart by colour-blind readers too (Okabe and Ito)."""

    paper: str  # behind everything
    text: str
    rule: str  # axes and grid lines
    floor: str  # walkable area
    wall: str
    exit: str
    target: str
    zone: str  # tint and hatch of a place where people walk slower or faster
    ink: str  # outline and heading of a person
    first: str  # curves
    second: str
    third: str


LIGHT = Theme(
    "#ffffff",
    "#333333",
    "#c8c8c8",
    "#f3f4f6",
    "#3c3c3c",
    "#007a58",
    "#b34a00",
    "#6b4fa0",
    "#222222",
    "#0064a8",
    "#c04e00",
    "#007a58",
)
DARK = Theme(
    "#111111",
    "#dddddd",
    "#555555",
    "#1d2126",
    "#c4c4c4",
    "#2fc797",
    "#f0a04b",
    "#b9a3e3",
    "#f2f2f2",
    "#6cbcf0",
    "#f0a04b",
    "#2fc797",
)

# For still pictures on pages that may be light or dark: no paper, and tones with a contrast of 4 to 1 with both.
EITHER = Theme(
    "#7a7a7a00",
    "#7a7a7a",
    "#7a7a7a80",
    "#e6e8ec",
    "#6a6a6a",
    "#1a8a62",
    "#c8620f",
    "#7d65ad",
    "#222222",
    "#2b7fc4",
    "#c8620f",
    "#1a8a62",
)

LEFT = 78  # pixels kept for the labels on the left, so that the axes of figures one below the other stand in line
SLOTS = ("first", "second", "third")


class Paint(NamedTuple):
    """One property of one model that follows the theme."""

    model: Any
    name: str
    role: str


class Painted:
    """Figures that can be repainted. `layout` is what Bokeh shows."""

    layout: Any

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.paints: list[Paint] = []

    def paint(self, model: Any, roles: Mapping[str, str]) -> None:
        """Give properties of a model the colours of these roles, now and whenever the theme changes."""
        for name, role in roles.items():
            setattr(model, name, getattr(self.theme, role))
            self.paints.append(Paint(model, name, role))

    def paint_figure(self, plot: Any) -> None:
        """Axes, title and frame of a figure."""
        plot.background_fill_color = None
        plot.border_fill_color = None
        self.paint(plot, {"outline_line_color": "rule"})
        if plot.title is not None:
            self.paint(plot.title, {"text_color": "text"})
            plot.title.text_font_style = "normal"
        for axis in plot.axis:
            self.paint(axis, {"axis_label_text_color": "text", "major_label_text_color": "text", "axis_line_color": "rule"})
            self.paint(axis, {"major_tick_line_color": "rule"})
            axis.minor_tick_line_color = None
            axis.axis_label_text_font_style = "normal"
        plot.toolbar.logo = None


def repainting(*figures: Painted) -> dict[str, Any]:
    """What a page needs to repaint these figures by itself: both sets of colours, and which property takes which."""
    paints = [[paint.model.id, paint.name, paint.role] for figure in figures for paint in figure.paints]
    return {"light": LIGHT._asdict(), "dark": DARK._asdict(), "paints": paints}
