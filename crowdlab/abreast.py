"""Several runs abreast: the rows of one state hold run after run, each with equally many, and go through one loop.

XLA on CPU works best on long rows, and a look-up with an axis of runs (`jax.vmap`) goes entry by entry. So laws that see rows and pairs
of rows never know about runs; only what is drawn, listed, counted or summed goes run by run. The keys say how many runs there are: () is
one, (R,) are R abreast, and what is said of a run then has a leading axis (R,).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")
Array = jax.Array


def count(key: Array) -> int | None:
    """Number of runs abreast; None for one that goes alone and has no axis of runs."""
    return int(key.size) if key.ndim else None


def each(law: Callable[..., T], runs: int | None, *trees: Any) -> T:
    """What the law gives for every run's own rows, with a leading axis of runs.

    Leaves (..., R N) of the trees are cut into R of (..., N); leaves () are everybody's.
    """
    if runs is None:
        return law(*trees)
    leaves, shape = jax.tree.flatten(trees)
    own = [leaf.reshape(*leaf.shape[:-1], runs, leaf.shape[-1] // runs) if leaf.ndim else leaf for leaf in map(jnp.asarray, leaves)]
    return jax.vmap(lambda *one: law(*jax.tree.unflatten(shape, one)), [-2 if leaf.ndim else None for leaf in own])(*own)


def joined(tree: T, runs: int | None) -> T:
    """What `each` gave for rows, leaves (R, ..., N), as rows of all runs, (..., R N)."""
    if runs is None:
        return tree
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -2).reshape(*leaf.shape[1:-1], runs * leaf.shape[-1]), tree)


def first_rows(runs: int | None, rows: int) -> Any:
    """The row, (R N,) int32 of R N `rows`, where the run of each row begins."""
    return 0 if runs is None else jnp.arange(rows, dtype=jnp.int32) // (rows // runs) * (rows // runs)


def fold(key: Array, number: Any) -> Array:
    """The keys with a number folded into each, () or (R,) as they were."""
    return jax.vmap(jax.random.fold_in, (0, None))(key, number) if key.ndim else jax.random.fold_in(key, number)


def keys_by_id(key: Array, ids: Array) -> Array:
    """A key for each row, (R N,), from the key of its run and its id."""
    own = jax.vmap(jax.random.fold_in, (None, 0))
    return jax.vmap(own)(key, ids.reshape(key.size, ids.size // key.size)).reshape(-1) if key.ndim else own(key, ids)


def rows_of(tree: T, rows: np.ndarray) -> T:
    """The same tree for the people in these rows, in this order, on the host.

    People are the last axis of every field that is not declared `static` or `single`; a leaf of shape () is everybody's.
    """
    taken: Any = tree
    if isinstance(taken, Mapping):
        taken = {name: rows_of(value, rows) for name, value in taken.items()}
    elif dataclasses.is_dataclass(taken) and not isinstance(taken, type):
        taken = dataclasses.replace(taken, **{field.name: rows_of(getattr(taken, field.name), rows) for field in peoples(taken)})
    elif np.ndim(taken):
        taken = jnp.asarray(np.asarray(taken)[..., rows])
    return taken


def peoples(tree: Any) -> list[dataclasses.Field[Any]]:
    """Fields of a dataclass that have a last axis of people, or may have one."""
    return [field for field in dataclasses.fields(tree) if not {"static", "single"} & set(field.metadata)]
