"""Forces between people and walls; every wall counts once, however it is cut (see walls.py)."""

import jax.numpy as jnp

from crowdlab.arithmetic import Vector, dot, inverse
from crowdlab.forces.base import force
from crowdlab.forces.crowd import HFV, exponential, exponential_range
from crowdlab.neighbours import Neighbours
from crowdlab.state import Array, State, World
from crowdlab.trees import param


@force
class WallRepulsion:
    """Keep distance from walls: A exp((r_i - d_iW) / B), pointing away from the nearest point.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eq. 3, first term.
    """

    strength: float = param(default=2000.0, unit="N", low=0.0, high=5000.0, doc="wall repulsion at contact, A", source=HFV)
    falloff: float = param(
        default=0.08, unit="m", low=0.01, high=1.0, least=1e-3, doc="e-folding distance of a wall, B", source=HFV, log=True
    )

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector:
        push = exponential(self.strength, near.walls.distance - state.social_radius, self.falloff)  # (M, N)
        return near.walls.total(push * near.walls.normal) / state.mass

    def rates(self, state: State, near: Neighbours) -> tuple[Array, Array]:
        """Swing F / (m B), summed over the walls; no damping."""
        slope = exponential(self.strength, near.walls.distance - state.social_radius, self.falloff) * inverse(self.falloff)
        return near.walls.total(slope) / state.mass, jnp.zeros(())

    def reach(self, radius: float) -> float:
        """A wall force looks at nobody."""
        return 0.0

    def wall_reach(self, radius: float) -> float:
        """Distance beyond which the force stays under 1e-3 N."""
        return radius + exponential_range(self.strength, self.falloff)


@force
class WallContact:
    """A body pressed against a wall is pushed back and braked: k g n - kappa g (v . t) t with g the overlap.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487, eq. 3, second and third term; the friction opposes the motion.
    """

    compression: float = param(
        default=1.2e5, unit="kg/s^2", low=0.0, high=2.4e5, doc="stiffness of a body at a wall, k", source=HFV
    )
    friction: float = param(
        default=2.4e5, unit="kg/(m s)", low=0.0, high=4.8e5, doc="sliding friction at a wall, kappa", source=HFV
    )

    def __call__(self, state: State, near: Neighbours, world: World) -> Vector:
        overlap = jnp.maximum(state.radius - near.walls.distance, 0.0)  # (M, N)
        sliding = dot(state.velocity, near.walls.normal.left)  # (M, N) m/s
        push = self.compression * near.walls.normal - self.friction * sliding * near.walls.normal.left
        return near.walls.total(overlap * push) / state.mass

    def rates(self, state: State, near: Neighbours) -> tuple[Array, Array]:
        """Swing k / m and damping kappa g / m, summed over the walls that are touched."""
        overlap = state.radius - near.walls.distance
        stiff, rough = jnp.where(overlap >= 0, self.compression, 0.0), self.friction * jnp.maximum(overlap, 0.0)
        return near.walls.total(stiff) / state.mass, near.walls.total(rough) / state.mass

    def strain(self, state: State, near: Neighbours) -> Array:
        """Deepest overlap with a wall as a share of the radius; 0 where bodies are not stiff."""
        share = (state.radius - near.walls.distance) * inverse(state.radius)
        return jnp.where((near.walls.weight > 0) & (self.compression > 0), share, 0.0).max(0, initial=0.0)

    def squeeze(self, state: State, near: Neighbours) -> Array:
        """Sizes k g, N, added up over the walls that are touched."""
        return near.walls.total(self.compression * jnp.maximum(state.radius - near.walls.distance, 0.0))

    def reach(self, radius: float) -> float:
        """A wall force looks at nobody."""
        return 0.0

    def wall_reach(self, radius: float) -> float:
        """A body touches a wall at its radius."""
        return radius
