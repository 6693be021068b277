"""What stands round the people of a scenario: its plan, its goals, and the World made of them."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from crowdlab import demand, geometry, navigation
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Notes, Place, Plan
from crowdlab.scenario.tables import GoalTable, WorldTable
from crowdlab.state import World

MARGIN = 1.0  # m, how far the box of a world reaches beyond its area


@dataclasses.dataclass(frozen=True, eq=False)
class Goal:
    """A goal with its shape, edges (E, 2, 2) m and what happens on arrival."""

    place: Place
    edges: np.ndarray
    leaves: bool
    reach: float  # m


def surveyed(table: WorldTable, *, collects: bool = False) -> Plan:
    """The plan of a scenario: read, mended, less its origin. Raises ScenarioError unless mistakes are collected."""

    def given(spec: Any) -> Any:
        return spec if isinstance(spec, str | list) else dataclasses.asdict(spec)

    area = given(table.area)
    notes = Notes(geometry.choose_origin(area) if table.origin is None else table.origin, collects=collects)
    obstacles = table.obstacles if isinstance(table.obstacles, str) else [given(spec) for spec in table.obstacles]
    return geometry.read_plan(area, obstacles, table.walls, notes)


def furnished(plan: Plan, tables: Mapping[str, GoalTable]) -> tuple[dict[str, Goal], Floor]:
    """Goals and floor of a plan, with its exits open. Raises ScenarioError unless mistakes are collected."""
    notes, goals = plan.notes, {}
    for name, table in tables.items():
        with notes.attempt(f"goals.{name}"):
            goals[name] = _read_goal(table, f"goals.{name}", notes)
    exits = {f"goals.{name}": goal.edges for name, goal in goals.items() if goal.leaves}
    geometry.note_exits(plan, exits)
    floor = geometry.lay_floor(plan.area, plan.obstacles, [line for _, line in plan.lines], exits.values(), notes)
    for name, goal in goals.items():
        with notes.attempt(f"goals.{name}"):
            geometry.check_place(floor, goal.place, f"goals.{name}")
    return goals, floor


def _read_goal(table: GoalTable, where: str, notes: Notes) -> Goal:
    polygon = table.polygon if table.polygon is None or isinstance(table.polygon, str | list) else dataclasses.asdict(table.polygon)
    place = geometry.read_place(where, line=table.line, point=table.point, polygon=polygon, notes=notes)
    leaves = table.then == "leave" or (table.then is None and table.point is None)
    if leaves and table.point is not None:
        raise ScenarioError(f"{where}.then = 'leave': a point is too small to walk through. Give a line or a polygon.")
    return Goal(place, geometry.edges_of(place), leaves, table.reach)


def make_world(floor: Floor, goals: list[Goal], radius: np.ndarray) -> tuple[World, Callable[[Floor], np.ndarray]]:
    """The World of a floor and its goals, for people of these radii, m, and what computes its ways for other walls."""
    left, bottom, right, top = floor.area.bounds
    lower = (left - MARGIN, bottom - MARGIN)
    size = (right - left + 2 * MARGIN, top - bottom + 2 * MARGIN)
    sizes = radius if len(radius) else np.array([demand.Body.radius])
    alike = geometry.alike(floor, sizes)
    cell = navigation.choose_cell(size, len(goals) * len(alike), float(sizes.min()))
    edges, leaves = [goal.edges for goal in goals], [goal.leaves for goal in goals]
    ways = partial(navigation.ways, goals=edges, leaves=leaves, lower=lower, size=size, cell=cell, sizes=alike)
    walls = geometry.wall_arrays(floor.walls)
    world = World(
        walls=demand.reals(walls["walls"]),
        wall_vertices=demand.reals(walls["wall_vertices"]),
        wall_directions=demand.reals(walls["wall_directions"]),
        wall_part=jnp.asarray(walls["wall_part"]),
        goals=demand.reals(navigation.pad_goals(edges)),
        goal_leaves=jnp.asarray(np.asarray(leaves, bool)),
        goal_reach=demand.reals([goal.reach for goal in goals]),
        ways=demand.reals(ways(floor)),
        ways_cell=demand.reals(cell),
        ways_sizes=demand.reals([(thin.max() + stout.min()) / 2 for thin, stout in itertools.pairwise(alike)]),
        lower=lower,
        size=size,
    )
    return world, ways
