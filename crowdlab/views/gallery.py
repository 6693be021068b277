"""Pictures of real runs, one for each scenario, for pages that show what there is."""

import math

import jax

from crowdlab.errors import CrowdlabError
from crowdlab.scenario import Scenario
from crowdlab.simulation import chunks
from crowdlab.views.drawing import picture
from crowdlab.views.still import Still
from crowdlab.views.theme import EITHER, Theme

PIECE = 500  # steps at most in a piece: lists that turn out too small are enlarged after a few of them
USUAL = 8.0  # s, the moment of a picture where nothing else is said
MOMENTS = {  # s, when a shipped scenario shows best what it is about
    "bottleneck": 15.0,
    "bottleneck_hfv": 15.0,
    "corner": 6.0,
    "counterflow": 30.0,
    "crossing": 9.0,
    "free_walk": 15.0,
    "hall": 12.0,
    "head_on": 6.0,
    "metro": 15.0,
    "one_door": 30.0,
    "own_time": 45.0,
    "ring": 30.0,
    "rooms": 4.0,
    "school": 10.0,
    "shop": 90.0,
    "square": 20.0,
    "trap": 6.0,
    "two_bottlenecks": 15.0,
    "two_exits": 20.0,
    "two_rooms": 10.0,
    "two_rooms_obstacle": 10.0,
}


def pictured(scenario: Scenario, seconds: float | None = None, *, width: int = 560, theme: Theme = EITHER) -> Still:
    """PNG of a run of the scenario, with its own seed and parameters, at one moment (default: a telling one), in few tones.

    Raises:
        CrowdlabError: a moment before the start or none at all, and as for `simulate`.
    """
    moment = MOMENTS.get(scenario.name, USUAL) if seconds is None else seconds
    if not (math.isfinite(moment) and moment >= 0):
        raise CrowdlabError(f"{scenario.name}: a picture at {moment:g} s: allowed are finite times from 0 s on. Give such a time.")
    dt = scenario.params.time_step
    steps = round(moment / dt)
    if not steps:
        return picture(scenario, width=width, theme=theme).small()
    final = scenario.state
    for piece in chunks(scenario, scenario.params, jax.random.key(scenario.seed), steps, chunk=PIECE, every=steps):
        final = piece.final
    return picture(scenario, final, seconds=steps * dt, width=width, theme=theme).small()
