"""The neighbour plan of a live run.

It has room for what may come, because a plan that turns out too small costs a compilation in mid-play.
"""

from crowdlab import simulation, walls
from crowdlab.neighbours import Grid, packed, roomy
from crowdlab.params import Params
from crowdlab.scenario import Scenario
from crowdlab.state import State


def plan_with_room(scenario: Scenario, params: Params, state: State) -> Grid:
    """A plan with room for a crowd packed at a door and for the walls near any place."""
    grid, world = simulation.plan(scenario, params, state, sliders=True), scenario.walled
    return roomy(grid, packed(world, state, grid), state.id.size, walls.feature_count(world))
