"""From force to motion. A motion owns dt and all randomness of a step."""

import math
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp

from crowdlab.params import param, pytree
from crowdlab.state import Array, State, World

T = TypeVar("T")
MOTIONS: dict[str, type] = {}  # name in scenario files -> class; filled by @motion


class Motion(Protocol):
    """How agents move during one step."""

    dt: Any  # s

    def __call__(self, state: State, push: Array, world: World, key: Array) -> State:
        """State one `dt` later, `step` increased by one; dead rows stay as they are.

        `push` is (2, N) m/s^2, `key` belongs to this step alone.
        """
        ...

    def fastest(self, desired_speed: float) -> float:
        """Speed, m/s, that nobody exceeds whose desired speed is at most `desired_speed`; may be infinite."""
        ...


def motion(cls: type[T]) -> type[T]:
    """Turn `cls` into a parameter pytree and list it in MOTIONS under its name in lower case."""
    MOTIONS[cls.__name__.lower()] = pytree(cls)
    return MOTIONS[cls.__name__.lower()]


@motion
class Walking:
    """Semi-implicit Euler: new velocity from the old state, new position from the new velocity; speed limits; velocity noise.

    The limits shorten the velocity and keep its direction. The noise adds sqrt(dt) times a normal deviate to each component.

    References:
        Helbing & Molnar, Phys. Rev. E 51 (1995) 4282 (limit as a factor of v0); the program of Helbing, Farkas & Vicsek 2000 (5 m/s).
    """

    dt: Any = param(
        default=0.001,
        unit="s",
        low=0.0005,
        high=0.02,
        least=1e-6,
        doc="time step; set before a run, never slid while running",
        source="stable for six contacts of 5 cm at once (friction limit m / (n kappa overlap))",
        log=True,
    )
    speed_factor: Any = param(
        default=math.inf,
        unit="1",
        low=1.0,
        high=5.0,
        doc="speed limit as a factor of the desired speed; inf is no such limit",
        source="Helbing, Farkas & Vicsek 2000 have none; Helbing & Molnar 1995: 1.3",
    )
    top_speed: Any = param(
        default=5.0,
        unit="m/s",
        low=1.0,
        high=10.0,
        doc="speed that nobody exceeds",
        source="program of Helbing, Farkas & Vicsek 2000",
    )
    noise: Any = param(
        default=0.0,
        unit="m/s^1.5",
        low=0.0,
        high=1.0,
        doc="velocity noise: standard deviation of each component gained in one second",
        source="our choice: off; 0.07 in the program of Helbing, Farkas & Vicsek 2000 (size 1 m/s^2, any direction, held for 0.01 s)",
    )

    def __call__(self, state: State, push: Array, world: World, key: Array) -> State:
        velocity = state.velocity + self.dt * push
        # Drawn by id, never by row. The condition is one scalar, so that a run without noise does not pay for it.
        shaken = jax.lax.cond(
            jnp.any(jnp.asarray(self.noise) > 0),
            lambda: normal_by_id(key, state.id, velocity.dtype),
            lambda: jnp.zeros_like(velocity),
        )
        velocity = velocity + self.noise * jnp.sqrt(self.dt) * shaken
        velocity = limit_speed(velocity, self.limit(state.desired_speed))
        position = world.wrap(state.position + self.dt * velocity)
        return state.with_(
            position=jnp.where(state.alive, position, state.position),
            velocity=jnp.where(state.alive, velocity, state.velocity),
            heading=jnp.where(state.alive, turn(state.heading, velocity, self.dt), state.heading),
            step=state.step + 1,
        )

    def limit(self, desired_speed: Array) -> Array:
        """The smaller of both speed limits, m/s. An infinite factor is no limit, for people who want to stand still too."""
        free = jnp.isinf(self.speed_factor)
        return jnp.where(free, self.top_speed, jnp.minimum(jnp.where(free, 1.0, self.speed_factor) * desired_speed, self.top_speed))

    def fastest(self, desired_speed: float) -> float:
        """The smaller of both limits, m/s."""
        return float(jnp.max(self.limit(jnp.asarray(desired_speed))))


def normal_by_id(key: Array, ids: Array, dtype: Any) -> Array:
    """Standard normal deviates (2, N) that depend on the key and each agent's id only."""
    return jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (2,), dtype), out_axes=1)(ids)


def limit_speed(velocity: Array, most: Array) -> Array:
    """Velocities (2, N) shortened to at most `most`, (N,) m/s; shorter ones are returned as they are."""
    square = (velocity**2).sum(0)
    over = square > most**2
    speed = jnp.sqrt(jnp.where(over, square, 1.0))
    shorter = jnp.where(jnp.isinf(square), jnp.nan, velocity * (most / speed))  # a square that overflows must not become a rest
    return jnp.where(over, shorter, velocity)


# Our choice, no measurement behind it; no force of this package looks at headings yet.
TURNING = 5.0  # 1/s, rate at which a heading follows the velocity
SLOWEST = 0.1  # m/s, below this a velocity says nothing about where somebody looks


def turn(heading: Array, velocity: Array, dt: Array) -> Array:
    """Headings (2, N), unit, turned towards the velocity by the share 1 - exp(-TURNING dt) of the angle; kept below SLOWEST."""
    square = (velocity**2).sum(0)
    moving = square > SLOWEST**2
    safe = jnp.where(moving, velocity, heading)
    cross = heading[0] * safe[1] - heading[1] * safe[0]
    angle = -jnp.expm1(-TURNING * dt) * jnp.arctan2(cross, (heading * safe).sum(0))
    c, s = jnp.cos(angle), jnp.sin(angle)
    turned = jnp.stack((c * heading[0] - s * heading[1], s * heading[0] + c * heading[1]))
    turned = turned / jnp.sqrt((turned**2).sum(0))
    return jnp.where(moving, turned, heading)
