"""Observables: pure functions of a state, evaluated inside the compiled loop at every saved instant.

An observable describes the crowd and no single row. It sees a row for everybody in the scene, in any order, and rows for some of those
who are not. So it masks with `state.alive`, takes those without a row from `state.left`, `state.removed`, `state.waiting` and
`state.refused`, and adds with `total`, whose last bit depends neither on the order of the rows nor on their number. Minima, maxima and
counts do not anyway.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from crowdlab.arithmetic import dot, root, rounded
from crowdlab.neighbours import Neighbours
from crowdlab.params import Params
from crowdlab.state import LEFT, REFUSED, REMOVED, WAITING, Array, State, World, whereabouts

Law = Callable[[State, Neighbours, World, Params], Array]


class Observable(NamedTuple):
    """A law with its unit and its meaning."""

    law: Law
    unit: str
    doc: str

    def __call__(self, state: State, near: Neighbours, world: World, params: Params) -> Array:
        """Value now; the shape is the law's."""
        return self.law(state, near, world, params)


OBSERVABLES: dict[str, Observable] = {}  # filled by @observable


def observable(unit: str) -> Callable[[Law], Law]:
    """List a function in OBSERVABLES under its own name, with its unit and the first line of its docstring."""

    def register(law: Law) -> Law:
        OBSERVABLES[law.__name__] = Observable(law, unit, (law.__doc__ or "").strip().splitlines()[0])
        return law

    return register


def total(values: Array, state: State) -> Array:
    """Sum over those in the scene of values (N,) or (2, N), which must be finite: () or (2,).

    In the order of ids and in pairs of pairs, so that rows of people who are gone change no bit, present or not.
    """
    count = state.id.shape[0]
    in_order = jnp.argsort(jnp.where(state.alive, state.id, np.iinfo(np.int32).max))
    terms = rounded(jnp.where(state.alive, values, 0)[..., in_order])
    terms = jnp.pad(terms, [*[(0, 0)] * (terms.ndim - 1), (0, (1 << max(count - 1, 0).bit_length()) - count)])
    while terms.shape[-1] > 1:
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


@observable("1")
def people(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people in the scene, () 1."""
    return state.alive.sum(dtype=jnp.int32)


@observable("1")
def arrived(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people who have reached their goal so far, those who left by it included, () 1."""
    return state.left + (state.arrived >= 0).sum(dtype=jnp.int32)


def _absent(word: str, state: State) -> Array:
    """How many of those who have a row are away in this way, () int32."""
    return whereabouts(state.alive, state.arrived >= 0, state.entered)[word].sum(dtype=jnp.int32)


@observable("1")
def left(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people who have left by an exit so far, () 1."""
    return state.left + _absent(LEFT, state)


@observable("1")
def removed(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people whom an order has taken out so far, () 1."""
    return state.removed + _absent(REMOVED, state)


@observable("1")
def waiting(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people who have not come in yet, () 1; with those in the scene, left, removed and refused they are all there are."""
    return state.waiting + _absent(WAITING, state)


@observable("1")
def refused(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people who have been turned away so far because they found no room to come in, () 1."""
    return state.refused + _absent(REFUSED, state)


@observable("m/s")
def mean_speed(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Mean speed of those in the scene, () m/s; NaN when nobody is."""
    square = dot(state.velocity, state.velocity)
    moving = state.alive & (square > 0)
    speed = root(jnp.where(moving, square, 1.0))
    count = state.alive.sum()
    return jnp.where(count > 0, total(jnp.where(moving, speed, 0.0), state) / jnp.maximum(count, 1), jnp.nan)


@observable("m")
def largest_overlap(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Deepest overlap of two bodies, or of a body and a wall, () m; 0 when nobody touches."""
    touching = near.touching
    bodies = jnp.where(touching.mask, state.radius + touching.radius - touching.distance, 0.0).max(initial=0.0)
    walls = jnp.where((near.walls.weight > 0) & state.alive, state.radius - near.walls.distance, 0.0).max(initial=0.0)
    return jnp.maximum(jnp.maximum(bodies, walls), 0.0)


def contact_pressure(state: State, near: Neighbours, params: Params) -> Array:
    """Radial contact forces on each body, sizes added up, over its circumference, (N,) N/m; 0 on dead rows.

    Only what `squeeze` of the forces gives: with the social repulsion every dense crowd would count as crushed.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487: injuries above 1600 N/m.
    """
    press = jnp.zeros_like(state.radius)
    for name in sorted(params.forces):
        if hasattr(params.forces[name], "squeeze"):
            press = press + rounded(params.switches[name] * params.forces[name].squeeze(state, near))
    return jnp.where(state.alive, press / (2 * math.pi * state.radius), 0.0)


@observable("N/m")
def largest_contact_pressure(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Hardest pressure of contact on a body, () N/m; 0 when nobody touches."""
    return contact_pressure(state, near, params).max(initial=0.0)


@observable("J")
def kinetic_energy(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Sum of m v^2 / 2 over those in the scene, () J."""
    return total(state.mass * dot(state.velocity, state.velocity), state) / 2
