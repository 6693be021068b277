"""Whose bodies overlap, on the host, from plain places: for looking at frames when a run is over."""

import numpy as np
from scipy.spatial import cKDTree


def overlapping(place: np.ndarray, radius: np.ndarray, box: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) of rows whose discs overlap, the lower row first, in rising order, and how deep (P,) m.

    Discs at `place` (n, 2) m with `radius` (n,) m; `box` (2,) m are the sides of a periodic box.
    """
    if len(place) < 2:
        return np.empty((0, 2), int), np.empty(0)
    if box is not None:
        place = np.mod(place, box)
        place[place >= box] = 0.0  # a tiny negative is rounded up to the size
    pairs = cKDTree(place, boxsize=box).query_pairs(2 * radius.max(), output_type="ndarray")
    apart = place[pairs[:, 0]] - place[pairs[:, 1]]
    if box is not None:
        apart -= box * np.round(apart / box)
    depth = radius[pairs].sum(1) - np.hypot(*apart.T)
    pairs, depth = pairs[depth > 0], depth[depth > 0]
    order = np.lexsort(pairs.T[::-1])
    return pairs[order], depth[order]
