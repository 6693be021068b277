"""What differs from person to person: numbers drawn from the key, each by its own law."""

import dataclasses
import math
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from crowdlab.errors import ScenarioError
from crowdlab.geometry import uniforms
from crowdlab.params import Spec, check_value, param, pytree
from crowdlab.state import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Numbers that differ from person to person."""

    uniform: tuple[float, float] | None = None  # from, to
    normal: tuple[float, float] | None = None  # mean, standard deviation
    least: float | None = None  # a normal distribution is cut here, by drawing from what is left of it
    most: float | None = None


Quantity: TypeAlias = float | list[float] | Distribution


@pytree
class Body:
    """What a person is made of."""

    radius: Any = param(
        default=0.25,
        unit="m",
        low=0.1,
        high=0.5,
        least=0.01,
        doc="radius of the body",
        source="Helbing, Farkas & Vicsek 2000: 0.25-0.35",
    )
    social_radius: Any = param(
        default=0.25,
        unit="m",
        low=0.1,
        high=1.0,
        doc="personal space, from which the social force is counted",
        source="the body radius",
    )
    mass: Any = param(default=80.0, unit="kg", low=20.0, high=150.0, least=1.0, doc="mass", source="Helbing, Farkas & Vicsek 2000")


def draw(quantity: Quantity, count: int, key: Array, where: str, law: Spec) -> np.ndarray:
    """One value per person, (count,). Raises ScenarioError or ParamError naming `where`, the value and what is allowed."""
    if isinstance(quantity, list):
        if len(quantity) != count:
            raise ScenarioError(f"{where}: has {len(quantity)} values for {count} people. Give one for each, or a single number.")
        values = np.array(quantity, float)
    elif isinstance(quantity, Distribution):
        values = _draw_from(quantity, uniforms(key, count)[:, 0], where, law)
    else:
        values = np.full(max(count, 1), float(quantity))  # it must be right even where nobody is
    check_value(where, values, law)
    return values[:count]


def _draw_from(spread: Distribution, chance: np.ndarray, where: str, law: Spec) -> np.ndarray:
    if (spread.uniform is None) == (spread.normal is None):
        raise ScenarioError(f"{where}: give exactly one of uniform = [from, to] and normal = [mean, deviation].")
    if spread.uniform is not None:
        low, high = spread.uniform
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ScenarioError(f"{where}.uniform = [{low:g}, {high:g}]: allowed are two finite numbers, the smaller one first.")
        if spread.least is not None or spread.most is not None:
            raise ScenarioError(f"{where}: least and most belong to normal; uniform has its two ends.")
        return low + (high - low) * chance
    mean, deviation = spread.normal or (0.0, 1.0)
    least = law.least if spread.least is None else spread.least
    most = law.most if spread.most is None else spread.most
    if not (math.isfinite(mean) and 0 < deviation < math.inf):
        raise ScenarioError(f"{where}.normal = [{mean:g}, {deviation:g}]: allowed are a mean and a deviation above zero.")
    bell = NormalDist(mean, deviation)
    bottom, top = bell.cdf(least), bell.cdf(most)
    if not top - bottom > 1e-9:
        raise ScenarioError(
            f"{where}: nothing of the normal distribution lies between least = {least:g} and most = {most:g}. Widen them."
        )
    share = np.clip(bottom + (top - bottom) * chance, 1e-15, 1 - 1e-15)
    # The end points themselves may be missed by rounding of the inverse.
    return np.clip([bell.inv_cdf(float(one)) for one in share], least, most)
