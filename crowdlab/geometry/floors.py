"""The floor of a scenario: where people may walk, how far the next wall is, and who can get where."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
import shapely
from shapely import LineString, MultiLineString, Point

from crowdlab.errors import ScenarioError
from crowdlab.geometry.areas import Area, Place, outline, solid, tidy
from crowdlab.geometry.notes import WARNING, ZERO, Notes, Origin, at
from crowdlab.geometry.rings import SAME, SNAP, SPECK
from crowdlab.geometry.seams import APART, Joined, open_seams
from crowdlab.geometry.segments import open_exits, wall_arrays


@dataclasses.dataclass(frozen=True, eq=False)
class Floor:
    """Where people may walk, and every wall that stands there."""

    area: Area  # m, obstacles taken out
    walls: np.ndarray  # (W, 2, 2) m, segments
    obstacles: tuple[tuple[str, Area], ...] = ()  # named, for messages
    openings: tuple[np.ndarray, ...] = ()  # stretches (2, 2) m of the outline that are an exit, where no wall stands
    seams: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 2, 2)))  # m, where sides are joined, twice each
    joined: Joined = APART
    origin: Origin = ZERO  # m, what was taken off every coordinate of the plan; messages put it back
    tree: shapely.STRtree = dataclasses.field(init=False, repr=False)  # of the walls
    known: dict[float, Area] = dataclasses.field(init=False, repr=False, default_factory=dict)  # radius -> free space

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", shapely.STRtree(shapely.linestrings(self.walls)))
        shapely.prepare(self.area)

    @property
    def periods(self) -> list[tuple[float, float]]:
        """Half of the shifts, m, to the copies of the area all round it; the others are opposite to these."""
        left, bottom, right, top = self.area.bounds
        across, up = (right - left, 0.0), (0.0, top - bottom)
        both = [(across[0], up[1]), (across[0], -up[1])] if all(self.joined) else []
        return [shift for shift, joined in zip((across, up), self.joined, strict=True) if joined] + both

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Whether each of (n, 2) points lies in the walkable area, (n,) bool; on the outline counts."""
        return covers(self.area, points)

    def clearance(self, points: np.ndarray) -> np.ndarray:
        """Distance of each of (n, 2) points to the nearest wall, (n,) m; inf without walls."""
        if not len(self.walls) or not len(points):
            return np.full(len(points), np.inf)
        _, distance = self.tree.query_nearest(shapely.points(points), return_distance=True, all_matches=False)
        return np.asarray(distance)

    def blocked(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether a wall crosses or touches the straight line from each start to its end, (n,) bool."""
        result = np.zeros(len(starts), bool)
        if len(self.walls) and len(starts):
            lines = shapely.linestrings(np.stack([starts, ends], 1))
            result[np.unique(self.tree.query(lines, predicate="intersects")[0])] = True
        return result

    def free(self, radius: float) -> Area:
        """Where the centre of a disc of `radius` m may be: the exact polygon, never a raster. May be empty."""
        if radius not in self.known:
            strips = [LineString(edge).buffer(radius, cap_style="flat") for edge in self.openings]
            ground = shapely.union_all([self.area, *strips]) if strips else self.area
            # A door of exactly two radii lets a disc through, so a millionth is taken off.
            forbidden = MultiLineString(list(self.walls)).buffer(radius * (1 - 1e-6), quad_segs=32)
            self.known[radius] = solid(shapely.difference(ground, forbidden)) if len(self.walls) else ground
        return self.known[radius]


def lay_floor(
    area: Area,
    obstacles: Sequence[tuple[str, Area]] = (),
    lines: Iterable[np.ndarray] = (),
    exits: Iterable[np.ndarray] = (),
    notes: Notes | None = None,
    joined: Joined = APART,
) -> Floor:
    """Floor of an area less its named obstacles, with open polylines (n, 2) as further walls; all less the origin of the `notes`.

    Where the edges (E, 2, 2) of an exit lie on a wall, the wall is open; where sides are joined there is none.

    Raises:
        ScenarioError: an obstacle that lies outside, or obstacles that leave nothing, or sides that cannot be joined.
    """
    notes = Notes() if notes is None else notes
    for name, obstacle in obstacles:
        if not shapely.intersects(area, obstacle):
            with notes.attempt(name):
                spot = obstacle.representative_point().coords[0]
                raise notes.refusal(f"{name}: lies outside the area and blocks nothing. Move it inside, or take it out.", spot)
    walkable = area
    if obstacles:
        taken = shapely.union_all([obstacle for _, obstacle in obstacles], grid_size=SAME)
        left = shapely.difference(area, taken, grid_size=SAME)
        walkable = solid(left)
        for speck in shapely.get_parts(left):
            if 0 < speck.area <= SPECK:
                notes.add(WARNING, "world.area", "a speck", speck.representative_point().coords[0], speck.area, "m²", "Taken out.")
        if walkable.is_empty:
            spot = area.representative_point().coords[0]
            raise notes.refusal("world.obstacles: cover the whole area, so nobody can stand anywhere. Make them smaller.", spot)
    segments, seams = outline(tidy(walkable)), np.empty((0, 2, 2))
    if any(joined):
        with notes.attempt("world.periodic"):
            segments, seams = open_seams(area, segments, joined, notes)
    segments = np.concatenate([segments, *(np.stack([line[:-1], line[1:]], 1) for line in lines)])
    segments, openings = open_exits(segments, [edge for edges in exits for edge in edges])
    return Floor(
        *(tidy(walkable), wall_arrays(segments)["walls"], tuple(obstacles), tuple(openings), seams, joined), origin=notes.origin
    )


def outlets(floor: Floor, exits: Sequence[Place | None]) -> tuple[np.ndarray, np.ndarray]:
    """Openings (O, 2, 2) m with nothing behind them, inside to the left, and which exit each is, (O,) int32; no gates in thin walls."""
    found, owners = [], []
    for opening in floor.openings:
        middle = Point(opening.mean(0))
        if floor.area.boundary.distance(middle) <= SNAP:
            (x, y), hair = opening[1] - opening[0], SNAP / math.hypot(*(opening[1] - opening[0]))
            left = Point(opening.mean(0) + np.array([-2 * hair * y, 2 * hair * x]))
            found.append(opening if floor.area.contains(left) else opening[::-1])
            owners.append(next(n for n, place in enumerate(exits) if place is not None and place.distance(middle) <= 2 * SNAP))
    return np.array(found).reshape(-1, 2, 2), np.array(owners, np.int32)


def covers(area: Area, points: np.ndarray) -> np.ndarray:
    """Whether each of (n, 2) points lies in an area or on its outline, (n,) bool."""
    shapely.prepare(area)
    return shapely.intersects_xy(area, points[:, 0], points[:, 1])


def within(floor: Floor, area: Area, radius: float = 0.0) -> Area:
    """The part of an area, m, where the centre of a disc of `radius` may be, and no joined side cuts it; may be empty."""
    room = shapely.intersection(area, floor.area)
    room = shapely.intersection(room, floor.free(radius)) if radius else room  # which goes on beyond exits
    if radius and len(floor.seams):
        room = shapely.difference(room, MultiLineString(list(floor.seams)).buffer(radius, cap_style="flat"))
    return solid(room)


def beyond(floor: Floor, area: Area) -> tuple[float, tuple[float, float]]:
    """How much of an area, m^2, lies neither where people walk nor in an obstacle, and a place there, m; all of what touches nothing."""
    plan = shapely.union_all([floor.area, *(obstacle for _, obstacle in floor.obstacles)])
    out = shapely.difference(area, plan)
    x, y = (area if out.is_empty else out).representative_point().coords[0]
    return float(out.area), (x, y)


def check_place(floor: Floor, place: Place, where: str) -> None:
    """A goal must lie in the walkable area. Raises ScenarioError naming it and how much of it lies outside."""
    beyond = shapely.difference(place, floor.area.buffer(SNAP))
    if beyond.is_empty:
        return
    for name, obstacle in floor.obstacles:
        if obstacle.buffer(-1e-6).intersects(place):
            spot = shapely.get_coordinates(place)[0] + floor.origin
            raise ScenarioError(f"{where}: lies in {name}. Move it to where people can walk.", place=(spot[0], spot[1]))
    gap = f"{floor.area.distance(place):.3g} m away from it" if not place.intersects(floor.area) else "reaching out of it"
    if isinstance(place, LineString) and gap.startswith("reaching"):
        gap = f"with {beyond.length:.3g} m of {place.length:.3g} m outside"
    x, y = shapely.get_coordinates(beyond)[0] + floor.origin
    text = f"{where}: lies outside the walkable area near {at((x, y))}, {gap}. Move it inside, or enlarge the area."
    raise ScenarioError(text, place=(x, y))


def check_zone(floor: Floor, area: Area, where: str) -> None:
    """A zone must hold a part of the walkable area. Raises ScenarioError naming it and how far off it lies."""
    if not within(floor, area).is_empty:
        return
    x, y = np.asarray(area.representative_point().coords[0]) + floor.origin
    gap = floor.area.distance(area)
    far = f"{gap:.3g} m away from it" if gap > 0 else "where nobody can walk"
    text = f"{where}: lies outside the walkable area near {at((x, y))}, {far}. Move it inside, or take it out."
    raise ScenarioError(text, place=(x, y))


def unreachable(floor: Floor, starts: np.ndarray, radii: np.ndarray, place: Place, reach: float) -> np.ndarray:
    """Who of (n, 2) starts m with radii (n,) m cannot come within `reach` m of a place, (n,) bool.

    Decided on the free polygon of each one's own radius: a raster cannot tell a door of 0.52 m from one of 0.45 m.
    """

    def lost(number: int, radius: float) -> bool:
        here = Point(starts[number])
        # The start was checked to be free; rounding may leave it a hair outside its polygon.
        mine = [part for part in shapely.get_parts(floor.free(radius)) if part.distance(here) < 1e-6]
        return not any(part.distance(place) <= reach + 1e-9 for part in mine)

    stoutest = float(radii.max(initial=0.0))
    result = np.zeros(len(starts), bool)
    for number, radius in enumerate(radii):
        result[number] = lost(number, stoutest) and lost(number, float(radius))
    return result
