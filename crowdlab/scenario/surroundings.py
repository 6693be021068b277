"""What stands round the people of a scenario: its plan, its goals, and the World made of them."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

import jax.numpy as jnp
import numpy as np

from crowdlab import demand, geometry, navigation
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Notes, Place, Plan
from crowdlab.scenario.tables import REACH, GoalTable, ScenarioTable, WorldTable, plain_shape
from crowdlab.state import World

COARSEST = 1.0  # m between the nodes of the raster of ways; beyond, no passage that people need is left open in it
MARGIN = 1.0  # m, how far the box of a world reaches beyond its area
# m, the same where other sides are joined: the engine joins all, and nobody shall feel anybody across those that only it joins.
WIDE_MARGIN = 8.0
FAR = 1e5  # m, how far off the point is that stands for a direction to walk in


@dataclasses.dataclass(frozen=True, eq=False)
class Goal:
    """A goal with its shape, edges (E, 2, 2) m and what happens on arrival."""

    place: Place | None  # none for a direction
    edges: np.ndarray
    leaves: bool
    reach: float  # m
    crossed: bool  # reached by going over an edge
    places: bool  # where each has a place of the own, in a queue or a waiting area
    direction: tuple[float, float] | None = None  # unit; people walk in it for ever
    item: str = ""  # what messages call it

    @property
    def target(self) -> tuple[Place | None, float, str]:
        """What somebody has to get to, from what distance, m, and what messages call it."""
        return self.place, 0.0 if self.crossed or self.places else self.reach, self.item


def surveyed(table: WorldTable, *, collects: bool = False) -> Plan:
    """The plan of a scenario: read, mended, less its origin. Raises ScenarioError unless mistakes are collected."""
    area = plain_shape(table.area)
    if table.origin is not None:
        geometry.read_points([table.origin], "world.origin")
    notes = Notes(geometry.choose_origin(area) if table.origin is None else table.origin, collects=collects)
    obstacles = table.obstacles if isinstance(table.obstacles, str) else [plain_shape(spec) for spec in table.obstacles]
    periodic = table.periodic
    joined = geometry.Joined(x=periodic in ("x", "both"), y=periodic in ("y", "both"))
    return geometry.read_plan(area, obstacles, table.walls, notes, joined)


def check_joined(tables: ScenarioTable) -> None:
    """Refuse what a periodic world has none of. Raises ScenarioError naming it."""
    sources = [f"groups.{name}.source" for name, group in tables.groups.items() if group.source is not None]
    for where in [*(f"doors.{name}" for name in tables.doors), *sources] if tables.world.periodic else ():
        raise ScenarioError(f"{where}: there are none in a periodic world. Take it out, or world.periodic.")


def furnished(
    plan: Plan, tables: Mapping[str, GoalTable], passing: Container[str] = (), ends: Container[str] = ()
) -> tuple[dict[str, Goal], Floor]:
    """Goals and floor of a plan, with its exits open; after those `passing` something else comes in a journey, after the `ends` nothing.

    Raises:
        ScenarioError: what is wrong with a goal, unless mistakes are collected.
    """
    notes, goals = plan.notes, {}
    for name, table in tables.items():
        with notes.attempt(f"goals.{name}"):
            if table.direction is not None:
                goals[name] = _read_direction(table, f"goals.{name}", plan.area)
                continue
            goals[name] = _read_goal(table, f"goals.{name}", notes, name in passing, name in ends)
    exits = {f"goals.{name}": goal.edges for name, goal in goals.items() if goal.leaves}
    geometry.note_exits(plan, exits)
    floor = geometry.lay_floor(plan.area, plan.obstacles, [line for _, line in plan.lines], exits.values(), notes, plan.joined)
    for name, goal in goals.items():
        if goal.place is not None:
            with notes.attempt(f"goals.{name}"):
                geometry.check_place(floor, goal.place, f"goals.{name}")
    return goals, floor


def _read_direction(table: GoalTable, where: str, area: geometry.Area) -> Goal:
    """A direction to walk in for ever, as a point so far off that nobody comes there. Raises ScenarioError."""
    others = [key for key, value in vars(table).items() if value is not None and key != "direction"]
    if others:
        raise ScenarioError(f"{where}: people walk in a direction for ever. Leave {', '.join(others)} out.")
    assert table.direction is not None
    length = math.hypot(*table.direction)
    if not 0 < length < math.inf:
        raise ScenarioError(
            f"{where}.direction = {list(table.direction)}: allowed is any vector of some length. Give one like [1, 0]."
        )
    x, y = table.direction[0] / length, table.direction[1] / length
    point = np.mean(np.reshape(area.bounds, (2, 2)), 0) + np.array([FAR * x, FAR * y])
    return Goal(None, np.stack([point, point])[None], leaves=False, reach=0.0, crossed=False, places=False, direction=(x, y))


def _read_goal(table: GoalTable, where: str, notes: Notes, passing: bool, ends: bool) -> Goal:
    """One goal; usual for a line or an area is to leave there, unless a journey goes on."""
    _check_goal(table, where, passing)
    if table.queue is not None:
        place = geometry.read_place(where, point=(table.queue or [(math.nan, math.nan)])[-1], notes=notes)
    else:
        polygon = plain_shape(table.polygon)
        place = geometry.read_place(where, line=table.line, point=table.point, polygon=polygon, notes=notes)
    small = table.point is not None or table.queue is not None
    waits = table.places is not None
    then = table.then or ("stand" if small or waits else "next" if passing else "leave")
    if table.then is None and then == "next" and ends:
        raise ScenarioError(f"{where}: people go on from there and others end there. Give then = 'next' or 'stand', or two goals.")
    if then == "leave" and (table.brake or table.stay or table.until or table.reach):
        raise ScenarioError(
            f"{where}: who leaves over a line neither stays, waits nor brakes before it. Take stay, until, brake and reach out, or give "
            "then = 'next' or 'stand'."
        )
    if then == "leave" and small:
        raise ScenarioError(f"{where}.then = 'leave': a point is too small to walk through. Give a line or a polygon.")
    crossed = then == "leave" or (then == "next" and not small and table.reach is None)
    reach = REACH if table.reach is None else table.reach
    item = where if table.queue is None else f"{where}.queue[{len(table.queue) - 1}]"
    placed = waits or table.queue is not None
    return Goal(place, geometry.edges_of(place), then == "leave", reach, crossed, placed, item=item)


def _check_goal(table: GoalTable, where: str, passing: bool) -> None:
    """Refuse what does not go together in a goal. Raises ScenarioError."""
    if passing and table.then == "leave":
        raise ScenarioError(f"{where}.then = 'leave': a journey goes on from there. Give 'next', or another goal at the end of it.")
    if table.then == "next" and not passing:
        raise ScenarioError(
            f"{where}.then = 'next': no journey goes on from there. Allowed are 'leave' and 'stand'. Give one of them, or a journey in "
            "which something comes after it."
        )
    if table.queue is not None and (table.line, table.point, table.polygon, table.places) != (None, None, None, None):
        raise ScenarioError(f"{where}: a queue is its places. Leave line, point, polygon and places out.")
    if table.queue is not None and not table.queue:
        raise ScenarioError(f"{where}.queue: is empty. Give the places, the one who is served first.")
    if table.places is not None and (table.polygon is None or table.then == "leave"):
        raise ScenarioError(f"{where}.places: people wait in an area. Give a polygon, and leave then = 'leave' out.")
    if table.places is not None and (table.reach or table.brake):
        raise ScenarioError(f"{where}: who has a place walks up to it and slows down there. Take reach and brake out.")
    if (table.stay or table.until) and not passing:
        raise ScenarioError(f"{where}: nobody goes on from there. Take stay and until out, or give a journey that goes on.")


def make_world(
    floor: Floor, goals: list[Goal], radius: np.ndarray, notes: Notes, *, thin: bool
) -> tuple[World, np.ndarray, Callable[[Floor, Sequence[Goal]], np.ndarray]]:
    """The World of a floor and its goals, for people of these radii, m; its ways with their lengths, and what computes them for other
    walls and edges of the goals (see navigation.ways). `thin` says whether there are walls without thickness; a coarse raster is noted.

    Raises:
        ScenarioError: the raster of the ways is too coarse for thin walls.
    """
    lower, size = _box(floor)
    box = (lower, size) if any(floor.joined) else None
    sizes = radius if len(radius) else np.array([demand.Body.radius])
    alike = geometry.alike(floor, sizes)
    cell = navigation.choose_cell(size, len(goals) * len(alike), float(sizes.min()))
    told = f"{len(goals)} goal{'s' * (len(goals) != 1)}" + (f" and {len(alike)} sizes of bodies" if len(alike) > 1 else "")
    _check_cell(cell, float(sizes.min()), told, notes, thin=thin)
    edges, leaves = [goal.edges for goal in goals], [goal.leaves for goal in goals]
    ways = partial(_ways, lower=lower, size=size, cell=cell, sizes=alike)
    outlets, owners = geometry.outlets(floor, [goal.place if goal.leaves else None for goal in goals])
    walls, fields = geometry.wall_arrays(floor.walls, box), ways(floor, goals)
    world = World(
        walls=demand.reals(walls["walls"]),
        wall_vertices=demand.reals(walls["wall_vertices"]),
        wall_directions=demand.reals(walls["wall_directions"]),
        wall_part=jnp.asarray(walls["wall_part"]),
        goals=demand.reals(navigation.pad_goals(edges)),
        goal_leaves=jnp.asarray(np.asarray(leaves, bool)),
        goal_reach=demand.reals([goal.reach for goal in goals]),
        ways=demand.reals(fields[:, :3]),
        ways_cell=demand.reals(cell),
        ways_sizes=demand.reals([(thin.max() + stout.min()) / 2 for thin, stout in itertools.pairwise(alike)]),
        outlets=demand.reals(outlets),
        outlet_goal=jnp.asarray(owners),
        lower=lower,
        size=size,
        periodic=box is not None,
    )
    return world, fields, ways


def _check_cell(cell: float, radius: float, fields: str, notes: Notes, *, thin: bool) -> None:
    """Note a raster of ways too coarse for what is said of them, for people of `radius` m and more. Raises ScenarioError if thin walls
    stand where it would lead people through them.
    """
    if cell > COARSEST:
        raise ScenarioError(
            f"world: the raster of ways has its nodes {cell:.3g} m apart, the finest that fits the memory for {fields}: allowed are up to "
            f"{COARSEST:g} m. Coordinates are in metres: is the plan drawn in millimetres? Otherwise cut it, or use fewer goals."
        )
    sound, most = navigation.sound_cell(radius), navigation.sound_cell(radius, 1.0)
    if thin and cell > most:
        raise ScenarioError(
            f"world: the raster of ways has its nodes {cell:.3g} m apart, the finest that fits the memory for {fields}: allowed beside "
            f"walls without thickness (world.walls, doors) are {most:.3g} m for a radius of {radius:.3g} m, or ways lead through them. "
            "Use fewer goals, a smaller area, or obstacles as thick as a body in place of such walls."
        )
    if cell > sound * (1 + 1e-6):
        notes.add(
            geometry.WARNING,
            "world",
            f"the nodes of the raster of ways are farther apart than {sound:.3g} m, up to which ways are right for a radius of "
            f"{radius:.3g} m: more do not fit the memory for {fields}",
            geometry.NOWHERE,
            *(cell, "m"),
            f"Kept: doors narrower than {navigation.PASSED * cell:.2g} m may be closed, and who comes nearer than "
            f"{cell / math.sqrt(2):.2g} m to a wall thinner than that may be led to its other side. Use fewer goals or a smaller area.",
        )


def _box(floor: Floor) -> tuple[tuple[float, float], tuple[float, float]]:
    """Lower corner and size of the box of a world, m: to the joined sides, and beyond the others."""
    left, bottom, right, top = floor.area.bounds
    ends, margins = ((left, right), (bottom, top)), []
    for (low, high), joined in zip(ends, floor.joined, strict=True):
        # Half the box is the farthest look that is allowed, so the margins together must be more than that.
        margins.append(0.0 if joined else max(WIDE_MARGIN, (high - low) / 2 + MARGIN) if any(floor.joined) else MARGIN)
    lower = (left - margins[0], bottom - margins[1])
    return lower, (right - left + 2 * margins[0], top - bottom + 2 * margins[1])


def _ways(
    floor: Floor,
    goals: Sequence[Goal],
    *,
    lower: tuple[float, float],
    size: tuple[float, float],
    cell: float,
    sizes: Sequence[np.ndarray],
) -> np.ndarray:
    """`navigation.ways` to all goals; those of a direction are the same everywhere, and have no length."""
    placed = [goal for goal in goals if goal.direction is None]
    edges, crossed = [goal.edges for goal in placed], [goal.crossed for goal in placed]
    found = navigation.ways(floor, edges, crossed, lower=lower, size=size, cell=cell, sizes=sizes)
    if len(placed) == len(goals):
        return found
    fields = np.empty((len(goals), len(sizes), *found.shape[1:]), np.float32)
    fields[[goal.direction is None for goal in goals]] = found.reshape(-1, *fields.shape[1:])
    for goal, field in zip(goals, fields, strict=True):
        if goal.direction is not None:
            field[:] = np.reshape([*goal.direction, 0.0, math.inf], (1, 4, 1, 1))
    return fields.reshape(-1, *found.shape[1:])
