"""Doors: which one is too narrow for a body, for messages."""

import dataclasses

import numpy as np
import shapely
from shapely import Point

from crowdlab.geometry.areas import Area, Place
from crowdlab.geometry.floors import Floor

PRECISE = 1e-4  # m, to which the width of a door is found
THINNEST = 1e-3  # m; a gap narrower than twice this is no door


@dataclasses.dataclass(frozen=True)
class Door:
    """A place where the walls leave a gap."""

    place: tuple[float, float]  # m
    width: float  # m


def narrow_door(floor: Floor, start: np.ndarray, place: Place, reach: float, radius: float) -> Door | None:
    """The first door from a start (2,) m that keeps a disc of `radius` m from coming within `reach` m of a place.

    Of all ways there it is on the one that the stoutest can go; None where there is no way for anybody.
    """

    def around(size: float) -> tuple[Area, list[Area]]:
        parts = sorted(shapely.get_parts(floor.free(size)), key=lambda part: float(part.distance(Point(start))))
        return (parts[0], parts[1:]) if parts else (shapely.Polygon(), [])

    def arrives(size: float) -> bool:
        mine = around(size)[0]
        return not mine.is_empty and mine.distance(place) <= reach + (radius - size) + 1e-9

    open_, shut = THINNEST, radius
    if not arrives(open_):
        return None
    while shut - open_ > PRECISE / 2:
        middle = (open_ + shut) / 2
        open_, shut = (middle, shut) if arrives(middle) else (open_, middle)
    mine, others = around(shut)
    joined = around(open_)[0]
    beyond = [part for part in others if part.representative_point().distance(joined) < PRECISE]
    if not beyond:
        return None
    gap = shapely.shortest_line(mine, min(beyond, key=lambda part: float(part.distance(mine))))
    x, y = gap.interpolate(0.5, normalized=True).coords[0]
    return Door((x, y), open_ + shut)
