"""How many chunks a picture may cost."""

FRAME = 0.04  # s between two pictures, and of simulated time in one chunk, unless other lengths are asked for
CAUGHT_UP = 3  # chunks computed per picture at most when the machine is behind; what is owed beyond is dropped


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
