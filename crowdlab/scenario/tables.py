"""The tables of a scenario file as types: decoding with errors that name the key, and the JSON schema made from the same types."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from crowdlab.demand import Body, Distribution, Group, Profile
from crowdlab.errors import ScenarioError, nearest
from crowdlab.forces import FORCES
from crowdlab.integrate import MOTIONS
from crowdlab.params import Limits, People, Spec, specs

T = TypeVar("T")
Points = list[tuple[float, float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rings:
    """An area with holes."""

    outer: Points
    holes: list[Points] = dataclasses.field(default_factory=list)


AreaSpec = Points | str | Rings
LineSpec = Points | str
REACH = 0.5  # m, arrival distance of a target that says nothing else


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorldTable:
    """Where people may walk."""

    area: AreaSpec
    obstacles: list[AreaSpec] | str = dataclasses.field(default_factory=list)
    walls: list[LineSpec] | str = dataclasses.field(default_factory=list)
    origin: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoalTable:
    """A place to walk to."""

    line: LineSpec | None = None
    point: tuple[float, float] | None = None
    polygon: AreaSpec | None = None
    then: Literal["leave", "stand"] | None = None
    reach: Annotated[float, msgspec.Meta(gt=0)] = REACH


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupTable(Group):
    """People who have something in common."""

    count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    density: Annotated[float, msgspec.Meta(ge=0)] | None = None
    area: AreaSpec | None = None
    goal_area: AreaSpec | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoorTable:
    """A door that opens and closes."""

    line: Points
    opens: list[float] = dataclasses.field(default_factory=list)
    closes: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """A whole scenario file."""

    world: WorldTable
    title: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    duration: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    frames_per_second: Annotated[float, msgspec.Meta(gt=0)] = 8.0
    goals: dict[str, GoalTable] = dataclasses.field(default_factory=dict)
    doors: dict[str, DoorTable] = dataclasses.field(default_factory=dict)
    groups: dict[str, GroupTable] = dataclasses.field(default_factory=dict)
    profiles: dict[str, Profile] = dataclasses.field(default_factory=dict)
    forces: dict[str, dict[str, Any]] | None = None
    motion: dict[str, Any] = dataclasses.field(default_factory=dict)
    limits: dict[str, Any] = dataclasses.field(default_factory=dict)


NUMBERS = "number, {uniform = [from, to]}, {normal = [mean, deviation]}, lognormal, gamma or weibull with least and most, or a list"
# What a key means and holds; shown in errors and in the schema.
MEANING = {
    "area": "ring of points [[x, y], ...] in m, WKT, GeoJSON, the name of a file with either, or {outer, holes}",
    "obstacles": "list of areas taken out of the walkable area, or one geometry of many",
    "walls": "list of open polylines [[x, y], ...] in m or as WKT or GeoJSON, or one geometry of many",
    "origin": "[x, y] in m that is (0, 0) inside; usual is [0, 0] near it and the lower left corner of a plan far away",
    "outer": "ring of points [[x, y], ...] in m",
    "holes": "list of rings",
    "line": "points [[x, y], ...] in m, WKT or GeoJSON",
    "point": "[x, y] in m",
    "polygon": "ring of points [[x, y], ...] in m, WKT, GeoJSON, the name of a file with either, or {outer, holes}",
    "then": "'leave' (usual for line and polygon) or 'stand' (usual for point)",
    "reach": "number above 0 in m, the arrival distance where people stand",
    "count": "whole number of people, 0 or more",
    "positions": "one [x, y] in m for each person",
    "goal": "name of a table under goals",
    "goal_area": "area with a random point for each person",
    "desired_speed": f"m/s: {NUMBERS}",
    "radius": f"m: {NUMBERS}",
    "social_radius": "m: as radius; usual is the radius of the body",
    "mass": f"kg: {NUMBERS}",
    "relaxation_time": f"s: {NUMBERS}",
    "pre_movement": "s: as relaxation_time; before it is over somebody does not walk",
    "profiles": "share of each kind of people, as {adult = 0.8, impaired = 0.2}; at the top one table for each kind",
    "density": "people per m^2 in place of a count, 0 or more",
    "gaussian": "{centre = [x, y], deviation} in m: a start that is densest in the middle",
    "centre": "[x, y] in m",
    "deviation": "number above 0 in m",
    "uniform": "[from, to]",
    "normal": "[mean, deviation]",
    "lognormal": "[mean, deviation] of the natural logarithm",
    "gamma": "[shape, scale]",
    "weibull": "[shape, scale]",
    "least": "number below which nothing is drawn",
    "most": "number above which nothing is drawn",
    "title": "text",
    "seed": "whole number from 0 to 4294967295",
    "duration": "number above 0 in s",
    "frames_per_second": "number above 0 in 1/s",
    "world": "table with the key area",
    "goals": "one table for each goal",
    "doors": "one table for each door that opens or closes",
    "opens": "list of times in s",
    "closes": "list of times in s; it waits until nobody stands in it",
    "groups": "one table for each group",
    "forces": "one table for each force",
    "motion": "table of parameters",
    "limits": "table of parameters",
}


def decode(spec: Any, kind: type[T], where: str = "") -> T:
    """One table as its type.

    Raises:
        ScenarioError: names the key by its full path, its value, what is allowed, and for an unknown key the nearest one.
    """
    title = where or "the scenario"
    if not isinstance(spec, Mapping):
        raise ScenarioError(f"{title} = {brief(spec)}: allowed is a table. Write [{where}] and its keys below.")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind, include_extras=True)
    for key in spec:
        if key not in fields:
            raise ScenarioError(f"{title}: unknown key '{key}'. {nearest(str(key), list(fields))}")
    values = {}
    for key, field in fields.items():
        path = f"{where}.{key}" if where else key
        if key in spec:
            values[key] = _value(spec[key], hints[key], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ScenarioError(f"{title}: key '{key}' is missing. Allowed: {MEANING.get(key, 'any')}.")
    return kind(**values)


def _value(value: Any, hint: Any, path: str) -> Any:
    key = path.rsplit(".", 1)[-1]
    inner = [part for part in typing.get_args(hint) if isinstance(part, type) and dataclasses.is_dataclass(part)]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return decode(value, hint, path)
    if typing.get_origin(hint) is dict and len(inner) == 1:
        if not isinstance(value, Mapping):
            raise ScenarioError(f"{path} = {brief(value)}: allowed: {MEANING[key]}.")
        return {name: decode(table, inner[0], f"{path}.{name}") for name, table in value.items()}
    if isinstance(value, Mapping) and len(inner) == 1:
        return decode(value, inner[0], path)
    try:
        result = msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        spot = f" at {key}{place.rstrip('`')}" if place else ""
        raise ScenarioError(
            f"{path} = {brief(value)}: {what[0].lower()}{what[1:]}{spot}. Allowed: {MEANING.get(key, 'any')}."
        ) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise ScenarioError(f"{path} = {result}: allowed: {MEANING.get(key, 'a finite number')}.")
    return result


def brief(value: Any) -> str:
    """A value as messages show it, cut when long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def plain(value: Any) -> Any:
    """The same as lists, tables, texts and numbers, as a scenario file holds them; shapely geometries become WKT."""
    if hasattr(value, "geom_type"):
        return value.wkt
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def schema() -> dict[str, Any]:
    """JSON schema of a scenario file, made from the types; forces and motions with the units and bounds of their parameters."""
    _, tables = msgspec.json.schema_components([ScenarioTable], ref_template="#/$defs/{name}")
    for table in tables.values():
        table["additionalProperties"] = False
        for key, entry in table.get("properties", {}).items():
            if key in MEANING:
                entry["description"] = MEANING[key]
    for key, law in [*specs(Body()), *specs(People())]:
        tables["GroupTable"]["properties"][key]["description"] += f"; {_bounds(law)}"
    for name, key in SHAPES:
        tables[name]["properties"][key]["anyOf"].append(GEOJSON)
    whole = tables.pop("ScenarioTable")
    forces = {name: _parameters(kind, KIND | ON) for name, kind in FORCES.items()}
    motions = {name: _parameters(kind, KIND) for name, kind in MOTIONS.items()}
    tables |= {f"force.{name}": table for name, table in forces.items()} | {
        f"motion.{name}": table for name, table in motions.items()
    }
    whole["properties"]["forces"] = {
        "description": MEANING["forces"],
        "type": "object",
        "properties": {name: {"$ref": f"#/$defs/force.{name}"} for name in forces},
        "additionalProperties": {
            "required": ["kind"],
            "oneOf": [{"allOf": [{"$ref": f"#/$defs/force.{name}"}, {"properties": {"kind": {"const": name}}}]} for name in forces],
        },
    }
    kinds = [{"allOf": [{"$ref": f"#/$defs/motion.{name}"}, {"properties": {"kind": {"const": name}}}]} for name in motions]
    whole["properties"]["motion"] = {"anyOf": kinds}
    tables["limits"] = _parameters(Limits)
    whole["properties"]["limits"] = {"$ref": "#/$defs/limits"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "crowdlab scenario", **whole, "$defs": tables}


SHAPES = (
    *(("WorldTable", key) for key in ("area", "obstacles", "walls")),
    *(("GoalTable", key) for key in ("polygon", "line")),
    *(("GroupTable", key) for key in ("area", "goal_area")),
)
GEOJSON = {"type": "object", "required": ["type"], "description": "a GeoJSON object"}
KIND = {"kind": {"type": "string", "description": "name of the law, where the table is called otherwise"}}
ON = {"on": {"type": "boolean", "default": True, "description": "false leaves this force out"}}


def _parameters(kind: type, others: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    entries = dict(others)
    for field in dataclasses.fields(kind):
        law = field.metadata.get("spec")
        entry: dict[str, Any] = {}
        if law is not None:
            number = {"type": "number", "minimum": law.least} | ({"maximum": law.most} if math.isfinite(law.most) else {})
            entry = {
                "anyOf": [number, {"type": "array", "items": number}],
                "description": f"{law.doc}; {_bounds(law)}; {law.source}",
            }
            entry |= {"default": law.default} if math.isfinite(law.default) else {}
        entries[field.name] = entry
    return {
        "type": "object",
        "description": (kind.__doc__ or "").split("\n")[0],
        "properties": entries,
        "additionalProperties": False,
    }


def _bounds(law: Spec) -> str:
    most = "any size" if math.isinf(law.most) else f"{law.most:g}"
    return f"{law.least:g} to {most} {law.unit}, usual {law.default:g}"


__all__ = [
    "REACH",
    "Distribution",
    "DoorTable",
    "GoalTable",
    "GroupTable",
    "ScenarioTable",
    "WorldTable",
    "brief",
    "decode",
    "plain",
    "schema",
]
