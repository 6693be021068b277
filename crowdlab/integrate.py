"""From force to motion. A motion owns dt and all randomness of a step.

Every motion here has the same limits, noise, borders and headings; they differ in where they ask for accelerations. The order of each,
how fast its error falls with the step, holds where forces are smooth. In a crowd they are not: bodies touch and part, forces are cut
off, speeds are limited, somebody leaves. There the higher orders are lost (Koster, Treml & Goedel, Phys. Rev. E 87 (2013) 063305).
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import arithmetic
from crowdlab.abreast import keys_by_id
from crowdlab.arithmetic import Vector, dot, root
from crowdlab.params import register
from crowdlab.state import Array, State, World
from crowdlab.trees import param, pytree

T = TypeVar("T")
Acceleration = Callable[[State], Vector]  # (N,) m/s^2 of everybody in a state, zero on dead rows
MOTIONS: dict[str, type] = {}  # snake_case name -> class; filled by @motion


class Motion(Protocol):
    """How agents move during one step."""

    dt: Any  # s
    damping_limit: float  # d: a velocity that decays at the rate c is stable for dt c < d
    swing_limit: float  # s: an undamped swing of angular frequency w is stable for dt w < s; 0 never

    def __call__(self, state: State, acceleration: Acceleration, world: World, key: Array | None) -> State:
        """State one `dt` later, `step` increased by one; dead rows stay as they are.

        `state.desired_speed` is that of who walks, to which limits refer, not what somebody who stands wants at the moment.
        `acceleration` may be asked as often as the method needs, for states between now and then too. `key`
        belongs to this step alone: one, or one for each run abreast; None where the motion is not `random`.
        """
        ...

    def random(self) -> bool:
        """Whether random numbers are drawn at the present, concrete values; if not, a program may do without."""
        ...

    def fastest(self, desired_speed: float) -> float:
        """Speed, m/s, that nobody exceeds whose desired speed is at most `desired_speed`; may be infinite."""
        ...

    def stray(self, state: State) -> Array | float:
        """How far, m, from where the step begins and ends somebody may be when `acceleration` is asked; the lists must cover it."""
        ...


def motion(cls: type[T]) -> type[T]:
    """Turn `cls` into a parameter pytree and list it in MOTIONS under its name in snake_case.

    Raises:
        ParamError: the name is taken by a class from another module.
    """
    return register(cls, MOTIONS, "motion")


@pytree
class Kinematics:
    """What all motions share: time step, speed limits, velocity noise, borders, headings, dead rows.

    The limits shorten a velocity and keep its direction, also those between the ends of a step. The noise comes once per step: it adds
    sqrt(dt) times a normal deviate to each component of the new velocity.
    """

    damping_limit: ClassVar[float] = 2.0
    swing_limit: ClassVar[float] = 2.0

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
        doc="speed limit as a factor of the desired speed, for who stands too; inf is no such limit",
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

    def stage(self, state: State, after: Array, travel: Vector, velocity: Vector, world: World) -> State:
        """The living `after` s on the way at `travel`, m/s, with this velocity; the dead as they are."""
        position = world.wrap(state.position + after * travel)
        return state.with_(
            position=arithmetic.where(state.alive, position, state.position).stacked,
            velocity=arithmetic.where(state.alive, velocity, state.velocity).stacked,
        )

    def end(self, state: State, travel: Vector, velocity: Vector, world: World) -> State:
        """One step later, having gone at `travel`, m/s."""
        heading = arithmetic.where(state.alive, turn(state.heading, velocity, self.dt), state.heading).stacked
        return self.stage(state, self.dt, travel, velocity, world).with_(heading=heading, step=state.step + 1)

    def random(self) -> bool:
        """Where there is noise. A motion that draws more must say so."""
        return bool((np.asarray(self.noise) > 0).any())

    def shaken(self, state: State, velocity: Vector, key: Array | None) -> Vector:
        """New velocities with the noise of this step, then limited."""
        velocity = Vector.of(velocity)
        if key is None:
            return self.limited(state, velocity)
        noise = jnp.asarray(self.noise)

        def drawn() -> Vector:  # by id, never by row; who has no noise keeps every bit, the sign of a zero too
            deviates = normal_by_id(key, state.id, state.velocity.dtype)
            return arithmetic.where(noise > 0, velocity + (noise * jnp.sqrt(self.dt)) * deviates, velocity)

        # The condition is one scalar, so that a run without noise does not pay for it.
        return self.limited(state, jax.lax.cond(jnp.any(noise > 0), drawn, lambda: velocity))

    def limited(self, state: State, velocity: Any) -> Vector:
        """Velocities shortened to the limit of each."""
        return limit_speed(velocity, self.limit(state.desired_speed))

    def limit(self, desired_speed: Array) -> Array:
        """The smaller of both speed limits, m/s. An infinite factor is no limit, for people who never walk too."""
        free = jnp.isinf(self.speed_factor)
        return jnp.where(free, self.top_speed, jnp.minimum(jnp.where(free, 1.0, self.speed_factor) * desired_speed, self.top_speed))

    def fastest(self, desired_speed: float) -> float:
        """The smaller of both limits, m/s."""
        return float(jnp.max(self.limit(jnp.asarray(desired_speed)), initial=0.0))

    def stray(self, state: State) -> Array | float:
        """No farther than the ends of the step."""
        return 0.0


@motion
class Walking(Kinematics):
    """Semi-implicit Euler, first order: new velocity from the old state, new position from the new velocity.

    Where action is reaction it keeps momentum, and under central forces angular momentum, at any step; the energy of springs stays bounded.

    References:
        Helbing & Molnar, Phys. Rev. E 51 (1995) 4282 (limit as a factor of v0); the program of Helbing, Farkas & Vicsek 2000 (5 m/s).
        Hairer, Lubich & Wanner, Geometric Numerical Integration (2006), I.1.2.
    """

    def __call__(self, state: State, acceleration: Acceleration, world: World, key: Array | None) -> State:
        velocity = self.shaken(state, state.velocity + self.dt * acceleration(state), key)
        return self.end(state, velocity, velocity, world)


@motion
class ExplicitEuler(Kinematics):
    """Explicit Euler, first order: new velocity and new position from the old state. For study: springs gain energy in it.

    References:
        Hairer, Lubich & Wanner, Geometric Numerical Integration (2006), I.1.2.
    """

    swing_limit: ClassVar[float] = 0.0

    def __call__(self, state: State, acceleration: Acceleration, world: World, key: Array | None) -> State:
        velocity = self.shaken(state, state.velocity + self.dt * acceleration(state), key)
        return self.end(state, self.limited(state, state.velocity), velocity, world)


@motion
class Leapfrog(Kinematics):
    """Leapfrog (velocity Verlet), second order: half a kick, the whole way, half a kick; asks for the forces twice.

    Forces that depend on velocities (drive, friction) would make the second kick an equation for the new velocity. It takes the velocity
    that the first kick, doubled, predicts; the order stays two. Without such forces this is velocity Verlet proper: reversible, and the
    energy of springs stays bounded.

    References:
        Verlet, Phys. Rev. 159 (1967) 98; Swope et al., J. Chem. Phys. 76 (1982) 637 (its velocity form).
        Groot & Warren, J. Chem. Phys. 107 (1997) 4423 (kicks by predicted velocities).
    """

    def __call__(self, state: State, acceleration: Acceleration, world: World, key: Array | None) -> State:
        half = jnp.asarray(self.dt) / 2
        kick = half * acceleration(state)
        middle = self.limited(state, state.velocity + kick)
        there = self.stage(state, self.dt, middle, self.limited(state, middle + kick), world)
        velocity = self.shaken(state, middle + half * acceleration(there), key)
        return self.end(state, middle, velocity, world)


@motion
class RungeKutta(Kinematics):
    """Classical Runge-Kutta, fourth order: asks for the forces four times. For study, and to know what a smooth motion should be.

    References:
        Kutta, Zeitschrift fuer Mathematik und Physik 46 (1901) 435; Hairer, Norsett & Wanner, Solving Ordinary Differential Equations I
        (1993), II.1, table 1.2. Limits of stability: Hairer & Wanner, the same II (1996), IV.2, figure 2.1.
    """

    damping_limit: ClassVar[float] = 2.785
    swing_limit: ClassVar[float] = 2.828

    def __call__(self, state: State, acceleration: Acceleration, world: World, key: Array | None) -> State:
        half = jnp.asarray(self.dt) / 2
        speed, push = [self.limited(state, state.velocity)], [acceleration(state)]
        for after in (half, half, self.dt):
            speed.append(self.limited(state, state.velocity + after * push[-1]))
            push.append(acceleration(self.stage(state, after, speed[-2], speed[-1], world)))
        velocity = self.shaken(state, state.velocity + self.dt * simpson(push), key)
        return self.end(state, self.limited(state, simpson(speed)), velocity, world)

    def stray(self, state: State) -> Array | float:
        """As far as the speed limit allows in one step; all but the first of the four places lie anywhere within."""
        return jnp.asarray(self.dt) * self.limit(state.desired_speed)


def simpson(values: list[Vector]) -> Vector:
    """Mean of four values, those in the middle counted twice."""
    first, second, third, fourth = values
    return (first + 2.0 * (second + third) + fourth) / 6.0


def normal_by_id(key: Array, ids: Array, dtype: Any) -> Vector:
    """Standard normal deviates, a Vector of (N,), that depend on the key and each agent's id only; the same in both precisions.

    The two words of the key that belongs to an id are the random bits themselves; drawing from that key would scramble twice more
    (1 000 people: 13 us instead of 52 us). 23 bits of each: with the half added they are still exact, so that 0 and 1 never come.
    """
    words = jax.random.key_data(keys_by_id(key, ids))[:, :2].T >> 9
    share = (words.astype(dtype) + 0.5) * 2.0**-23
    return Vector.of(math.sqrt(2) * jax.scipy.special.erfinv(2.0 * share - 1.0))


def limit_speed(velocity: Any, most: Array) -> Vector:
    """Velocities shortened to at most `most`, (N,) m/s; shorter ones are returned as they are."""
    square = dot(velocity, velocity)
    over = square > most**2
    speed = root(jnp.where(over, square, 1.0))
    share = jnp.where(jnp.isinf(square), jnp.nan, most / speed)  # a square that overflows must not become a rest
    return arithmetic.where(over, share * Vector.of(velocity), velocity)


# Our choice, no measurement behind it; no force of this package looks at headings yet.
TURNING = 5.0  # 1/s, rate at which a heading follows the velocity
SLOWEST = 0.1  # m/s, below this a velocity says nothing about where somebody looks


def turn(heading: Any, velocity: Any, dt: Array) -> Vector:
    """Headings, unit, turned towards the velocity by the share 1 - exp(-TURNING dt) of the angle; kept below SLOWEST."""
    heading = Vector.of(heading)
    moving = dot(velocity, velocity) > SLOWEST**2
    safe = arithmetic.where(moving, velocity, heading)
    angle = -jnp.expm1(-TURNING * dt) * arithmetic.angle(heading, safe)
    c, s = jnp.cos(angle), jnp.sin(angle)
    turned = c * heading + s * heading.left
    return arithmetic.where(moving, turned / root(dot(turned, turned)), heading)
