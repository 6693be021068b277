"""A plan with everything that was found in it, drawn for the eye: what was given, what is walkable, and a mark at each finding."""

import math
from pathlib import Path

import numpy as np
from bokeh.models import BoxZoomTool, HoverTool, PanTool, Range1d, ResetTool, SaveTool, WheelZoomTool
from bokeh.plotting import figure

from crowdlab import geometry
from crowdlab.geometry import ERROR, NOTE, WARNING
from crowdlab.scenario import GeometryReport
from crowdlab.views.plaza import label_on_map
from crowdlab.views.sheet import sheet
from crowdlab.views.theme import LIGHT, Painted, Theme

MARKS = {NOTE: ("circle", "first", 9), WARNING: ("diamond", "second", 14), ERROR: ("x", "target", 18)}  # marker, colour, pixels
MARGIN = 0.05  # of the size of the plan, round it


class PlanFigure(Painted):
    """Every outline as given, the walkable area made of them, and the findings, which say more under the pointer."""

    def __init__(self, report: GeometryReport, *, theme: Theme = LIGHT, width: int = 900, height: int = 600) -> None:
        super().__init__(theme)
        points = np.concatenate([points for _, points in report.outlines] or [np.zeros((1, 2))])
        lower, upper = points.min(0), points.max(0)
        size = np.maximum(upper - lower, 1e-3)
        lower, size = lower - MARGIN * size.max(), size + 2 * MARGIN * size.max()
        scale = min(width / size[0], height / size[1])
        frame = np.maximum(np.round(scale * size), 60).astype(int)
        self.figure = self.layout = figure(
            frame_width=int(frame[0]),
            frame_height=int(frame[1]),
            x_range=Range1d(lower[0], lower[0] + size[0]),
            y_range=Range1d(lower[1], lower[1] + size[1]),
            x_axis_label="x [m]",
            y_axis_label="y [m]",
            title=report.name,
            tools=[],
        )
        self.figure.grid.visible = False
        self.figure.add_tools(PanTool(), WheelZoomTool(), BoxZoomTool(match_aspect=True), ResetTool(), SaveTool())
        label_on_map(self.figure, report.origin)
        self._draw(report)
        self.paint_figure(self.figure)

    def _draw(self, report: GeometryReport) -> None:
        if report.area:
            shapes = geometry.polygons(report.area, report.origin)
            floor = self.figure.multi_polygons(
                xs=[[[ring[:, 0].tolist() for ring in rings] for rings in shapes]],
                ys=[[[ring[:, 1].tolist() for ring in rings] for rings in shapes]],
                line_color=None,
            )
            self.paint(floor.glyph, {"fill_color": "floor"})
        looks = {"goals": ("exit", 5.0, "solid"), "zones": ("zone", 2.0, "dashed"), "doors": ("target", 3.0, "dashed")}
        for kind, (role, width, dash) in {**looks, "": ("wall", 1.5, "solid")}.items():
            lines = [
                points for item, points in report.outlines if (item.split(".")[0] if item.split(".")[0] in looks else "") == kind
            ]
            xs, ys = ([line[:, axis].tolist() for line in lines] for axis in (0, 1))
            self.paint(self.figure.multi_line(xs, ys, line_width=width, line_dash=dash).glyph, {"line_color": role})
        for severity, (marker, role, size) in MARKS.items():
            found = [finding for finding in report.of(severity) if not math.isnan(finding.place[0])]
            if not found:
                continue
            places = np.array([finding.place for finding in found]) - report.origin
            columns = {"x": places[:, 0], "y": places[:, 1], "text": [str(finding) for finding in found]}
            marks = self.figure.scatter("x", "y", source=columns, marker=marker, size=size, fill_alpha=0.4, line_width=2)
            self.paint(marks.glyph, {"line_color": role, "fill_color": role})
            self.figure.add_tools(HoverTool(renderers=[marks], visible=False, tooltips=[(severity, "@text")]))


def plan_html(report: GeometryReport, path: str | Path) -> Path:
    """Write one HTML file with the plan, its findings marked, and the findings in words; it needs no network."""
    note = "Circles are notes, diamonds warnings, crosses errors; the pointer shows what each says."
    return sheet(path, [PlanFigure(report)], title=f"{report.name}: geometry report", note=note, text=str(report))
