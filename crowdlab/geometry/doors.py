"""Doors: which one is too narrow for a body, and why there is no room at a place, for messages."""

import dataclasses

import numpy as np
import shapely
from shapely import LineString, Point

from crowdlab.geometry.areas import Area, Place
from crowdlab.geometry.floors import Floor
from crowdlab.geometry.notes import at
from crowdlab.geometry.rings import SNAP

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


def no_room(floor: Floor, place: Place, radius: float) -> str:
    """Why no disc of `radius` m has its centre on a place, an exit too narrow or a wall too near, and what to do."""
    middles = [Point(opening.mean(0)) for opening in floor.openings]
    widths = [float(np.hypot(*(opening[1] - opening[0]))) for opening in floor.openings]
    mine = [number for number, middle in enumerate(middles) if place.distance(middle) <= 2 * SNAP]
    if mine:
        widest = max(mine, key=widths.__getitem__)
        if widths[widest] < 2 * radius * (1 - 1e-6):
            return f"It is {widths[widest]:.3g} m wide, and a body needs {2 * radius:.3g} m. Widen it, or give another goal."
        spot, gap = _nearest_wall(floor, middles[widest])
        return f"A wall stands {gap:.3g} m before it, at {spot}, and a body needs {2 * radius:.3g} m. Move the wall, or the exit."
    if isinstance(place, Point):
        spot, gap = _nearest_wall(floor, place)
        away = f"Move it {radius - gap:.3g} m away from the wall."
        return f"It lies {gap:.3g} m from a wall, at {spot}, and a body needs {radius:.3g} m. {away}"
    spot, _ = _nearest_wall(floor, place)
    onto = ", or onto the outline of the area, where it opens the wall" if isinstance(place, LineString) else ""
    return f"It lies nearer to a wall than the radius, at {spot}: move it away{onto}."


def _nearest_wall(floor: Floor, place: Place) -> tuple[str, float]:
    """Where the wall nearest to a place is, as messages write it, and how far off, m."""
    wall = LineString(floor.walls[int(floor.tree.query_nearest(place, all_matches=False)[0])])
    way = shapely.shortest_line(wall, place)
    return at(way.coords[0], floor.origin), float(way.length)
