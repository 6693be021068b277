"""The panel and the loop without a page: sliders from Specs, orders from sliders, runs by steps."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from crowdlab.live import BokehLive, Loop
from crowdlab.scenario import Scenario, build
from crowdlab.session import Session
from crowdlab.views import Timeline
from crowdlab.widgets import FIRST, Panel, lab, label, written

HALL = {
    "title": "A hall with an exit",
    "seed": 5,
    "world": {"area": [[0, 0], [8, 0], [8, 4], [0, 4]]},
    "goals": {"exit": {"line": [[8.0, 1.2], [8.0, 2.8]]}},
    "groups": {"all": {"count": 6, "area": [[1, 0.5], [7, 0.5], [7, 3.5], [1, 3.5]], "goal": "exit"}},
    "forces": {"driving": {}, "repulsion": {}, "contact": {}, "wall_repulsion": {}},
    "motion": {"dt": 0.01},
}


@pytest.fixture(scope="module")
def hall() -> Scenario:
    return build(HALL, name="hall")


@pytest.fixture
def panel(hall: Scenario) -> Iterator[Panel]:
    made = Panel(Session(hall, chunk=5))
    yield made
    made.loop.pause()


def test_importing_crowdlab_loads_neither_bokeh_nor_widgets() -> None:
    late = ("bokeh", "ipywidgets", "anywidget", "PIL")
    code = f"import crowdlab, sys, json; print(json.dumps([m for m in {late} if m in sys.modules]))"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(fresh.stdout) == []
    asked = subprocess.run(
        [sys.executable, "-c", code.replace("print", "crowdlab.lab; print")], capture_output=True, text=True, check=True
    )
    assert "bokeh" in json.loads(asked.stdout)


def test_sliders_come_from_the_specs(panel: Panel) -> None:
    for path in FIRST:
        value, spec = panel.session.controls()[path]
        made = panel.sliders[path]
        assert made.value == pytest.approx(value, rel=1e-6)
        assert spec.doc in made.tooltip
        assert f"[{written(spec.unit)}]" in made.description
        low, high = (10**made.min, 10**made.max) if spec.log else (made.min, made.max)
        slack = spec.low * 0.05 if spec.log else made.step
        assert spec.low - 1e-9 <= low <= spec.low + slack
        assert 0.95 * spec.high - made.step <= high <= spec.high * (1 + 1e-9)
        place = np.log10(made.value) if spec.log else made.value
        steps = (place - made.min) / made.step
        assert steps == pytest.approx(round(steps), abs=1e-6), "a page would round it and send an order that nobody gave"
    assert set(panel.sliders) == set(panel.session.controls()), "every parameter has one"
    assert panel.sliders["people.desired_speed"].description == "desired speed v₀ [m/s]"
    assert panel.sliders["forces.repulsion.falloff"].description == "repulsion falloff B [m]"
    assert panel.sliders["forces.contact.friction"].description == "friction κ [kg/(m s)]"
    assert panel.sliders["forces.contact.compression"].description == "compression k [kg/s²]"
    assert panel.sliders["forces.wall_repulsion.falloff"].description == "wall repulsion falloff [m]"


def test_labels_are_words_with_units(panel: Panel) -> None:
    for path, (_, spec) in panel.session.controls().items():
        text = label(path, spec)
        assert "_" not in text
        assert "." not in text.split("[")[0]


def test_a_moved_slider_becomes_an_order(panel: Panel) -> None:
    panel.sliders["people.desired_speed"].value = 2.0
    panel.sliders["switches.repulsion"].value = False
    panel.advance(2)
    assert [(c.step, c.path, c.value[0]) for c in panel.session.log] == [
        (0, "people.desired_speed", 2.0),
        (0, "switches.repulsion", 0.0),
    ]


def test_the_number_is_what_was_typed(panel: Panel) -> None:
    dial = panel.dials["forces.repulsion.falloff"]
    dial.number.value = 0.3
    assert dial.number.value == 0.3
    steps = (np.log10(dial.slider.value) - dial.slider.min) / dial.slider.step
    assert steps == pytest.approx(round(steps), abs=1e-6), "the slider stands on a step beside it"
    dial.slider.value = 0.30456
    assert dial.number.value == 0.305
    dial.number.value = -1.0
    assert dial.number.value == 0.305, "what is refused is not shown"
    assert panel.status.value.startswith("refused: ")
    panel.advance()
    assert [order.value[0] for order in panel.session.log] == pytest.approx([0.3, 0.305])
    panel.dials["forces.repulsion.strength"].number.value = 2049.0
    assert panel.sliders["forces.repulsion.strength"].value == 2000.0
    panel.defaults.click()
    panel.advance()
    assert panel.dials["forces.repulsion.strength"].number.value == 2000.0
    assert panel.session.controls()["forces.repulsion.falloff"][0] == pytest.approx(0.08)


def test_one_order_is_one(panel: Panel) -> None:
    panel.sliders["people.desired_speed"].value = 2.0
    panel.advance()
    panel._tell("paused at 0.05 s.", False)
    assert panel.status.value == "paused at 0.05 s. 1 order so far."


def test_a_click_rings_the_person_and_unfolds_the_report(hall: Scenario) -> None:
    async def drive() -> None:
        panel = lab(hall)
        fold = panel.inspector.children[0]
        for agent in (0, 4):
            panel._picked([agent])
            await panel.loop.wait()
            assert fold.value
            position = np.asarray(panel.session.state.position)[:, agent]
            assert [panel.live._sources["chosen"][axis][0] for axis in "xy"] == pytest.approx(position.tolist())
            assert f"x {position[0]:.2f}, y {position[1]:.2f} m" in panel.report.value
        fold.value = False
        assert len(panel.live._sources["chosen"]["x"]) == 0

    asyncio.run(drive())


def test_defaults_bring_every_slider_back(panel: Panel) -> None:
    before = {path: made.value for path, made in panel.sliders.items()}
    panel.sliders["forces.repulsion.strength"].value = 100.0
    panel.defaults.click()
    assert {path: made.value for path, made in panel.sliders.items()} == before
    panel.advance()
    assert panel.session.controls()["forces.repulsion.strength"][0] == pytest.approx(before["forces.repulsion.strength"])


def test_loop_runs_by_steps_and_the_buttons_work(hall: Scenario) -> None:
    async def drive() -> None:
        panel = lab(hall)
        panel.loop.play(3)
        await panel.loop.wait()
        assert panel.session.step == 3 * panel.session.chunk
        panel.step.click()
        await panel.loop.wait()
        assert panel.session.step == 4 * panel.session.chunk
        panel.play.click()
        for _ in range(500):
            await asyncio.sleep(0.01)
            if panel.session.step > 5 * panel.session.chunk:
                break
        assert panel.play.description == "Pause"
        panel.play.click()
        await panel.loop.wait()
        assert panel.play.description == "Play"
        stood = panel.session.step
        await asyncio.sleep(0.1)
        assert panel.session.step == stood > 0
        panel.people.value = 8
        await panel.loop.wait()
        assert (panel.session.step, np.asarray(panel.session.state.id).size) == (0, 8)
        panel.seed.value = 11
        await panel.loop.wait()
        assert panel.session.seed == 11
        panel.loop.play(2)
        await panel.loop.wait()
        panel.reset.click()
        await panel.loop.wait()
        assert panel.session.step == 0
        panel.person.value = 3
        await panel.loop.wait()
        assert "repulsion force" in panel.report.value
        assert " N<" in panel.report.value

    asyncio.run(drive())


def test_too_many_people_are_refused_in_words(hall: Scenario) -> None:
    async def drive() -> None:
        panel = lab(hall)
        panel.people.value = 5000
        await panel.loop.wait()
        assert panel.status.value.startswith("refused: groups.all.area: holds about")
        assert panel.status.value.endswith("enlarge the area; paused at 0.00 s. 0 orders so far.")
        assert panel.people.value == 6, "the box shows how many there are"
        panel.advance(2)
        panel.plots.time.end = 50.0
        panel.people.value = 5000
        await panel.loop.wait()
        assert panel.plots.time.end == 50.0, "nothing began again"
        panel.loop.play(1)
        panel.step.click()
        await panel.loop.wait()
        assert "refused" not in panel.status.value

    asyncio.run(drive())


def test_a_second_lab_of_a_scenario_stops_the_first(hall: Scenario) -> None:
    async def drive() -> None:
        first = lab(hall)
        first.loop.play()
        await asyncio.sleep(0.05)
        second = lab(hall)
        await first.loop.wait()
        assert not first.loop.playing
        second.loop.play(1)
        await second.loop.wait()
        assert second.session.step == second.session.chunk

    asyncio.run(drive())


def test_an_error_stops_the_loop_and_is_shown(hall: Scenario) -> None:
    async def drive() -> None:
        panel = lab(hall)

        def broken() -> None:
            raise ValueError("the roof is missing")

        panel.loop.ask(broken)
        await panel.loop.wait()
        assert "the roof is missing" in panel.status.value
        panel.loop.play(1)
        await panel.loop.wait()
        assert panel.session.step == panel.session.chunk, "it can go on"

    asyncio.run(drive())


def test_nothing_is_sent_while_nobody_looks_and_back_pressure_holds() -> None:
    plots = Timeline(("people",))
    live = BokehLive((plots,), label="a plot")
    sent: list[dict[str, object]] = []
    live.send = lambda content, buffers=None: sent.append(content)
    assert not live.ready
    live.push({}, {"series": ({"t": [0.0], "people": [3.0]}, 100)})
    assert sent == []
    live._hear(None, {"t": "ready"}, [])
    assert sent[-1]["sources"] == [["series", 0, [["t", "f8"], ["people", "f8"]]]], "a page that opens later gets what it missed"
    live._hear(None, {"t": "shown", "k": 1}, [])
    for _ in range(6):
        assert live.ready
        live.push({}, {"series": ({"t": [0.0], "people": [3.0]}, 100)}, [(plots.time, "end", 20.0)])
    assert not live.ready, "six frames are on their way"
    live._hear(None, {"t": "shown", "k": 3}, [])
    assert live.ready
    assert repr(live) == "BokehLive('a plot')"


def test_panel_has_a_stable_text_and_a_still_picture(panel: Panel) -> None:
    data, _ = panel._repr_mimebundle_()
    assert data["text/plain"] == "Panel('hall')"
    assert data["image/png"].startswith("iVBOR")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_loop_needs_an_event_loop_only_to_play(hall: Scenario) -> None:
    loop = Loop(Session(hall), lambda always: None, name="alone")
    with pytest.raises(Exception, match=r"call session\.advance"):
        loop.play()
