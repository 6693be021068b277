"""Pedestrian forces of Helbing, Farkas & Vicsek, Nature 407 (2000) 487: drive, repulsion, contact."""

import math

import jax.numpy as jnp
from jax import lax

from crowdlab.arithmetic import Vector, dot, inverse, rounded
from crowdlab.forces.base import NEGLIGIBLE, force, largest
from crowdlab.navigation import desired_direction, distance_to_goal_in_sight
from crowdlab.neighbours import Neighbours
from crowdlab.state import Array, State, World
from crowdlab.trees import param

HFV = "Helbing, Farkas & Vicsek 2000"
ROUNDING = 1e-4  # m; the reach is computed in double precision, the force in single


@force
class Driving:
    """Reach the desired velocity within the relaxation time: (v0 e - v) / tau; without a goal -v / tau.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eq. 1, first term.
    """

    relaxation_time: float = param(
        default=0.5, unit="s", low=0.1, high=2.0, least=1e-3, doc="time to reach the desired velocity, tau", source=HFV
    )
    braking_distance: float = param(
        default=0.0,
        unit="m",
        low=0.0,
        high=3.0,
        doc="slow down in proportion over this distance before a goal in sight; 0 walks up to it at full speed",
        source="our choice: off, as in the paper",
    )

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector:
        braking = jnp.asarray(self.braking_distance)

        def eased() -> Array:
            # A goal nearer than the braking distance scales v0 by distance / braking distance; nothing is nearer than 0, which is off.
            distance = distance_to_goal_in_sight(state, world)
            slows = distance < braking  # chosen, not cut by a minimum, which would have half a slope where both are equal
            return state.desired_speed * (jnp.where(slows, distance, 1.0) / jnp.where(slows, braking, 1.0))

        speed = lax.cond(jnp.any(braking > 0), eased, lambda: state.desired_speed)
        return (desired_direction(state, world) * speed - state.velocity) * inverse(self.relaxation_time)

    def reach(self, radius: float) -> float:
        """A drive looks at nobody."""
        return 0.0

    def rates(self, state: State, near: Neighbours) -> tuple[Array, Array]:
        """Damping 1 / tau."""
        return jnp.zeros(()), 1.0 / jnp.asarray(self.relaxation_time)


@force
class Repulsion:
    """Keep distance: A exp((r_ij - d_ij) / B), pointing away; r_ij is the sum of the two social radii.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eq. 2, first term.
    """

    strength: float = param(default=2000.0, unit="N", low=0.0, high=5000.0, doc="repulsion at contact, A", source=HFV)
    falloff: float = param(
        default=0.08, unit="m", low=0.02, high=1.0, least=1e-3, doc="e-folding distance, B", source=HFV, log=True
    )

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector:
        gap = near.distance - state.social_radius - near.social_radius  # (K, N)
        push = exponential(self.strength, gap, self.falloff)
        return near.total(push * near.normal) / state.mass  # (N,)

    def rates(self, state: State, near: Neighbours) -> tuple[Array, Array]:
        """Swing 2 F / (m B), summed over the neighbours; no damping."""
        gap = near.distance - state.social_radius - near.social_radius
        slope = rounded(exponential(self.strength, gap, self.falloff) * inverse(self.falloff))
        return 2.0 * near.total(slope) / state.mass, jnp.zeros(())

    def reach(self, radius: float) -> float:
        """Distance beyond which the force stays under 1e-3 N."""
        return 2 * radius + exponential_range(self.strength, self.falloff)


@force
class Contact:
    """Touching bodies resist compression and sliding: k g n + kappa g (dv . t) t with g the overlap.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eq. 2, second and third term.
    """

    compression: float = param(default=1.2e5, unit="kg/s^2", low=0.0, high=2.4e5, doc="stiffness of a body, k", source=HFV)
    friction: float = param(default=2.4e5, unit="kg/(m s)", low=0.0, high=4.8e5, doc="sliding friction, kappa", source=HFV)

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector:
        pairs = near.touching
        overlap = jnp.maximum(state.radius + pairs.radius - pairs.distance, 0.0)  # (T, N)
        sliding = dot(pairs.at(state.velocity) - state.velocity, pairs.normal.left)  # (T, N) m/s
        push = self.compression * pairs.normal + self.friction * sliding * pairs.normal.left
        return pairs.total(overlap * push) / state.mass

    def rates(self, state: State, near: Neighbours) -> tuple[Array, Array]:
        """Swing 2 k / m and damping 2 kappa g / m, summed over those who touch."""
        pairs = near.touching
        overlap = state.radius + pairs.radius - pairs.distance
        stiff, rough = jnp.where(overlap >= 0, self.compression, 0.0), rounded(self.friction * jnp.maximum(overlap, 0.0))
        return 2.0 * pairs.total(stiff) / state.mass, 2.0 * pairs.total(rough) / state.mass

    def strain(self, state: State, near: Neighbours) -> Array:
        """Deepest overlap as a share of the two radii together; 0 where bodies are not stiff."""
        pairs = near.touching
        whole = state.radius + pairs.radius
        return jnp.where(pairs.mask & (self.compression > 0), (whole - pairs.distance) / whole, 0.0).max(0, initial=0.0)

    def squeeze(self, state: State, near: Neighbours) -> Array:
        """Sizes k g, N, added up over those who touch."""
        pairs = near.touching
        return pairs.total(rounded(self.compression * jnp.maximum(state.radius + pairs.radius - pairs.distance, 0.0)))

    def reach(self, radius: float) -> float:
        """Bodies touch at the sum of two radii."""
        return 2 * radius


def exponential(strength: float | Array, gap: Array, falloff: float | Array) -> Array:
    """A exp(-gap / B), N, exactly zero below NEGLIGIBLE."""
    push = strength * jnp.exp(-rounded(gap * inverse(falloff)))
    return jnp.where(push > NEGLIGIBLE, push, 0.0)


def exponential_range(strength: float, falloff: float) -> float:
    """Gap, m, at which A exp(-gap / B) has surely fallen to NEGLIGIBLE, in single precision too."""
    return largest(falloff) * math.log(max(largest(strength), NEGLIGIBLE) / NEGLIGIBLE) + ROUNDING
