"""Groups of people as a scenario describes them, and the kinds of people that they are made up of."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdlab.demand.differences import Body, Distribution, Quantity, largest
from crowdlab.errors import ScenarioError, nearest
from crowdlab.geometry import uniforms
from crowdlab.params import People, spec_of
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
    journey: str | None = None
    desired_speed: Quantity = People.desired_speed  # the declared default, as for the two of the body
    radius: Quantity = Body.radius
    social_radius: Quantity | None = None
    mass: Quantity = Body.mass
    relaxation_time: Quantity | None = None
    pre_movement: Quantity = People.pre_movement
    profiles: dict[str, float] | None = None  # share of each kind of people
    source: "Source | None" = None  # they come in over time; None: all are there at the start


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian:
    """A start that is densest in the middle and thins out as a normal distribution."""

    centre: tuple[float, float]  # m
    deviation: float | tuple[float, float]  # m, of each coordinate, or of x and of y


GAP = 0.2  # m, between the bodies of who comes in and of who is there already, unless a source says another; our choice


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """People who come in over time, in the area of their group: when each is due, by one of the first four."""

    rate: float | None = None  # 1/s, evenly
    every: Quantity | None = None  # s, from one to the next
    times: list[float] | None = None  # s, when each is due
    counts: list[tuple[float, float, int]] | None = None  # from s, to s, how many, each at a random time in between
    start: float = 0.0  # s, the first is due one gap later; of `rate` and `every`
    stop: float | None = None  # s, nobody is due later; the same
    patience: float | None = None  # s, how long who finds no room tries on before he is refused; None: for ever
    gap: float = GAP  # m, that must be free round who comes in


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
    if wrong or not weights.max(initial=0.0) > 0:
        said = f"{where}.{wrong[0]} = {shares[wrong[0]]:g}" if wrong else f"{where} = {dict(shares)}"
        raise ScenarioError(f"{said}: allowed are shares of 0 and more, not all 0. Correct them.")
    weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # no digit is lost, and the sum of huge ones stays among the numbers
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


def stoutest(name: str, group: Group, own: Mapping[str, Profile]) -> float:
    """Radius, m, of the stoutest that a group may have, those of its profiles among them; but for a share of RARE, see `largest`.

    Raises:
        ScenarioError, ParamError: as for `chosen`, or there are no such radii.
    """
    shares, law = group.profiles or {}, spec_of(Body(), "radius")
    kinds = zip(shares, chosen(shares, own, f"groups.{name}.profiles"), strict=True)
    special = [(f"profiles.{title}.radius", kind.radius) for title, kind in kinds if shares[title] > 0]
    usual = (f"groups.{name}.radius", group.radius)
    radii = [usual if radius is None else (where, radius) for where, radius in special] or [usual]
    return max(largest(radius, where, law) for where, radius in radii)
