"""The static plan, and agents sorted into the cells of a grid."""

from typing import NamedTuple

import jax.numpy as jnp

from crowdlab.arithmetic import take
from crowdlab.state import Array, State, World


class Grid(NamedTuple):
    """The static plan: the ONE place where array shapes, and what a program holds, are decided. Hashable, printable."""

    columns: int
    rows: int
    half: int  # cells looked at on either side; 0 compares all with all, which is faster for few people
    span: int  # candidates per row of cells
    capacity: int  # neighbours per agent, K
    touching: int  # neighbours per agent whose bodies may touch, T
    walls: int  # wall features per agent, M
    reach: float  # m, how far any force looks for people
    wall_reach: float  # m, how far any force looks for walls
    skin: float  # m, how much farther the lists look
    refresh: int  # steps between two lists
    copy_rows: int = 0  # rows of the copy that the loop runs on (see muster.py); 0 takes everybody's
    # Whether the program holds these; `planning.bare` takes out what does not act, which spares compiling it.
    with_limits: bool = True  # the cap and the parting of limits.py
    with_noise: bool = True  # random numbers at each step


def cells_of(position: Array, world: World, columns: int, rows: int) -> tuple[Array, Array]:
    """Column and row of the cell of each agent, (N,) int32; those outside a bounded box belong to its border cells."""
    place = world.wrap(position)
    column = jnp.floor((place[0] - world.lower[0]) * (columns / world.size[0]))
    row = jnp.floor((place[1] - world.lower[1]) * (rows / world.size[1]))
    return jnp.clip(column, 0, columns - 1).astype(jnp.int32), jnp.clip(row, 0, rows - 1).astype(jnp.int32)


def spans(state: State, world: World, grid: Grid) -> tuple[Array, Array, Array]:
    """Rows of agents sorted by cell, (N,), and the contiguous spans [first, last) of that order near each agent, (S, N) each."""
    column, row = cells_of(state.position, world, grid.columns, grid.rows)
    count, people = grid.columns * grid.rows, state.position.shape[1]
    cell = jnp.where(state.alive, row * grid.columns + column, count)  # dead rows sort behind every cell
    order = _sorted_rows(cell, count, people)
    start = jnp.searchsorted(take(cell, order), jnp.arange(count + 1)).astype(jnp.int32)
    lows, highs = [], []
    whole = world.periodic and grid.rows <= 2 * grid.half + 1
    for step in range(grid.rows) if whole else range(-grid.half, grid.half + 1):
        other = jnp.full_like(row, step) if whole else row + step
        inside = (other >= 0) & (other < grid.rows)
        other = other % grid.rows
        for first, last in _pieces(column, grid.columns, grid.half, world.periodic):
            valid = (last >= first) & (inside | world.periodic)
            lows.append(jnp.where(valid, take(start, other * grid.columns + first), 0))
            highs.append(jnp.where(valid, take(start, other * grid.columns + jnp.maximum(last, 0) + 1), 0))
    return order, jnp.stack(lows), jnp.stack(highs)


def _sorted_rows(cell: Array, count: int, people: int) -> Array:
    """Rows in the order of their cells, those of one cell in the order of rows."""
    if (count + 1) * people < 2**31:  # cell and row in one number: a plain sort is several times faster than one with a partner
        return jnp.sort(cell * people + jnp.arange(people, dtype=jnp.int32)) % people
    return jnp.argsort(cell).astype(jnp.int32)


def _pieces(column: Array, columns: int, half: int, periodic: bool) -> list[tuple[Array, Array]]:
    """Runs of columns [first, last] to look at round each agent: one, or two where a periodic box is cut by its edge."""
    if columns <= 2 * half + 1 and periodic:
        return [(jnp.zeros_like(column), jnp.full_like(column, columns - 1))]
    inner = (jnp.maximum(column - half, 0), jnp.minimum(column + half, columns - 1))
    if not periodic:
        return [inner]
    below, above = column - half < 0, column + half >= columns
    first = jnp.where(below, column - half + columns, 0)
    last = jnp.where(below, columns - 1, jnp.where(above, column + half - columns, -1))
    return [inner, (first, last)]
