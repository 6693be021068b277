"""Choosing the plan on the host, from concrete positions."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree

from crowdlab import geometry, walls
from crowdlab.errors import ParamError
from crowdlab.neighbours.cells import Grid
from crowdlab.neighbours.lists import Need, wall_candidates
from crowdlab.state import Array, State, World

FEW = 300  # people; up to here all are compared with all (faster below, slower beyond: the table in the README)
ROOM = 32  # neighbours that these small crowds always have room for, which costs less than compiling anew
CLOSE_ROOM = 12  # touching neighbours that they always have room for

PAIRS = 200_000  # that are counted at once
MOST_CELLS = 1e6  # of the raster that lists the walls near each cell
PLACES = 40  # places along each side of the world at which walls are counted
POINTS = 2048  # places are counted by so many, so that one program does
CROWDED = 0.75  # share of what somebody sees that a crowd packed at a door fills
PACKED = 12  # people who may touch one in such a crowd, those a skin away included
PACKING = math.pi / math.sqrt(12)  # share of the floor that equal discs cover at most
ROUNDING = 1e-6  # of a coordinate: the raster is made in double precision and looked up in single


def plan_grid(
    world: World,
    state: State,
    reach: float,
    wall_reach: float,
    *,
    dt: float,
    fastest: float,
    slack: float = 1.05,
    tight: bool = False,
) -> Grid:
    """Choose cells, capacities and refresh interval on the host, from concrete positions.

    `fastest`, m/s, is a speed that is seldom exceeded; whoever moves more than half the skin is noticed and the piece repeated. Room is
    planned tight, because the work goes with the room and not with the neighbours found (1 000 people at 2 per m2: 430 us a step with
    room for 40, 210 us with 24); a list that overflows is noticed too. Unless it is to be `tight`, a small crowd has room for ROOM.

    Raises:
        ParamError: in a periodic box somebody would be within reach from two sides.
    """
    reach = max(reach, 0.1)
    if world.periodic and 2 * reach > min(world.size):
        wide, high = world.size
        raise ParamError(
            f"the forces look {reach:.3g} m for people in a periodic box of {wide:g} x {high:g} m: allowed is half a side, "
            f"{min(world.size) / 2:.3g} m, or somebody would be near from two sides. Give a larger box or forces that look less far."
        )
    skin = max(0.15 * reach, 0.2)
    refresh = int(np.clip(math.floor(skin / 2 / max(fastest * dt, 1e-9)), 1, 200))
    half = 2
    look = reach + skin
    columns, rows = (max(1, min(int(length // (look / half)), 2000)) for length in world.size)
    exact = Grid(columns, rows, half, 1, 1, 1, 1, reach, wall_reach, skin, refresh)
    need = list_need(state, world, exact)
    people = int(state.position.shape[1])
    few = people <= FEW
    least, closest = (0, 0) if tight or not few else (ROOM, CLOSE_ROOM)
    return exact._replace(
        half=0 if few else half,
        span=min(people, max(least, int(need.span * slack) + 2)),
        capacity=min(people, max(least, _rounded(int(need.neighbours * slack) + 1))),
        touching=min(people, max(closest, _rounded(int(need.touching * slack) + 1, 2))),
        walls=min(walls.feature_count(world), int(need.walls * slack) + 1),
    )


def enlarge(grid: Grid, need: Need, people: int, features: int, slack: float = 1.25) -> Grid:
    """The same grid with room for what was needed."""
    return grid._replace(
        span=max(grid.span, min(people, int(int(need.span) * slack) + 2)),
        capacity=max(grid.capacity, min(people, _rounded(int(int(need.neighbours) * slack) + 1))),
        touching=max(grid.touching, min(people, _rounded(int(int(need.touching) * slack) + 1, 2))),
        walls=max(grid.walls, min(features, int(need.walls) + 1)),
    )


def packed(world: World, state: State, grid: Grid) -> tuple[int, int, int, int]:
    """Room, in the order of Need, for a crowd packed at a door, of whoever is in `state`, and for the walls near any place. Host."""
    sides = [(np.arange(PLACES) + 0.5) / PLACES * length + start for start, length in zip(world.lower, world.size, strict=True)]
    around = _most_walls(np.stack(np.meshgrid(*sides)).reshape(2, -1), world, grid) + 2
    if not state.id.size:
        return 0, 0, 0, around
    look, radius = grid.reach + grid.skin, float(np.median(np.asarray(state.radius)))
    cover = PACKING * (look / radius) ** 2  # how many fill what somebody sees
    row = (
        cover / math.pi * (2 * grid.half + 1) / max(grid.half, 1) ** 2
    )  # and how many the cells of one row that are looked through
    return math.ceil(CROWDED * cover), PACKED, math.ceil(row), around


def roomy(grid: Grid, room: tuple[int, int, int, int], people: int, features: int) -> Grid:
    """The same grid with at least this room, in the order of Need, but never more than there are."""
    neighbours, touching, span, around = room
    return grid._replace(
        capacity=max(grid.capacity, min(people, _rounded(neighbours, 8))),
        touching=max(grid.touching, min(people, touching)),
        span=max(grid.span, min(people, span)),
        walls=max(grid.walls, min(features, around)),
    )


def _rounded(capacity: int, step: int = 4) -> int:
    """Next multiple of `step`: few sizes, so that few programs are compiled."""
    return -(-capacity // step) * step


def list_need(state: State, world: World, grid: Grid) -> Need:
    """Room that a list made now would need. Host: from concrete positions, by a tree of points."""
    alive = np.asarray(state.alive)
    place = np.asarray(world.wrap(state.position), float).T[alive] - np.asarray(world.lower)
    if world.periodic:  # what was wrapped in single precision may lie a rounding outside
        place = np.mod(place, world.size)
        place[place >= world.size] = 0.0
    if len(place) == 0:
        return Need(0, 0, 0, 0)
    tree = cKDTree(place, boxsize=world.size if world.periodic else None)
    neighbours = tree.query_ball_point(place, grid.reach + grid.skin, return_length=True).max() - 1
    touching = _most_touching(place, np.asarray(state.radius, float)[alive], grid.skin, tree)
    cells = np.clip((place / world.size * (grid.columns, grid.rows)).astype(int), 0, (grid.columns - 1, grid.rows - 1))
    counts = np.zeros((grid.rows, grid.columns + 2 * grid.half), int)
    np.add.at(counts, (cells[:, 1], cells[:, 0] + grid.half), 1)
    width = 2 * grid.half + 1
    span = np.lib.stride_tricks.sliding_window_view(counts, width, axis=1).sum(-1).max()
    if world.periodic and grid.columns <= width:
        span = counts.sum(1).max()
    return Need(int(neighbours), int(touching), int(span), _most_walls(np.asarray(state.position)[:, alive], world, grid))


def _most_touching(place: np.ndarray, radius: np.ndarray, skin: float, tree: cKDTree) -> int:
    """How many others the one whose body may touch the most may touch, `skin` m from contact; places (P, 2) m are those of the tree."""
    stoutest = radius.max()
    if (radius == stoutest).all():
        return int(tree.query_ball_point(place, 2 * stoutest + skin, return_length=True).max()) - 1
    # Nobody touches more than if all others were the stoutest. Those who might touch most are counted first, a bounded number of pairs
    # at once (20 000 people on one heap are 400 million), until nobody who is left can have more.
    bound = tree.query_ball_point(place, radius + stoutest + skin, return_length=True) - 1
    order = np.argsort(-bound, kind="stable")
    most = first = 0
    while first < len(order) and bound[order[first]] > most:
        some = order[first : first + max(1, PAIRS // int(bound[order[first]] + 1))]
        near = cKDTree(place[some], boxsize=tree.boxsize).sparse_distance_matrix(
            tree, radius[some].max() + stoutest + skin, output_type="ndarray"
        )
        close = near["v"] <= radius[some][near["i"]] + radius[near["j"]] + skin
        most = max(most, int(np.bincount(near["i"][close]).max()) - 1)
        first += len(some)
    return most


def _most_walls(places: np.ndarray, world: World, grid: Grid) -> int:
    """Wall features that somebody at the worst of these places, (2, P) m, needs."""
    if not walls.feature_count(world):
        return 0
    world, real = with_wall_table(world, grid), world.walls.dtype
    grid = Grid(1, 1, 0, 0, 0, 0, 1, grid.reach, grid.wall_reach, grid.skin, 1)  # what else it says would only make more programs
    pieces = [places[:, first : first + POINTS] for first in range(0, places.shape[1], POINTS)]
    filled = [np.pad(piece, ((0, 0), (0, POINTS - piece.shape[1])), mode="edge").astype(real) for piece in pieces]
    return max((int(_walls_needed(piece, world, grid)) for piece in filled), default=0)


@functools.partial(jax.jit, static_argnames="grid")
def _walls_needed(places: Array, world: World, grid: Grid) -> Array:
    """Wall features that are near the worst of these places, (2, P) m: () int32."""
    return wall_candidates(places, jnp.ones(places.shape[1], bool), world, grid)[1]


def with_wall_table(world: World, grid: Grid) -> World:
    """The world with a table of the wall features near each cell of a raster, so that nobody has to look at all walls. Host.

    Raises:
        ParamError: in a periodic box walls are missing beyond an edge, or are felt from farther than they go on there.
    """
    return _with_wall_table(world, grid.wall_reach + grid.skin / 2)


@functools.lru_cache(maxsize=4)
def _with_wall_table(world: World, reach: float) -> World:
    if not walls.feature_count(world):
        return world
    segments, vertices, size = np.asarray(world.walls), np.asarray(world.wall_vertices), np.asarray(world.size)
    if world.periodic:
        _check_copies(vertices, size, reach)
    cell = max(reach / 2, math.sqrt(size.prod() / MOST_CELLS))  # m
    columns, rows = (int(many) for many in np.maximum(1, size / cell))
    step = size / (columns, rows)
    centre = (np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 2) + 0.5) * step
    number = np.arange(len(centre))
    if world.periodic:  # who crosses an edge turns up in a cell on the other side
        shifted = [(centre + size * (i, j), number) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        centre, number = (np.concatenate(part) for part in zip(*shifted, strict=True))
        beside = ((centre > -reach - step) & (centre < size + reach + step)).all(1)
        centre, number = centre[beside], number[beside]
    centre += world.lower
    far = reach + math.hypot(*step) / 2 + ROUNDING * (1.0 + np.abs(centre).max())
    place, feature = geometry.features_near(segments, vertices, centre, far)
    features = len(segments) + len(vertices)
    entry = np.unique(number[place] * features + feature)  # cell by cell, features rising
    count = np.bincount(entry // features, minlength=columns * rows)
    cells = np.stack((np.cumsum(count) - count, count)).reshape(2, rows, columns)
    return dataclasses.replace(
        world,
        near_walls=jnp.asarray(np.append(entry % features, features), jnp.int32),
        near_walls_cells=jnp.asarray(cells, jnp.int32),
        near_walls_most=int(count.max()),
        near_walls_reach=reach,
    )


def _check_copies(vertices: np.ndarray, size: np.ndarray, reach: float) -> None:
    """Refuse walls of a periodic box that end at its edges, and a reach beyond their copies. Raises ParamError."""
    wide, high = size
    if (np.ptp(vertices, 0) < 2 * size - ROUNDING * np.abs(vertices).max()).any():
        raise ParamError(
            f"walls in a periodic box of {wide:g} x {high:g} m: they end at its edges; allowed are walls with all copies one period "
            "beyond. Take them from geometry.wall_arrays(segments, box=(lower, size))."
        )
    if reach > size.min():
        raise ParamError(
            f"walls are felt from {reach:.3g} m in a periodic box of {wide:g} x {high:g} m: allowed is one side, {size.min():.3g} m. "
            "Give a larger box or forces that look less far."
        )
