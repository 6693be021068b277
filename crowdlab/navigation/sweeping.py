"""Fast sweeping: the eikonal equation |grad T| = slowness on a raster, for many goals at once.

Our own, in NumPy, because scikit-fmm, the library we tried, comes without wheels for Python 3.11 to 3.13 and so needs a compiler.
All nodes of one diagonal are updated together, so that one sweep follows every ray of its quadrant; open ground takes two rounds
of four sweeps, each corner on the way one more.
"""

import numpy as np

SETTLED = 1e-9  # m; a round of sweeps that changes less ends the work


def travel_times(start: np.ndarray, passable: np.ndarray, slowness: np.ndarray, cell: float) -> np.ndarray:
    """Travel time in m at full speed, (G, rows, columns); infinite where there is no way.

    `start` (G, rows, columns) holds the known times of each goal and infinity elsewhere; `passable` and `slowness` (rows, columns)
    say where one may walk and by how much slower than at full speed. First-order upwind differences: errors of the order of a cell.

    References:
        Zhao, Math. Comput. 74 (2005) 603: a fast sweeping method for eikonal equations.
    """
    goals, rows, columns = start.shape
    wide = columns + 2
    time = np.full(((rows + 2) * wide, goals), np.inf)  # nodes first, with a rim, so that one index finds all goals
    inner = ((np.arange(rows)[:, None] + 1) * wide + np.arange(columns) + 1).ravel()
    time[inner] = np.where(passable, start, np.inf).reshape(goals, -1).T
    cost = np.zeros(len(time))
    cost[inner] = (slowness * cell).ravel()
    diagonals = _diagonals(passable, inner.reshape(rows, columns))
    while True:
        before = time.copy()
        for ordered in diagonals:
            for nodes in ordered:
                _update(time, cost, nodes, wide)
            for nodes in reversed(ordered):
                _update(time, cost, nodes, wide)
        if np.all((time >= before - SETTLED) | (time == before)):  # equal infinities too
            return time[inner].T.reshape(start.shape)


def _diagonals(passable: np.ndarray, index: np.ndarray) -> list[list[np.ndarray]]:
    """Passable nodes of each diagonal in walking order, for both families of diagonals."""
    row, column = np.nonzero(passable)
    families = []
    for number in (row + column, row - column):
        order = np.argsort(number, kind="stable")
        cuts = np.flatnonzero(np.diff(number[order])) + 1
        families.append(np.split(index[row[order], column[order]], cuts))
    return families


def _update(time: np.ndarray, cost: np.ndarray, nodes: np.ndarray, wide: int) -> None:
    """Godunov's upwind step on nodes that do not depend on each other."""
    across = np.minimum(time[nodes - 1], time[nodes + 1])
    along = np.minimum(time[nodes - wide], time[nodes + wide])
    least, most = np.minimum(across, along), np.maximum(across, along)
    step = cost[nodes][:, None]
    apart = np.where(np.isfinite(most), most, least + 2 * step) - np.where(np.isfinite(least), least, 0.0)
    both = apart < step
    root = np.sqrt(np.where(both, 2 * step**2 - apart**2, 0.0))
    time[nodes] = np.minimum(time[nodes], np.where(both, (2 * least + apart + root) / 2, least + step))
