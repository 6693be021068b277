"""Shapes that a scenario takes from elsewhere: files and GeoJSON become text that stands in the scenario itself, and go out again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crowdlab import geometry
from crowdlab.errors import ScenarioError, nearest

FILES = (".geojson", ".json", ".wkt")
ROLES = ("area", "obstacle", "wall")  # what the property `crowdlab` of a feature may say
SHAPES = {"goals": ("polygon", "line"), "zones": ("polygon",), "groups": ("area", "goal_area")}


def inlined(spec: Any, folder: Path | None = None) -> Any:
    """The tables of a scenario with WKT in place of GeoJSON objects and of names of files, which are looked for in `folder`.

    `world` may be one FeatureCollection whose features say by the property `crowdlab` what they are: area, obstacle or wall.

    Raises:
        ScenarioError: a file that cannot be read or is neither GeoJSON nor WKT, by the key that names it.
    """
    if not isinstance(spec, Mapping):
        return spec
    folder = Path() if folder is None else folder
    result = dict(spec)
    world = result.get("world")
    if _is_file(world) or (isinstance(world, Mapping) and world.get("type") == "FeatureCollection"):
        world = _sorted(_loaded(world, "world", folder), "world")
    if isinstance(world, Mapping):
        result["world"] = {key: _world_shape(value, f"world.{key}", folder) for key, value in world.items()}
    for table, keys in SHAPES.items():
        entries = result.get(table)
        if isinstance(entries, Mapping):
            result[table] = {name: _entry(entry, keys, f"{table}.{name}", folder) for name, entry in entries.items()}
    return result


def _entry(entry: Any, keys: tuple[str, ...], where: str, folder: Path) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {key: _text(value, f"{where}.{key}", folder) if key in keys else value for key, value in entry.items()}


def _world_shape(value: Any, where: str, folder: Path) -> Any:
    if isinstance(value, list | tuple) and where != "world.area":
        return [_text(item, f"{where}[{number}]", folder) for number, item in enumerate(value)]
    return _text(value, where, folder)


def _text(value: Any, where: str, folder: Path) -> Any:
    """WKT of a GeoJSON object or of what a file holds; anything else as it is."""
    value = _loaded(value, where, folder)
    if (isinstance(value, Mapping) and "type" in value) or (isinstance(value, str) and value.lstrip().startswith("{")):
        return geometry.from_geojson(value, where).wkt
    return value


def is_shape(text: str | Path) -> bool:
    """Whether a text is WKT, GeoJSON or the name of a file with either, and not the name of a scenario."""
    return _is_file(text) or str(text).lstrip().startswith("{") or ("(" in str(text) and not str(text).endswith(".toml"))


def _is_file(value: Any) -> bool:
    return isinstance(value, Path) or (isinstance(value, str) and value.lower().endswith(FILES))


def _loaded(value: Any, where: str, folder: Path) -> Any:
    """The text of a file if the value names one."""
    if not _is_file(value):
        return value
    file = folder / value
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text in UTF-8"
        raise ScenarioError(
            f"{where} = '{value}': cannot be read ({file}: {reason}). Give the name of a GeoJSON or WKT file beside the scenario."
        ) from None


def _sorted(collection: Any, where: str) -> dict[str, Any]:
    """The world that a FeatureCollection describes."""
    kinds: dict[str, list[Any]] = {role: [] for role in ROLES}
    for number, feature in enumerate(geometry.features(collection, where)):
        properties = feature.get("properties")
        role = properties.get("crowdlab") if isinstance(properties, Mapping) else None
        if role not in ROLES:
            raise ScenarioError(
                f"{where}.features[{number}].properties.crowdlab = {role!r}: says what the feature is. {nearest(str(role), ROLES)}"
            )
        kinds[role].append(feature.get("geometry"))
    world: dict[str, Any] = {"area": {"type": "GeometryCollection", "geometries": kinds["area"]}}
    return world | {f"{role}s": kinds[role] for role in ROLES[1:] if kinds[role]}
