"""A live run and its pace, testable without a browser."""

from crowdlab.session.pace import FRAME, Pace
from crowdlab.session.run import SHOWN, Session

__all__ = ["FRAME", "SHOWN", "Pace", "Session"]
