"""How long a step may be: the longest at which springs and drags are stable, from how stiff the forces say they are.

A swing w^2 (1/s^2) is stable below a step of s / w, a damping c (1/s) below d / c, both at once where h c / d + (h w / s)^2 < 1, with s and
d of the motion, 2 and 2 for semi-implicit Euler. Row sums bound the fastest of a whole crowd (Gershgorin), so what is said is safe and not
sharp: people in a crowd were seen to bear twice as much, a lone pair does not. Left out is how friction changes from place to place while
bodies slide (of either sign, growing with the sliding speed), so it is no proof for all forces together.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from crowdlab.arithmetic import Vector
from crowdlab.forces import base
from crowdlab.neighbours import Neighbours, Pairs
from crowdlab.params import Params
from crowdlab.state import OUTSIDE, Array, State
from crowdlab.walls import SMALLEST, Walls

CONTACTS = 6  # as many as fit round somebody of the same size
OVERLAP = 0.05  # m; measured in the scenario one_door: at most 0.05 m at 1 m/s, 0.10 m at 5 m/s
ALONE, TOGETHER = "alone", "all together"


class Limit(NamedTuple):
    """The longest stable step of one force in one situation."""

    force: str  # its name in the scenario, or TOGETHER
    mode: str  # "swing" (a push that grows with the way), "damping" (a drag that grows with the velocity) or "both"
    where: str  # what is assumed
    step: float  # s; infinite where nothing limits it, 0 where no step is stable


def longest_step(params: Params, state: State, near: Neighbours) -> Array:
    """Longest step, (N,) s, at which springs and drags are stable for each agent in this state; infinite where no force limits it."""
    return _longest(params.motion, *base.rates(params, state, near))


def advice(params: Params, state: State, contacts: int = CONTACTS, overlap: float = OVERLAP) -> list[Limit]:
    """Longest stable step of every force that says how stiff it is, the shortest first, and at the end of all together.

    Assumed is somebody alone, with one neighbour, with `contacts` neighbours (or all there are), and at a wall, each overlapping by
    `overlap` m. Of values that each has their own, radius, mass or parameter, the worst counts. All together is with most neighbours.
    """
    contacts, deep = max(0, min(contacts, state.id.shape[0] - 1)), f", {100 * overlap:g} cm deep"
    crowd = {0: "a wall", 1: "a neighbour"}.get(contacts, f"{contacts} neighbours") + deep
    situations = {ALONE: (0, 0), "a neighbour" + deep: (1, 0), "a wall" + deep: (0, 1), crowd: (contacts, int(not contacts))}
    rows: dict[tuple[str, str], list[Limit]] = {}
    for where, (people, walls) in situations.items():
        steps = _shortest(params, state, people, walls, overlap, contacts)
        for name, mode, step in ((name, mode, float(step)) for name, modes in steps.items() for mode, step in modes.items()):
            known = rows.setdefault((name, mode), [])
            # A drive is the same whoever stands near, and is named once.
            if math.isfinite(step) and all(row.step != step for row in known):
                known.append(Limit(name, mode, where, step))
    single = [row for found in rows.values() for row in found if row.force != TOGETHER and row.mode != "both"]
    whole = _shortest(params, state, *situations[crowd], overlap, contacts)[TOGETHER]["both"]
    return [*sorted(single, key=lambda row: row.step), Limit(TOGETHER, "both", crowd, float(whole))]


def alone(params: Params, state: State) -> list[Limit]:
    """Longest stable step of every force that limits it whoever stands near."""
    steps = _shortest(params, state, 0, 0, 0.0, 0)
    rows = [Limit(name, "both", ALONE, float(modes["both"])) for name, modes in steps.items() if name != TOGETHER]
    return [row for row in rows if math.isfinite(row.step)]


def all_together(params: Params, state: State) -> Limit:
    """The last row of the advice: what `crowdlab run` compares the chosen step with."""
    return advice(params, state)[-1]


def pressed(state: State, contacts: int, people: Any, walls: Any, overlap: Any) -> Neighbours:
    """What each would see among `people` neighbours like themselves, of at most `contacts`, and `walls` walls, 0 or 1, `overlap` m deep."""
    count = state.id.shape[0]
    apart = jnp.broadcast_to(jnp.maximum(2 * state.radius - overlap, SMALLEST), (contacts, count))
    wall = jnp.maximum(state.radius - overlap, SMALLEST)[None]
    pairs = Pairs(
        index=jnp.broadcast_to(jnp.arange(count), (contacts, count)),
        offset=Vector(x=-apart, y=jnp.zeros_like(apart)),
        distance=apart,
        normal=Vector(x=jnp.ones_like(apart), y=jnp.zeros_like(apart)),
        mask=jnp.broadcast_to(jnp.arange(contacts)[:, None] < people, apart.shape),
        radius=jnp.broadcast_to(state.radius, apart.shape),
        social_radius=jnp.broadcast_to(state.social_radius, apart.shape),
    )
    around = Walls(
        normal=Vector(x=jnp.ones_like(wall), y=jnp.zeros_like(wall)),
        distance=wall,
        weight=jnp.ones_like(wall) * walls,
        nearest=wall.min(0),
    )
    return Neighbours(**vars(pairs), touching=pairs, walls=around)


@partial(jax.jit, static_argnames="contacts")
def _shortest(
    params: Params, state: State, people: Array, walls: Array, overlap: Array, contacts: int
) -> dict[str, dict[str, Array]]:
    """Longest step, s, that is stable for all, by force and mode, where each has `people` of `contacts` neighbours, and a wall or none."""
    state = state.with_(alive=state.alive | (state.entered == OUTSIDE))  # a step must do for those who are yet to come in
    near = pressed(state, contacts, people, walls, overlap)
    rates = {name: base.rates(_only(params, [name]), state, near) for name in sorted(params.forces)}
    rates[TOGETHER] = base.rates(params, state, near)
    motion, none = params.motion, jnp.zeros_like(state.mass)

    def least(steps: Array) -> Array:
        return steps.min(initial=jnp.inf)

    return {
        name: {
            "swing": least(_longest(motion, swing, none) if motion.swing_limit else jnp.where(swing > 0, 0.0, jnp.inf)),
            "damping": least(_longest(motion, none, damping)),
            "both": least(_longest(motion, swing, damping)),
        }
        for name, (swing, damping) in rates.items()
    }


def _only(params: Params, names: list[str]) -> Params:
    forces, switches = ({name: table[name] for name in names} for table in (params.forces, params.switches))
    return dataclasses.replace(params, forces=forces, switches=switches)


def _longest(motion: Any, swing: Array, damping: Array) -> Array:
    """The step h at which h c / d + (h w / s)^2 is one; a motion in which no swing is stable (s = 0) is judged by damping alone."""
    drag = damping / motion.damping_limit
    stiff = swing / motion.swing_limit**2 if motion.swing_limit else jnp.zeros_like(swing)
    rate = drag + jnp.sqrt(drag**2 + 4.0 * stiff)
    return jnp.where(rate > 0, 2.0 / jnp.where(rate > 0, rate, 1.0), jnp.inf)
