"""Vectors, sums and products whose bits do not depend on the program round them, laid out so that they run fast.

XLA on CPU makes one loop of each expression and uses the processor's vectors in it, unless two components lie in one array that is put
together on the way: then it decides for every element anew which of the two it wants (four to six times slower). So what is computed
for pairs is kept as two arrays, a `Vector`, and put together at the end by `Vector.stacked`.
"""

import math
from collections.abc import Iterator
from typing import Any, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from crowdlab.trees import pytree

Array = jax.Array
Field = Union[Array, "Vector"]  # one number or one vector for each place

BLOCK = 64  # rows that are added in one go; longer sums loop over blocks


@pytree
class Vector:
    """A vector for each place: two arrays of one shape. Indexes and unpacks like an array (2, ...).

    Vectors add up with vectors and with arrays (2, ...); they multiply with numbers and with arrays of their own shape.
    """

    x: Array
    y: Array

    @classmethod
    def of(cls, both: Any) -> "Vector":
        """A Vector of a Vector, a pair or an array (2, ...)."""
        return both if isinstance(both, cls) else cls(x=both[0], y=both[1])

    def __getitem__(self, component: int) -> Array:
        """Component x for 0, y for 1."""
        return (self.x, self.y)[component]

    def __iter__(self) -> Iterator[Array]:
        """x, then y."""
        return iter((self.x, self.y))

    def __add__(self, other: Any) -> "Vector":
        """Sum of two vectors."""
        return Vector(x=self.x + other[0], y=self.y + other[1])

    def __sub__(self, other: Any) -> "Vector":
        """Difference of two vectors."""
        return Vector(x=self.x - other[0], y=self.y - other[1])

    def __rsub__(self, other: Any) -> "Vector":
        """An array (2, ...) less this."""
        return Vector(x=other[0] - self.x, y=other[1] - self.y)

    def __mul__(self, factor: Any) -> "Vector":
        """Each component times `factor`, rounded (see `rounded`). Raises TypeError for a factor that is a vector itself."""
        if isinstance(factor, Vector) or np.ndim(factor) > np.ndim(self.x) > 0:
            raise TypeError(
                f"a vector times {np.shape(factor)}: allowed are numbers, one for each place. For two vectors take dot or cross."
            )
        return Vector(x=rounded(self.x * factor), y=rounded(self.y * factor))

    def __truediv__(self, divisor: Any) -> "Vector":
        """Each component divided by `divisor`."""
        return Vector(x=self.x / divisor, y=self.y / divisor)

    def __neg__(self) -> "Vector":
        """The opposite."""
        return Vector(x=-self.x, y=-self.y)

    __radd__, __rmul__ = __add__, __mul__

    @property
    def left(self) -> "Vector":
        """The vector turned left by a right angle."""
        return Vector(x=-self.y, y=self.x)

    @property
    def stacked(self) -> Array:
        """Both components in one array, (2, ...), written one after the other."""
        x, y = jnp.broadcast_arrays(self.x, self.y)
        return lax.dynamic_update_slice(jnp.broadcast_to(x, (2, *x.shape)), y[None], (1,) + (0,) * y.ndim)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """The same for NumPy."""
        both = np.asarray(self.stacked, dtype)
        return both.copy() if copy else both


def rounded(products: Array) -> Array:
    """The same values, rounded here: a product that is added later must not melt into the sum.

    Processors multiply and add in one go, with one rounding less. Whether the compiler uses that depends on the shapes of the whole
    program, so that room for more neighbours could change a last bit (seen with JAX 0.12 on a CPU). The choice that stands between
    product and sum here cannot be compiled away, since NaN is not equal to itself.
    """
    return jnp.where(products == products, products, jnp.inf)


def inverse(divisor: Any) -> Array:
    """One over the divisor, rounded here, to multiply with where rows of neighbours or walls (K, N) are divided by what they share.

    XLA would turn such a division into just this product, but only where there are several rows: so the last bits of the quotient would
    depend on how much room there is for neighbours and walls.
    """
    return rounded(1.0 / jnp.asarray(divisor))


def root(square: Array) -> Array:
    """Square root, rounded here.

    XLA would turn a division by a root into an approximate reciprocal root, whose last bits are others in a loop than at its end, so that
    they would depend on the row.
    """
    return rounded(jnp.sqrt(square))


def dot(one: Any, other: Any) -> Array:
    """Inner product of two vectors, each product of components rounded."""
    return rounded(one[0] * other[0]) + rounded(one[1] * other[1])


def cross(one: Any, other: Any) -> Array:
    """Outer product of two vectors, each product of components rounded; positive when the other points to the left of the one."""
    return rounded(one[0] * other[1]) - rounded(one[1] * other[0])


def angle(one: Vector, other: Vector) -> Array:
    """Angle from the one vector to the other, rad, -pi to pi; positive to the left."""
    return _arctangent(cross(one, other), dot(one, other))


@jax.custom_jvp
def _arctangent(across: Array, along: Array) -> Array:
    """Angle of (along, across), rad.

    In single precision by a polynomial with an error below 3e-7, because XLA on CPU calls a function for each arctangent, which took
    a tenth of the whole step.

    References:
        Moshier, Cephes mathematical library (1992), atanf: coefficients and ranges.
    """
    if along.dtype != jnp.float32:
        return jnp.arctan2(across, along)
    high, wide = jnp.abs(across), jnp.abs(along)
    large = jnp.maximum(high, wide)
    ratio = jnp.minimum(high, wide) / jnp.where(large > 0, large, 1.0)  # 0 to 1, the tangent of an angle up to pi / 4
    steep = ratio > 0.4142135624  # the tangent of pi / 8
    x = jnp.where(steep, (ratio - 1.0) / (ratio + 1.0), ratio)
    z = x * x
    series = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1
    turn = series * z * x + x + jnp.where(steep, math.pi / 4, 0.0)
    turn = jnp.where(high > wide, math.pi / 2 - turn, turn)
    turn = jnp.where(along < 0, math.pi - turn, turn)
    return jnp.where(across < 0, -turn, turn)


@_arctangent.defjvp
def _slope_of_arctangent(at: tuple[Array, Array], change: tuple[Array, Array]) -> tuple[Array, Array]:
    """The law, because the pieces above meet in kinks: straight ahead an absolute value has no slope. None at a vector of no length."""
    (across, along), (more_across, more_along) = at, change
    square = dot(at, at)
    turned = (along * more_across - across * more_along) / jnp.where(square > 0, square, 1.0)
    return _arctangent(across, along), turned


def where(condition: Array, one: Any, other: Any) -> Vector:
    """The one vector where the condition holds, the other elsewhere."""
    return Vector(x=jnp.where(condition, one[0], other[0]), y=jnp.where(condition, one[1], other[1]))


def take(values: Any, index: Array) -> Any:
    """Per-agent values (N,) at rows `index`, any shape: an array of that shape; for a vector (2, N) a Vector of it.

    All rows must exist: nothing is checked and nothing counts from the end, which makes a look-up twice as fast.
    """
    if isinstance(values, Vector) or values.ndim > 1:
        return Vector(x=take(values[0], index), y=take(values[1], index))
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def ordered_sum(terms: Array) -> Array:
    """Sum of rows (K, N) over K, strictly from first to last, so that zeros in between change no bit: (N,).

    Written out as a chain of additions, because XLA on CPU compiles a plain sum differently from program to program: those longer than
    32 are split, and shorter ones change their last bit with the program they are fused into. Products among the terms must be rounded.
    """
    total = jnp.zeros_like(terms, shape=terms.shape[1:])
    if len(terms) <= BLOCK:
        return _chain(total, terms)
    blocks = jnp.pad(terms, ((0, -len(terms) % BLOCK), (0, 0))).reshape(-1, BLOCK, terms.shape[1])
    return lax.scan(lambda so_far, block: (_chain(so_far, block), None), total, blocks)[0]


def _chain(total: Array, rows: Array) -> Array:
    for row in rows:
        total = total + row
    return total


@custom_vmap
def anywhere(flag: Array) -> Array:
    """The flag, () bool; in a batch one for all, True where any of them is.

    A branch on it stays a branch in a batch, where a flag for each would make both sides be worked out for all. So the side that is
    taken must also be right for those whose own flag is False.
    """
    return flag


@anywhere.def_vmap
def _anywhere(size: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return flag.any(), False
