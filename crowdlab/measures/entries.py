"""Who came in over time, group by group: how many found room, how many did not, and how long they waited for it."""

from typing import NamedTuple

import numpy as np

from crowdlab.demand.ticks import first_look, tick
from crowdlab.record import Recording
from crowdlab.state import REFUSED, TURNED_AWAY


class Entries(NamedTuple):
    """What came of those of one group who were due: `due` are `came_in`, `refused` and `waiting` together."""

    due: int
    came_in: int
    refused: int
    waiting: int
    mean_wait: float  # s, for room, of all who were due, up to the end of the run for those who still wait; NaN for nobody
    longest_wait: float  # s, of the same; NaN for nobody
    looks_without_room: int  # how often somebody tried to come in and could not, all together; a look comes every demand.ticks.TICK


def entries(recording: Recording) -> dict[str, Entries]:
    """Entries by the name of each group that comes in over time. Raises RecordingError where its scenario cannot be built again."""
    groups, tables = recording.manifest["groups"], recording.manifest["source"].get("groups", {})
    names = [name for name in groups if tables.get(name, {}).get("source") is not None]
    sources = recording.scenario.sources if names else None
    if sources is None:
        return {}
    people, dt, last = recording.people, recording.dt, recording.last_step
    found = {}
    for name in names:
        rows = people["group"] == groups.index(name)
        entered, refused = people["entered"][rows], people["outcome"][rows] == REFUSED
        came = entered >= 0
        until = np.where(came, entered, np.where(refused, TURNED_AWAY - entered, last))
        steps = until - first_look(sources.due[people["id"][rows]], dt)
        waits = ~came & ~refused & (steps > 0)  # who is due at the last step has not been looked at
        due = came | refused | waits
        waited, looks = steps[due] * dt, np.ceil(steps / tick(dt)) + refused
        found[name] = Entries(
            due=int(due.sum()),
            came_in=int(came.sum()),
            refused=int(refused.sum()),
            waiting=int(waits.sum()),
            mean_wait=float(waited.mean()) if len(waited) else np.nan,
            longest_wait=float(waited.max()) if len(waited) else np.nan,
            looks_without_room=int(looks[due].sum()),
        )
    return found
