"""What a file says of its doors: lines and times, read and checked as everything else in a plan is."""

import math
from collections.abc import Mapping

import numpy as np

from crowdlab import geometry
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Notes
from crowdlab.scenario.tables import DoorTable

MOST = 30  # doors; their states are the bits of one number


def read_doors(
    tables: Mapping[str, DoorTable], floor: Floor, notes: Notes
) -> tuple[dict[str, np.ndarray], list[tuple[float, int, bool]]]:
    """Edges (E, 2, 2) m of each door less the origin, and times in order: s, which door, and whether it closes then.

    Raises:
        ScenarioError: a door that is nowhere, on another one or never moves, unless mistakes are collected.
    """
    edges: dict[str, np.ndarray] = {}
    times: list[tuple[float, int, bool]] = []
    with notes.attempt("doors"):
        if len(tables) > MOST:
            raise ScenarioError(f"doors: {len(tables)} of them: allowed are {MOST}. Take some out, or give them one line.")
    for number, (name, table) in enumerate(tables.items()):
        with notes.attempt(f"doors.{name}"):
            own = geometry.edges_of(geometry.read_place(f"doors.{name}", line=table.line, notes=notes))
            geometry.check_door(floor, own, edges, f"doors.{name}", notes)
            edges[name] = own
        with notes.attempt(f"doors.{name}"):
            times += _times(name, number, table)
    return edges, sorted(times)


def _times(name: str, number: int, table: DoorTable) -> list[tuple[float, int, bool]]:
    """When one door moves. Raises ScenarioError."""
    both = [(time, number, True) for time in table.closes] + [(time, number, False) for time in table.opens]
    if not both:
        raise ScenarioError(f"doors.{name}: never opens nor closes. Give opens or closes, lists of times in s, or leave it out.")
    for time, *_ in both:
        if not 0 <= time < math.inf:
            raise ScenarioError(f"doors.{name}: a time of {time:g} s: allowed are finite numbers of 0 and more. Correct it.")
    same = set(table.opens) & set(table.closes)
    if same:
        raise ScenarioError(f"doors.{name}: opens and closes at {min(same):g} s. Give two different times.")
    return both
