"""The lab in a real JupyterLab and the replay page from disk, in a real browser: what only runs there is proved there."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import nbformat
import numpy as np
import pytest

from crowdlab.scenario import load
from crowdlab.simulation import simulate
from crowdlab.views import replay_html

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

CELLS = (
    "import crowdlab\nlab = crowdlab.lab('two_rooms')\nlab",
    """import json
from crowdlab.simulation import rollout
log = [(order.step, order.kind.name, order.path, order.value[0]) for order in lab.session.log]
print(json.dumps([log, lab.session.step, rollout._cache_size()]))""",
)
PEOPLE = """() => {  // places of the people in the figure shown last
  const sources = Bokeh.documents.map((doc) => doc.get_model_by_name("agents")).filter((source) => source);
  return sources.length ? [...sources.at(-1).data.x] : null;
}"""
PLACES = """() => {  // x and y of the people in the figure shown last
  const sources = Bokeh.documents.map((doc) => doc.get_model_by_name("agents")).filter((source) => source);
  return sources.length ? [[...sources.at(-1).data.x], [...sources.at(-1).data.y]] : null;
}"""
RAN = """() => {  // every cell has run, or one has failed and the rest never will
  const cells = window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => cell.model).filter((model) => model.type === "code");
  const failed = cells.flatMap((model) => model.outputs.toJSON()).filter((output) => output.output_type === "error");
  if (!failed.length && cells.some((model) => model.executionCount === null)) return null;
  return {failed: failed.map((output) => output.evalue)};
}"""
HEADLINE = """() => {
  for (const doc of Bokeh.documents)
    for (const model of doc._all_models.values()) if (model.type === "Title" && model.text.includes("t =")) return model.text;
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[tuple[str, Path]]:
    """A JupyterLab of our own on the loopback, with its own settings; its address and its folder."""
    home = tmp_path_factory.mktemp("jupyter")
    notebooks = home / "notebooks"
    notebooks.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    places = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--port={port}", "--no-browser", "--allow-root"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={notebooks}", "--LabApp.news_url=", "--expose-app-in-browser"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | places | {"IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/status", timeout=1):
                break
            assert process.poll() is None, (home / "log").read_text()
            time.sleep(0.2)
        yield address, notebooks
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the group that began with our own server: its kernels end with it
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


class Notebook:
    """One open notebook, driven like a user would."""

    def __init__(self, page: "Page", address: str, folder: Path, name: str, cells: list[Any]) -> None:
        book = nbformat.v4.new_notebook(cells=cells)
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, folder / name)
        self.page, self.outside, self.errors = page, [], []
        page.route("**/*", self._inside_only)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{address}/lab/tree/{name}?reset", wait_until="domcontentloaded")
        page.wait_for_function("() => window.jupyterapp?.shell && document.querySelector('.jp-Notebook .jp-Cell')", timeout=90_000)
        self._idle()

    def _inside_only(self, route: Any) -> None:
        if route.request.url.startswith(("http://127.0.0.1", "data:", "blob:")):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _idle(self) -> None:
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=90_000
        )

    def run(self, cell: int) -> str:
        """Run one cell and give its text output."""
        before = self.page.evaluate(f"() => window.jupyterapp.shell.currentWidget.content.widgets[{cell}].model.executionCount")
        self.page.evaluate(
            f"() => {{ const book = window.jupyterapp.shell.currentWidget.content; book.activeCellIndex = {cell}; }}"
        )
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); }")
        self.page.wait_for_function(
            f"(before) => {{ const c = window.jupyterapp.shell.currentWidget.content.widgets[{cell}].model; "
            "return c.executionCount !== null && c.executionCount !== before; }",
            arg=before,
            timeout=120_000,
        )
        self._idle()
        outputs = self.page.evaluate(f"() => window.jupyterapp.shell.currentWidget.content.widgets[{cell}].model.outputs.toJSON()")
        broken = [output["evalue"] for output in outputs if output["output_type"] == "error"]
        assert not broken, broken
        texts = [output["text"] for output in outputs if output["output_type"] == "stream"]
        return "".join("".join(text) for text in texts)

    def run_all(self) -> None:
        """Run every cell."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        assert self.page.wait_for_function(RAN, timeout=240_000, polling=250).json_value()["failed"] == []
        self._idle()

    def scroll_to(self, cell: int) -> None:
        """Bring a cell into view: those far from it are taken out of the page."""
        self.page.evaluate(
            f"async () => {{ const book = window.jupyterapp.shell.currentWidget.content; book.activeCellIndex = {cell}; "
            f"await book.scrollToItem({cell}, 'start'); }}"
        )

    def close(self) -> None:
        self.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown(); }")


def changes(page: "Page", script: str, seconds: float = 20.0) -> tuple[Any, Any]:
    """What the page says at first and when it says something else; fails when it never does."""
    first = page.evaluate(script)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = page.evaluate(script)
        if now != first:
            return first, now
        time.sleep(0.05)
    raise AssertionError(f"nothing changed in {seconds} s: {first}")


def test_lab_plays_and_a_slider_moves_it_without_compiling(page: "Page", server: tuple[str, Path], tmp_path: Path) -> None:
    """People move in the page, a key on a slider becomes an order, and nothing is compiled for it."""
    page.set_viewport_size({"width": 1500, "height": 1000})
    book = Notebook(page, *server, "lab.ipynb", [nbformat.v4.new_code_cell(cell) for cell in CELLS])
    book.run(0)
    page.wait_for_function("() => window.Bokeh?.documents.length > 0", timeout=60_000)
    page.get_by_role("button", name="Play").click()
    changes(page, PEOPLE, 60.0)
    orders, step, compiled = json.loads(book.run(1))
    assert orders == []
    handle = page.locator(".widget-slider", has_text="desired speed").locator(".noUi-handle")
    handle.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    changes(page, PEOPLE)
    time.sleep(1.0)
    page.evaluate("() => document.querySelector('.jp-Cell').scrollIntoView()")
    page.screenshot(path=tmp_path / "lab.png")
    orders, later, now = json.loads(book.run(1))
    assert later > step
    assert orders, "the slider's orders are in the log"
    assert {(kind, path) for _, kind, path, _ in orders} == {("SET", "people.desired_speed")}
    assert all(order[0] >= step for order in orders)
    assert now == compiled, "a moved slider compiles nothing"
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.widget-label')].some((l) => l.textContent.includes('paused at 0.00 s'))"
    )
    assert book.outside == []
    assert book.errors == []
    book.close()


def test_first_notebook_runs_and_its_figure_lives(page: "Page", server: tuple[str, Path], root: Path) -> None:
    """All cells run in the real JupyterLab, the figure holds everybody, and after Play they move."""
    page.set_viewport_size({"width": 1500, "height": 1000})
    shutil.copytree(root / "notebooks" / "images", server[1] / "images")
    cells = nbformat.read(root / "notebooks" / "01_a_first_crowd.ipynb", as_version=4).cells
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    book = Notebook(page, *server, "first.ipynb", cells)
    book.run_all()
    live = next(number for number, cell in enumerate(cells) if cell.cell_type == "code" and "crowdlab.lab(" in cell.source)
    book.scroll_to(live)
    page.wait_for_function(f"() => window.Bokeh?.documents.length && ({PLACES})()?.[0].length", timeout=60_000)
    page.get_by_role("button", name="Play").click()
    before, after = changes(page, PLACES, 60.0)
    for places in (before, after):
        assert np.shape(places) == (2, 25)
        assert np.isfinite(np.array(places, float)).all()
    assert book.outside == []
    assert book.errors == []
    book.close()


def test_replay_page_plays_from_disk_without_a_network(page: "Page", tmp_path: Path) -> None:
    scenario = load("two_rooms")
    steps = round(4.0 / float(scenario.params.motion.dt))
    every = round(0.125 / float(scenario.params.motion.dt))
    run = simulate(
        scenario, scenario.params, jax.random.key(1), steps - steps % every, every=every, observe=("people", "mean_speed")
    )
    path = replay_html(run, tmp_path / "replay.html", scenario=scenario)
    asked: list[str] = []
    page.context.set_offline(True)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("() => document.querySelector('#clock').textContent.startsWith('0.0 of')", timeout=30_000)
    page.get_by_role("button", name="Play").click()
    first, then = changes(page, PEOPLE)
    assert len(first) == len(then) == 25
    page.wait_for_function("() => parseFloat(document.querySelector('#clock').textContent) > 1.5", timeout=20_000)
    page.get_by_role("button", name="Pause").click()
    page.screenshot(path=tmp_path / "replay.png")
    assert " t = " in page.evaluate(HEADLINE)
    page.locator("#time").focus()
    before = page.inner_text("#clock")
    page.keyboard.press("End")
    assert page.inner_text("#clock") != before
    assert page.inner_text("#clock").startswith(page.inner_text("#clock").split(" of ")[1].removesuffix(" s"))
    assert all(url.startswith(("file:", "blob:", "data:")) for url in asked)
