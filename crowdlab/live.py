"""The bridge that carries a Bokeh layout into a notebook page, and the loop that feeds it. The only room with anywidget.

Why not the usual ways: they queue every frame, so that a slow page falls seconds behind and the sliders' messages stand behind the
queue. Here a frame is one binary message, the page acknowledges it, and while it is behind, frames are skipped: nothing queues.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import bokeh
import numpy as np
import traitlets
from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.resources import Resources

from crowdlab.errors import CrowdlabError
from crowdlab.session import FRAME, Pace, Session
from crowdlab.views.theme import Painted, repainting

WINDOW = 6  # frames on their way to the page before one is skipped
SILENCE = 1.0  # s without an acknowledgement after which a frame is tried again

Columns = Mapping[str, Any]


class BokehLive(anywidget.AnyWidget):
    """A Bokeh layout in a notebook page that can be fed many times a second."""

    _esm = Path(__file__).with_name("live.js")
    _item = traitlets.Unicode().tag(sync=True)
    _theme = traitlets.Unicode("{}").tag(sync=True)
    _version = traitlets.Unicode(bokeh.__version__).tag(sync=True)
    label = traitlets.Unicode("live plot").tag(sync=True)

    def __init__(self, figures: Sequence[Painted], *, label: str, picked: Callable[[list[int]], None] | None = None) -> None:
        """Args: `figures` stand one below the other; `picked` hears the ids of people clicked, on any thread."""
        layout = column(*(painted.layout for painted in figures))
        Document().add_root(layout)
        self._sent = self._shown = 0
        self._last = 0.0
        self._looked_at = False
        self._picked = picked
        self._sources: dict[str, dict[str, np.ndarray]] = {}  # what a page that opens later needs
        self._properties: dict[tuple[str, str], Any] = {}
        super().__init__(_item=serialize_json(json_item(layout)), _theme=json.dumps(repainting(*figures)), label=label)
        self.on_msg(self._hear)

    def _hear(self, _widget: Any, message: dict[str, Any], _buffers: Any) -> None:
        """A message from the page; may come on any thread, so it only stores or sends."""
        match message.get("t"):
            case "shown":
                self._shown = max(self._shown, message["k"])
            case "ready":
                self._looked_at, self._shown = True, self._sent
                self._post({name: (data, 0) for name, data in self._sources.items()}, dict(self._properties))
            case "library":
                script = "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
                self.send({"t": "library"}, buffers=[script.encode()])
            case "picked" if self._picked is not None:
                self._picked([int(agent) for agent in message["ids"]])

    @property
    def ready(self) -> bool:
        """Is there room for another frame? False while the page is behind and while nobody looks (tests, a closed tab)."""
        if not self._looked_at:
            return False
        return self._sent - self._shown < WINDOW or time.perf_counter() - self._last > SILENCE

    def push(
        self,
        replace: Mapping[str, Columns] | None = None,
        append: Mapping[str, tuple[Columns, int]] | None = None,
        properties: Sequence[tuple[Any, str, Any]] = (),
    ) -> None:
        """Send one frame: columns to replace, rows to append (and how many to keep), and properties (model, name, value) to set.

        Without a page it is only remembered, so a loop runs the same with nobody looking.
        """
        sources: dict[str, tuple[dict[str, np.ndarray], int]] = {}
        for name, data in (replace or {}).items():
            sources[name] = (_narrow(data), 0)
            self._sources[name] = sources[name][0]
        for name, (data, keep) in (append or {}).items():
            new = {column: np.asarray(values, np.float64) for column, values in data.items()}
            old = self._sources.get(name)
            self._sources[name] = new if old is None else {c: np.concatenate([old[c], new[c]])[-keep:] for c in new}
            sources[name] = (new, keep)
        changed = {(model.id, name): value for model, name, value in properties}
        self._properties |= changed
        if self._looked_at:
            self._post(sources, changed)

    def _post(self, sources: Mapping[str, tuple[dict[str, np.ndarray], int]], properties: Mapping[tuple[str, str], Any]) -> None:
        listed = [[name, mode, [[c, a.dtype.str[1:]] for c, a in data.items()]] for name, (data, mode) in sources.items()]
        buffers = [a.tobytes() for data, _ in sources.values() for a in data.values()]
        self._sent += 1
        self._last = time.perf_counter()
        values = [[model, name, value] for (model, name), value in properties.items()]
        self.send({"t": "frame", "k": self._sent, "sources": listed, "properties": values}, buffers=buffers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"  # the same in every run, for notebooks that are tests


def _narrow(data: Columns) -> dict[str, np.ndarray]:
    """Columns as contiguous float32 or int32 or, for time series, float64."""
    kept = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint8))
    arrays = {name: np.asarray(values) for name, values in data.items()}
    return {name: np.ascontiguousarray(a, None if a.dtype in kept else np.float32) for name, a in arrays.items()}


class Loop:
    """Runs a session behind a page: one task on the kernel's event loop, the computing in a worker thread.

    What holds on every ipykernel from 6.31 to 7.4: callbacks of widgets may come on any thread, so they may only call the methods
    `play`, `pause`, `ask` and `session.set`, which do nothing but leave a note. Stopping is cooperative, because a cancelled task
    would leave its thread computing. A new loop of the same name stops the old one: running a cell again is safe.
    """

    _named: ClassVar[dict[str, "Loop"]] = {}

    def __init__(
        self,
        session: Session,
        draw: Callable[[bool], None],
        *,
        name: str,
        tell: Callable[[str, bool], None] = lambda text, playing: None,
        frames_per_second: float = 1.0 / FRAME,
    ) -> None:
        older = Loop._named.get(name)
        if older is not None:
            older.pause()
        Loop._named[name] = self
        self.session, self.draw, self.tell = session, draw, tell
        self.pace = Pace(1.0 / frames_per_second)
        self.error: Exception | None = None
        self._home = _running_loop()
        self._lock = threading.Lock()
        self._jobs: list[Callable[[], None]] = []
        self._left: int | None = 0  # chunks still to run; None is without end
        self._task: asyncio.Task[None] | None = None

    @property
    def playing(self) -> bool:
        """Is the simulation running by itself?"""
        return self._left != 0

    # From any thread ---------------------------------------------------------------------------------------------------------

    def play(self, chunks: int | None = None) -> None:
        """Run on, or run so many chunks as fast as possible and stop (for tests and notebooks that are tests)."""
        with self._lock:
            self._left = chunks
        self._wake()

    def pause(self) -> None:
        """Stop at the end of the chunk that is being computed."""
        with self._lock:
            self._left = 0

    def ask(self, job: Callable[[], None]) -> None:
        """Have `job` done between two chunks, in the worker thread: a reset, a rebuild, one step."""
        with self._lock:
            self._jobs.append(job)
        self._wake()

    def _wake(self) -> None:
        if self._home is None:
            self._home = _running_loop()
        if self._home is None:
            raise CrowdlabError(
                "the lab plays inside a notebook or another asyncio program. Here, call session.advance() in a loop."
            )
        self._home.call_soon_threadsafe(self._begin)

    async def wait(self) -> None:
        """Until all that was asked for is done: `await loop.wait()`."""
        await asyncio.sleep(0)
        while self._task is not None and not self._task.done():
            await asyncio.sleep(0.01)

    # On the event loop only --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _next(self) -> tuple[list[Callable[[], None]], int | None]:
        with self._lock:
            jobs, self._jobs = self._jobs, []
            return jobs, self._left

    async def _run(self) -> None:
        self.error = None
        self.pace.start(time.perf_counter())
        told = -1.0
        try:
            while True:
                jobs, left = self._next()
                if not jobs and left == 0:
                    break
                for job in jobs:
                    await asyncio.to_thread(job)
                done = await self._frame(left)
                if jobs or done:
                    self.draw(False)
                now = time.perf_counter()
                if now - told > 0.5:
                    self.tell(self._report(), self.playing)
                    told = now
                if left is None:
                    await asyncio.sleep(self.pace.rest(time.perf_counter()))
        except Exception as error:  # whatever it was, the page must say so: a task's error is shown nowhere else
            self.error = error
            self.pause()
        self.draw(True)
        self.tell(self._report(), False)

    async def _frame(self, left: int | None) -> int:
        """Compute what this frame owes, at most three chunks. Returns how many."""
        due = self.pace.due(time.perf_counter(), self.session.chunk_seconds) if left is None else min(left, 1)
        for _ in range(due):
            plans = self.session.plans
            if plans == 0:
                self.tell("compiling, this takes some seconds", self.playing)
            await asyncio.to_thread(self.session.advance)
            if self.session.plans != plans:
                self.pace.start(time.perf_counter())  # compiling is no slowness
            if left is not None:
                with self._lock:
                    self._left = max(0, self._left - 1) if self._left is not None else None
        return due

    def _report(self) -> str:
        if self.error is not None:
            return f"stopped: {self.error}"
        if not self.playing:
            return f"paused at {self.session.seconds:.2f} s"
        slow = self.pace.slowness()
        return "playing" if slow < 1.1 else f"playing, {slow:.1f} times slower than asked"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
