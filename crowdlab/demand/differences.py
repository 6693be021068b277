"""What differs from person to person: numbers drawn from the key, each by its own law."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammainc, gammaincinv, ndtr, ndtri

from crowdlab.errors import ScenarioError
from crowdlab.geometry import uniforms
from crowdlab.params import check_value
from crowdlab.state import Array
from crowdlab.trees import Spec, param, pytree

Pair = tuple[float, float]
RARE = 1e-4  # share of people that may be beyond what counts as the largest of a law without an end
CUT = 1e-3  # share of a law that may be lost at the bounds of the quantity without a word


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Numbers that differ from person to person, by one of these laws. All but the first may be cut at `least` and `most`.

    A law of which more than CUT lies beyond what the quantity may be is refused unless it is cut there in so many words.

    References:
        Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1 (1994), chapters 13, 14, 17, 21: names of the parameters.
    """

    uniform: Pair | None = None  # from, to
    normal: Pair | None = None  # mean, standard deviation
    lognormal: Pair | None = None  # mean and standard deviation of the natural logarithm
    gamma: Pair | None = None  # shape, scale
    weibull: Pair | None = None  # shape, scale
    exponential: float | None = None  # mean
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


def largest(quantity: Quantity, where: str, law: Spec) -> float:
    """The largest value that is drawn, but for a share of RARE where it comes from a law other than uniform; 0 for nobody.

    Raises:
        ScenarioError, ParamError: as `draw`.
    """
    if isinstance(quantity, Distribution):
        return float(_draw_from(quantity, np.array([1.0 if quantity.uniform is not None else 1.0 - RARE]), where, law)[0])
    values = np.ravel(quantity).astype(float)
    check_value(where, values, law)
    return float(values.max(initial=0.0))


def _draw_from(spread: Distribution, chance: np.ndarray, where: str, bounds: Spec) -> np.ndarray:
    given = [name for name in ("uniform", *_LAWS, "exponential") if getattr(spread, name) is not None]
    if len(given) != 1:
        raise ScenarioError(
            f"{where}: give exactly one of uniform = [from, to], normal, lognormal, gamma, weibull and exponential."
        )
    numbers = np.ravel(getattr(spread, given[0])).tolist()
    said = f"{where}.{given[0]} = " + (f"[{', '.join(f'{number:g}' for number in numbers)}]" if numbers[1:] else f"{numbers[0]:g}")
    if spread.exponential is not None:
        if not 0 < spread.exponential < math.inf:
            raise ScenarioError(f"{where}.exponential = {spread.exponential:g}: allowed is a mean above zero. Give such a number.")
        spread, given = dataclasses.replace(spread, exponential=None, gamma=(1.0, spread.exponential)), ["gamma"]
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
    _check_cut(spread, bottom, 1.0 - top, said, bounds)
    share = np.clip(bottom + (top - bottom) * chance, 1e-15, 1 - 1e-15)
    # The end points themselves may be missed by rounding of the inverse.
    return np.clip(law.value(first, second, share), least, most)


def _check_cut(spread: Distribution, below: float, above: float, said: str, bounds: Spec) -> None:
    """Refuse a law of which too large a share is lost at bounds that it does not name itself. Raises ScenarioError."""
    ends = [
        (share, f"{side} {bound:g} {bounds.unit}", f"{key} = {bound:g}")
        for key, side, share, bound in (("least", "below", below, bounds.least), ("most", "above", above, bounds.most))
        if getattr(spread, key) is None and share > 0
    ]
    lost = sum(share for share, *_ in ends)
    if lost > CUT:
        where, cure = (" and ".join(texts) for texts in list(zip(*ends, strict=True))[1:])
        raise ScenarioError(
            f"{said}: {100 * lost:.3g} % of this law lies {where}, where no value may be: allowed without a word are {100 * CUT:g} %. "
            f"Give {cure} to have it cut there, which moves its mean, or another law."
        )
