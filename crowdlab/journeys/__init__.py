"""Which goal comes next, and what happens on arrival: a journey is a row of stages, each with the goals of which one is chosen next."""

from crowdlab.journeys.choices import SHUT, Rule
from crowdlab.journeys.intents import has_begun, intents
from crowdlab.journeys.stops import Stop, approaching, arrive
from crowdlab.journeys.turns import proceed

__all__ = ["SHUT", "Rule", "Stop", "approaching", "arrive", "has_begun", "intents", "proceed"]
