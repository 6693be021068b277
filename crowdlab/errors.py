"""What can go wrong, as types. Every message says: where, what, what is allowed, what to do."""

import math


class CrowdlabError(Exception):
    """Root of every error crowdlab raises on purpose."""


class ScenarioError(CrowdlabError, ValueError):
    """A scenario file is malformed or contradicts itself."""

    def __init__(self, message: str, *, place: tuple[float, float] = (math.nan, math.nan)) -> None:
        """`place` is where in the plan, m; NaN where there is no place to name."""
        super().__init__(message)
        self.place = place


class ParamError(CrowdlabError, ValueError):
    """A parameter is unknown or outside its bounds."""


class CommandError(CrowdlabError, ValueError):
    """An order names something that does not exist, or comes too late."""


class CapacityError(CrowdlabError, RuntimeError):
    """A grid that the user gave has too little room, or lists too seldom, for this run."""


class RunError(CrowdlabError, ArithmeticError):
    """A run cannot be trusted from some step on. Keeps who, when, where and the last state that was good."""

    def __init__(
        self,
        message: str,
        *,
        state: object = None,
        step: int = -1,
        agent: int = -1,
        place: tuple[float, float] = (math.nan, math.nan),
    ) -> None:
        """`state` is the last good State, `step` the first bad step, `agent` the id of who broke it and `place` where it stood, m.

        A step too long for the forces and an overlap too deep are seen in a state: `state` is that one, and `step` would leave it.
        """
        super().__init__(message)
        self.state, self.step, self.agent, self.place = state, step, agent, place


class NonFiniteError(RunError):
    """Positions or velocities became NaN or infinite, or somebody went through a wall."""


class UnstableError(RunError):
    """A step too long for the forces, a force out of all measure, or bodies deeper in each other than allowed."""


class RecordingError(CrowdlabError, OSError):
    """A recording cannot be written, read or re-run."""


class MeasureError(CrowdlabError, ValueError):
    """A measure is asked of frames, a line or a region that cannot give it."""


def nearest(name: str, known: list[str] | tuple[str, ...]) -> str:
    """Sentence that proposes the known name closest to `name`, or lists the known ones."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Known: {', '.join(sorted(known))}."
