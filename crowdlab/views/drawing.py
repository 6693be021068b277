"""A still picture of one instant as PNG, drawn without a browser: for pages that cannot run anything."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from crowdlab import geometry
from crowdlab.scenario import Scenario
from crowdlab.state import State
from crowdlab.views.plaza import VIRIDIS, headline, people_columns, top_speed
from crowdlab.views.still import Still
from crowdlab.views.theme import LIGHT, Theme

Pixels = Callable[[np.ndarray], list[tuple[float, float]]]

CROSS = np.array([0.12, 0.12])  # m, half a cross
FINE = 3  # drawn so many times larger and shrunk, for smooth edges
HEAD = 34  # pixels above the scene for the title
FOOT = 44  # pixels below it for the colour bar


def picture(
    scenario: Scenario, state: State | None = None, *, seconds: float = 0.0, width: int = 900, theme: Theme = LIGHT
) -> Still:
    """PNG of the scene at one instant (default: the start), with its title and a colour bar for the speed."""
    state = scenario.state if state is None else state
    lower = np.asarray(scenario.world.lower, float)
    span = np.asarray(scenario.world.size, float)
    scale = width * FINE / span[0]
    height = math.ceil(span[1] * scale / FINE)
    mode = "RGBA" if len(theme.paper) > len("#rrggbb") else "RGB"
    scene = Image.new(mode, (width * FINE, height * FINE), theme.paper)
    pen = ImageDraw.Draw(scene)

    def pixels(points: np.ndarray) -> list[tuple[float, float]]:
        x = (points[..., 0] - lower[0]) * scale
        y = height * FINE - (points[..., 1] - lower[1]) * scale
        return list(zip(np.ravel(x).tolist(), np.ravel(y).tolist(), strict=True))

    for rings in geometry.polygons(scenario.area, scenario.origin):
        for number, ring in enumerate(rings):
            pen.polygon(pixels(ring), fill=theme.paper if number else theme.floor)
    for wall in np.asarray(scenario.world.walls, float):
        pen.line(pixels(wall), fill=theme.wall, width=3 * FINE)
    leaves = np.asarray(scenario.world.goal_leaves)
    for goal, leaving in zip(np.asarray(scenario.world.goals, float), leaves, strict=True):
        for start, end in goal:
            colour = theme.exit if leaving else theme.target
            if (start == end).all():  # a point is marked by a cross
                for slope in (CROSS, CROSS * (1, -1)):
                    pen.line(pixels(np.stack((start - slope, start + slope))), fill=colour, width=2 * FINE)
            else:
                pen.line(pixels(np.stack((start, end))), fill=colour, width=5 * FINE)
    _people(pen, state, pixels, scale, top_speed(scenario.params), theme)

    whole = Image.new(mode, (width, height + HEAD + FOOT), theme.paper)
    whole.paste(scene.resize((width, height), Image.Resampling.LANCZOS), (0, HEAD))
    font = ImageFont.load_default(15)
    words = ImageDraw.Draw(whole)
    words.text((12, 9), headline(scenario, state, seconds), fill=theme.text, font=font)
    _colour_bar(words, height + HEAD + 14, width, top_speed(scenario.params), theme, font)
    return Still.of(whole)


def _people(pen: ImageDraw.ImageDraw, state: State, pixels: Pixels, scale: float, fastest: float, theme: Theme) -> None:
    """Everybody present, at true size, coloured by speed, with a line for the heading."""
    columns = people_columns(state)
    centre = pixels(np.stack((columns["x"], columns["y"]), -1).astype(float))
    tip = pixels(np.stack((columns["x1"], columns["y1"]), -1).astype(float))
    shade = np.clip(columns["speed"] / fastest * (len(VIRIDIS) - 1), 0, len(VIRIDIS) - 1).astype(int)
    for (x, y), end, radius, colour in zip(centre, tip, columns["r"] * scale, shade, strict=True):
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=VIRIDIS[colour], outline=theme.ink, width=2)
        pen.line(((x, y), end), fill=theme.ink, width=FINE)


def _colour_bar(pen: ImageDraw.ImageDraw, top: int, width: int, fastest: float, theme: Theme, font: Any) -> None:
    """A flat bar from 0 to the end of the colour scale, with its unit."""
    long, high, left = min(260, width // 3), 12, 12
    for step in range(long):
        pen.line(((left + step, top), (left + step, top + high)), fill=VIRIDIS[step * len(VIRIDIS) // long])
    pen.text((left + long + 10, top - 3), f"speed 0 to {fastest:g} m/s", fill=theme.text, font=font)
