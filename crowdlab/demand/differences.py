"""What differs from person to person: numbers drawn from the key, each by its own law."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammainc, gammaincinv, ndtr, ndtri

from crowdlab.errors import ScenarioError
from crowdlab.geometry import uniforms
from crowdlab.params import Spec, check_value, param, pytree
from crowdlab.state import Array

Pair = tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Numbers that differ from person to person, by one of these laws. All but the first may be cut at `least` and `most`.

    References:
        Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1 (1994), chapters 13, 14, 17, 21: names of the parameters.
    """

    uniform: Pair | None = None  # from, to
    normal: Pair | None = None  # mean, standard deviation
    lognormal: Pair | None = None  # mean and standard deviation of the natural logarithm
    gamma: Pair | None = None  # shape, scale
    weibull: Pair | None = None  # shape, scale
    least: float | None = None  # the law is cut here, by drawing from what is left of it
    most: float | None = None


@dataclasses.dataclass(frozen=True)
class _Law:
    """A law of chance: its two parameters by name, the share below a value and the value below which a share lies."""

    first: str
    second: str
    share: Callable[[float, float, Any], Any]
    value: Callable[[float, float, Any], Any]
    free: bool = False  # whether the first parameter may have any sign


_LAWS = {
    "normal": _Law("mean", "deviation", lambda m, s, x: ndtr((x - m) / s), lambda m, s, p: m + s * ndtri(p), free=True),
    "lognormal": _Law(
        *("mean of the logarithm", "deviation of the logarithm"),
        lambda m, s, x: ndtr((np.log(np.maximum(x, 0.0)) - m) / s),
        lambda m, s, p: np.exp(m + s * ndtri(p)),
        free=True,
    ),
    "gamma": _Law("shape", "scale", lambda k, s, x: gammainc(k, np.maximum(x, 0.0) / s), lambda k, s, p: s * gammaincinv(k, p)),
    "weibull": _Law(
        "shape",
        "scale",
        lambda k, s, x: -np.expm1(-((np.maximum(x, 0.0) / s) ** k)),
        lambda k, s, p: s * (-np.log1p(-p)) ** (1 / k),
    ),
}


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


def _draw_from(spread: Distribution, chance: np.ndarray, where: str, bounds: Spec) -> np.ndarray:
    given = [name for name in ("uniform", *_LAWS) if getattr(spread, name) is not None]
    if len(given) != 1:
        raise ScenarioError(f"{where}: give exactly one of uniform = [from, to], normal, lognormal, gamma and weibull.")
    if spread.uniform is not None:
        low, high = spread.uniform
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ScenarioError(f"{where}.uniform = [{low:g}, {high:g}]: allowed are two finite numbers, the smaller one first.")
        if spread.least is not None or spread.most is not None:
            raise ScenarioError(f"{where}: least and most cut the other laws; uniform has its two ends.")
        return low + (high - low) * chance
    name = given[0]
    law, (first, second) = _LAWS[name], getattr(spread, name)
    least = bounds.least if spread.least is None else spread.least
    most = bounds.most if spread.most is None else spread.most
    if not (math.isfinite(first) and (law.free or first > 0) and 0 < second < math.inf):
        raise ScenarioError(
            f"{where}.{name} = [{first:g}, {second:g}]: allowed are a {law.first}{'' if law.free else ' above zero'} "
            f"and a {law.second} above zero."
        )
    with np.errstate(divide="ignore"):  # the logarithm of zero
        bottom, top = float(law.share(first, second, least)), float(law.share(first, second, most))
    if not top - bottom > 1e-9:
        raise ScenarioError(
            f"{where}: nothing of the {name} distribution lies between least = {least:g} and most = {most:g}. Widen them."
        )
    share = np.clip(bottom + (top - bottom) * chance, 1e-15, 1 - 1e-15)
    # The end points themselves may be missed by rounding of the inverse.
    return np.clip(law.value(first, second, share), least, most)
