"""Groups of people as a scenario describes them, and the kinds of people that they are made up of."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdlab.demand.differences import Body, Distribution, Quantity
from crowdlab.errors import ScenarioError, nearest
from crowdlab.geometry import uniforms
from crowdlab.params import People
from crowdlab.state import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """What a kind of people has of its own; what it leaves out is as their group has it."""

    desired_speed: Quantity | None = None
    radius: Quantity | None = None
    social_radius: Quantity | None = None
    mass: Quantity | None = None
    relaxation_time: Quantity | None = None
    pre_movement: Quantity | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """People who have something in common, as a scenario describes them."""

    count: int | None = None
    density: float | None = None  # 1/m^2, in place of a count
    area: Any = None
    gaussian: "Gaussian | None" = None
    positions: list[tuple[float, float]] | None = None
    goal: str | None = None
    goal_area: Any = None
    desired_speed: Quantity = People.desired_speed  # the declared default, as for the two of the body
    radius: Quantity = Body.radius
    social_radius: Quantity | None = None
    mass: Quantity = Body.mass
    relaxation_time: Quantity | None = None
    pre_movement: Quantity = People.pre_movement
    profiles: dict[str, float] | None = None  # share of each kind of people


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian:
    """A start that is densest in the middle and thins out as a normal distribution."""

    centre: tuple[float, float]  # m
    deviation: float  # m, of each coordinate


# Walking speeds on the flat by age: Weidmann (1993) as tabled in the guideline of RiMEA (2016), test 7.
# The speed of people with luggage is our choice: that of people over 50; so is the room that it takes.
PROFILES: Mapping[str, Profile] = {
    "under_30": Profile(desired_speed=Distribution(uniform=(0.58, 1.61))),
    "from_30_to_50": Profile(desired_speed=Distribution(uniform=(1.41, 1.54))),
    "over_50": Profile(desired_speed=Distribution(uniform=(0.68, 1.41))),
    "impaired": Profile(desired_speed=Distribution(uniform=(0.46, 0.76))),
    "with_luggage": Profile(desired_speed=Distribution(uniform=(0.68, 1.41)), radius=0.35),
}


def shared_out(shares: Mapping[str, float], count: int, key: Array, where: str) -> np.ndarray:
    """Which of the shares each of `count` people belongs to, (count,) int: as near to the shares as whole people allow, in random order.

    Raises:
        ScenarioError: a share is negative or not finite, or all are zero.
    """
    weights = np.array(list(shares.values()), float)
    wrong = [name for name, weight in shares.items() if not 0 <= weight < np.inf]
    if wrong or not weights.sum() > 0:
        said = f"{where}.{wrong[0]} = {shares[wrong[0]]:g}" if wrong else f"{where} = {dict(shares)}"
        raise ScenarioError(f"{said}: allowed are shares of 0 and more, not all 0. Correct them.")
    exact = weights / weights.sum() * count
    whole = np.floor(exact).astype(int)
    by_remainder = np.argsort(whole - exact, kind="stable")
    whole[by_remainder[: count - whole.sum()]] += 1
    return np.repeat(np.arange(len(weights)), whole)[np.argsort(uniforms(key, count)[:, 0], kind="stable")]


def chosen(shares: Mapping[str, float], own: Mapping[str, Profile], where: str) -> list[Profile]:
    """The profiles that the shares name: those of the scenario, else the ones that come with the package.

    Raises:
        ScenarioError: there is no such profile.
    """
    known = {**PROFILES, **own}
    for name in shares:
        if name not in known:
            raise ScenarioError(f"{where}: there is no profile '{name}'. {nearest(name, list(known))}")
    return [known[name] for name in shares]
