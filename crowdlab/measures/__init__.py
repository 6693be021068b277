"""What recorded frames say about a crowd: flow, density, speeds, times, queues, overlaps, pressure. On the host, when a run is over.

Every measure reads `Tracks`, made from a recording, from a run or from plain arrays; rows are people, and results have a row for each.
"""

from crowdlab.measures.contact import INJURING, Overlaps, contact_pressure, overlaps
from crowdlab.measures.entries import Entries, entries
from crowdlab.measures.lines import Crossings, crossings, mean_flow
from crowdlab.measures.local import Field, Local, classical, grid, voronoi
from crowdlab.measures.reasons import Missing, Reason, not_arrived
from crowdlab.measures.tracks import Tracks
from crowdlab.measures.travel import (
    HARDLY,
    LATELY,
    QUEUEING,
    Queue,
    Ways,
    evacuation_time,
    frames_ago,
    moved,
    queue,
    slow_time,
    stuck,
    stuck_time,
    times_between,
    travel_times,
    ways,
)

__all__ = [
    "HARDLY",
    "INJURING",
    "LATELY",
    "QUEUEING",
    "Crossings",
    "Entries",
    "Field",
    "Local",
    "Missing",
    "Overlaps",
    "Queue",
    "Reason",
    "Tracks",
    "Ways",
    "classical",
    "contact_pressure",
    "crossings",
    "entries",
    "evacuation_time",
    "frames_ago",
    "grid",
    "mean_flow",
    "moved",
    "not_arrived",
    "overlaps",
    "queue",
    "slow_time",
    "stuck",
    "stuck_time",
    "times_between",
    "travel_times",
    "voronoi",
    "ways",
]
