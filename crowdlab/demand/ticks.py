"""The instants at which a run is looked at from outside: between two pieces of it doors move and people come in, at no other time.

One length of pieces is one compiled program, so everything that happens there goes by the same clock.
"""

import math
from typing import Any

import numpy as np

from crowdlab.state import MOST

TICK = 0.2  # s from one look to the next, about: looks come after a multiple of PARTS steps wherever there are so many
ROUNDING = 1e-6  # of a time: a step in single precision is off by a twentieth of this, and no look is missed by so little
PARTS = 5  # pieces of a tick in which a live run goes on


def tick(dt: float) -> int:
    """Steps of `dt` s from one look to the next."""
    steps = TICK / dt
    return PARTS * round(steps / PARTS) if steps >= PARTS else max(1, round(steps))


def first_look(time: Any, dt: float) -> Any:
    """The step of the first look at or after a time, s, or at each of several; of all that no run gets to, one beyond the last step."""
    never = MOST // tick(dt) + 1  # looks; a larger number might leave the whole numbers, and come back as one long past
    looks = np.minimum(time, 2.0 * never * tick(dt) * dt) / dt / tick(dt)
    return np.minimum(np.ceil(looks * (1 - ROUNDING) - ROUNDING), never).astype(int) * tick(dt)


def next_look(step: int, dt: float) -> int:
    """The step of the first look after a step."""
    return (step // tick(dt) + 1) * tick(dt)


def lengths(every: int, watch: int) -> tuple[int, ...]:
    """Steps of the pieces, the longest first, that a run is made of where neither frames nor looks fall on each other; else none.

    Arguments as of `to_frame`. The gaps are of many lengths, and each would be one more program: so they are filled with the longest
    gap and with few lengths of which one is four times the next.
    """
    if not watch or every % watch == 0 or watch % every == 0:
        return ()
    longest, length, found = min(every, watch), math.gcd(every, watch), []
    while length < longest:
        found.append(length)
        length *= 4
    return longest, *reversed(found)


def to_frame(ahead: int, offset: int, every: int, watch: int) -> tuple[int, int, bool]:
    """Steps of the next piece, steps between its frames, and whether its last step is a frame of the whole run.

    `ahead` is how many steps there are to the next look, order or end, `offset` how many lie behind the last frame, `every` how many
    are from frame to frame and `watch` how many from look to look, 0 where nothing is looked at. A piece that begins or ends between
    two frames has no frame but that of its last step: it comes of an order or a look, or of the end of a run or of a part of it.
    """
    own = lengths(every, watch)
    if offset or ahead < every or own:
        ahead = min(ahead, every - offset)
        ahead = next((length for length in own if length <= ahead), ahead)
        return ahead, ahead, offset + ahead == every
    return ahead - ahead % every, every, True
