"""Observables: pure functions of a state, evaluated inside the compiled loop at every saved instant."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from crowdlab.neighbours import Neighbours
from crowdlab.params import Params
from crowdlab.state import Array, State, World

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


@observable("1")
def people(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people in the scene, () 1."""
    return state.alive.sum(dtype=jnp.int32)


@observable("1")
def arrived(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Number of people who have reached their goal so far, those who left by it included, () 1."""
    return (state.arrived >= 0).sum(dtype=jnp.int32)


@observable("m/s")
def mean_speed(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Mean speed of those in the scene, () m/s; 0 when nobody is."""
    square = jnp.where(state.alive, (state.velocity**2).sum(0), 0.0)
    speed = jnp.sqrt(jnp.where(square > 0, square, 1.0)) * (square > 0)
    return speed.sum() / jnp.maximum(state.alive.sum(), 1)


@observable("m")
def largest_overlap(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Deepest overlap of two bodies, or of a body and a wall, () m; 0 when nobody touches."""
    touching = near.touching
    bodies = jnp.where(touching.mask, state.radius + touching.radius - touching.distance, 0.0).max(initial=0.0)
    walls = jnp.where((near.walls.weight > 0) & state.alive, state.radius - near.walls.distance, 0.0).max(initial=0.0)
    return jnp.maximum(jnp.maximum(bodies, walls), 0.0)


@observable("J")
def kinetic_energy(state: State, near: Neighbours, world: World, params: Params) -> Array:
    """Sum of m v^2 / 2 over those in the scene, () J."""
    return jnp.where(state.alive, state.mass * (state.velocity**2).sum(0), 0.0).sum() / 2
