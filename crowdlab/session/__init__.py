"""A live run and its pace, testable without a browser."""

from crowdlab.session.pace import Pace
from crowdlab.session.run import Session

__all__ = ["Pace", "Session"]
