"""Scenario files: TOML in, checked and built Scenario out. No simulation here."""

from crowdlab.scenario.building import PlanWarning, Scenario, build, variant
from crowdlab.scenario.files import load, shipped
from crowdlab.scenario.reporting import GeometryReport, geometry_report
from crowdlab.scenario.schema import schema

__all__ = [
    "GeometryReport",
    "PlanWarning",
    "Scenario",
    "build",
    "geometry_report",
    "load",
    "schema",
    "shipped",
    "variant",
]
