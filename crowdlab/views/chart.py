"""Curves as a still picture, drawn without a browser: for notebooks that must read well where nothing runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from crowdlab.errors import CrowdlabError
from crowdlab.views.still import Still
from crowdlab.views.theme import EITHER, SLOTS, Theme

FINE = 2  # drawn so many times larger than shown ...
SMOOTH = 2  # ... and that many times larger again before it is shrunk, for smooth edges
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 34, 48  # pixels round the plot
STYLES = ((6.0, ()), (2.5, (9.0, 6.0)), (2.5, (2.5, 5.0)))  # pixels: width, then dash and gap; told apart without colour too

Curve = tuple[Any, Any]


def curves(lines: Mapping[str, Curve], *, x: str, y: str, theme: Theme = EITHER, width: int = 720, height: int = 300) -> Still:
    """Up to three curves with a legend: name -> (values along x, values along y). `x` and `y` name the axes, units included.

    The first is wide and solid, the others are dashed and lie on top, so that curves which coincide are both seen.

    Raises:
        CrowdlabError: no curve or more than three, or one whose two columns do not belong together.
    """
    data = {name: _column(name, line) for name, line in lines.items()}
    if not 1 <= len(data) <= len(STYLES):
        raise CrowdlabError(f"curves: {len(data)} curves: allowed are 1 to {len(STYLES)}. Draw the others apart.")
    whole = np.concatenate(list(data.values()), 1)
    scales = [_ticks(values, places) for values, places in zip(whole, (9, 5), strict=True)]
    size = FINE * SMOOTH
    plot = Image.new("RGBA", (width * size, height * size), theme.paper)
    pen = ImageDraw.Draw(plot)

    def pixels(columns: np.ndarray) -> np.ndarray:
        """Places (2, n) on the paper, drawn size."""
        (left, right), (low, high) = (scale[[0, -1]] for scale in scales)
        across = LEFT + (columns[0] - left) / (right - left) * (width - LEFT - RIGHT)
        down = height - BOTTOM - (columns[1] - low) / (high - low) * (height - TOP - BOTTOM)
        return np.stack((across, down)) * size

    for place in scales[1]:
        _line(pen, pixels(np.stack((scales[0][[0, -1]], np.full(2, place)))), theme.rule, size * (2.0 if place == 0 else 1.0))
    for columns, (thick, dash), slot in zip(data.values(), STYLES, SLOTS, strict=False):
        _line(pen, pixels(columns), getattr(theme, slot), thick * size, np.multiply(dash, size))
    paper = plot.resize((width * FINE, height * FINE), Image.Resampling.LANCZOS)
    _words(paper, list(data), scales, pixels, (x, y), theme)
    return Still.of(paper, shown=width)


def _column(name: str, line: Curve) -> np.ndarray:
    """One curve as (2, n) finite numbers."""
    parts = [np.asarray(part, float) for part in line]
    if len(parts) != 2 or parts[0].ndim != 1 or parts[0].shape != parts[1].shape or len(parts[0]) < 2:
        shapes = " and ".join(str(part.shape) for part in parts)
        raise CrowdlabError(
            f"curves: '{name}' has columns of shape {shapes}: allowed are two of one length, 2 at least. Give (x, y)."
        )
    if not np.isfinite(parts).all():
        raise CrowdlabError(f"curves: '{name}' has values that are not finite. Leave them out.")
    return np.stack(parts)


def _ticks(values: np.ndarray, most: int) -> np.ndarray:
    """Round places that enclose the values; a range that begins near zero begins at zero."""
    low, high = float(values.min()), float(values.max())
    low = 0.0 if 0 < low < 0.5 * high else low
    least = max(high - low, 1e-9 * max(abs(high), 1.0)) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return np.arange(first, max(last, first + 1) + 1) * step


def _line(pen: ImageDraw.ImageDraw, places: np.ndarray, colour: str, width: float, dash: Sequence[float] | np.ndarray = ()) -> None:
    """A line through places (2, n), whole or in dashes of equal length along it."""
    if not len(dash):
        pen.line([(a, b) for a, b in places.T.tolist()], fill=colour, width=round(width), joint="curve")
        return
    along = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(places)))))
    for start in np.arange(0.0, along[-1], sum(dash)):
        marks = np.concatenate(([start], along[(along > start) & (along < start + dash[0])], [min(start + dash[0], along[-1])]))
        piece = np.stack([np.interp(marks, along, side) for side in places])
        pen.line([(a, b) for a, b in piece.T.tolist()], fill=colour, width=round(width), joint="curve")


def _words(
    paper: Image.Image, names: list[str], scales: list[np.ndarray], pixels: Any, axes: tuple[str, str], theme: Theme
) -> None:
    """Numbers at the ticks, names of the axes, legend."""
    pen, font = ImageDraw.Draw(paper), ImageFont.load_default(13 * FINE)
    corner = [scale[0] for scale in scales]
    for axis, anchor, shift in ((0, "ma", (0, 7)), (1, "rm", (-8, 0))):
        digits = max(0, -math.floor(math.log10(scales[axis][1] - scales[axis][0]) + 1e-9))
        for place in scales[axis]:
            spot = np.array(corner)
            spot[axis] = place
            at = pixels(spot[:, None])[:, 0] / SMOOTH + np.multiply(shift, FINE)
            pen.text((at[0], at[1]), f"{place:.{digits}f}", fill=theme.text, font=font, anchor=anchor)
    middle = pixels(np.array([[scales[0][[0, -1]].mean()], [corner[1]]]))[0, 0] / SMOOTH
    pen.text((middle, paper.height - 4 * FINE), axes[0], fill=theme.text, font=font, anchor="md")
    pen.text((8 * FINE, 6 * FINE), axes[1], fill=theme.text, font=font)
    right = float(paper.width - RIGHT * FINE)
    for name, (thick, dash), slot in reversed(list(zip(names, STYLES, SLOTS, strict=False))):
        right -= font.getlength(name)
        pen.text((right, 6 * FINE), name, fill=theme.text, font=font)
        stroke = np.array([[right - 38 * FINE, right - 8 * FINE], [14 * FINE, 14 * FINE]])
        _line(pen, stroke, getattr(theme, slot), thick * FINE, np.multiply(dash, FINE))
        right -= 56 * FINE
