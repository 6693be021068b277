"""Who takes part: the loop runs on a compact copy of the state, and after it everybody is back in their own row.

Those who have left would cost as much in every step as those who walk. So the copy holds the living, in the order of the cells they
stand in (whoever is near in the room is near in memory), and as many of the others as fill it up to one of a few sizes. Sums go by id
and draws go by id, so it changes no bit who stands in which row and who in none.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from crowdlab.abreast import peoples, rows_of
from crowdlab.neighbours import Grid
from crowdlab.params import Params
from crowdlab.state import Array, State, World
from crowdlab.stepping import Frames, Run

LEAST = 32  # rows; fewer are never cut in half
EIGHT = 8  # rows; halves are rounded up to multiples of it, which suits the vector units of processors
SORTED = 10_000  # rows; from here on the order in memory is worth a copy although nobody has left


def size(living: int, people: int) -> int:
    """Rows of the copy for so many of all people: everybody's number halved again and again, so that few programs are compiled."""
    rows, share = people, 2
    while people >= LEAST * share and (fewer := -(-people // (share * EIGHT)) * EIGHT) >= living:
        rows, share = fewer, 2 * share
    return rows


class Muster(NamedTuple):
    """Those who take part, and who they were taken from."""

    everybody: State
    everybodys: Params
    rows: np.ndarray | None  # of everybody, those that take part, all different; None: all of them, as they stand
    state: State
    params: Params

    def restored(self, state: State) -> State:
        """The state of everybody when `state` is that of those who took part."""
        if self.rows is None:
            return state
        own = {}
        for field in peoples(state):
            values = np.array(getattr(self.everybody, field.name))
            if field.name == "desired_speed":  # the only thing that moves for those who are gone: it is a parameter
                values[:] = np.asarray(self.everybodys.people.desired_speed)
            values[..., self.rows] = np.asarray(getattr(state, field.name))
            own[field.name] = jnp.asarray(values)
        return self.everybody.with_(step=state.step, **own)

    def reported(self, run: Run) -> Run:
        """The run of everybody when `run` is that of those who took part."""
        if self.rows is None:
            return run
        frames, before = run.frames, self.everybody

        def full(still: Array, saved: Array) -> Array:
            values = np.empty((*saved.shape[:1], still.shape[-1], *saved.shape[2:]), saved.dtype)
            values[:] = np.asarray(still).T
            values[:, self.rows] = np.asarray(saved)
            return jnp.asarray(values)

        return Run(
            frames=Frames(
                position=full(before.position, frames.position),
                velocity=full(before.velocity, frames.velocity),
                heading=full(before.heading, frames.heading),
                alive=full(before.alive, frames.alive),
                step=frames.step,
            ),
            series=run.series,
            final=self.restored(run.final),
            health=run.health,
        )


def muster(params: Params, state: State, world: World, grid: Grid) -> Muster:
    """The copy that the grid asks for; never fewer than are alive."""
    people, alive = int(state.id.shape[0]), np.asarray(state.alive)
    many = min(people, max(grid.copy_rows or people, int(alive.sum())))
    if many == people and people < SORTED:
        return Muster(state, params, None, state, params)
    gone = np.flatnonzero(~alive)
    rows = np.concatenate((_by_cell(state, world, grid, np.flatnonzero(alive)), gone))[:many]
    without = gone[many - people + len(gone) :]
    arrived = np.asarray(state.arrived)[without] >= 0
    copy = rows_of(state, rows).with_(
        left=jnp.asarray(np.asarray(state.left) + np.int32(arrived.sum())),
        removed=jnp.asarray(np.asarray(state.removed) + np.int32((~arrived).sum())),
    )
    return Muster(state, params, rows, copy, rows_of(params, rows))


def _by_cell(state: State, world: World, grid: Grid, rows: np.ndarray) -> np.ndarray:
    """These rows in the order of cells, row of cells by row of cells, as the neighbour list looks through them."""
    place = (np.asarray(state.position)[:, rows].T - np.asarray(world.lower)) / np.asarray(world.size)
    column, row = np.clip(np.nan_to_num(place) * (grid.columns, grid.rows), 0, (grid.columns - 1, grid.rows - 1)).T.astype(int)
    return rows[np.argsort(row * grid.columns + column, kind="stable")]
