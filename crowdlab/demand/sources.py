"""People who come in over time: when each is due, and who comes in where between two pieces of a run.

Whoever is due comes in at the first look (see ticks.py) at which one of the places of his source has room for him. Nothing is drawn on
the way: when somebody is due and in which order he tries the places is drawn for all at once, from the seed of the scenario.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import geometry
from crowdlab.demand.differences import draw
from crowdlab.demand.grounds import ground, look
from crowdlab.demand.groups import Group, Source
from crowdlab.demand.ticks import first_look, tick
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor
from crowdlab.journeys import has_begun
from crowdlab.params import Params
from crowdlab.state import OUTSIDE, TURNED_AWAY, Array, State, World
from crowdlab.trees import Spec
from crowdlab.zones import paced

PLACES = (10, 1000)  # places of a source: so many for each stoutest body that its area could hold, and at most
ALLOWANCE = 1e-4  # m, so that rounding to single precision makes no overlap
GAPS = Spec(
    default=1.0, unit="s", low=0.1, high=60.0, least=1e-6, most=1e9, doc="from one to the next", source="scenario", log=False
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sources:
    """When, where and how patiently people come in; N rows, by id, of everybody in the scenario."""

    due: np.ndarray  # (N,) s; NaN for who is there at the start
    patience: np.ndarray  # (N,) s
    gap: np.ndarray  # (N,) m, free round the body
    source: np.ndarray  # (N,) which of the places; -1 for who is there at the start
    first: np.ndarray  # (N,) the place that somebody tries first; then those after it, round and round
    places: tuple[np.ndarray, ...]  # (P, 2) m each, clear of walls for everybody of that source

    def waited(self, ids: np.ndarray, step: int, dt: float) -> np.ndarray:
        """How long those of these ids have been due at a step, (n,) s; negative for who is not due yet."""
        return np.asarray((step - first_look(self.due[ids], dt)) * dt)

    def admitted(self, state: State, params: Params, world: World, shut: np.ndarray) -> State:
        """The state with those who come in or are refused at its step; the same state between two looks.

        In the order in which they are due, then of ids. They walk in as they want to: at their desired speed on their way. `shut` are
        the edges (E, 2, 2) m of doors that are closed.
        """
        dt, step = params.time_step, int(state.step)
        outside = np.flatnonzero(np.asarray(state.entered) == OUTSIDE)
        if step % tick(dt) or not len(outside):
            return state
        ids = np.asarray(state.id)
        waited = self.waited(ids[outside], step, dt)
        due, waited = outside[waited >= 0], waited[waited >= 0]
        if not len(due):
            return state
        order = np.lexsort((ids[due], self.due[ids[due]]))
        found = self._placed(state, due[order], shut)
        entered = np.array(state.entered)
        entered[due[waited >= self.patience[ids[due]] - dt / 2]] = TURNED_AWAY - step
        entered[list(found)] = step
        changed = state.with_(entered=jnp.asarray(entered))
        return _walking_in(changed, found, params, world) if found else changed

    def _placed(self, state: State, due: np.ndarray, shut: np.ndarray) -> dict[int, np.ndarray]:
        """A place (2,) m for each of the rows `due` for whom there is one, in that order."""
        ids, radius, alive = np.asarray(state.id), np.asarray(state.radius, float), np.asarray(state.alive)
        bodies, sizes = np.asarray(state.position, float).T[alive], radius[alive]
        widest, room = float((radius[due] + self.gap[ids[due]]).max()) + ALLOWANCE, {}
        for one in np.unique(self.source[ids[due]]).tolist():
            walls = geometry.distances(self.places[one], shut) if len(shut) else np.full(len(self.places[one]), np.inf)
            room[one] = _room(self.places[one], bodies, sizes, widest), walls
        found: dict[int, np.ndarray] = {}
        for row in due.tolist():
            number = ids[row]
            source, places = int(self.source[number]), self.places[self.source[number]]
            people, walls = room[source]
            free = (people >= radius[row] + self.gap[number] + ALLOWANCE) & (walls >= radius[row])
            tried = np.roll(free, -self.first[number])
            if not tried.any():
                continue
            place = places[(int(tried.argmax()) + self.first[number]) % len(places)]
            found[row] = place
            for other, (people, _) in room.items():
                np.minimum(people, np.hypot(*(self.places[other] - place).T) - radius[row], out=people)
        return found


def _room(places: np.ndarray, bodies: np.ndarray, sizes: np.ndarray, far: float) -> np.ndarray:
    """Distance of each of the places (P, 2) m to the nearest body, (P,) m, where it is nearer than `far` m; else anything beyond."""
    far += sizes.max(initial=0.0)
    near = ((bodies > places.min(0) - far) & (bodies < places.max(0) + far)).all(1)
    offset = places[:, None] - bodies[near]
    return (np.hypot(offset[..., 0], offset[..., 1]) - sizes[near]).min(1, initial=np.inf)


def _walking_in(state: State, found: dict[int, np.ndarray], params: Params, world: World) -> State:
    """The state with these rows alive at their places, on their way already unless they have a time to spend first."""
    rows, arrays = list(found), {name: np.array(getattr(state, name)) for name in ("position", "velocity", "heading", "alive")}
    arrays["position"][:, rows] = np.array(list(found.values())).T
    arrays["alive"][rows] = True
    speed = np.where(np.asarray(has_begun(state, params)), np.asarray(params.people.desired_speed), 0)
    wanted = jnp.asarray(np.broadcast_to(speed, state.id.shape).astype(state.desired_speed.dtype))
    there = state.with_(**{name: jnp.asarray(arrays[name]) for name in ("position", "alive")}, desired_speed=wanted)
    way = np.asarray(look(there, world)[0])[:, rows]
    arrays["velocity"][:, rows] = np.asarray(paced(there, params.zones, world).desired_speed)[rows] * way
    arrays["heading"][:, rows] = np.where((way == 0).all(0), arrays["heading"][:, rows], way)
    return state.with_(**{name: jnp.asarray(array) for name, array in arrays.items()})


def due_times(name: str, group: Group, source: Source, key: Array, most: int) -> np.ndarray:
    """When everybody of a group is due, (n,) s.

    Raises:
        ScenarioError, ParamError: names the key of the source, what is wrong and what is allowed.
    """
    where = f"groups.{name}.source"
    if group.area is None or group.density is not None or group.gaussian is not None or group.positions is not None:
        raise ScenarioError(f"{where}: people come in in an area. Give area, and neither density nor gaussian nor positions.")
    ways = ("rate", "every", "times", "counts")
    given = [way for way in ways if getattr(source, way) is not None]
    if len(given) != 1:
        said = " and ".join(given) or "none of them"
        raise ScenarioError(f"{where}: has {said}: allowed is one of {', '.join(ways)}. Give exactly one of them.")
    for what, value in (("patience", source.patience), ("gap", source.gap), ("start", source.start)):
        if value is not None and not 0 <= value < math.inf:
            unit = "m" if what == "gap" else "s"
            raise ScenarioError(f"{where}.{what} = {value:g} {unit}: allowed are finite numbers of 0 and more. Give such a number.")
    if source.times is not None or source.counts is not None:
        found = _listed(where, source, key, most)
        if group.count not in (None, len(found)):
            raise ScenarioError(
                f"groups.{name}.count = {group.count}: {where}.{given[0]} has {len(found)} people. Leave count out, or make them agree."
            )
        return found
    if source.stop is not None and not source.start < source.stop < math.inf:
        raise ScenarioError(
            f"{where}.stop = {source.stop:g} s: allowed are finite numbers above start = {source.start:g} s. Give such a number."
        )
    listed = len(source.every) if isinstance(source.every, list) else None
    count = listed if group.count is None else group.count
    if count is None and source.stop is None:
        raise ScenarioError(
            f"groups.{name}: keys 'count' and 'source.stop' are missing: when do people stop coming? Give one or both."
        )
    many = 64 if count is None else count
    while True:
        with np.errstate(over="ignore"):  # infinite is as good as never
            due = source.start + np.cumsum(_gaps(where, source, many, key))
        if count is not None or due[-1] > (math.inf if source.stop is None else source.stop):
            break
        many *= 2
        if many > 2 * most:
            raise ScenarioError(f"{where}: more than {most} people come until {source.stop:g} s. Give longer gaps, or a count.")
    return due if source.stop is None else due[due <= source.stop + 1e-9]


def _gaps(where: str, source: Source, count: int, key: Array) -> np.ndarray:
    """Gaps from one to the next, (count,) s. Raises ScenarioError or ParamError."""
    if source.rate is None:
        assert source.every is not None
        return draw(source.every, count, key, f"{where}.every", GAPS)
    if not 0 < source.rate < math.inf:
        raise ScenarioError(f"{where}.rate = {source.rate:g} (1/s): allowed are finite numbers above 0. Give such a number.")
    return np.full(count, 1.0 / source.rate)


def _listed(where: str, source: Source, key: Array, most: int) -> np.ndarray:
    """Times that are given one by one, or in intervals. Raises ScenarioError."""
    if source.stop is not None or source.start:
        raise ScenarioError(f"{where}: start and stop belong to rate and every. Leave them out.")
    for number, time in enumerate(source.times or []):
        if not 0 <= time < math.inf:
            raise ScenarioError(f"{where}.times[{number}] = {time:g} s: allowed are finite numbers of 0 and more. Correct it.")
    if source.times is not None:
        return np.array(source.times, float)
    counts = source.counts or []
    for number, (begin, end, people) in enumerate(counts):
        if not (0 <= begin < end < math.inf and people >= 0):
            raise ScenarioError(
                f"{where}.counts[{number}] = [{begin:g}, {end:g}, {people}]: allowed are two times of 0 s and more, the earlier one first, "
                "and a number of people of 0 or more. Correct it."
            )
    if sum(people for *_, people in counts) > most:
        raise ScenarioError(f"{where}.counts: are more than {most} people. Give fewer.")
    chances = [geometry.uniforms(jax.random.fold_in(key, number), people)[:, 0] for number, (*_, people) in enumerate(counts)]
    return np.concatenate(
        [np.empty(0), *(begin + (end - begin) * np.sort(chance) for (begin, end, _), chance in zip(counts, chances, strict=True))]
    )


def places_of(floor: Floor, name: str, group: Group, radius: np.ndarray, key: Array) -> np.ndarray:
    """Places (P, 2) m where people of a source may come in, clear of walls for the stoutest of them. Raises ScenarioError."""
    where, stoutest = f"groups.{name}.area", float(radius.max(initial=0.0))
    room = geometry.within(floor, ground(floor, group.area, where), stoutest)
    if room.is_empty:
        raise ScenarioError(f"{where}: nobody of radius {stoutest:g} m can come in there, clear of the walls. Enlarge it.")
    each, most = PLACES
    count = min(most, each * max(1, math.ceil(room.area / (math.pi * max(stoutest, 0.01) ** 2))))
    return geometry.sample_points(room, count, key, where)


def sources_of(
    groups: Sequence[Group], due: Sequence[np.ndarray | None], places: Sequence[np.ndarray], first: np.ndarray, sizes: Sequence[int]
) -> Sources | None:
    """The sources of all groups: due times (n,) s of each, None for one that is there at the start, and its places; None without any."""
    if all(times is None for times in due):
        return None
    numbers = itertools.count()
    columns = {
        "due": [np.full(n, math.nan) if times is None else times for times, n in zip(due, sizes, strict=True)],
        "patience": [np.full(n, _patience(group.source)) for group, n in zip(groups, sizes, strict=True)],
        "gap": [np.full(n, 0.0 if group.source is None else group.source.gap) for group, n in zip(groups, sizes, strict=True)],
        "source": [np.full(n, -1 if times is None else next(numbers)) for times, n in zip(due, sizes, strict=True)],
    }
    return Sources(
        **{name: np.concatenate(parts) for name, parts in columns.items()},
        first=first,
        places=tuple(own for own, times in zip(places, due, strict=True) if times is not None),
    )


def _patience(source: Source | None) -> float:
    return math.inf if source is None or source.patience is None else source.patience
