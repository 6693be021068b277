"""A still picture of one instant as PNG, drawn without a browser: for pages that cannot run anything."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageFont

from crowdlab import geometry
from crowdlab.scenario import Scenario
from crowdlab.state import State
from crowdlab.views.marks import PLACE, door_columns, drawn_goals, fixed_walls, waiting_places, zone_rings
from crowdlab.views.plaza import VIRIDIS, headline, people_columns, top_speed
from crowdlab.views.still import Still
from crowdlab.views.theme import LIGHT, Theme

Pixels = Callable[[np.ndarray], list[tuple[float, float]]]

CROSS = np.array([0.12, 0.12])  # m, half a cross
FEW = 4  # goals; where there are more, those that nobody leaves by have thin outlines
FINE = 3  # drawn so many times larger and shrunk, for smooth edges
HATCH = 9  # pixels between the lines on a zone
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
    _zones(scene, scenario, pixels, theme)
    for wall in fixed_walls(scenario):
        pen.line(pixels(wall), fill=theme.wall, width=3 * FINE)
    doors = door_columns(scenario, int(state.closed))
    for row, closed in enumerate(doors["closed"]):
        ends = np.array([[doors[axis + end][row] for axis in "xy"] for end in "01"], float)
        _door(pen, pixels(ends), theme, closed=bool(closed))
    names, goals, leaves = drawn_goals(scenario)
    for goal, leaving in zip(goals, leaves, strict=True):
        colour, true = theme.exit if leaving else theme.target, goal[(goal[:, 0] != goal[:, 1]).any(1)]
        for start, end in true if len(true) else goal[:1]:  # without those that pad
            if (start == end).all():  # a point is marked by a cross
                for slope in (CROSS, CROSS * (1, -1)):
                    pen.line(pixels(np.stack((start - slope, start + slope))), fill=colour, width=2 * FINE)
            else:
                thick = 5 if leaving or len(names) <= FEW else 2
                pen.line(pixels(np.stack((start, end))), fill=colour, width=thick * FINE)
    for x, y in pixels(waiting_places(scenario)):
        ring = PLACE * scale
        pen.ellipse((x - ring, y - ring, x + ring, y + ring), outline=theme.target, width=FINE)
    _people(pen, state, pixels, scale, top_speed(scenario.params), theme)

    whole = Image.new(mode, (width, height + HEAD + FOOT), theme.paper)
    whole.paste(scene.resize((width, height), Image.Resampling.LANCZOS), (0, HEAD))
    font = ImageFont.load_default(15)
    words = ImageDraw.Draw(whole)
    words.text((12, 9), headline(scenario, state, seconds), fill=theme.text, font=font)
    _colour_bar(words, height + HEAD + 14, width, top_speed(scenario.params), theme, font)
    return Still.of(whole)


def _zones(scene: Image.Image, scenario: Scenario, pixels: Pixels, theme: Theme) -> None:
    """A tint and a hatch where a zone lies on the floor."""

    def mask(rings: Iterable[np.ndarray]) -> Image.Image:
        whole = Image.new("1", scene.size)
        for ring in rings:
            part = Image.new("1", scene.size)
            ImageDraw.Draw(part).polygon(pixels(ring), fill=1)
            whole = ImageChops.logical_xor(whole, part)
        return whole

    zones = zone_rings(scenario)
    if not zones:
        return
    floor = mask(ring for rings in geometry.polygons(scenario.area, scenario.origin) for ring in rings)
    lines = Image.new("1", scene.size)
    pen, (wide, high) = ImageDraw.Draw(lines), scene.size
    for start in range(0, wide + high, HATCH * FINE):
        pen.line(((start, 0), (start - high, high)), fill=1, width=FINE)
    for rings in zones.values():
        here = ImageChops.logical_and(floor, mask(rings))
        scene.paste(_mixed(theme.floor, theme.zone, 0.1), mask=here)
        scene.paste(_mixed(theme.floor, theme.zone, 0.4), mask=ImageChops.logical_and(here, lines))


def _mixed(one: str, other: str, share: float) -> tuple[int, ...]:
    """The first colour with a share of the second."""
    return tuple(round(a + share * (b - a)) for a, b in zip(ImageColor.getrgb(one), ImageColor.getrgb(other), strict=True))


def _door(pen: ImageDraw.ImageDraw, ends: list[tuple[float, float]], theme: Theme, *, closed: bool) -> None:
    """A strong line where it is closed, else thin dashes."""
    if closed:
        pen.line(ends, fill=theme.wall, width=6 * FINE)
        return
    start, end = np.asarray(ends)
    many = max(1, int(np.hypot(*(end - start)) / (7 * FINE)))
    for dash in range(0, many, 2):
        part = [tuple((start + (end - start) * min(at, many) / many).tolist()) for at in (dash, dash + 1)]
        pen.line(part, fill=theme.wall, width=2 * FINE)


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
