"""The main loop. Read `step` first: it is the whole model on one screen."""

from collections.abc import Iterator, Sequence

from crowdlab.commands import Command, CommandQueue
from crowdlab.neighbours import Grid
from crowdlab.params import Params, pytree
from crowdlab.scenario import Scenario
from crowdlab.state import Array, Health, State, World


@pytree
class Frames:
    """F saved instants, rows by agent id, public layout."""

    position: Array  # (F, N, 2) m
    velocity: Array  # (F, N, 2) m/s
    heading: Array  # (F, N, 2) unit
    alive: Array  # (F, N) bool
    step: Array  # (F,) int32


@pytree
class Run:
    """What came out."""

    frames: Frames
    series: dict[str, Array]  # observable name -> (F, ...)
    final: State
    health: Health


def rollout(
    world: World,
    params: Params,
    state: State,
    key: Array,
    queue: CommandQueue,
    *,
    grid: Grid | None,
    steps: int,
    every: int = 1,
    observe: tuple[str, ...] = (),
) -> Run:
    """Compiled core."""
    raise NotImplementedError


def chunks(
    scenario: Scenario,
    params: Params,
    key: Array,
    steps: int,
    *,
    chunk: int,
    every: int = 1,
    observe: tuple[str, ...] = (),
    commands: Sequence[Command] = (),
    grid: Grid | None = None,
    state: State | None = None,
) -> Iterator[Run]:
    """Run a scenario piece by piece, each piece trusted."""
    raise NotImplementedError


def simulate(
    scenario: Scenario,
    params: Params,
    key: Array,
    steps: int,
    *,
    every: int = 1,
    observe: tuple[str, ...] = (),
    commands: Sequence[Command] = (),
    grid: Grid | None = None,
) -> Run:
    """Run a scenario; raise rather than return something that cannot be trusted."""
    raise NotImplementedError
