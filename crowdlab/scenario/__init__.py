"""Scenario files: TOML in, checked and built Scenario out. No simulation here."""

from crowdlab.scenario.building import Scenario, build, variant
from crowdlab.scenario.files import load, shipped
from crowdlab.scenario.tables import schema

__all__ = ["Scenario", "build", "load", "schema", "shipped", "variant"]
