"""Choosing what comes next, one after the other in the order of ids: each knows what those before have decided."""

from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from crowdlab.abreast import count, each, fold, joined, keys_by_id
from crowdlab.navigation import way_lengths
from crowdlab.params import Params
from crowdlab.state import MOST, Array, Journeys, State, Trip, World

CHANCE = 2**32 - 2  # number folded into the key of a step for what chance decides here; ids never get so far
SHUT = 1e6  # m; a way through a closed door is longer by so much, so that any other is shorter, and quicker, and less crowded
FAR = 1000.0  # m; of two exits with equally many people the nearer is chosen: this far counts as half a person
SLOWEST = 0.1  # m/s, at which those count on walking who want to stand
NO_WAY = 1e9  # m, length of a way that there is not; such a goal is taken where there is no other


class Rule(IntEnum):
    """How one of the options of a stage is chosen."""

    WEIGHTED = 0  # by chance, in proportion to the weights
    SHORTEST = 1  # the one with the shortest way
    LEAST_CROWDED = 2  # the one with the fewest others on the way to it or at it; of two such the nearer
    QUICKEST = 3  # where the way at the own speed and the wait behind all others on the way to it take least time together
    NEAREST = 4  # a list to visit: all of them, always the nearest that is left
    LISTED = 5  # a list to visit, in the order given: who finds no place at the next one waits for it


class Turn(IntEnum):
    """What somebody has to decide before a step."""

    NOTHING = 0  # goes on as before
    BEGINS = 1  # a journey
    GOES_ON = 2  # to what comes next in it, the same stage again where a list to visit is not done
    STEPS_UP = 3  # in a queue, or joins one
    CHOOSES = 4  # once more among the options of the stage


class Ballot(NamedTuple):
    """What each decides between; (N,) where nothing is said."""

    id: Array
    alive: Array
    turn: Array  # int32, a Turn
    goal: Array  # int32, so far
    place: Array  # int32, so far
    following: Array  # int32, stage among whose options each chooses
    options: Array  # (B, N) int32, goals
    score: Array  # (B, N), the smallest is chosen; inf is out of the question
    waits: Array  # (B, N) bool, an option that has room only for as many as it has places
    listed: Array  # (N,) bool, whose options have an order: none is taken before the one before it has room
    crowd: Array  # (B, N), what each other person at an option or on the way to it adds to its score


def decided(state: State, params: Params, world: World, plan: Journeys, turn: Array, key: Array) -> tuple[Array, Trip]:
    """Goals and trips of everybody once those whose turn it is have decided."""
    trip: Any = state.trip
    more = left_to_visit(plan, trip) & (state.goal >= 0)  # a list whose goals are all full is given up as a whole
    goes_on = (turn == Turn.GOES_ON) & ~more
    enters = (turn == Turn.BEGINS) | goes_on
    following = jnp.where(goes_on, plan.following[trip.stage], trip.stage)
    rule, options = plan.rule[following], plan.options[following].T
    number = jnp.arange(options.shape[0], dtype=jnp.int32)[:, None]
    chance = _chances(state, key, options.shape[0])
    visited = jnp.where(enters, _unwanted(options, plan.wanted[following], chance), trip.visited)
    lists = (rule == Rule.NEAREST) | (rule == Rule.LISTED)
    weights = plan.weights[following].T
    speed = jnp.maximum(jnp.asarray(params.people.desired_speed), SLOWEST)
    length = jnp.minimum(way_lengths(state, options, world), NO_WAY)
    score = jnp.select(
        [rule == Rule.WEIGHTED, rule == Rule.LEAST_CROWDED, rule == Rule.QUICKEST, rule == Rule.LISTED],
        # The first of exponential clocks that run as fast as the weights say; of two that are equally crowded the nearer.
        [
            -jnp.log(chance) / weights,
            jnp.where(length < SHUT, length / (length + FAR), SHUT),
            length / speed,
            number.astype(length.dtype),
        ],
        length,
    )
    open_to = (following >= 0) & (options >= 0) & (visited >> number & 1 == 0) & (weights > 0)
    ballot = Ballot(
        id=state.id,
        alive=state.alive,
        turn=turn,
        goal=state.goal,
        place=trip.place,
        following=following,
        options=options,
        score=jnp.where(open_to, score, jnp.inf),
        waits=(options >= 0) & (plan.tail[options] >= 0) & ~plan.queue[options],
        listed=rule == Rule.LISTED,
        crowd=jnp.where(rule == Rule.QUICKEST, plan.headway[options], (rule == Rule.LEAST_CROWDED).astype(length.dtype)),
    )
    runs = count(key)
    goal, place, option = joined(each(partial(_one_by_one, plan), runs, ballot), runs)
    moves = (turn > Turn.NOTHING) & (turn != Turn.STEPS_UP)
    return goal, trip.with_(
        stage=jnp.where(moves, following, trip.stage),
        stopped=jnp.where(moves, -1, trip.stopped),
        set_out=jnp.where(moves & (turn != Turn.CHOOSES), state.step, trip.set_out),
        place=place,
        visited=jnp.where(moves, jnp.where(lists & (option >= 0), visited | 1 << option, visited), trip.visited),
    )


def _chances(state: State, key: Array, options: int) -> Array:
    """Evenly between 0 and 1, (B, N), by key, step, id and option; the same in both precisions."""
    keys = keys_by_id(fold(fold(key, state.step), CHANCE), state.id)
    words = jax.vmap(partial(jax.random.bits, shape=(options,), dtype=jnp.uint32))(keys).T
    return ((words >> 9).astype(state.radius.dtype) + 0.5) * 2.0**-23


def _one_by_one(plan: Journeys, ballot: Ballot) -> tuple[Array, Array, Array]:
    """Goal, place and chosen option, (N,) each, of one run, after everybody who is due has decided in the order of ids.

    Kept short: each operation in here is a kernel of its own to compile.
    """
    places = plan.places.shape[0]
    index = jnp.arange(places, dtype=jnp.int32)
    held = jnp.where(ballot.alive & (ballot.place >= 0), ballot.place, places)
    taken = jnp.zeros(places + 1, bool).at[held].set(True)[:places]
    steps_up, chooses = ballot.turn == Turn.STEPS_UP, ballot.turn == Turn.CHOOSES
    target = jnp.where(ballot.place >= 0, plan.ahead[ballot.place], plan.tail[ballot.goal])  # of those who step up

    def decide(now: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        due, goal, place, option, taken = now
        who = jnp.argmin(jnp.where(due, ballot.id, MOST))
        mine = place[who]
        left = taken & (index != mine)
        options = ballot.options[:, who]
        room = (plan.place_goal == options[:, None]) & ~left  # (B, P)
        others = (ballot.alive & (ballot.id != ballot.id[who])) & (goal == options[:, None])  # (B, N)
        score = ballot.score[:, who] + ballot.crowd[:, who] * others.sum(1)
        full = ballot.waits[:, who] & ~room.any(1)
        awaited = jnp.where(full & ballot.listed[who], score, jnp.inf).min()
        score = jnp.where(full | (score > awaited), jnp.inf, score)
        stays = chooses[who] & (options == goal[who]) & jnp.isfinite(score) & (score <= score.min())
        score = jnp.where(stays, -1.0, score)  # there is no better one
        best = jnp.argmin(score).astype(jnp.int32)
        some = jnp.isfinite(score[best])
        own = jnp.where(some & ballot.waits[best, who], jnp.argmax(room[best]).astype(jnp.int32), -1)
        own = jnp.where(some & chooses[who] & (options[best] == goal[who]), mine, own)  # the same goal again, the same place
        own = jnp.where(steps_up[who], jnp.where(taken[target[who]], mine, target[who]), own)
        aim = jnp.where(steps_up[who], goal[who], jnp.where(some, options[best], -1))
        return (
            due.at[who].set(False),
            goal.at[who].set(aim),
            place.at[who].set(own),
            option.at[who].set(jnp.where(some, best, -1)),
            (taken & (index != mine)) | (index == own),
        )

    start = (ballot.turn > Turn.NOTHING, ballot.goal, ballot.place, jnp.full_like(ballot.goal, -1), taken)
    _, goal, place, option, _ = lax.while_loop(lambda now: now[0].any(), decide, start)
    return goal, place, option


def _unwanted(options: Array, wanted: Array, chance: Array) -> Array:
    """Bits, (N,) int32, of the options (B, N) of a list to visit that are not on somebody's own list, which chance, (B, N), picks."""
    number = jnp.arange(options.shape[0], dtype=jnp.int32)[:, None]
    drawn = jnp.where(options >= 0, chance, 2.0)
    rank = (drawn[:, None] > drawn[None]).sum(1)
    return jnp.where((options >= 0) & (rank >= wanted), 1 << number, 0).sum(0, dtype=jnp.int32)


def left_to_visit(plan: Journeys, trip: Trip) -> Array:
    """Whether something on the own list of the stage is left to visit, (N,) bool."""
    rule, given = plan.rule[trip.stage], plan.options[trip.stage] >= 0  # (N,), (N, B)
    left = given & (trip.visited[:, None] >> jnp.arange(given.shape[1]) & 1 == 0)
    return (trip.stage >= 0) & ((rule == Rule.NEAREST) | (rule == Rule.LISTED)) & left.any(1)
