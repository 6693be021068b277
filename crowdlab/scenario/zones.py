"""Zones of a scenario: from their tables to parameters and to the edges of a World."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdlab import demand, geometry, navigation
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, Notes
from crowdlab.params import check_value, specs
from crowdlab.scenario.tables import ZoneTable, brief, plain_shape
from crowdlab.state import World
from crowdlab.zones import ZONES, Plain

OWN = {word: tuple(path for path, _ in specs(kind())) for word, kind in ZONES.items()}  # the parameters of each kind


def read_zones(tables: Mapping[str, ZoneTable], floor: Floor, notes: Notes) -> dict[str, np.ndarray]:
    """Edges (E, 2, 2) m of each zone, sorted by name. Raises ScenarioError unless mistakes are collected."""
    edges = {}
    for name, table in sorted(tables.items()):
        where = f"zones.{name}"
        with notes.attempt(where):
            polygon = plain_shape(table.polygon)
            area = geometry.read_area(polygon, f"{where}.polygon", notes)
            geometry.check_zone(floor, area, where)
            edges[name] = geometry.outline(geometry.wrapped(area, floor.area.bounds, floor.joined))
    return edges


def with_zones(world: World, edges: Mapping[str, np.ndarray], tables: Mapping[str, ZoneTable]) -> World:
    """The world with these zones."""
    if not edges:
        return world
    up = [np.asarray(tables[name].up or (0.0, 0.0)) / (math.hypot(*(tables[name].up or ())) or 1.0) for name in edges]
    return dataclasses.replace(
        world, zones=demand.reals(navigation.pad_goals(list(edges.values()))), zone_up=demand.reals(np.stack(up))
    )


def zone_params(tables: Mapping[str, ZoneTable]) -> dict[str, Any]:
    """The parameters of each zone, by name. Raises ScenarioError or ParamError for what does not belong to its kind."""
    return {name: _zone(f"zones.{name}", table) for name, table in sorted(tables.items())}


def _zone(where: str, table: ZoneTable) -> Any:
    kind = ZONES[table.kind]
    if "." in where.removeprefix("zones."):
        raise ScenarioError(f"{where}: a name with a dot, which parts the names of parameters. Give another name.")
    for word in ("up", *(own for other in OWN.values() for own in other)):
        value = getattr(table, word)
        if value is not None and word not in OWN[table.kind] and not (word == "up" and table.kind == "stairs"):
            of = next((other for other, own in OWN.items() if word in own), "stairs")
            raise ScenarioError(
                f"{where}.{word} = {brief(value)}: belongs to a zone of kind '{of}', and this is '{table.kind}'. "
                f"Say kind = '{of}', or leave it out."
            )
    if kind is Plain and table.speed is None:
        raise ScenarioError(f"{where}: key 'speed' is missing. Give the factor at which people walk there, or kind = 'stairs'.")
    if table.kind == "stairs":
        up = table.up
        if up is None or not 0 < math.hypot(*up) < math.inf:
            said = f"{where}: key 'up' is missing" if up is None else f"{where}.up = {list(up)}: has no direction"
            raise ScenarioError(f"{said}. Give [dx, dy], the direction in the plan in which the stairs go up.")
    given = {word: getattr(table, word) for word in OWN[table.kind] if getattr(table, word) is not None}
    for word, law in specs(kind()):
        if word in given:
            check_value(f"{where}.{word}", given[word], law)
    return kind(**given)
