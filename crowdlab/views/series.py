"""Observables against time."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, Legend, LegendItem, Range1d
from bokeh.plotting import figure

from crowdlab.observe import OBSERVABLES
from crowdlab.views.theme import LEFT, LIGHT, SLOTS, Painted, Theme

SMALL = {"m": 0.05}  # by unit: end of a range before there is anything to show
LEAST = {"m": 0.002}  # by unit: what is smaller is drawn on such a range: nobody reads 0.00001 m
FIRST_SECONDS = 10.0  # s, length of the time axis at first


class Timeline(Painted):
    """Observables against time, one small plot per unit. `layout` is the Bokeh column, `series` its source."""

    def __init__(
        self, names: Sequence[str], *, theme: Theme = LIGHT, width: int = 640, height: int = 100, marked: bool = False
    ) -> None:
        """With `marked`, an upright line stands at the instant that the source `mark` holds."""
        super().__init__(theme)
        self.marked = marked
        self.mark = ColumnDataSource({"t": [0.0]}, name="mark")  # the instant shown
        self.names = tuple(names)
        self.series = ColumnDataSource({"t": np.zeros(0), **{name: np.zeros(0) for name in names}}, name="series")
        self.time = Range1d(0.0, FIRST_SECONDS)
        self.ranges: dict[str, Any] = {}  # observable -> y range of its plot
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(OBSERVABLES[name].unit, []).append(name)
        self.figures = [self._plot(members, unit, width, height) for unit, members in groups.items()]
        if self.figures:
            last = self.figures[-1]
            last.xaxis.axis_label = "time [s]"
        for plot in self.figures[:-1]:
            plot.xaxis.major_label_text_font_size = "0px"
        self.layout = column(*self.figures)

    def _plot(self, members: list[str], unit: str, width: int, height: int) -> Any:
        shown = "people" if unit == "1" else f"{members[0].replace('_', ' ')}\n[{unit}]"
        plot = figure(
            frame_width=width,
            frame_height=height,
            x_range=self.time,
            y_range=Range1d(0.0, SMALL.get(unit, 1.0)),
            tools="",
            title=None,
            min_border_left=LEFT,
        )
        plot.toolbar_location = None
        plot.yaxis.axis_label = shown
        plot.yaxis.axis_label_text_font_size = "10px"
        plot.yaxis.ticker.desired_num_ticks = 4
        plot.yaxis.formatter.use_scientific = False
        items = []
        for slot, name in zip(SLOTS * len(members), members, strict=False):
            dash = "solid" if slot == "first" else "dashed"
            line = plot.line("t", name, source=self.series, line_width=2, line_dash=dash)
            self.paint(line.glyph, {"line_color": slot})
            items.append(LegendItem(label=name.replace("_", " "), renderers=[line]))
            self.ranges[name] = plot.y_range
        if len(members) > 1:
            legend = Legend(items=items, location="center", background_fill_alpha=0.0, border_line_color=None)
            plot.add_layout(legend, "right")
            self.paint(legend, {"label_text_color": "text"})
        if self.marked:
            upright = plot.vspan(x="t", source=self.mark, line_width=1)
            self.paint(upright.glyph, {"line_color": "ink"})
        self.paint_figure(plot)
        for grid in plot.grid:
            self.paint(grid, {"grid_line_color": "rule"})
            grid.grid_line_alpha = 0.35
        return plot

    def limits(self, data: Mapping[str, np.ndarray]) -> list[tuple[Any, str, float]]:
        """Move the ends of the ranges so that they hold `data`; returns what changed. Ends are round: they seldom change."""
        wanted: dict[str, tuple[Any, float]] = {}
        for name, span in {"t": self.time, **self.ranges}.items():
            values = np.asarray(data[name], float)
            top = float(np.nanmax(values, initial=0.0))
            small = LEAST.get(OBSERVABLES[name].unit, 0.0) if name in self.ranges and top > 0 else 0.0
            least = self.time.end if name == "t" else max(small, wanted.get(span.id, (span, 0.0))[1])
            wanted[span.id] = (span, max(least, round_up(top if name == "t" else 1.05 * top)))
        changed = [(span, "end", end) for span, end in wanted.values() if end > 0 and end != span.end]
        for span, name, end in changed:
            setattr(span, name, end)
        return changed

    def restart(self) -> list[tuple[Any, str, float]]:
        """The time axis as it was at the start; returns what changed."""
        self.time.end = FIRST_SECONDS
        return [(self.time, "end", self.time.end)]

    def show(self, data: Mapping[str, np.ndarray]) -> None:
        """Put a whole series into the plots: column `t` in s and one per observable."""
        self.limits(data)
        self.series.data = {name: np.asarray(data[name], float) for name in ("t", *self.names)}


def round_up(value: float) -> float:
    """Smallest of 1, 2, 3, 5 times a power of ten that is at least `value`."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 5, 10) if step * power >= value * (1 - 1e-9))


def timeline(names: Sequence[str], data: Mapping[str, np.ndarray], *, theme: Theme = LIGHT, width: int = 640) -> Any:
    """A Bokeh layout of observables against time: `data` has column `t` in s and one per name, as `Session.series` has."""
    plots = Timeline(names, theme=theme, width=width)
    plots.show(data)
    return plots.layout
