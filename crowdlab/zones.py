"""Zones: places where people walk slower or faster than elsewhere, such as stairs.

A zone changes the desired speed, and with it the limit on speeds, of whoever stands in it with the centre of the body. It changes no way:
people take the shortest one, not the fastest.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from crowdlab.arithmetic import Vector, dot
from crowdlab.errors import ParamError
from crowdlab.navigation import desired_direction, inside
from crowdlab.state import Array, State, World
from crowdlab.trees import param, pytree

LEVEL = 1e-3  # a way that climbs less than this share of its length goes neither up nor down


@pytree
class Plain:
    """A zone where everybody walks at the same share of the own desired speed."""

    speed: Any = param(
        default=1.0,
        unit="1",
        low=0.0,
        high=2.0,
        doc="desired speed in the zone as a factor of that elsewhere; 0 lets nobody walk",
        source="our choice: no change",
    )

    def factor(self, climb: Array) -> Any:
        """The same whatever the way climbs."""
        return self.speed

    def most(self) -> Any:
        """The largest factor there is."""
        return self.speed


@pytree
class Stairs:
    """Stairs, seen from above: lengths and speeds are those of the plan, not along the slope.

    References:
        Weidmann, Transporttechnik der Fussgaenger (1993): 0.610 m/s up and 0.694 m/s down in the plan, 1.34 m/s on the flat.
    """

    ascending: Any = param(
        default=0.455,
        unit="1",
        low=0.0,
        high=1.5,
        doc="desired speed of who goes up as a factor of that on the flat",
        source="Weidmann 1993: 0.610 m/s in the plan, 1.34 m/s on the flat",
    )
    descending: Any = param(
        default=0.518,
        unit="1",
        low=0.0,
        high=1.5,
        doc="desired speed of who goes down as a factor of that on the flat",
        source="Weidmann 1993: 0.694 m/s in the plan, 1.34 m/s on the flat",
    )

    def factor(self, climb: Array) -> Any:
        """Up or down by the sign; who goes along a step takes the larger."""
        level = jnp.maximum(jnp.asarray(self.ascending), self.descending)
        return jnp.where(climb > LEVEL, self.ascending, jnp.where(climb < -LEVEL, self.descending, level))

    def most(self) -> Any:
        """The larger of both."""
        return np.maximum(np.asarray(self.ascending), np.asarray(self.descending))


ZONES: dict[str, type] = {"plain": Plain, "stairs": Stairs}  # by the word of scenario files


def paced(state: State, zones: Mapping[str, Any], world: World) -> State:
    """The state with the desired speeds of the living as the zones have them where they stand; zones that overlap multiply.

    `zones` are Params.zones; sorted by name they belong to World.zones one by one. Pure, and nothing where there are none.

    Raises:
        ParamError: the parameters are of other zones than the world, while the program is made.
    """
    if len(zones) != world.zones.shape[0]:
        raise ParamError(
            f"zones: parameters of {len(zones)} ({', '.join(sorted(zones)) or 'none'}) for a world with {world.zones.shape[0]}: allowed "
            "is one set for each. Take the parameters of the same scenario."
        )
    if not zones:
        return state
    speed = state.desired_speed
    for here, factor in _factors(state, zones, world):
        speed = jnp.where(here, speed * jnp.asarray(factor, speed.dtype), speed)
    return state.with_(desired_speed=speed)


def _factors(state: State, zones: Mapping[str, Any], world: World) -> Iterator[tuple[Array, Any]]:
    """Of each zone, sorted by name, who stands in it, (N,) bool, and the factor of each there."""
    climbing = any(isinstance(zone, Stairs) for zone in zones.values())
    way = desired_direction(state, world) if climbing else Vector.of(jnp.zeros_like(state.position))
    for number, name in enumerate(sorted(zones)):
        edges = [(Vector.of(edge[0]), Vector.of(edge[1])) for edge in world.zones[number]]
        here = state.alive & inside(state.position, edges)
        yield here, zones[name].factor(dot(Vector.of(world.zone_up[number]), way))


def halting(state: State, zones: Mapping[str, Any], world: World) -> dict[int, str]:
    """Row of who stands in a zone where nobody walks -> its name."""
    found: dict[int, str] = {}
    for name, (here, factor) in zip(sorted(zones), _factors(state, zones, world), strict=True):
        found |= dict.fromkeys(np.flatnonzero(np.asarray(here & (jnp.asarray(factor) <= 0))).tolist(), name)
    return found


def fastest(zones: Mapping[str, Any]) -> float:
    """The largest factor that anybody may have, at least 1: all zones that hasten people, one over the other."""
    return float(np.prod([max(1.0, float(np.max(np.asarray(zone.most()), initial=0.0))) for zone in zones.values()]))
