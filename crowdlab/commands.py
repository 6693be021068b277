"""The only way to influence a running simulation: orders, stored as plain data and carried out at a step boundary."""

import math
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from crowdlab.errors import CommandError
from crowdlab.params import Params, check_value, spec_of
from crowdlab.state import Array, State, Trip, World
from crowdlab.trees import pytree


class Kind(IntEnum):
    """What an order does to its target."""

    SET = 0  # move the parameter `path` to the mean `value[0]`
    GOAL = 1  # walk to goal number value[0] and end the journey; -1 takes the goal away
    REMOVE = 2  # leave the scene; counted as removed, not as left
    PUSH = 3  # add `value` m/s to the velocity
    JOURNEY = 4  # begin journey number value[0]


EVERYWHERE = (-math.inf, -math.inf, math.inf, math.inf)


class Command(NamedTuple):
    """At the boundary before absolute step `step`, do `kind` to whoever is in the scene and matches agent, group and zone all three."""

    step: int
    kind: Kind
    value: tuple[float, float] = (0.0, 0.0)
    path: str = ""  # SET only: dotted path of a parameter
    agent: int = -1  # an id; -1 means any
    group: int = -1  # a group number; -1 means any
    zone: tuple[float, float, float, float] = EVERYWHERE  # m, in the coordinates of the plan: x from, y from, x to, y to


@pytree
class CommandQueue:
    """C slots for the orders of one chunk; unused slots carry step -1, so that sending an order never recompiles."""

    step: Array  # (C,) int32
    kind: Array  # (C,) int32
    agent: Array  # (C,) int32
    group: Array  # (C,) int32
    zone: Array  # (C, 4) m
    value: Array  # (C, 2)

    @classmethod
    def of(cls, commands: Sequence[Command] = (), capacity: int = 8, *, origin: tuple[float, float] = (0.0, 0.0)) -> "CommandQueue":
        """Pack orders to people in the given sequence; capacity doubles until all fit, so few sizes are ever compiled.

        The `origin`, m, is taken off their zones, which are in the coordinates of the plan.

        Raises:
            CommandError: an order sets a parameter; those are carried out between chunks, by `simulation.chunks`.
        """
        for command in commands:
            if command.kind == Kind.SET:
                raise CommandError(f"order at step {command.step} sets {command.path}: a queue holds orders to people only.")
        while capacity < len(commands):
            capacity *= 2
        free = capacity - len(commands)

        def column(values: list[object], blank: object, dtype: object) -> Array:
            return jnp.asarray(np.array(values + [blank] * free, dtype))  # type: ignore[call-overload]

        real = jnp.result_type(float)
        return cls(
            step=column([c.step for c in commands], -1, np.int32),
            kind=column([int(c.kind) for c in commands], 0, np.int32),
            agent=column([c.agent for c in commands], -1, np.int32),
            group=column([c.group for c in commands], -1, np.int32),
            zone=column([tuple(np.subtract(c.zone, (*origin, *origin))) for c in commands], EVERYWHERE, real),
            value=column([c.value for c in commands], (0.0, 0.0), real),
        )


def in_order(commands: Sequence[Command]) -> list[Command]:
    """Orders by step; those of one step keep the sequence in which they were given."""
    return sorted(commands, key=lambda command: command.step)


def refuse(
    command: Command,
    now: int,
    params: Params,
    *,
    scenario: str,
    goals: Sequence[str],
    groups: Sequence[str],
    journeys: Sequence[str],
    placed: Collection[int] = (),
    people: int,
) -> None:
    """Raise if an order comes too late, is not well formed or names what does not exist. Raises CommandError or ParamError."""
    where = _well_formed(command, scenario, goals=goals, journeys=journeys)
    if command.step < now:
        raise CommandError(f"{where}: the run is at step {now} already. Give a step of {now} or later.")
    if not (command.zone[0] <= command.zone[2] and command.zone[1] <= command.zone[3]):
        raise CommandError(
            f"{where}: zone {command.zone} m holds no point. Give x from, y from, x to, y to, each from no larger than its to."
        )
    if command.kind == Kind.SET:
        _check_move(where, command, params)
    elif command.path:
        raise CommandError(f"{where}: path '{command.path}' belongs to SET only. Leave it out.")
    if command.kind == Kind.GOAL and command.value[0] not in range(-1, len(goals)):
        raise CommandError(f"{where}: goal {command.value[0]:g} does not exist. {_known_goals(goals)}")
    if command.kind == Kind.GOAL and command.value[0] in placed:
        raise CommandError(
            f"{where}: at goal {command.value[0]:g} ({goals[int(command.value[0])]}) everybody has a place of the own, which belongs to a "
            "journey. Give Kind.JOURNEY and one that leads there."
        )
    if command.kind == Kind.JOURNEY and command.value[0] not in range(len(journeys)):
        raise CommandError(f"{where}: journey {command.value[0]:g} does not exist. {_known_journeys(journeys)}")
    if command.kind == Kind.PUSH and not np.isfinite(command.value).all():
        x, y = command.value
        raise CommandError(f"{where}: push ({x:g}, {y:g}) m/s: allowed are finite numbers. Give a change of velocity in m/s.")
    if not -1 <= command.group < len(groups):
        raise CommandError(f"{where}: group {command.group} does not exist. Groups: {', '.join(groups) or 'none'}.")
    if not -1 <= command.agent < people:
        raise CommandError(f"{where}: agent {command.agent} does not exist. {ids(people)}")


def _well_formed(command: Command, scenario: str, *, goals: Sequence[str], journeys: Sequence[str]) -> str:
    """Whose order it is, for messages, if every field holds what it is for, whatever that means here. Raises CommandError."""
    if not isinstance(command, Command) or command.kind not in list(Kind):
        raise CommandError(
            f"{scenario}: order {command!r}: allowed is a Command of a kind of {', '.join(Kind.__members__)}. Correct it."
        )
    kind = Kind(command.kind)
    where = f"{scenario}: order {kind.name} at step {command.step}"
    for name in ("step", "agent", "group"):
        number = getattr(command, name)
        if not (_numbers(number, ()) and math.isfinite(number) and number == int(number)):
            cure = "Leave it out for any." if name != "step" else "Give that before which it is to be carried out."
            raise CommandError(f"{where}: {name} = {number!r}: allowed are whole numbers. {cure}")
    if not _numbers(command.value, (2,)):
        known = {
            Kind.GOAL: f"(number of the goal, 0). {_known_goals(goals)}",
            Kind.JOURNEY: f"(number of the journey, 0). {_known_journeys(journeys)}",
            Kind.PUSH: "(x, y) in m/s.",
            Kind.SET: "(value, 0).",
        }
        raise CommandError(f"{where}: value = {command.value!r}: allowed are two numbers. Give {known.get(kind, '(0, 0).')}")
    if not _numbers(command.zone, (4,)):
        raise CommandError(
            f"{where}: zone = {command.zone!r}: allowed are four numbers in m. Give (x from, y from, x to, y to), or leave it out."
        )
    if not isinstance(command.path, str):
        raise CommandError(f"{where}: path = {command.path!r}: allowed is the name of a parameter. Correct it, or leave it out.")
    return where


def _numbers(given: Any, shape: tuple[int, ...]) -> bool:
    """Whether something has numbers only, and that shape."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # rows of several lengths
        return False
    return array.dtype.kind in "iuf" and array.shape == shape


def _known_goals(goals: Sequence[str]) -> str:
    return f"Goals are 0 to {len(goals) - 1} ({', '.join(goals)}), and -1 for none." if goals else "Allowed is -1, for none."


def _known_journeys(journeys: Sequence[str]) -> str:
    return f"Journeys are 0 to {len(journeys) - 1} ({', '.join(journeys)})." if journeys else "There are none."


def ids(people: int) -> str:
    """Which ids there are, as a sentence for errors."""
    return f"Ids are 0 to {people - 1}." if people else "There is nobody."


def _check_move(where: str, command: Command, params: Params) -> None:
    """Refuse a parameter move that is out of bounds, names a person, or changes how time is counted while it runs."""
    check_value(command.path, command.value[0], spec_of(params, command.path))
    if (command.agent, command.group, command.zone) != (-1, -1, EVERYWHERE):
        raise CommandError(f"{where}: {command.path} moves for everybody in proportion. Leave agent, group and zone out.")
    if command.path == "motion.dt" and command.step > 0:
        raise CommandError(f"{where}: motion.dt counts the time itself. Set it before the run, in the parameters or at step 0.")


def apply(queue: CommandQueue, state: State, world: World) -> State:
    """Carry out every order due at `state.step`, in queue order. Pure."""
    if not queue.step.shape[0]:
        return state

    def one(slot: Array, state: State) -> State:
        zone, value = queue.zone[slot], queue.value[slot]
        x, y = state.position
        hit = (
            (queue.step[slot] == state.step)
            & state.alive
            & ((queue.agent[slot] < 0) | (queue.agent[slot] == state.id))
            & ((queue.group[slot] < 0) | (queue.group[slot] == state.group))
            & (x >= zone[0])
            & (y >= zone[1])
            & (x <= zone[2])
            & (y <= zone[3])
        )  # (N,)
        kind = queue.kind[slot]
        aimed, removed = hit & (kind == Kind.GOAL), hit & (kind == Kind.REMOVE)
        sent, number = hit & (kind == Kind.JOURNEY), value[0].astype(jnp.int32)
        new_goal, trip = aimed | sent, state.trip
        if trip is not None and world.journeys is not None:
            begun = Trip.begun(jnp.full_like(trip.stage, -1))
            begun = begun.with_(stage=jnp.where(sent, world.journeys.first[number], begun.stage))
            trip = jax.tree.map(lambda new, old: jnp.where(new_goal, new, old), begun, trip)
        return state.with_(
            trip=trip,
            goal=jnp.where(aimed, number, jnp.where(sent, -1, state.goal)),
            arrived=jnp.where(new_goal | removed, -1, state.arrived),  # a dead row with an arrival has left by an exit
            alive=state.alive & ~removed,
            velocity=state.velocity + jnp.where(hit & (kind == Kind.PUSH), value[:, None], 0.0),
        )

    def all_due(state: State) -> State:
        return lax.fori_loop(0, queue.step.shape[0], one, state)

    return lax.cond((queue.step == state.step).any(), all_due, lambda state: state, state)
