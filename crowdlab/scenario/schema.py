"""The JSON schema of scenario files, made from the same types that decode them."""

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from crowdlab.demand import Body
from crowdlab.forces import FORCES
from crowdlab.integrate import MOTIONS
from crowdlab.params import Limits, People, specs
from crowdlab.scenario.meaning import MEANING
from crowdlab.scenario.tables import ScenarioTable
from crowdlab.trees import Spec
from crowdlab.zones import ZONES


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
    for kind in ZONES.values():
        for key, law in specs(kind()):
            entry = tables["ZoneTable"]["properties"][key]
            entry["description"] += f"; {_bounds(law)}; {law.source}"
            entry["anyOf"] = [part | ({"minimum": law.least} if part["type"] == "number" else {}) for part in entry["anyOf"]]
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
    ("ZoneTable", "polygon"),
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
