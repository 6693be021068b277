"""Areas with joined sides: who goes out on the right comes in on the left, and what stands there goes on there."""

from typing import NamedTuple

import numpy as np
import shapely
from shapely import Polygon

from crowdlab.geometry.areas import Area, moved, solid
from crowdlab.geometry.notes import Notes
from crowdlab.geometry.rings import SAME, SNAP
from crowdlab.geometry.segments import open_exits


class Joined(NamedTuple):
    """Whether the sides at the ends of each axis are joined."""

    x: bool = False
    y: bool = False


APART = Joined()


def open_seams(area: Area, segments: np.ndarray, joined: Joined, notes: Notes) -> tuple[np.ndarray, np.ndarray]:
    """The outline (W, 2, 2) m, obstacles taken out, less what lies on joined sides of an area, and the seams (Q, 2, 2) m that were there.

    Raises:
        ScenarioError: the area is no rectangle, or what is open on one side is walled on the other.
    """
    left, bottom, right, top = area.bounds
    box = shapely.box(left, bottom, right, top)
    plain = Polygon(area.exterior) if isinstance(area, Polygon) else area
    odd = shapely.symmetric_difference(plain, box)
    if odd.area > SNAP * box.length:
        spot = odd.representative_point().coords[0]
        raise notes.refusal("world.periodic: the area is no rectangle along the axes. Give one, with obstacles in it.", spot)
    seams = [np.empty((0, 2, 2))]
    sides = {
        "x": [[[left, bottom], [left, top]], [[right, bottom], [right, top]]],
        "y": [[[left, bottom], [right, bottom]], [[left, top], [right, top]]],
    }
    for axis, (low, high) in sides.items():
        if not getattr(joined, axis):
            continue
        opened = []
        for side in (low, high):
            segments, pieces = open_exits(segments, [np.array(side)])
            opened.append(np.array(pieces).reshape(-1, 2, 2))
        first, last = opened
        shift = np.array(high[0]) - np.array(low[0])
        one, other = (shapely.union_all([shapely.LineString(line) for line in lines]) for lines in (first + shift, last))
        differing = shapely.symmetric_difference(one, other, grid_size=SAME)
        if not len(first) or differing.length > SNAP:
            spot = shapely.get_coordinates(differing)[0] if differing.length > SNAP else low[0]
            text = f"world.periodic: the sides across {axis} are joined, and one is open where a wall stands at the other. Make them alike."
            raise notes.refusal(text, spot)
        seams += [first, last]
    return segments, np.concatenate(seams)


def wrapped(area: Area, bounds: tuple[float, float, float, float], joined: Joined) -> Area:
    """An area, m, that reaches over joined sides of a box of these bounds (left, bottom, right, top), less than a period, as it is in the
    box: what goes out on one side comes in on the other.
    """
    left, bottom, right, top = bounds
    own = area.bounds
    lower = (left if joined.x else own[0], bottom if joined.y else own[1])
    box = shapely.box(*lower, right if joined.x else own[2], top if joined.y else own[3])
    if not any(joined) or box.covers(area):
        return area
    columns, rows = ((-1, 0, 1) if along else (0,) for along in joined)
    copies = [moved(area, (column * (right - left), row * (top - bottom))) for column in columns for row in rows]
    return solid(shapely.intersection(shapely.union_all(copies), box))
