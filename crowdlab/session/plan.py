"""The neighbour plan of a live run.

It has room for what may come, because a plan that turns out too small costs a compilation in mid-play.
"""

import math

import jax.numpy as jnp
import numpy as np

from crowdlab import simulation, walls
from crowdlab.neighbours import Grid, list_need
from crowdlab.params import Params
from crowdlab.scenario import Scenario
from crowdlab.state import State

PLACES = 40  # places along each side of the box at which walls are counted
CROWDED = 0.75  # share of what somebody sees that a crowd packed at a door fills
PACKED = 12  # people who may touch one in such a crowd, those a skin away included
PACKING = math.pi / math.sqrt(12)  # share of the floor that equal discs cover at most


def plan_with_room(scenario: Scenario, params: Params, state: State) -> Grid:
    """A plan with room for a crowd packed at a door and for the walls near any place."""
    grid, world = simulation.plan(scenario, params, state, sliders=True), scenario.walled
    sides = [np.linspace(0.0, 1.0, PLACES) * length + start for start, length in zip(world.lower, world.size, strict=True)]
    places = jnp.asarray(np.stack(np.meshgrid(*sides)).reshape(2, -1), state.position.dtype)
    everywhere = state.with_(position=places, alive=jnp.ones(places.shape[1], bool), radius=jnp.zeros(places.shape[1]))
    need = list_need(everywhere, world, grid)
    packed = (
        CROWDED * PACKING * ((grid.reach + grid.skin) / float(np.median(np.asarray(state.radius)))) ** 2 if state.id.size else 0.0
    )
    return grid._replace(
        capacity=max(grid.capacity, min(state.id.size, 8 * math.ceil(packed / 8))),
        touching=max(grid.touching, min(state.id.size, PACKED)),
        walls=max(grid.walls, min(walls.feature_count(world), int(need.walls) + 2)),
    )
