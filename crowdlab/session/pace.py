"""How long a chunk is, and how many of them a picture may cost."""

from crowdlab.demand.ticks import PARTS, tick
from crowdlab.errors import ParamError
from crowdlab.scenario import Scenario

FRAME = 0.04  # s between two pictures, and of simulated time in one chunk, unless other lengths are asked for
CAUGHT_UP = 3  # chunks computed per picture at most when the machine is behind; what is owed beyond is dropped


def cut(scenario: Scenario, dt: float, chunk: int | None, every: int | None) -> tuple[int, int]:
    """Steps of `dt` s in a chunk, and from frame to frame; what is given is kept. Looks at doors and at people outside fall between chunks.

    Raises:
        ParamError: a chunk that does not hold whole frames, or that a look would fall into.
    """
    looks = 0 if scenario.doors is None and scenario.sources is None else tick(dt)
    if chunk is None:
        about = looks // PARTS if looks and looks % PARTS == 0 else max(1, round(FRAME / dt))
        whole = 1 if every is None else every
        most = max(1, round(about / whole)) if whole > 0 else 1
        chunk = whole * next((many for many in range(most, 0, -1) if whole > 0 and looks % (many * whole) == 0), most)
    every = chunk if every is None else every
    if chunk < 1 or every < 1 or chunk % every:
        raise ParamError(
            f"session: chunk = {chunk} and every = {every} steps: a chunk holds a whole number of frames. "
            "Give chunk as a multiple of every."
        )
    if looks % chunk:
        what = "sources" if scenario.doors is None else "doors"
        raise ParamError(
            f"session: chunk = {chunk} steps: {what} are looked at every {looks} steps. Give a chunk that divides this number."
        )
    return chunk, every


class Pace:
    """Turns wall-clock time into chunks owed.

    The frame rate never touches dt: on a slow machine the simulation slows down, its steps do not change.
    """

    def __init__(self, frame: float) -> None:
        """`frame` is the wall-clock time between two pictures, s."""
        self.frame = frame
        self.speed = 1.0  # simulated seconds per second asked for
        self.dropped = 0  # chunks owed and given up
        self.start(0.0)

    def start(self, now: float) -> None:
        """Begin to count at `now`, s, with one chunk owed at once."""
        self._last = now
        self._owed = 1.0
        self._asked = self._given = 0.0
        self._picture = now

    def due(self, now: float, chunk_seconds: float) -> int:
        """Chunks to compute for this picture: what the clock owes, at most three. What is owed beyond is dropped, never a step."""
        asked = (now - self._last) * self.speed / chunk_seconds
        self._last = now
        self._owed += asked
        whole = int(self._owed + 1e-6)  # clocks are rounded
        due = min(whole, CAUGHT_UP)
        self._owed -= whole
        self.dropped += whole - due
        fading = 0.98
        self._asked = fading * self._asked + asked
        self._given = fading * self._given + due
        self._picture = max(self._picture + self.frame, now - self.frame)
        return due

    def rest(self, now: float) -> float:
        """How long to wait before the next picture, s."""
        return max(0.0, self._picture - now)

    def slowness(self) -> float:
        """How many times slower than asked the last pictures went; 1 when the machine keeps up."""
        return max(1.0, self._asked / self._given) if self._given > 1 and self._asked > 1 else 1.0
