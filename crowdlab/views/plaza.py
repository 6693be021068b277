"""The scene from above: people at true size with heading and speed, walkable area, walls, exits and targets."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from bokeh.models import (
    BoxZoomTool,
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    HoverTool,
    Label,
    LinearColorMapper,
    PanTool,
    Range1d,
    ResetTool,
    SaveTool,
    TapTool,
    WheelZoomTool,
)
from bokeh.palettes import Viridis256
from bokeh.plotting import figure

from crowdlab import geometry, zones
from crowdlab.params import Params
from crowdlab.scenario import Scenario
from crowdlab.state import INSIDE, WAITING, State, whereabouts
from crowdlab.views.marks import PLACE, door_columns, drawn_goals, fixed_walls, waiting_places, zone_labels, zone_rings
from crowdlab.views.theme import LEFT, LIGHT, Painted, Theme

VIRIDIS: tuple[str, ...] = tuple(Viridis256)
RING = 0.12  # m between a person and the ring that marks who is inspected
ON_MAP = "return String(Number((origin + tick).toFixed(3)))"  # a label in the coordinates of the plan
LABELLED_GOALS = 8  # more goals than this share names


class Plaza(Painted):
    """Agents, walls, exits and targets, seen from above, in metres.

    `figure` is the Bokeh figure, `agents` the source with one row per person present. Colour is speed.
    """

    def __init__(self, scenario: Scenario, *, theme: Theme = LIGHT, width: int = 640, height: int = 480) -> None:
        super().__init__(theme)
        self.scenario = scenario
        world = scenario.world
        lower = np.asarray(world.lower, float)
        upper = lower + np.asarray(world.size, float)
        scale = min(width / (upper[0] - lower[0]), height / (upper[1] - lower[1]))  # pixels per metre, the same for x and y
        frame = np.maximum(np.round(scale * (upper - lower)), 60).astype(int)
        self.figure = figure(
            frame_width=int(frame[0]),
            frame_height=int(frame[1]),
            x_range=Range1d(lower[0], upper[0]),
            y_range=Range1d(lower[1], upper[1]),
            x_axis_label="x [m]",
            y_axis_label="y [m]",
            title=" ",
            tools=[],
            min_border_left=LEFT,
        )
        label_on_map(self.figure, scenario.origin)
        self.figure.grid.visible = False
        wheel = WheelZoomTool()
        self.figure.add_tools(PanTool(), wheel, BoxZoomTool(match_aspect=True), ResetTool(), SaveTool())
        self.speed = LinearColorMapper(palette=VIRIDIS, low=0.0, high=top_speed(scenario.params))
        self._draw_world()
        self._draw_people()
        self._draw_colour_bar(int(frame[1]))
        self.paint_figure(self.figure)
        self.layout = self.figure
        self.show(scenario.state, 0.0)

    def _draw_world(self) -> None:
        shapes = geometry.polygons(self.scenario.area, self.scenario.origin)
        floor = self.figure.multi_polygons(
            xs=[[[ring[:, 0].tolist() for ring in rings] for rings in shapes]],
            ys=[[[ring[:, 1].tolist() for ring in rings] for rings in shapes]],
            line_color=None,
        )
        self.paint(floor.glyph, {"fill_color": "floor"})
        self._draw_zones()
        walls = fixed_walls(self.scenario)
        drawn = self.figure.segment(
            walls[:, 0, 0], walls[:, 0, 1], walls[:, 1, 0], walls[:, 1, 1], line_width=2.5, line_cap="round"
        )
        self.paint(drawn.glyph, {"line_color": "wall"})
        self.doors = ColumnDataSource(door_columns(self.scenario, int(self.scenario.state.closed)), name="doors")
        for kind, look in (("closed", {"line_width": 5.5}), ("open", {"line_width": 1.5, "line_dash": [3, 4]})):
            drawn = self.figure.segment("x0", "y0", "x1", "y1", source=self.doors, line_alpha=kind, **look)
            self.paint(drawn.glyph, {"line_color": "wall"})
        self._draw_goals()

    def _draw_zones(self) -> None:
        """A tint and a hatch under everything, with the name."""
        shapes = list(zone_rings(self.scenario).values())
        if shapes:
            drawn = self.figure.multi_polygons(
                xs=[[[ring[:, 0].tolist() for ring in rings]] for rings in shapes],
                ys=[[[ring[:, 1].tolist() for ring in rings]] for rings in shapes],
                fill_alpha=0.1,
                hatch_pattern="right_diagonal_line",
                hatch_alpha=0.3,
                hatch_scale=10,
                line_alpha=0.5,
                line_dash=[2, 3],
            )
            self.paint(drawn.glyph, {"fill_color": "zone", "hatch_color": "zone", "line_color": "zone"})
        for name, place in zone_labels(self.scenario):
            label = Label(x=place[0], y=place[1], text=name, text_font_size="12px", text_align="center", text_baseline="middle")
            self.figure.add_layout(label)
            self.paint(label, {"text_color": "zone"})

    def _draw_goals(self) -> None:
        _, edges, leaves = drawn_goals(self.scenario)
        point = np.all(edges[:, :, 0] == edges[:, :, 1], axis=(1, 2))
        for kind, role in ((leaves, "exit"), (~leaves, "target")):
            lines = edges[kind & ~point].reshape(-1, 2, 2)
            if len(lines):
                drawn = self.figure.segment(
                    lines[:, 0, 0], lines[:, 0, 1], lines[:, 1, 0], lines[:, 1, 1], line_width=5, line_alpha=0.75, line_dash=[6, 3]
                )
                self.paint(drawn.glyph, {"line_color": role})
            spots = edges[kind & point][:, 0, 0]
            if len(spots):
                drawn = self.figure.scatter(spots[:, 0], spots[:, 1], marker="x", size=7, line_width=1.5, line_alpha=0.7)
                self.paint(drawn.glyph, {"line_color": role})
        x, y = waiting_places(self.scenario).T
        if len(x):
            drawn = self.figure.circle(x, y, radius=PLACE, fill_color=None, line_alpha=0.6)
            self.paint(drawn.glyph, {"line_color": "target"})
        left, right = self.figure.x_range.start, self.figure.x_range.end
        for name, place, role in goal_labels(self.scenario):
            across = (place[0] - left) / (right - left)
            label = Label(
                x=place[0],
                y=place[1],
                text=name,
                text_font_size="12px",
                text_align="left" if across < 0.08 else "right" if across > 0.92 else "center",  # names stay inside the frame
                text_baseline="bottom",
                y_offset=5,
            )
            self.figure.add_layout(label)
            self.paint(label, {"text_color": role})

    def _draw_people(self) -> None:
        self.agents = ColumnDataSource(people_columns(self.scenario.state), name="agents")
        mapped = {"field": "speed", "transform": self.speed}
        drawn = self.figure.circle("x", "y", radius="r", source=self.agents, fill_color=mapped, line_width=0.8)
        self.paint(drawn.glyph, {"line_color": "ink"})
        heading = self.figure.segment("x", "y", "x1", "y1", source=self.agents, line_width=1.5)
        for part in (drawn, heading):  # a click changes no looks: copies of the glyph would keep the colours of the other theme
            part.selection_glyph = part.nonselection_glyph = part.glyph
        self.chosen = ColumnDataSource(ring_columns(self.scenario.state, None), name="chosen")
        ring = self.figure.circle("x", "y", radius="r", source=self.chosen, fill_color=None, line_width=3)
        self.paint(ring.glyph, {"line_color": "target"})
        self.paint(heading.glyph, {"line_color": "ink"})
        hover = HoverTool(
            renderers=[drawn],
            visible=False,
            tooltips=[("person", "@id{0}"), ("speed", "@speed{0.00} m/s"), ("radius", "@r{0.00} m")],
        )
        self.figure.add_tools(hover, TapTool(renderers=[drawn], visible=False))

    def _draw_colour_bar(self, height: int) -> None:
        bar = ColorBar(
            color_mapper=self.speed,
            title="speed [m/s]",
            title_text_font_style="normal",
            title_text_font_size="12px",
            title_standoff=8,
            title_text_align="center",
            label_standoff=6,
            width=14,
            height=max(80, min(height - 40, 260)),
            background_fill_color=None,
            border_line_color=None,
        )
        self.figure.add_layout(bar, "right")
        self.paint(
            bar,
            {
                "title_text_color": "text",
                "major_label_text_color": "text",
                "bar_line_color": "rule",
                "major_tick_line_color": "rule",
            },
        )

    def show(self, state: State, seconds: float) -> None:
        """Put one instant into the figure: people, title."""
        self.agents.data = people_columns(state)
        self.doors.data = door_columns(self.scenario, int(state.closed))
        self.figure.title.text = headline(self.scenario, state, seconds)


def label_on_map(plot: Any, origin: tuple[float, float]) -> None:
    """Labels of the axes in the coordinates of the plan. What is drawn stays less the origin: browsers draw in single precision."""
    for axis, off in zip((plot.xaxis, plot.yaxis), origin, strict=True):
        if off:
            axis.formatter = CustomJSTickFormatter(args={"origin": off}, code=ON_MAP)


def top_speed(params: Params) -> float:
    """End of the colour scale, m/s: a round number above the fastest desired speed."""
    fastest = float(np.max(np.asarray(params.people.desired_speed), initial=0.0)) * zones.fastest(params.zones)
    return max(1.0, math.ceil(fastest * 1.1 / 0.5) * 0.5)


def people_columns(state: State) -> dict[str, np.ndarray]:
    """One row per person present, ready for the source of a `Plaza`."""
    here = np.asarray(state.alive)
    position, velocity, heading = (np.asarray(a, np.float32)[:, here] for a in (state.position, state.velocity, state.heading))
    radius = np.asarray(state.radius, np.float32)[here]
    tip = position + radius * heading
    return {
        "x": position[0],
        "y": position[1],
        "r": radius,
        "x1": tip[0],
        "y1": tip[1],
        "speed": np.hypot(velocity[0], velocity[1]),
        "id": np.asarray(state.id, np.int32)[here],
    }


def ring_columns(state: State, agent: int | None) -> dict[str, np.ndarray]:
    """A ring round the person of this id, ready for the source `chosen` of a `Plaza`; none for nobody, or who is gone."""
    columns = people_columns(state)
    here = columns["id"] == (-1 if agent is None else agent)
    return {"x": columns["x"][here], "y": columns["y"][here], "r": columns["r"][here] + RING}


def ledger(people: Mapping[str, np.ndarray]) -> str:
    """How many are where, in words, from whereabouts of one instant, (N,) bool each; only those inside may be zero."""
    counts = {word: int(who.sum()) for word, who in people.items()}
    words = {WAITING: "waiting outside"}
    told = ", ".join(f"{n} {words.get(word, word)}" for word, n in counts.items() if n or word == INSIDE)
    return f"{sum(counts.values())} people: {told}"


def headline(scenario: Scenario, state: State, seconds: float) -> str:
    """Title with the time and the ledger."""
    people = whereabouts(np.asarray(state.alive), np.asarray(state.arrived) >= 0, np.asarray(state.entered))
    return f"{scenario.name}    t = {seconds:.1f} s    {ledger(people)}"


def goal_labels(scenario: Scenario) -> list[tuple[str, np.ndarray, str]]:
    """Name, place (2,) m and role of what is written beside the goals; points of one kind that are many share one name."""
    names, edges, leaves = drawn_goals(scenario)
    together: dict[tuple[str, str], list[np.ndarray]] = {}
    many = len(names) > LABELLED_GOALS
    for name, goal, leaving in zip(names, edges, leaves, strict=True):
        stem = name.rstrip("0123456789").rstrip("._- ") if many else name
        together.setdefault((stem or "goals", "exit" if leaving else "target"), []).append(goal.reshape(-1, 2))
    labels = []
    for (name, role), places in together.items():
        points = np.concatenate(places)
        labels.append((name, np.array([points[:, 0].mean(), points[:, 1].max()]), role))
    return labels
