"""The lab's panel: buttons, sliders, picture and time series. The only room with ipywidgets; no physics and no state of its own.

Callbacks may come on any thread. They only leave notes: `session.set` for parameters, `loop.ask` for everything else.
"""

import base64
import html
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w
import numpy as np

from crowdlab.errors import CrowdlabError
from crowdlab.live import BokehLive, Loop
from crowdlab.params import Spec
from crowdlab.scenario import Scenario, load
from crowdlab.session import Session
from crowdlab.views import Plaza, Timeline, picture
from crowdlab.views.plaza import headline, people_columns, top_speed

FIRST = {  # parameters that have their slider at once, with the letter of the papers; the others fold out
    "people.desired_speed": "v₀",
    "forces.driving.relaxation_time": "τ",
    "forces.repulsion.strength": "A",
    "forces.repulsion.falloff": "B",
    "forces.contact.compression": "k",
    "forces.contact.friction": "κ",
}
SPEEDS = {"0.1 ×": 0.1, "0.25 ×": 0.25, "0.5 ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "3 ×": 3.0}
KEPT = 6000  # points of the time series that a page keeps
MOST_PEOPLE = 5000
NAMES = "172px"  # width of the sliders' labels

Move = Callable[[str, float], None]


def label(path: str, spec: Spec) -> str:
    """`name letter [unit]` as a person says it; the force stands in front where no switch above the slider says it."""
    *_, owner, name = path.split(".")
    words = [*([owner] if path in FIRST and owner == "repulsion" else []), name, FIRST.get(path, "")]
    unit = "" if spec.unit in ("", "1") else f"[{written(spec.unit)}]"
    return " ".join(filter(None, [*words, unit])).replace("_", " ")


def written(unit: str) -> str:
    """A unit as it is printed: m/s² for m/s^2."""
    return re.sub(r"\^2(?!\.|\d)", "²", unit)


def slider(path: str, value: float, spec: Spec, move: Move) -> Any:
    """Slider over the Spec's own range, or a tick box for a switch; the tooltip says what it is and whence its default."""
    tooltip = f"{spec.doc}. Default {spec.default:g} {spec.unit}: {spec.source}"
    if path.startswith("switches."):
        name = path.removeprefix("switches.").replace("_", " ")
        made: Any = w.Checkbox(value=value != 0, description=f"{name} acts", tooltip=tooltip, indent=False)
    else:
        name = label(path, spec) if math.isfinite(value) else f"{label(path, spec)} (off)"
        value = value if math.isfinite(value) else spec.high
        look = {"description": name, "tooltip": tooltip, "layout": w.Layout(width="98%")}
        style = {"description_width": NAMES}
        if spec.log and spec.low > 0:
            low, high = _ends(math.log10(value), math.log10(spec.low), math.log10(spec.high), 0.02)
            made = w.FloatLogSlider(value=value, min=low, max=high, step=0.02, readout_format=".3r", style=style, **look)
        else:
            step = 10.0 ** math.floor(math.log10((spec.high - spec.low) / 50))  # a round step, some hundred of them
            low, high = _ends(value, spec.low, spec.high, step)
            made = w.FloatSlider(value=value, min=low, max=high, step=step, readout_format=".3r", style=style, **look)

    def moved(change: dict[str, Any]) -> None:
        # A page that opens sends 0.49999999 back for the 0.5 it was given: no order of anybody.
        if not math.isclose(change["new"], change["old"], rel_tol=1e-6):
            if not path.startswith("switches."):
                made.description = label(path, spec)
            move(path, float(change["new"]))

    made.observe(moved, "value")
    return made


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


class Panel(w.VBox):  # type: ignore[misc]
    """Play, pause, step, reset, sliders, plaza and timeline of one session: what a notebook shows.

    `session` is the run and `loop` plays it. `advance` runs some chunks at once, for notebooks that are tests.
    """

    def __init__(self, session: Session, *, every_parameter: bool = False) -> None:
        self.session = session
        scenario = session.scenario
        self.plaza = Plaza(scenario, width=490, height=380)
        self.plots = Timeline(session.observe, width=490, height=72)
        self.live = BokehLive((self.plaza, self.plots), label=f"{scenario.title}: people and time series", picked=self._picked)
        self.loop = Loop(session, self._draw, name=scenario.name, tell=self._tell)
        self._drawn: int | None = 0  # points of the series that the page already has; None when it must get all of them
        self._quiet = False  # True while the panel itself writes into its boxes
        self._build_buttons()
        present = session.controls()
        self.sliders = {path: slider(path, *present[path], self._move) for path in [*FIRST, *present] if path in present}
        scene = w.HBox([self.live, self._column(every_parameter)], layout=WRAPPED)
        super().__init__([self._buttons, self.status, scene])

    def _build_buttons(self) -> None:
        small, box = w.Layout(width="84px"), w.Layout(width="132px")
        self.play = w.Button(description="Play", icon="play", tooltip="run on, or pause at the next frame", layout=small)
        self.step = w.Button(description="Step", icon="step-forward", tooltip="compute one frame", layout=small)
        self.reset = w.Button(description="Reset", icon="undo", tooltip="back to 0 s with the present parameters", layout=small)
        self.defaults = w.Button(description="Defaults", tooltip="every slider back to the scenario's own value", layout=small)
        self.speed = w.Dropdown(options=SPEEDS, value=1.0, description="speed", layout=box, tooltip="simulated seconds per second")
        self.seed = w.IntText(value=self.session.seed, description="seed", layout=box, continuous_update=False)
        self.people = w.BoundedIntText(
            value=self._count(), min=1, max=MOST_PEOPLE, description="people", layout=box, continuous_update=False
        )
        for widget in (self.speed, self.seed, self.people):
            widget.style.description_width = "52px"
        self.status = w.Label("ready: press Play")
        self.play.on_click(lambda _: self.loop.pause() if self.loop.playing else self.loop.play())
        self.step.on_click(lambda _: self._step())
        self.reset.on_click(lambda _: self._restart(self.session.reset))
        self.defaults.on_click(lambda _: self._default())
        self.speed.observe(lambda change: setattr(self.loop.pace, "speed", change["new"]), "value")
        self.seed.observe(lambda change: self._again(lambda: self.session.reset(seed=change["new"])), "value")
        self.people.observe(lambda change: self._again(lambda: self.session.people(change["new"])), "value")
        row = [self.play, self.step, self.reset, self.speed, self.people, self.seed, self.defaults]
        self._buttons = w.HBox(row, layout=w.Layout(flex_flow="row wrap"))

    def _column(self, every_parameter: bool) -> Any:
        """Sliders of the parameters that matter most, then everything else folded, then the person inspected."""
        self.person = w.BoundedIntText(value=0, min=0, max=MOST_PEOPLE, description="person", continuous_update=False)
        self.person.observe(lambda change: None if self._quiet else self._inspect(change["new"]), "value")
        self.report = w.HTML("Pause, then click a person or type a number.")
        rest = self._grouped([path for path in self.sliders if path not in FIRST])
        self.others = folding("All parameters", rest, unfolded=every_parameter)
        self.inspector = folding("Inspect a person", [self.person, self.report])
        first = [self.sliders[path] for path in FIRST if path in self.sliders]
        return w.VBox([*first, self.others, self.inspector], layout=w.Layout(flex="1 1 360px", min_width="340px"))

    def _grouped(self, paths: Sequence[str]) -> list[Any]:
        """The sliders of each force under its switch, then those of the motion."""

        def place(path: str) -> tuple[bool, str, bool, str]:
            room, name, *_ = path.split(".")
            return room == "motion", name if room != "motion" else "", room == "forces", path

        return [self.sliders[path] for path in sorted(paths, key=place)]

    # What the buttons and sliders do: leave notes -----------------------------------------------------------------------------

    def _move(self, path: str, value: float) -> None:
        try:
            self.session.set(path, value)
        except CrowdlabError as error:
            self.status.value = str(error)

    def _step(self) -> None:
        self.loop.pause()
        self.loop.ask(lambda: self._advance(1))

    def _restart(self, job: Callable[[], None]) -> None:
        self.loop.pause()
        self._again(job)

    def _again(self, job: Callable[[], None]) -> None:
        """A job after which the run stands at 0 s."""

        def whole() -> None:
            try:
                job()
            finally:
                self._drawn = None

        if not self._quiet:
            self.loop.ask(whole)

    def _default(self) -> None:
        for path, (value, _) in self.session.controls(of=self.session.scenario.params).items():
            if math.isfinite(value):
                self.sliders[path].value = value
            elif math.isfinite(self.session.controls()[path][0]):
                self._move(path, value)
                self.sliders[path].description += " (off)"

    def _picked(self, ids: list[int]) -> None:
        if ids:
            self.person.value = ids[0]

    def _inspect(self, agent: int) -> None:
        self.loop.ask(lambda: self._report(agent))

    # What the run shows -------------------------------------------------------------------------------------------------------

    def _count(self) -> int:
        return int(np.asarray(self.session.state.id).size)

    def advance(self, chunks: int = 1) -> None:
        """Run so many chunks now and show the last one."""
        self._advance(chunks)
        self._draw(True)

    def _advance(self, chunks: int) -> None:
        for _ in range(chunks):
            self.session.advance()

    def _draw(self, always: bool = False) -> None:
        """Send the newest instant to the page, unless the page is still busy with older ones."""
        if not (always or self.live.ready):
            return
        state, series, seconds = self.session.snapshot()
        known = self._drawn
        sources = {"agents": people_columns(state)}
        properties = [
            (self.plaza.figure.title, "text", headline(self.session.scenario, state, seconds)),
            *self.plots.limits(series),
        ]
        if known is None or len(series["t"]) < known:
            sources["series"] = series
            properties += self.plots.restart()
        top = top_speed(self.session.params)
        if top > self.plaza.speed.high:
            self.plaza.speed.high = top
            properties.append((self.plaza.speed, "high", top))
        new = {} if "series" in sources else {"series": ({name: values[known:] for name, values in series.items()}, KEPT)}
        self.live.push(sources, new, properties)
        self._drawn = len(series["t"])

    def _tell(self, text: str, playing: bool) -> None:
        """The loop says how things stand."""
        self.status.value = f"{text}. {len(self.session.log)} orders so far."
        self.play.description, self.play.icon = ("Pause", "pause") if playing else ("Play", "play")
        self._quiet = True
        try:
            self.people.value, self.seed.value = self._count(), self.session.seed
        finally:
            self._quiet = False

    def _report(self, agent: int) -> None:
        """Write down everything about one person."""
        try:
            facts = self.session.inspect(agent)
        except CrowdlabError as error:
            self.report.value = html.escape(str(error))
            return
        rows = [
            ("group", facts["group"]),
            ("goal", facts["goal"] or "none"),
            ("place", "{:.2f}, {:.2f} m".format(*facts["position"])),
            ("speed", f"{facts['speed']:.2f} of {facts['desired_speed']:.2f} m/s"),
            *((f"{name.replace('_', ' ')} force", "{:.1f}, {:.1f} N".format(*force)) for name, force in facts["forces"].items()),
        ]
        cells = "".join(f"<tr><td>{html.escape(n)}</td><td style='padding-left:1em'>{html.escape(v)}</td></tr>" for n, v in rows)
        self.report.value = f"<table style='line-height:1.5'>{cells}</table>"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session.scenario.name!r})"  # the same in every run, for notebooks that are tests

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The widget, and a still picture for pages that cannot run it."""
        bundle = super()._repr_mimebundle_()
        data, facts = bundle if isinstance(bundle, tuple) else (bundle, {})
        state, _, seconds = self.session.snapshot()
        still = picture(self.session.scenario, state, seconds=seconds)
        return {**data, "text/plain": repr(self), "image/png": base64.b64encode(still).decode()}, facts


WRAPPED = w.Layout(flex_flow="row wrap", align_items="flex-start")


def lab(scenario: Scenario | str, seed: int | None = None, *, every_parameter: bool = False) -> Panel:
    """Open the lab for a scenario, a file or the name of a shipped one: as the last line of a cell it shows itself.

    Raises:
        ScenarioError: there is no such scenario, or it contradicts itself.
    """
    return Panel(Session(scenario if isinstance(scenario, Scenario) else load(scenario), seed), every_parameter=every_parameter)
