"""Something that grows, against a size, both on logarithmic axes: a straight line is a power law."""

from collections.abc import Mapping, Sequence

import numpy as np
from bokeh.models import FixedTicker, HoverTool, Legend, LegendItem
from bokeh.plotting import figure

from crowdlab.errors import CrowdlabError
from crowdlab.views.theme import LEFT, LIGHT, SLOTS, Painted, Theme

# Told apart by colour, and without colour by dash and marker: three of each make nine.
SHAPES = (("solid", "circle"), ("dashed", "square"), ("dotted", "triangle"))
KEY = 240  # pixels kept for the legend, so that figures one below the other stand in line


class Growth(Painted):
    """Curves against a size, log-log. `layout` is the Bokeh figure."""

    def __init__(
        self,
        curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
        *,
        x: str,
        y: str,
        title: str = "",
        theme: Theme = LIGHT,
        width: int = 560,
        height: int = 330,
    ) -> None:
        """`curves`: name -> (sizes, values), all above zero; `x` and `y` name the axes, units included. The first is drawn widest.

        Raises:
            CrowdlabError: more curves than can be told apart, or a value that has no logarithm.
        """
        super().__init__(theme)
        most = len(SLOTS) * len(SHAPES)
        if len(curves) > most:
            raise CrowdlabError(
                f"growth: {len(curves)} curves: allowed are up to {most}, which can be told apart. Draw the others apart."
            )
        for name, columns in curves.items():
            if not (np.isfinite(columns).all() and np.min(columns, initial=1.0) > 0):
                raise CrowdlabError(f"growth: '{name}' has values that are not above zero. Leave them out.")
        self.layout = plot = figure(
            frame_width=width,
            frame_height=height,
            x_axis_type="log",
            y_axis_type="log",
            tools="pan,box_zoom,reset,save",
            toolbar_location="above",
            title=title or None,
            min_border_left=LEFT,
            min_border_right=KEY,
        )
        plot.xaxis.axis_label, plot.yaxis.axis_label = x, y
        ticks = sorted({float(size) for sizes, _ in curves.values() for size in sizes})
        plot.xaxis.ticker = FixedTicker(ticks=ticks)
        plot.xaxis.major_label_overrides = {tick: f"{tick:,.0f}".replace(",", "\u2009") for tick in ticks}
        items, points = [], []
        for number, (name, (sizes, values)) in enumerate(curves.items()):
            slot, (dash, marker) = SLOTS[number % len(SLOTS)], SHAPES[number // len(SLOTS)]
            order = np.argsort(sizes)
            source = {"x": np.asarray(sizes, float)[order], "y": np.asarray(values, float)[order], "name": [name] * len(sizes)}
            line = plot.line("x", "y", source=source, line_width=3 if number == 0 else 2, line_dash=dash)
            dots = plot.scatter("x", "y", source=source, size=9 if number == 0 else 7, marker=marker)
            self.paint(line.glyph, {"line_color": slot})
            self.paint(dots.glyph, {"line_color": slot, "fill_color": slot})
            items.append(LegendItem(label=name, renderers=[line, dots]))
            points.append(dots)
        plot.add_tools(HoverTool(renderers=points, tooltips=[("", "@name"), (x, "@x{0,0}"), (y, "@y{0.000 a}")]))
        legend = Legend(items=items, location="top_left", background_fill_alpha=0.0, border_line_color=None, padding=0)
        plot.add_layout(legend, "right")
        self.paint(legend, {"label_text_color": "text"})
        self.paint_figure(plot)
        for grid in plot.grid:
            self.paint(grid, {"grid_line_color": "rule"})
            grid.grid_line_alpha = 0.35
