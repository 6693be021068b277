"""One chunk of a run as NumPy arrays, on its way to the disk."""

import json
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from crowdlab.commands import Command
from crowdlab.params import Params
from crowdlab.record import tables
from crowdlab.record.tables import ARRAYS
from crowdlab.simulation import Frames, Run
from crowdlab.state import Health, State, World


class Chunk:
    """One chunk as NumPy arrays, brought to the host by the caller's thread."""

    def __init__(self, run: Run, orders: Sequence[Command] = ()) -> None:
        frames = run.frames
        self.arrays = {name: np.asarray(getattr(frames, name)) for name in ARRAYS}
        self.series = {name: np.asarray(values) for name, values in run.series.items()}
        self.start: dict[str, np.ndarray] = {}
        self.last_step = int(run.final.step)
        self.people = people_of(run.final)
        self.health = json.dumps({name: np.asarray(value).tolist() for name, value in vars(run.health).items()})
        self.orders = list(orders)

    @classmethod
    def first(cls, state: State, params: Params, world: World) -> Self:
        """The start of a run as a chunk of one frame and no observables, with all that the state holds."""
        frames = Frames.at_start(state, params, world)
        chunk = cls(Run(frames=frames, series={}, final=state, health=Health.good()))
        chunk.start = tables.leaves_of(state)
        return chunk

    def named(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every array under the name it has in the file; observables as `series.NAME`, the state at the start as `start.NAME`."""
        yield from self.arrays.items()
        for name, array in self.start.items():
            yield f"start.{name}", array
        for name in sorted(self.series):
            yield f"series.{name}", self.series[name]


def people_of(state: State) -> dict[str, np.ndarray]:
    """Columns of crowdlab_people after the row number, in the order of the table."""
    names = ("id", "group", "radius", "social_radius", "mass", "desired_speed", "goal", "alive", "arrived", "entered")
    columns = {name: np.asarray(getattr(state, name)) for name in names}
    for name in ("stage", "stopped", "place"):
        columns[name] = np.full_like(columns["id"], -1) if state.trip is None else np.asarray(getattr(state.trip, name))
    return {**columns, "outcome": tables.outcomes(columns["alive"], columns["arrived"], columns["entered"])}
