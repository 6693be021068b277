"""Every parameter of a run: found, replaced and checked by dotted path; how one is declared is said in `trees`."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.errors import ParamError, nearest
from crowdlab.trees import Spec, param, pytree

T = TypeVar("T")


@pytree
class People:
    """What belongs to the persons themselves and may be slid, swept or fitted."""

    desired_speed: Any = param(
        default=1.34,
        unit="m/s",
        low=0.2,
        high=5.0,
        doc="speed a person walks at when nothing is in the way, v0",
        source="Weidmann 1993: mean 1.34 m/s, standard deviation 0.26 m/s",
    )
    pre_movement: Any = param(
        default=0.0,
        unit="s",
        low=0.0,
        high=120.0,
        doc="time from the start of the run until a person begins to walk; before that the desired speed is zero",
        source="our choice: off; RiMEA test 5 (2016) draws it evenly from 10 to 100 s",
    )


@pytree
class Limits:
    """Two limits that act, off by default and counted when they do, and two at which a run stops rather than be wrong."""

    acceleration: Any = param(
        default=math.inf,
        unit="m/s^2",
        low=10.0,
        high=500.0,
        doc="acceleration by all forces together that nobody exceeds; inf is no such limit",
        source="our choice: off, forces act in full",
        log=True,
    )
    separation: Any = param(
        default=0.0,
        unit="1",
        low=0.0,
        high=1.0,
        most=1.0,
        doc="share of each overlap that is taken away after a step by moving both bodies apart; 0 leaves it to the forces",
        source="our choice: off; at 1 a pair just touches, more than two thirds may shake a close-packed crowd",
    )
    overlap: Any = param(
        default=0.9,
        unit="1",
        low=0.1,
        high=1.0,
        doc="deepest overlap, as a share of both radii or of the one at a wall; a run stops where a look, each 50th step, sees more",
        source="our choice; measured in the scenario one_door: 0.7 at a wall and 0.3 between people who hasten at 8 m/s",
    )
    step_ratio: Any = param(
        default=2.0,
        unit="1",
        low=1.0,
        high=10.0,
        doc="how many times longer than springs and drags are stable the step may be; a run in which it is more stops",
        source="measured in the scenario one_door at 5 m/s: up to 1.9 the overlaps are those of shorter steps, from 4 on twice as deep",
    )


@pytree
class Params:
    """Every number that may be slid, swept or differentiated, and nothing else."""

    forces: dict[str, Any]  # name -> Force; summed in name order
    switches: dict[str, Any]  # name -> 0 or 1, traced: a force is turned off without recompiling
    motion: Any  # a Motion, see integrate.py
    people: People
    limits: Limits = dataclasses.field(default_factory=Limits)
    zones: dict[str, Any] = dataclasses.field(default_factory=dict)  # name -> a zone, see zones.py
    stops: dict[str, Any] = dataclasses.field(default_factory=dict)  # goal -> journeys.Stop, where something is done or braked for

    @property
    def time_step(self) -> float:
        """The concrete time step of the motion, s; the largest of several, which a run refuses."""
        return float(np.max(np.asarray(self.motion.dt)))


def register(cls: type[T], listed: dict[str, type], kind: str) -> type[T]:
    """Turn `cls` into a parameter pytree and list it under its name in snake_case.

    Raises:
        ParamError: the name is taken by a class from another module.
    """
    name = "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")
    taken = listed.get(name)
    if taken is not None and taken.__module__ != cls.__module__:
        raise ParamError(
            f"{kind} '{name}' of {cls.__module__}: the name is taken by {taken.__module__}. Choose another class name."
        )
    listed[name] = made = pytree(cls)
    return made


def _walk(tree: Any, path: str) -> Iterator[tuple[str, Any, Spec | None]]:
    if isinstance(tree, Mapping):
        for name in sorted(tree):
            yield from _walk(tree[name], f"{path}.{name}" if path else name)
    elif dataclasses.is_dataclass(tree):
        for field in dataclasses.fields(tree):
            here = f"{path}.{field.name}" if path else field.name
            spec = field.metadata.get("spec")
            if spec is not None:
                yield here, getattr(tree, field.name), spec
            elif not field.metadata.get("static"):
                yield from _walk(getattr(tree, field.name), here)
    elif path.startswith("switches."):
        yield path, tree, SWITCH


SWITCH = Spec(1.0, "1", 0.0, 1.0, 0.0, 1.0, "1 counts this force, 0 leaves it out", "choice of the user", False)


def specs(tree: Any) -> Iterator[tuple[str, Spec]]:
    """Yield `("forces.repulsion.strength", Spec)` for every declared parameter, in a fixed order."""
    for path, _, spec in _walk(tree, ""):
        if spec is not None:
            yield path, spec


def values(tree: Any) -> dict[str, Any]:
    """Every declared parameter's present value by dotted path."""
    return {path: value for path, value, spec in _walk(tree, "") if spec is not None}


def spec_of(tree: Any, path: str) -> Spec:
    """Spec of one path. Raises ParamError for an unknown path, with the closest known one."""
    known = dict(specs(tree))
    if path not in known:
        raise ParamError(f"unknown parameter '{path}'. {nearest(path, list(known))}")
    return known[path]


def get(tree: Any, path: str) -> Any:
    """Value of one parameter. Raises ParamError for an unknown path, with the closest known one."""
    spec_of(tree, path)
    return values(tree)[path]


def replace(tree: T, path: str, value: Any) -> T:
    """Copy of `tree` with one leaf changed to exactly `value`.

    Raises:
        ParamError: unknown path (with the closest known one).
    """
    spec_of(tree, path)
    return _put(tree, path.split("."), value)


def _put(tree: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        return value
    if isinstance(tree, Mapping):
        return {**tree, keys[0]: _put(tree[keys[0]], keys[1:], value)}
    return dataclasses.replace(tree, **{keys[0]: _put(getattr(tree, keys[0]), keys[1:], value)})


def rescale(tree: T, path: str, mean: Any) -> T:
    """Copy of `tree` with one leaf moved to the mean `mean`; an (N,) leaf keeps its ratios.

    A leaf whose mean is zero or infinite has no ratios to keep and becomes `mean` for everybody, and so does each that is moved to
    infinity. Works on traced values.

    Raises:
        ParamError: unknown path (with the closest known one).
    """
    old = jnp.asarray(get(tree, path))
    if old.ndim == 0:
        return replace(tree, path, jnp.asarray(mean, old.dtype))
    centre = old.mean()
    keeps = (centre != 0) & jnp.isfinite(centre) & jnp.isfinite(mean)
    ratio = jnp.where(keeps, old / jnp.where(keeps, centre, 1.0), 1.0)
    return replace(tree, path, (ratio * mean).astype(old.dtype))


def moved(tree: T, path: str, mean: Any) -> T:
    """The same for concrete values, each of which must be allowed.

    Raises:
        ParamError: unknown path, or somebody's value leaves its bounds when all keep their ratios.
    """
    changed = rescale(tree, path, mean)
    check_value(path, get(changed, path), spec_of(changed, path))
    return changed


def check(tree: Any) -> None:
    """Range check of every concrete leaf, on the host. Raises ParamError naming path, value, unit and bounds."""
    for path, value, spec in _walk(tree, ""):
        if spec is not None:
            check_value(path, value, spec)


def check_value(path: str, value: Any, spec: Spec) -> None:
    """Range check of one value. Raises ParamError naming path, value, unit and bounds."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ParamError(f"{path} = {value!r}: allowed are numbers in {spec.unit} ({spec.doc}). Give a number.") from None
    # Leaves are in single precision, where a bound itself may be a little off; infinity is for what is unlimited by default only.
    slack, largest = 1e-6 * abs(spec.least), float(np.finfo(jnp.result_type(float)).max)
    bad = array[~((array >= spec.least - slack) & (array <= spec.most) & ((abs(array) <= largest) | (spec.default == math.inf)))]
    if bad.size:
        unit = "" if spec.unit == "1" else f" {spec.unit}"
        size = "any finite size" if np.isinf(bad.flat[0]) else f"{largest:g}{unit}" if bad.flat[0] > largest else "any size"
        most = size if spec.most == math.inf else f"{spec.most:g}{unit}"
        raise ParamError(
            f"{path} = {bad.flat[0]:g}{unit}: allowed {spec.least:g} to {most} ({spec.doc}). A usual value is {spec.default:g}{unit}."
        )


def as_arrays(tree: T) -> T:
    """Every leaf in the default float type, so 5, 5.0 and jnp.float32(5) share one compilation. Raises ParamError for what is no number."""
    try:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(float)), tree)
    except (TypeError, ValueError):
        check(tree)  # says which
        raise
