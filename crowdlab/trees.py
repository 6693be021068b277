"""How classes are declared: frozen dataclasses that are trees of arrays to JAX, with unit, bounds, meaning and source of each number."""

import dataclasses
import math
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


class Spec(NamedTuple):
    """The human side of one parameter; feeds slider, sweep axis, range check, docs and tests."""

    default: float
    unit: str
    low: float  # the slider's range
    high: float
    least: float  # the law: outside it a value is refused
    most: float
    doc: str
    source: str  # where the default comes from
    log: bool  # slider and sweep axis are logarithmic


def param(
    *,
    default: float,
    unit: str,
    low: float,
    high: float,
    doc: str,
    source: str,
    least: float = 0.0,
    most: float = math.inf,
    log: bool = False,
) -> Any:
    """Declare a traced field. `low`-`high` is the slider's range; outside `least`-`most` a value is refused.

    A leaf has shape () for everybody or (N,) per agent; a slider or sweep on an (N,) leaf sets its mean and keeps the ratios.
    """
    spec = Spec(default, unit, low, high, least, most, doc, source, log)
    return dataclasses.field(default=default, metadata={"spec": spec})


def static(*, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that is part of the compiled program's shape (an int, a flag, a name)."""
    return dataclasses.field(default=default, metadata={"static": True})


def single(*, default: Any = dataclasses.MISSING) -> Any:
    """Declare a traced field that belongs to the run and not to the people: `rows_of` leaves it whole, whatever its shape.

    `default` is a function that makes the value.
    """
    return dataclasses.field(default_factory=default, metadata={"single": True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(param, static, single))
def pytree(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass (eq=False: arrays do not compare) registered with JAX.

    The class is part of what JAX compares when it looks for a compiled program. For dataclasses that it registers itself it compares only
    what they hold, so that now and then the program of another motion with as many numbers was taken (seen with JAX 0.10 and 0.12).
    """
    cls = dataclasses.dataclass(frozen=True, kw_only=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    data = [f.name for f in fields if not f.metadata.get("static")]
    meta = [f.name for f in fields if f.metadata.get("static")]
    keys = [jax.tree_util.GetAttrKey(name) for name in data]

    def aside(tree: T) -> tuple[Any, ...]:
        return cls, *[getattr(tree, name) for name in meta]

    def leaves(tree: T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(tree, name) for name in data], aside(tree)

    def keyed(tree: T) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        return list(zip(keys, leaves(tree)[0], strict=True)), aside(tree)

    def made(aside: tuple[Any, ...], values: Any) -> T:
        return cls(**dict(zip(data, values, strict=True)), **dict(zip(meta, aside[1:], strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, keyed, made, leaves)
    return cls
