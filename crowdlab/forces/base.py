"""The force protocol, the registry and the sum."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, dataclass_transform, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab import arithmetic
from crowdlab.arithmetic import Vector
from crowdlab.neighbours import Neighbours
from crowdlab.params import Params, register
from crowdlab.state import Array, State, World
from crowdlab.trees import param, static

T = TypeVar("T")
FORCES: dict[str, type] = {}  # snake_case name -> class; filled by @force, read by scenario.py

NEGLIGIBLE = 1e-3  # N; a social force below this is exactly zero, so that no result depends on how far a list looks


@runtime_checkable
class Force(Protocol):
    """Frozen parameters plus one law. Pure: same inputs, same output, no key, no clock.

    Parameters may be () or (N,); both broadcast against (N,) and (K, N).
    A force that looks at walls also has `wall_reach(radius)`, in m. One that is stable only below some time step should have
    `rates(state, near)`, which says how stiff it is: largest swing, 1/s^2, and damping, 1/s, of each agent, () or (N,). They are row sums
    of its slopes over position and velocity, per mass (Gershgorin): k / m and c / m of a wall, and twice the sum of k / m and of c / m
    over the neighbours. The advice about the step reads them (see stability.py). One that keeps bodies from overlapping should have
    `strain(state, near)`: the deepest overlap of each, as a share of the radii, (N,). A guard in the loop reads both. One that presses
    bodies has `squeeze(state, near)`: the sizes of the radial contact forces on each, added up, (N,) N; the pressure is made of it.
    """

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector | Array:
        """Acceleration of every agent, m/s^2, a Vector of (N,) or an array (2, N) (a law in newtons divides by the mass)."""
        ...

    def reach(self, radius: float) -> float:
        """Distance between centres, m, beyond which the force is zero when nobody is stouter than `radius`."""
        ...


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(param, static))
def force(cls: type[T]) -> type[T]:
    """Turn `cls` into a parameter pytree and list it in FORCES under its name in snake_case.

    Raises:
        ParamError: the name is taken by a class from another module.
    """
    return register(cls, FORCES, "force")


def total(params: Params, state: State, near: Neighbours, world: World) -> Vector:
    """Sum of all accelerations in name order, a Vector of (N,) m/s^2; zero on dead rows and for forces switched off.

    Each force stands in a branch of its own. So one that is switched off costs nothing, and XLA does not melt its loops with those of
    the next, which would work some of them out twice.
    """
    nothing = Vector.of(jnp.zeros_like(state.position))
    push = nothing
    for name in sorted(params.forces):
        on = params.switches[name]

        def felt(name: str = name, on: Array = on) -> Vector:
            return Vector.of(params.forces[name](state, near, world)) * on

        push = push + lax.cond(jnp.any(jnp.asarray(on) != 0), felt, lambda: nothing)
    return arithmetic.where(state.alive, push, (0.0, 0.0))


def by_name(params: Params, state: State, near: Neighbours, world: World) -> dict[str, Array]:
    """Every force apart, switched on or not: name -> (2, N) m/s^2."""
    return {name: Vector.of(params.forces[name](state, near, world)).stacked for name in sorted(params.forces)}


def rates(params: Params, state: State, near: Neighbours) -> tuple[Array, Array]:
    """Swing, (N,) 1/s^2, and damping, (N,) 1/s, of all forces together that declare theirs; zero on dead rows."""
    swing, damping = jnp.zeros_like(state.mass), jnp.zeros_like(state.mass)
    for name in sorted(params.forces):
        if hasattr(params.forces[name], "rates"):
            more = params.forces[name].rates(state, near)
            swing, damping = swing + params.switches[name] * more[0], damping + params.switches[name] * more[1]
    return jnp.where(state.alive, swing, 0.0), jnp.where(state.alive, damping, 0.0)


def strain(params: Params, state: State, near: Neighbours) -> Array:
    """Deepest overlap of each against a force that is switched on and resists it, (N,), as a share of the radii; zero on dead rows."""
    deepest = jnp.zeros_like(state.mass)
    for name in sorted(params.forces):
        if hasattr(params.forces[name], "strain"):
            deepest = jnp.maximum(deepest, jnp.where(params.switches[name] == 0, 0.0, params.forces[name].strain(state, near)))
    return jnp.where(state.alive, deepest, 0.0)


def largest(value: Any) -> float:
    """Largest entry of a concrete leaf, none of which is negative: what a reach must be planned for; 0 where there is nobody."""
    return float(np.max(np.asarray(value), initial=0.0))


def reaches(forces: Mapping[str, Any], radius: float) -> tuple[float, float]:
    """How far any force looks for people and for walls, m, at the present (concrete) parameters.

    Whoever touches is always seen, whether a force asks for it or not: overlaps are observed too.
    """
    people = max([2 * radius, *(f.reach(radius) for f in forces.values())])
    walls = max([radius, *(f.wall_reach(radius) for f in forces.values() if hasattr(f, "wall_reach"))])
    return float(people), float(walls)
