"""Single or double precision: one switch for everything that is built from here on."""

import jax
import jax.numpy as jnp

from crowdlab.errors import CrowdlabError
from crowdlab.state import State

NAMES = ("float32", "float64")


def use_precision(name: str) -> None:
    """Compute in float32 (as usual) or float64 from here on; the same as JAX's own switch jax_enable_x64, also set by JAX_ENABLE_X64=1.

    A scenario keeps the precision that it was built in, so switch before building. Recordings remember theirs.

    Raises:
        CrowdlabError: no such precision.
    """
    if name not in NAMES:
        raise CrowdlabError(f"precision '{name}': allowed are {' and '.join(NAMES)}. Choose one.")
    jax.config.update("jax_enable_x64", name == "float64")  # type: ignore[no-untyped-call]


def same_precision(state: State, where: str) -> None:
    """Refuse people who were placed in another precision than the present one. Raises CrowdlabError."""
    built, now = state.position.dtype, jnp.result_type(float)
    if built != now:
        raise CrowdlabError(
            f"{where}: its people were placed in {built}, the precision now is {now}: allowed is one for both. Build the scenario again "
            "after use_precision, or switch back."
        )
