"""Bodies in each other: overlaps, and how hard they press."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab.commands import in_order
from crowdlab.errors import MeasureError
from crowdlab.measures.tracks import Tracks
from crowdlab.neighbours import Grid, enlarge, find, list_need, overlapping, plan_grid
from crowdlab.observe import contact_pressure as pressure_now
from crowdlab.params import Params, as_arrays, moved
from crowdlab.record.tables import exactly
from crowdlab.scenario import Scenario
from crowdlab.simulation import laid
from crowdlab.state import Array, State, World
from crowdlab.walls import feature_count

INJURING = 1600.0  # N/m, radial contact forces over the circumference; Helbing, Farkas & Vicsek, Nature 407 (2000) 487


class Overlaps(NamedTuple):
    """Every pair of bodies that overlap in a frame, frame by frame."""

    frame: np.ndarray  # (P,)
    person: np.ndarray  # (P,) row
    other: np.ndarray  # (P,) row, the higher one
    depth: np.ndarray  # (P,) m
    deepest: np.ndarray  # (F,) m, of each frame; 0 where nobody touches


def overlaps(tracks: Tracks) -> Overlaps:
    """Who overlaps whom in the frames, and how deep; walls are not looked at (the observable `largest_overlap` does).

    Raises:
        MeasureError: the tracks know no radii.
    """
    if tracks.radius is None:
        raise MeasureError("overlaps: these tracks know no radii. Give Tracks.of_arrays a radius in m.")
    found, deepest = [], np.zeros(len(tracks.time))
    for frame, present in enumerate(tracks.present):
        rows = np.flatnonzero(present)
        pairs, depth = overlapping(tracks.position[frame, rows], tracks.radius[rows], tracks.box)
        found.append((np.full(len(pairs), frame), *rows[pairs].T, depth))
        deepest[frame] = depth.max(initial=0.0)
    frame_of, person, other, depths = (np.concatenate(part) for part in zip(*found, strict=True))
    return Overlaps(frame_of, person, other, depths, deepest)


def contact_pressure(tracks: Tracks, scenario: Scenario, params: Params | None = None) -> np.ndarray:
    """How hard each body is pressed in each frame, (F, N) N/m: radial contact forces over the circumference; NaN for who is not present.

    Sum of the sizes of k g over neighbours and walls, divided by 2 pi r; neither the social repulsion nor friction is in it. The forces
    are worked out again from the places in the frames, with `params`, or those of the scenario. What happens between two frames is not
    seen: for that save every step. Doors stand, and orders to set a parameter have been carried out, as the tracks know them: those of a
    recording do, those of plain arrays have doors as at the start. Whoever comes above INJURING counts as injured in the paper.

    Raises:
        MeasureError: no force of contact in these parameters, or tracks of other people.

    References:
        Helbing, Farkas & Vicsek, Nature 407 (2000) 487; the contact part alone, as in the authors' program.
    """
    params = scenario.params if params is None else params
    if not any(hasattr(force, "squeeze") for force in params.forces.values()):
        raise MeasureError(
            f"{scenario.name}: no force between bodies that touch: allowed are parameters with one that has `squeeze`, such as contact "
            "and wall_contact. Add them to the scenario."
        )
    start = scenario.state
    if tracks.people != start.id.shape[0]:
        raise MeasureError(
            f"{scenario.name}: tracks of {tracks.people} people: this scenario has {start.id.shape[0]}. Give its own."
        )
    with jax.enable_x64(start.position.dtype == np.float64):
        params, places = as_arrays(params), np.nan_to_num(tracks.position - scenario.origin)
        states = [
            start.with_(position=jnp.asarray(place.T, start.position.dtype), alive=jnp.asarray(present))
            for place, present in zip(places, tracks.present, strict=True)
        ]
        grid = _room_for(states, scenario.walled)
        known = np.full(len(states), int(start.closed)) if tracks.closed is None else tracks.closed
        worlds = {shut: laid(scenario, start.with_(closed=np.int32(shut)), grid) for shut in set(known.tolist())}
        pressures = np.empty(tracks.present.shape)
        for frame, (state, now) in enumerate(zip(states, in_force(tracks, params), strict=True)):
            pressures[frame] = _pressure(state, now, worlds[int(known[frame])], grid)
    return np.where(tracks.present, pressures, np.nan)


def in_force(tracks: Tracks, params: Params) -> Iterator[Params]:
    """The parameters with which the step to each frame was made."""
    orders, dt = in_order(tracks.settings), exactly(params.motion.dt)
    for time in tracks.time:
        while orders and orders[0].step * dt < time:
            order = orders.pop(0)
            params = moved(params, order.path, order.value[0])
        yield params


@functools.partial(jax.jit, static_argnames="grid")
def _pressure(state: State, params: Params, world: World, grid: Grid) -> Array:
    near, _ = find(state, world, grid, jax.random.key(0))  # the key tells people on one point apart, which changes no size
    return pressure_now(state, near, params)


def _room_for(states: list[State], world: World) -> Grid:
    """A plan that sees everybody who touches in all of these states."""
    stoutest = float(np.asarray(states[0].radius).max(initial=0.0))
    grid = plan_grid(world, states[0], 2 * stoutest, stoutest, dt=1.0, fastest=1.0)
    for state in states:
        grid = enlarge(grid, list_need(state, world, grid), state.id.shape[0], feature_count(world))
    return grid
