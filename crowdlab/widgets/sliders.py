"""Sliders made from the parameters' own Specs, each with a box that shows and takes the exact number."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w

from crowdlab.trees import Spec

FIRST = {  # parameters that have their slider at once, with the letter of the papers; the others fold out
    "people.desired_speed": "v₀",
    "forces.driving.relaxation_time": "τ",
    "forces.repulsion.strength": "A",
    "forces.repulsion.falloff": "B",
    "forces.contact.compression": "k",
    "forces.contact.friction": "κ",
}
NAMES, LONG_NAMES = "172px", "226px"  # width of the sliders' labels, at once and folded

Move = Callable[[str, float], bool]  # False: refused


def label(path: str, spec: Spec) -> str:
    """`name letter [unit]` as a person says it; the force stands in front unless its letter says which."""
    *_, owner, name = path.split(".")
    alone = path in FIRST and owner != "repulsion"
    words = [*([owner] if path.startswith("forces.") and not alone else []), name, FIRST.get(path, "")]
    unit = "" if spec.unit in ("", "1") else f"[{written(spec.unit)}]"
    return " ".join(filter(None, [*words, unit])).replace("_", " ")


def written(unit: str) -> str:
    """A unit as it is printed: m/s² for m/s^2."""
    return re.sub(r"\^2(?!\.|\d)", "²", unit)


class Dial:
    """One parameter: a slider over the Spec's own range, or a tick box for a switch, and beside a slider the number itself.

    `whole` is what is shown. A slider stands on its steps; the number is what was typed, and what is ordered.
    """

    def __init__(self, path: str, value: float, spec: Spec, move: Move) -> None:
        self.path, self.spec, self.move = path, spec, move
        self._quiet = False  # True while one half follows the other
        tooltip = f"{spec.doc}. Default {spec.default:g} {spec.unit}: {spec.source}"
        if path.startswith("switches."):
            name = path.removeprefix("switches.").replace("_", " ")
            self.slider: Any = w.Checkbox(value=value != 0, description=f"{name} acts", tooltip=tooltip, indent=False)
            self.number: Any = None
            self.whole: Any = self.slider
        else:
            self.start = value if math.isfinite(value) else spec.high
            self.slider = _slider(self.start, spec, tooltip, NAMES if path in FIRST else LONG_NAMES)
            self.number = w.FloatText(value=_read(self.start), continuous_update=False, tooltip=tooltip)
            self.number.layout = w.Layout(width="76px", flex="0 0 auto")
            self.number.observe(self._typed, "value")
            self.name(off=not math.isfinite(value))
            self.whole = w.HBox([self.slider, self.number], layout=w.Layout(width="98%"))
        self.slider.observe(self._slid, "value")

    def name(self, *, off: bool) -> None:
        """Write the label, which says so if the parameter is infinite: a limit that is not there."""
        self.slider.description = label(self.path, self.spec) + (" (off)" if off else "")

    def set(self, value: float, *, present: float) -> None:
        """Bring everything to `value` and order it if the run has another `present` one."""
        if self.number is None:
            self.slider.value = value != 0
        elif not math.isclose(value, present, rel_tol=1e-6):
            self._follow(value, self.move(self.path, value))

    def _slid(self, change: dict[str, Any]) -> None:
        # A page that opens sends 0.49999999 back for the 0.5 it was given: no order of anybody.
        if self._quiet or math.isclose(change["new"], change["old"], rel_tol=1e-6):
            return
        value = float(change["new"])
        if self.number is not None:
            value = self.start if math.isclose(value, self.start, rel_tol=1e-6) else _read(value)
        taken = self.move(self.path, value)
        if self.number is not None:
            self._follow(value, taken)

    def _typed(self, change: dict[str, Any]) -> None:
        if not self._quiet:
            value = float(change["new"])
            taken = self.move(self.path, value)
            self._follow(value if taken else float(change["old"]), taken)

    def _follow(self, value: float, taken: bool) -> None:
        """Show a value in both halves without ordering anything."""
        self._quiet = True
        try:
            self.slider.value = self._step(value)
            self.number.value = _read(value) if value == self.start else value
        finally:
            self._quiet = False
        if taken:
            self.name(off=False)

    def _step(self, value: float) -> float:
        """The place of the slider next to a value: between two, a page would round it and send it back, an order of nobody."""
        made = self.slider
        if not isinstance(made, w.FloatLogSlider):
            place = made.min + made.step * round((value - made.min) / made.step)
            return float(min(max(place, made.min), made.max))
        power = made.min + made.step * round((math.log10(max(value, 1e-300)) - made.min) / made.step)
        return float(10 ** min(max(power, made.min), made.max))


def _slider(value: float, spec: Spec, tooltip: str, names: str) -> Any:
    """Over the Spec's range, logarithmic where the Spec says so."""
    look = {"tooltip": tooltip, "readout": False, "layout": w.Layout(flex="1 1 auto", width="auto", min_width="0")}
    style = {"description_width": names}
    if spec.log and spec.low > 0:
        low, high = _ends(math.log10(value), math.log10(spec.low), math.log10(spec.high), 0.02)
        return w.FloatLogSlider(value=value, min=low, max=high, step=0.02, style=style, **look)
    step = 10.0 ** math.floor(math.log10((spec.high - spec.low) / 50))  # a round step, some hundred of them
    low, high = _ends(value, spec.low, spec.high, step)
    return w.FloatSlider(value=value, min=low, max=high, step=step, style=style, **look)


def _read(value: float) -> float:
    """A slid value as one reads it: three digits."""
    return float(f"{value:.3g}")


def folding(title: str, content: Sequence[Any], *, unfolded: bool = False) -> Any:
    """A box that opens and closes by a button, by keyboard too."""
    box = w.VBox(list(content))
    button = w.ToggleButton(value=unfolded, description=title, layout=w.Layout(width="98%", margin="6px 0 2px 0"))

    def turn(_change: Any = None) -> None:
        box.layout.display = "flex" if button.value else "none"
        button.icon = "caret-down" if button.value else "caret-right"

    button.observe(turn, "value")
    turn()
    return w.VBox([button, box])


def _ends(value: float, low: float, high: float, step: float) -> tuple[float, float]:
    """Ends of the range, moved inwards by less than a step so that the value lies on a step.

    A page rounds a value between two steps and sends it back: an order that nobody gave.
    """
    below, above = (max(0, math.floor(abs(value - end) / step + 1e-9)) for end in (low, high))
    return (value - below * step if value > low else value), (value + above * step if value < high else value)
