"""What there is to do at goals: stays, places to wait and to queue, and the arrays that the room journeys works on."""

import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from crowdlab import demand, geometry
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor
from crowdlab.journeys import Rule, Stop
from crowdlab.params import spec_of
from crowdlab.scenario.stages import Itineraries, goals_of
from crowdlab.scenario.surroundings import Goal
from crowdlab.scenario.tables import GoalTable, ScenarioTable, StageTable, plain_shape
from crowdlab.state import Array, Journeys

PLACES = 2**31  # number folded into the placing key for waiting places; that of the stay at a goal follows it
NOBODYS = -2  # goal of the place that stands where there are none
RULES = {
    "weights": Rule.WEIGHTED,
    "shortest": Rule.SHORTEST,
    "least_crowded": Rule.LEAST_CROWDED,
    "quickest": Rule.QUICKEST,
}
FLOW = 1.3  # 1/(m s), what people count on behind a queue: largest specific flow of doors in the SFPE Handbook (Gwynne & Rosenbaum 2016)


def stops_of(tables: Mapping[str, GoalTable], people: int, seed: int) -> dict[str, Stop]:
    """Params.stops: what is done or braked for, by goal; stays are drawn for each person. Raises ScenarioError or ParamError."""
    found = {}
    for number, (name, table) in enumerate(tables.items()):
        if table.stay is None and table.brake is None:
            continue
        key = _key(seed, PLACES + 1 + number)
        stay = 0.0 if table.stay is None else table.stay
        law = spec_of(Stop(), "stay")
        drawn = demand.draw(stay, people, key, f"goals.{name}.stay", law)
        brake = demand.draw(table.brake or 0.0, 1, key, f"goals.{name}.brake", spec_of(Stop(), "brake"))
        same = len(np.unique(drawn)) == 1
        found[name] = Stop(stay=float(drawn[0]) if same else drawn if people else Stop.stay, brake=float(brake[0]))
    return found


def _key(seed: int, number: int) -> Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), demand.START), number)


def places_of(
    floor: Floor,
    name: str,
    table: GoalTable,
    radius: float,
    seed: int,
    doors: Mapping[str, np.ndarray] | None = None,
    others: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Places (n, 2) m of one goal, less the origin; none where people just come to it. `doors` are edges (E, 2, 2) m by name, `others`
    the places of other goals by their names in messages: nobody can stand on one of each where two overlap.

    Raises:
        ScenarioError: naming the place, also where a wall or a door parts it from others.
    """
    where = f"goals.{name}"
    given = table.queue if table.queue is not None else table.places
    if given is None:
        return np.empty((0, 2))
    taken = np.concatenate([np.empty((0, 2)), *(others or {}).values()])
    if table.queue is None:
        area = _waiting_area(floor, name, table, radius, doors or {})
    if isinstance(given, int):
        most = int(geometry.within(floor, area, radius).buffer(radius).area / (math.pi * radius**2))  # as if bodies left no gaps
        if given > most:
            raise ScenarioError(
                f"{where}.places = {given}: allowed are as many bodies of radius {radius:.3g} m as fit the polygon, "
                f"{most} at the very most. Lower the number or enlarge the polygon."
            )
        beside = taken[geometry.covers(area.buffer(2 * radius + 1e-3), taken)]  # or those far off might change the lattice
        chance = _key(seed, PLACES)
        return geometry.sample_discs(
            *(floor, area, np.full(given, radius), chance), taken=(beside, np.full(len(beside), radius)), where=f"{where}.places"
        )
    key = "queue" if table.queue is not None else "places"
    points = geometry.Notes(floor.origin).inside(geometry.read_points(given, f"{where}.{key}"))
    names = [f"{where}.{key}[{i}]" for i in range(len(points))]
    theirs = [f"{item}[{i}]" for item, own in (others or {}).items() for i in range(len(own))]
    geometry.check_start(floor, points, np.full(len(points), radius), names + theirs, (taken, np.full(len(taken), radius)))
    if table.queue is None:
        wrong, what = ~geometry.covers(area, points), "lies outside the polygon of the goal. Move it inside."
    else:
        wrong = np.append(floor.blocked(points[:-1], points[1:]), False)
        what = "a wall stands between it and the next place, and people walk straight from place to place. Move one of them."
        _check_doors(floor, points, names, doors or {})
    for one in np.flatnonzero(wrong)[:1]:
        raise ScenarioError(f"{names[one]} at {geometry.at(points[one], floor.origin)}: {what}")
    return points


def _all_places(
    floor: Floor, tables: Mapping[str, GoalTable], radius: float, seed: int, doors: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """`places_of` each goal that has some: given ones first, so that a random one is never where another was put by hand."""
    found: dict[str, np.ndarray] = {}
    others: dict[str, np.ndarray] = {}
    for random in (False, True):
        for name, table in tables.items():
            if (table.queue or table.places) is not None and isinstance(table.places, int) == random:
                found[name] = places_of(floor, name, table, radius, seed, doors, others)
                others[f"goals.{name}.{'places' if table.queue is None else 'queue'}"] = found[name]
    return found


def _check_doors(floor: Floor, points: np.ndarray, names: Sequence[str], doors: Mapping[str, np.ndarray]) -> None:
    """Refuse a queue, places (n, 2) m, that a door parts. Raises ScenarioError naming the place."""
    for door, edges in doors.items():
        one = geometry.first_parted(points, edges)
        if one is not None:
            raise ScenarioError(
                f"{names[one]} at {geometry.at(points[one], floor.origin)}: door {door} stands between it and the next place, and people "
                "walk straight from place to place. Move one of them, or the door."
            )


def _waiting_area(floor: Floor, name: str, table: GoalTable, radius: float, doors: Mapping[str, np.ndarray]) -> geometry.Area:
    """The polygon of a waiting area, across which everybody can walk straight to any place. Raises ScenarioError naming the place."""
    where = f"goals.{name}.polygon"
    area = geometry.read_area(plain_shape(table.polygon), where, geometry.Notes(floor.origin))
    room = geometry.within(floor, area, radius)
    inner = room.convex_hull.buffer(-1e-3).difference(room)
    if room.is_empty or inner.area > 1e-3:
        spot = (area if room.is_empty else inner).representative_point().coords[0]
        what = "nobody can stand" if room.is_empty else "a straight way from place to place is blocked"
        raise ScenarioError(
            f"{where}: at {geometry.at(spot, floor.origin)} {what} for bodies of radius {radius:.3g} m: people who wait walk straight to "
            "their places. Give a convex polygon without obstacles, several goals to choose from, or a queue."
        )
    for door, edges in doors.items():
        spot = geometry.cut_at(room, edges)
        if spot is not None:
            raise ScenarioError(
                f"{where}: at {geometry.at(spot.tolist(), floor.origin)} door {door} cuts it, and people who wait walk straight to their "
                "places. Give an area on one side of it, or several goals to choose from."
            )
    return area


def journeys_of(
    floor: Floor,
    tables: ScenarioTable,
    plans: Itineraries,
    goals: Mapping[str, Goal],
    radius: np.ndarray,
    lengths: np.ndarray,
    doors: Mapping[str, np.ndarray],
) -> Journeys | None:
    """World.journeys; None where goals are just walked to. `radius` (N,) m are those of the people, `lengths` m of the ways; `doors` as
    for `places_of`.

    Raises:
        ScenarioError: places that nobody can stand on, or times that are none.
    """
    names = list(goals)
    tables_of = tables.goals
    if not plans.stages and not any(table.stay or table.brake or table.until for table in tables_of.values()):
        return None
    stoutest = float(radius.max(initial=0.0)) or demand.Body.radius
    found = _all_places(floor, tables_of, stoutest, tables.seed, doors)
    places = [found.get(name, np.empty((0, 2))) for name in names]
    counts = np.array([len(own) for own in places], int)
    ends = np.cumsum(counts)
    queue = np.array([name in tables_of and tables_of[name].queue is not None for name in names], bool)
    place_goal = np.repeat(np.arange(len(names)), counts)
    first = np.isin(np.arange(counts.sum()), ends - counts)
    ahead = np.where(queue[place_goal] & ~first, np.arange(counts.sum()) - 1, -1)
    stopping = sorted(name for name, table in tables_of.items() if table.stay is not None or table.brake is not None)
    rows = _stages(plans, names)
    lines = [name in tables_of and tables_of[name].line is not None for name in names]
    widths = [np.hypot(*(goal.edges[:, 1] - goal.edges[:, 0]).T).sum() for goal in goals.values()]  # m
    headway = [1 / (FLOW * float(width)) if line else 0.0 for line, width in zip(lines, widths, strict=True)]
    return Journeys(
        **rows,
        stops=tuple(stopping),
        crossed=jnp.asarray(np.array([goal.crossed for goal in goals.values()], bool)),
        until=demand.reals(_times(tables_of, names)),
        stop=_whole([stopping.index(name) if name in stopping else -1 for name in names]),
        headway=demand.reals(headway),
        queue=jnp.asarray(queue),
        tail=_whole(np.where(counts > 0, ends - 1, -1)),
        places=demand.reals(np.concatenate([*places, np.zeros((int(not counts.sum()), 2))])),
        place_goal=_whole(place_goal if counts.sum() else [NOBODYS]),
        ahead=_whole(ahead if counts.sum() else [-1]),
        lengths=demand.reals(lengths),
    )


def _whole(values: object) -> Array:
    return jnp.asarray(np.asarray(values, np.int32))


def _times(tables: Mapping[str, GoalTable], names: Sequence[str]) -> np.ndarray:
    """Journeys.until."""
    times = [(tables[name].until if name in tables else None) for name in names]
    for name, given in zip(names, times, strict=True):
        if given is not None and (not given or not all(0 <= time < math.inf for time in given)):
            raise ScenarioError(f"goals.{name}.until = {given}: allowed are times of 0 and more in s, one at least. Correct them.")
    most = max([len(given) for given in times if given is not None], default=1)
    table = np.full((len(names), most), math.inf)
    for row, given in zip(table, times, strict=True):
        row[: 1 if given is None else len(given)] = math.nan if given is None else given
    return table


def _stages(plans: Itineraries, names: list[str]) -> dict[str, Array]:
    """The fields of Journeys that are about stages; one that leads nowhere stands where there are no journeys."""
    rows = [(stage, name, number) for name, stages in plans.stages.items() for number, stage in enumerate(stages)]
    rows = rows or [(StageTable(), "", 0)]
    first = {name: next(i for i, row in enumerate(rows) if row[1] == name) for name in plans.stages}
    most = max(1, *(len(goals_of(stage)) for stage, *_ in rows))
    options, weights = np.full((len(rows), most), -1), np.ones((len(rows), most))
    rule, following, wanted = np.zeros(len(rows)), np.full(len(rows), -1), np.zeros(len(rows))
    for row, (stage, name, number) in enumerate(rows):
        goals = goals_of(stage)
        options[row, : len(goals)] = [names.index(goal) for goal in goals]
        given = np.array(stage.weights or [1.0])
        weights[row, : len(goals)] = given / given.max()  # in double precision, as single knows none below 1e-45
        listed = Rule.LISTED if stage.order == "given" else Rule.NEAREST
        rule[row] = RULES[stage.by or "weights"] if stage.visit is None else listed
        wanted[row] = stage.some or len(goals)
        if number + 1 < len(plans.stages.get(name, ())):
            following[row] = row + 1
        elif name in plans.loops:
            following[row] = first[name]
    return {
        "first": _whole(list(first.values()) or [0]),
        "following": _whole(following),
        "rule": _whole(rule),
        "options": _whole(options),
        "weights": demand.reals(weights),
        "wanted": _whole(wanted),
        "patience": demand.reals([stage.patience or math.inf for stage, *_ in rows]),
        "rethink": demand.reals([stage.rethink or math.inf for stage, *_ in rows]),
    }
