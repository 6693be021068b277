"""One chunk of a run as NumPy arrays, on its way to the disk."""

import json
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from crowdlab.commands import Command
from crowdlab.record import tables
from crowdlab.simulation import Frames, Run
from crowdlab.state import Health, State


class Chunk:
    """One chunk as NumPy arrays, brought to the host by the caller's thread."""

    def __init__(self, run: Run, orders: Sequence[Command] = ()) -> None:
        frames = run.frames
        names = ("step", "position", "velocity", "heading", "alive")
        self.arrays = {name: np.asarray(getattr(frames, name)) for name in names}
        self.series = {name: np.asarray(values) for name, values in run.series.items()}
        self.last_step = int(run.final.step)
        self.people = people_of(run.final)
        self.health = json.dumps({name: np.asarray(value).tolist() for name, value in vars(run.health).items()})
        self.orders = list(orders)

    @classmethod
    def start(cls, state: State) -> Self:
        """The start of a run as a chunk of one frame and no observables."""
        frames = Frames(
            position=state.position.T[None],
            velocity=state.velocity.T[None],
            heading=state.heading.T[None],
            alive=state.alive[None],
            step=state.step[None],
        )
        return cls(Run(frames=frames, series={}, final=state, health=Health.good()))

    def named(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every array under the name it has in the file; observables as `series.NAME`."""
        yield from self.arrays.items()
        for name in sorted(self.series):
            yield f"series.{name}", self.series[name]


def people_of(state: State) -> dict[str, np.ndarray]:
    """Columns of crowdlab_people after the row number, in the order of the table."""
    names = ("id", "group", "radius", "social_radius", "mass", "desired_speed", "goal", "alive", "arrived")
    columns = {name: np.asarray(getattr(state, name)) for name in names}
    return {**columns, "outcome": tables.outcomes(columns["alive"], columns["arrived"])}
