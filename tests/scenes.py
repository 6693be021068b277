"""Small worlds and crowds that several tests share. Positions and velocities are given as (N, 2), in m and m/s."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import params as numbers
from crowdlab.commands import CommandQueue
from crowdlab.forces import FORCES
from crowdlab.geometry import wall_arrays
from crowdlab.integrate import MOTIONS
from crowdlab.navigation import pad_goals
from crowdlab.neighbours import Grid
from crowdlab.params import Params, People
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, rollout
from crowdlab.state import State, World

HFV = ("contact", "driving", "repulsion", "wall_contact", "wall_repulsion")


def real(values: Any) -> jax.Array:
    """In the float type of the moment."""
    return jnp.asarray(np.asarray(values, float), jnp.result_type(float))


def make_world(
    walls: Any = (),
    goals: Sequence[Any] = (),
    *,
    size: tuple[float, float] = (40.0, 40.0),
    lower: tuple[float, float] | None = None,
    periodic: bool = False,
    leaves: bool = False,
    reach: float = 0.5,
) -> World:
    """Wall segments (W, 2, 2) and goals, each a point or the two ends of a line, in plain sight from everywhere."""
    lower = (-size[0] / 2, -size[1] / 2) if lower is None else lower
    built = wall_arrays(np.asarray(walls, float).reshape(-1, 2, 2), (lower, size) if periodic else None)
    edges = [np.asarray([[goal, goal]] if np.ndim(goal) == 1 else [goal], float) for goal in goals]
    ways = np.zeros((len(goals), 3, 2, 2))
    ways[:, 2] = 1.0
    return World(
        walls=real(built["walls"]),
        wall_vertices=real(built["wall_vertices"]),
        wall_directions=real(built["wall_directions"]),
        wall_part=jnp.asarray(built["wall_part"], jnp.int32),
        goals=real(pad_goals(edges) if edges else np.zeros((0, 1, 2, 2))),
        goal_leaves=jnp.full(len(goals), leaves),
        goal_reach=real(np.full(len(goals), reach)),
        ways=real(ways),
        ways_cell=real(1.0),
        lower=lower,
        size=size,
        periodic=periodic,
    )


def make_state(
    position: Any,
    velocity: Any = (0.0, 0.0),
    *,
    radius: Any = 0.25,
    social_radius: Any = None,
    mass: Any = 80.0,
    goal: Any = -1,
    heading: Any = (1.0, 0.0),
    alive: Any = True,
    id: Any = None,  # noqa: A002 -- the field's own name
) -> State:
    """People at these places; a single value is everybody's."""
    place = np.asarray(position, float).reshape(-1, 2)
    count = len(place)

    def spread(values: Any, kind: Any) -> jax.Array:
        return jnp.asarray(np.broadcast_to(np.asarray(values, kind), (count,)))

    def own(values: Any) -> jax.Array:
        return real(np.broadcast_to(np.asarray(values, float), (count,)))

    def pairs(values: Any) -> jax.Array:
        return real(np.broadcast_to(np.asarray(values, float), (count, 2)).T)

    return State(
        id=spread(np.arange(count) if id is None else id, np.int32),
        position=real(place.T),
        velocity=pairs(velocity),
        heading=pairs(heading),
        radius=own(radius),
        social_radius=own(radius if social_radius is None else social_radius),
        mass=own(mass),
        desired_speed=own(0.0),
        group=spread(0, np.int32),
        goal=spread(goal, np.int32),
        alive=spread(alive, bool),
        arrived=spread(-1, np.int32),
        entered=spread(0, np.int32),
        step=jnp.zeros((), jnp.int32),
    )


def shuffled(state: State, order: np.ndarray) -> State:
    """The same people in other rows: row i holds who stood in row `order[i]`."""
    return jax.tree.map(lambda leaf: leaf[..., order] if leaf.ndim else leaf, state)


def make_params(names: Sequence[str] | None = None, changes: Mapping[str, Any] | None = None, *, motion: str = "walking") -> Params:
    """The forces `names` (the five of Helbing, Farkas & Vicsek when left out) with some leaves replaced, each () or (N,)."""
    forces = {name: FORCES[name]() for name in (HFV if names is None else names)}
    params = Params(forces=forces, switches=dict.fromkeys(forces, 1.0), motion=MOTIONS[motion](), people=People())
    for path, value in (changes or {}).items():
        params = numbers.replace(params, path, value)
    return jax.tree.map(real, params)


def make_scenario(world: World, state: State, params: Params, name: str = "scene") -> Scenario:
    """A scenario that never saw a file."""
    return Scenario(
        name=name,
        title=name,
        world=world,
        state=state,
        params=params,
        groups=("people",),
        goals=tuple(f"goal {number}" for number in range(world.goals.shape[0])),
        area="",
        duration=60.0,
        frames_per_second=8.0,
        seed=0,
        source={},
    )


def run(world: World, params: Params, state: State, steps: int, *, every: int = 1, seed: int = 0, grid: Grid | None = None) -> Run:
    """The bare rollout: all pairs unless a grid is given, no orders, nothing judged."""
    queue = CommandQueue.of((), 0)
    return rollout(world, params, state, jax.random.key(seed), queue, grid=grid, steps=steps, every=every)
