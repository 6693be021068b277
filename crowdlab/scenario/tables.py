"""The tables of a scenario file as types: decoding with errors that name the key."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from crowdlab.demand import Distribution, Group, Profile
from crowdlab.errors import ScenarioError, nearest
from crowdlab.scenario.meaning import MEANING

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
    periodic: Literal["x", "y", "both"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class GoalTable:
    """A place to walk to."""

    line: LineSpec | None = None
    point: tuple[float, float] | None = None
    polygon: AreaSpec | None = None
    queue: Points | None = None
    direction: tuple[float, float] | None = None
    then: Literal["leave", "stand", "next"] | None = None
    reach: Annotated[float, msgspec.Meta(gt=0)] | None = None
    stay: float | list[float] | Distribution | None = None
    brake: float | None = None
    until: list[float] | None = None
    places: Annotated[int, msgspec.Meta(ge=1)] | Points | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageTable:
    """What comes next in a journey: one goal, one of several, or several to visit."""

    goal: str | None = None
    choose: list[str] | None = None
    by: Literal["weights", "shortest", "least_crowded", "quickest"] | None = None
    weights: list[float] | None = None
    visit: list[str] | None = None
    order: Literal["nearest", "given"] | None = None
    some: Annotated[int, msgspec.Meta(ge=1)] | None = None
    patience: Annotated[float, msgspec.Meta(gt=0)] | None = None
    rethink: Annotated[float, msgspec.Meta(gt=0)] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class JourneyTable:
    """Goals one after the other."""

    stages: list[str | StageTable]
    loop: bool = False


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

    line: LineSpec
    opens: list[float] = dataclasses.field(default_factory=list)
    closes: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZoneTable:
    """A place where people walk slower or faster."""

    polygon: AreaSpec
    kind: Literal["plain", "stairs"] = "plain"
    speed: float | None = None
    up: tuple[float, float] | None = None
    ascending: float | None = None
    descending: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """A whole scenario file."""

    world: WorldTable
    title: str = ""
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    duration: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    frames_per_second: Annotated[float, msgspec.Meta(gt=0)] = 10.0  # so that frames and looks (ticks.TICK) coincide
    goals: dict[str, GoalTable] = dataclasses.field(default_factory=dict)
    journeys: dict[str, JourneyTable] = dataclasses.field(default_factory=dict)
    doors: dict[str, DoorTable] = dataclasses.field(default_factory=dict)
    zones: dict[str, ZoneTable] = dataclasses.field(default_factory=dict)
    groups: dict[str, GroupTable] = dataclasses.field(default_factory=dict)
    profiles: dict[str, Profile] = dataclasses.field(default_factory=dict)
    forces: dict[str, dict[str, Any]] | None = None
    motion: dict[str, Any] = dataclasses.field(default_factory=dict)
    limits: dict[str, Any] = dataclasses.field(default_factory=dict)


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
    key = path.rsplit(".", 1)[-1].split("[")[0]
    inner = [part for part in typing.get_args(hint) if isinstance(part, type) and dataclasses.is_dataclass(part)]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return decode(value, hint, path)
    if typing.get_origin(hint) is dict and len(inner) == 1:
        if not isinstance(value, Mapping):
            raise ScenarioError(f"{path} = {brief(value)}: allowed: {MEANING[key]}.")
        return {name: decode(table, inner[0], f"{path}.{name}") for name, table in value.items()}
    if isinstance(value, Mapping) and len(inner) == 1:
        return decode(value, inner[0], path)
    if typing.get_origin(hint) is list and isinstance(value, list) and StageTable in typing.get_args(*typing.get_args(hint)):
        return [
            decode(item, StageTable, f"{path}[{number}]") if isinstance(item, Mapping) else _value(item, str, f"{path}[{number}]")
            for number, item in enumerate(value)
        ]
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


def plain_shape(shape: AreaSpec | None) -> Any:
    """A shape of a table as the readers of geometry take it."""
    return dataclasses.asdict(shape) if isinstance(shape, Rings) else shape


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


__all__ = [
    "REACH",
    "Distribution",
    "DoorTable",
    "GoalTable",
    "GroupTable",
    "JourneyTable",
    "ScenarioTable",
    "StageTable",
    "WorldTable",
    "ZoneTable",
    "brief",
    "decode",
    "plain",
    "plain_shape",
]
