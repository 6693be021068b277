"""The lab's panel: buttons, sliders, picture and time series. The only room with ipywidgets; no physics and no state of its own.

Callbacks may come on any thread. They only leave notes: `session.set` for parameters, `loop.ask` for everything else.
"""

import base64
import html
import math
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w
import numpy as np

from crowdlab.errors import CrowdlabError
from crowdlab.live import BokehLive, Loop
from crowdlab.scenario import Scenario, load
from crowdlab.session import Session
from crowdlab.state import State
from crowdlab.views import Plaza, Timeline, picture
from crowdlab.views.marks import door_columns
from crowdlab.views.plaza import headline, people_columns, ring_columns, top_speed
from crowdlab.widgets.sliders import FIRST, Dial, folding

SPEEDS = {"0.1 ×": 0.1, "0.25 ×": 0.25, "0.5 ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "3 ×": 3.0}
KEPT = 6000  # points of the time series that a page keeps
MOST_PEOPLE = 5000


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
        self._chosen: int | None = None  # the person inspected
        self._refused = ""  # why the last thing asked for was not done
        self._build_buttons()
        present = session.controls()
        self.dials = {path: Dial(path, *present[path], self._move) for path in [*FIRST, *present] if path in present}
        self.sliders = {path: dial.slider for path, dial in self.dials.items()}
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
        self.play.on_click(lambda _: self._turn())
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
        self.inspector.children[0].observe(lambda _: self._draw_ring(), "value")
        first = [self.dials[path].whole for path in FIRST if path in self.dials]
        return w.VBox([*first, self.others, self.inspector], layout=w.Layout(flex="1 1 360px", min_width="340px"))

    def _grouped(self, paths: Sequence[str]) -> list[Any]:
        """The sliders of each force under its switch, then those of the motion."""

        def place(path: str) -> tuple[bool, str, bool, str]:
            room, name, *_ = path.split(".")
            return room == "motion", name if room != "motion" else "", room == "forces", path

        return [self.dials[path].whole for path in sorted(paths, key=place)]

    # What the buttons and sliders do: leave notes -----------------------------------------------------------------------------

    def _move(self, path: str, value: float) -> bool:
        """Order a value; False if it is refused."""
        self._refused = ""
        try:
            self.session.set(path, value)
        except CrowdlabError as error:
            self._refuse(error)
            return False
        return True

    def _refuse(self, error: CrowdlabError) -> None:
        """Say what was not done and why; it stays until the next thing is asked for."""
        self._refused = f"refused: {str(error).rstrip('.')}; "
        self.status.value = self._refused

    def _turn(self) -> None:
        self._refused = ""
        if self.loop.playing:
            self.loop.pause()
        else:
            self.loop.play()

    def _step(self) -> None:
        self._refused = ""
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
            except CrowdlabError as error:  # nothing has changed
                self._refuse(error)
                return
            self._drawn = None

        if not self._quiet:
            self._refused = ""
            self.loop.ask(whole)

    def _default(self) -> None:
        present = self.session.controls()
        for path, (value, _) in self.session.controls(of=self.session.scenario.params).items():
            if math.isfinite(value):
                self.dials[path].set(value, present=present[path][0])
            elif math.isfinite(present[path][0]) and self._move(path, value):
                self.dials[path].name(off=True)

    def _picked(self, ids: list[int]) -> None:
        if not ids:
            return
        self.inspector.children[0].value = True  # unfold
        if self.person.value == ids[0]:
            self._inspect(ids[0])
        else:
            self.person.value = ids[0]

    def _inspect(self, agent: int) -> None:
        self._chosen = agent
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
        sources = {"agents": people_columns(state), "chosen": self._ring(state)}
        if self.session.scenario.doors is not None:
            sources["doors"] = door_columns(self.session.scenario, int(state.closed))
        properties: list[tuple[Any, str, Any]] = [
            (self.plaza.figure.title, "text", headline(self.session.scenario, state, seconds))
        ]
        if known is None or len(series["t"]) < known:
            sources["series"] = series
            properties += self.plots.restart()
        properties += self.plots.limits(series)
        top = top_speed(self.session.params)
        if top > self.plaza.speed.high:
            self.plaza.speed.high = top
            properties.append((self.plaza.speed, "high", top))
        new = {} if "series" in sources else {"series": ({name: values[known:] for name, values in series.items()}, KEPT)}
        self.live.push(sources, new, properties)
        self._drawn = len(series["t"])

    def _ring(self, state: State) -> dict[str, np.ndarray]:
        """Round the person inspected, while that part of the panel is unfolded."""
        return ring_columns(state, self._chosen if self.inspector.children[0].value else None)

    def _draw_ring(self) -> None:
        self.live.push({"chosen": self._ring(self.session.snapshot()[0])})

    def _tell(self, text: str, playing: bool) -> None:
        """The loop says how things stand."""
        orders = len(self.session.log)
        said = f"{text.rstrip('.')}. {orders} {'order' if orders == 1 else 'orders'} so far."
        self.status.value = self._refused + said
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
            ("place", "x {:.2f}, y {:.2f} m".format(*facts["position"])),
            ("speed", f"{facts['speed']:.2f} of {facts['desired_speed']:.2f} m/s"),
            *(
                (f"{name.replace('_', ' ')} force", "x {:.1f}, y {:.1f} N".format(*force))
                for name, force in facts["forces"].items()
            ),
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
