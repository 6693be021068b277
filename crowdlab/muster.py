"""Who takes part: the loop runs on a compact copy of the state, and after it everybody is back in their own row.

Those who have left would cost as much in every step as those who walk. So the copy holds the living, in the order of the cells they
stand in (whoever is near in the room is near in memory), and as many of the others as fill it up to one of a few sizes. Sums go by id
and draws go by id, so it changes no bit who stands in which row and who in none.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.abreast import peoples, rows_of
from crowdlab.neighbours import Grid
from crowdlab.params import Params
from crowdlab.state import LEFT, REFUSED, REMOVED, WAITING, Array, Intent, State, World, whereabouts
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
            before = getattr(self.everybody, field.name)
            if field.name == "desired_speed":  # the only thing that moves for those who are gone: it is a parameter
                before = np.broadcast_to(np.asarray(self.everybodys.people.desired_speed, before.dtype), before.shape)
            own[field.name] = jax.tree.map(self._put, before, getattr(state, field.name))
        return self.everybody.with_(step=state.step, **own)

    def _put(self, everybodys: Array, theirs: Array) -> Array:
        """Values of everybody, (..., N), with the values of those who took part in their rows."""
        values = np.array(everybodys)
        values[..., self.rows] = np.asarray(theirs)
        return jnp.asarray(values)

    def reported(self, run: Run) -> Run:
        """The run of everybody when `run` is that of those who took part."""
        if self.rows is None:
            return run
        frames, before = run.frames, self.everybody

        def full(still: Array | np.ndarray, saved: Array) -> Array:
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
                intent=full(np.full(before.id.shape, Intent.RESTS), frames.intent),
                step=frames.step,
                closed=frames.closed,
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
    counts = {name: getattr(state, name) + who[without].sum(dtype=np.int32) for name, who in absent(state).items()}
    copy = rows_of(state, rows).with_(**{name: jnp.asarray(np.asarray(count)) for name, count in counts.items()})
    return Muster(state, params, rows, copy, rows_of(params, rows))


def absent(state: State) -> dict[str, np.ndarray]:
    """Who left by an exit, was removed by an order, waits outside and was refused, (N,) bool each, by the names State counts them by."""
    parts = whereabouts(np.asarray(state.alive), np.asarray(state.arrived) >= 0, np.asarray(state.entered))
    return {name: parts[name] for name in (LEFT, REMOVED, WAITING, REFUSED)}


def _by_cell(state: State, world: World, grid: Grid, rows: np.ndarray) -> np.ndarray:
    """These rows in the order of cells, row of cells by row of cells, as the neighbour list looks through them."""
    place = (np.asarray(state.position)[:, rows].T - np.asarray(world.lower)) / np.asarray(world.size)
    column, row = np.clip(np.nan_to_num(place) * (grid.columns, grid.rows), 0, (grid.columns - 1, grid.rows - 1)).T.astype(int)
    return rows[np.argsort(row * grid.columns + column, kind="stable")]
