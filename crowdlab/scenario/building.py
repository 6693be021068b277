"""From the tables of a scenario to a State, a World and Params that are ready to run."""

import copy
import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from crowdlab import demand, geometry
from crowdlab.errors import ScenarioError, nearest
from crowdlab.forces import FORCES
from crowdlab.geometry import Finding
from crowdlab.integrate import MOTIONS
from crowdlab.params import Limits, Params, People, as_arrays, check_value, spec_of
from crowdlab.scenario.doors import Doors, doors_of
from crowdlab.scenario.doorways import read_doors
from crowdlab.scenario.places import journeys_of, stops_of
from crowdlab.scenario.shapes import inlined
from crowdlab.scenario.stages import read_journeys
from crowdlab.scenario.surroundings import Goal, check_joined, furnished, make_world, surveyed
from crowdlab.scenario.tables import REACH, ScenarioTable, brief, decode, plain
from crowdlab.scenario.zones import read_zones, with_zones, zone_params
from crowdlab.state import State, World

USUAL_FORCES = ("driving", "repulsion", "contact", "wall_repulsion", "wall_contact")  # Helbing, Farkas & Vicsek 2000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scenario:
    """A named situation, ready to run. Host object, not a pytree; hashable by identity."""

    name: str  # short: the file's stem
    title: str
    world: World
    state: State  # at step 0
    params: Params  # defaults of this scenario
    groups: tuple[str, ...]  # names, in the order of State.group
    goals: tuple[str, ...]  # names, in the order of World.goals
    area: str  # walkable area as WKT, m, in the coordinates of the plan
    duration: float  # s, how long `crowdlab run` runs it at most
    frames_per_second: float  # 1/s, how often `crowdlab run` records
    seed: int  # for the placing and, unless the user gives another, for the run
    source: dict[str, Any]  # the parsed file, kept for recordings
    doors: Doors | None = None  # those that open and close; `world` and `state` have them as they are at step 0
    sources: demand.Sources | None = None  # of those who come in over time
    directions: tuple[str, ...] = ()  # names of the goals that are a direction to walk in for ever
    journeys: tuple[str, ...] = ()  # names, in the order of World.journeys.first
    # m, taken off every coordinate of a plan that lies far from (0, 0): world, state and frames are less this
    origin: tuple[float, float] = (0.0, 0.0)
    walls: tuple[np.ndarray, ...] = ()  # thin walls as open polylines (n, 2) m, in the coordinates of the plan
    findings: tuple[Finding, ...] = ()  # what was mended in the plan or is odd about it

    def on_map(self, places: Any) -> np.ndarray:
        """Places (..., 2) m of this scenario, as in frames, in the coordinates of its plan; double precision."""
        return np.asarray(places, float) + self.origin

    def geojson(self) -> dict[str, Any]:
        """Walkable area and thin walls as a GeoJSON FeatureCollection in the coordinates of the plan; may be read as `world`."""
        return geometry.drawn(self.area, self.walls)

    @property
    def placed(self) -> tuple[int, ...]:
        """Numbers of the goals where everybody has a place of the own."""
        plan = self.world.journeys
        return () if plan is None else tuple(np.flatnonzero(np.asarray(plan.tail) >= 0).tolist())

    @property
    def walled(self) -> World:
        """The world with all walls that ever stand."""
        return self.world if self.doors is None else self.doors.shut

    def around(self, state: State) -> World:
        """The world with its doors as they are in a state."""
        return self.world if self.doors is None else self.doors.world(int(state.closed))


class PlanWarning(UserWarning):
    """Something in a plan was mended or looks wrong."""


def build(spec: Mapping[str, Any], *, name: str = "untitled", folder: Path | None = None) -> Scenario:
    """A Scenario from the tables of a scenario file as a dict; shapely geometries, GeoJSON and arrays may stand for lists.

    Names of files are looked for in `folder`. What looks wrong in the plan becomes a PlanWarning; `geometry_report` says all.

    Raises:
        ScenarioError, ParamError: names the table and the key, the value, what is allowed and what to change.
    """
    source = plain(inlined(spec, folder))
    tables = decode(source, ScenarioTable)
    check_joined(tables)
    plan = surveyed(tables.world)
    plans, groups = read_journeys(tables)
    goals, floor = furnished(plan, tables.goals, plans.passing, plans.ends)
    zones = read_zones(tables.zones, floor, plan.notes)
    gates, times = read_doors(tables.doors, floor, plan.notes)
    demand.note_grounds(floor, groups, plan.notes)
    _warn(name, plan.findings)
    targets = {goal: read.target for goal, read in goals.items()}
    crowd = demand.populate(
        *(floor, groups, targets, tables.seed),
        relaxation=spec_of(FORCES["driving"](), "relaxation_time"),
        reach=REACH,
        profiles=tables.profiles,
        journeys=plans.goals,
    )
    goals |= _own_goals(crowd, goals)
    params = _params(tables, crowd)
    _check_relaxation(tables, params, source)
    late = geometry.Notes(floor.origin)  # what is seen only when the people are there
    world, fields, ways = make_world(floor, list(goals.values()), crowd.radius, late, thin=bool(plan.lines or gates))
    world = dataclasses.replace(world, journeys=journeys_of(floor, tables, plans, goals, crowd.radius, fields[:, 3], gates))
    world = with_zones(world, zones, tables.zones)
    state = demand.assemble(crowd, world, floor.origin)
    doors = doors_of(floor, gates, times, list(goals.values()), crowd.radius, world, fields, ways)
    if doors is not None:
        state, world, held = doors.begun(state, params.time_step, floor.origin)
        late.findings += held
    _warn(name, late.findings)
    return Scenario(
        name=name,
        title=tables.title or name,
        world=world,
        state=state,
        params=params,
        groups=tuple(tables.groups),
        goals=tuple(goals),
        directions=tuple(goal for goal, read in goals.items() if read.direction is not None),
        journeys=tuple(plans.stages),
        area=geometry.moved(floor.area, floor.origin).wkt,
        duration=tables.duration,
        frames_per_second=tables.frames_per_second,
        seed=tables.seed,
        source=source,
        origin=floor.origin,
        walls=tuple(line + floor.origin for _, line in plan.lines),
        findings=(*plan.findings, *late.findings),
        doors=doors,
        sources=crowd.sources,
    )


def _warn(name: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.severity == geometry.WARNING:
            warnings.warn(f"{name}: {finding}", PlanWarning, stacklevel=3)


def _own_goals(crowd: demand.Crowd, goals: Mapping[str, Goal]) -> dict[str, Goal]:
    """The goals of single persons by name. Raises ScenarioError for a name that is taken."""
    found = {}
    for own, point in crowd.own_goals:
        if own in goals:
            raise ScenarioError(f"goals.{own}: this is the name of somebody's own goal (goal_area). Choose another name.")
        place = geometry.read_place(own, point=point)
        found[own] = Goal(place, geometry.edges_of(place), False, REACH, False, False)
    return found


def variant(scenario: Scenario, overrides: Mapping[str, Any] | None = None, *, people: int | None = None) -> Scenario:
    """The scenario built anew with some entries of its file changed, e.g. `{"groups.left.count": 30}`.

    None takes an entry out. `people` shares a number among the groups that are placed in areas, in their present proportions; a source
    then goes on until all have come in, whatever its `stop`.

    Raises:
        ScenarioError, ParamError: as for `build`; also for a number of people that given positions do not allow.
    """
    source = copy.deepcopy(scenario.source)
    changes = dict(overrides or {})
    if people is not None:
        for group, count in _share(scenario, people).items():
            changes |= {f"groups.{group}.count": count, f"groups.{group}.density": None}
            if "source" in source["groups"][group]:
                changes[f"groups.{group}.source.stop"] = None
    for path, value in changes.items():
        *tables, key = path.split(".")
        table = source
        for step in tables:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise ScenarioError(f"{path}: '{step}' is no table of '{scenario.name}'. {nearest(step, list(source))}")
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return build(source, name=scenario.name)


def _share(scenario: Scenario, people: int) -> dict[str, int]:
    """Counts of the groups that start in areas, so that everybody together is `people`."""
    groups = scenario.source.get("groups", {})
    present = np.bincount(np.asarray(scenario.state.group), minlength=len(scenario.groups)).tolist()
    counts = {name: count for name, count in zip(scenario.groups, present, strict=True) if not _listed(groups[name])}
    rest = people - (sum(present) - sum(counts.values()))
    if rest < 0 or (rest and not counts):
        fixed = "given positions or times" if any("source" in group for group in groups.values()) else "given positions"
        raise ScenarioError(f"people = {people}: {people - rest} have {fixed} and {len(counts)} groups start in areas.")
    weights = counts if sum(counts.values()) else dict.fromkeys(counts, 1)
    whole = max(sum(weights.values()), 1)
    exact = {name: rest * weight / whole for name, weight in weights.items()}
    share = {name: math.floor(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: share[name] - exact[name])
    for name in by_remainder[: rest - sum(share.values())]:
        share[name] += 1
    return share


def _listed(group: Mapping[str, Any]) -> bool:
    """Whether a group of a file says of each person where he stands or when he comes in."""
    source = group.get("source", {})
    return "positions" in group or "times" in source or "counts" in source or isinstance(source.get("every"), list)


def _check_relaxation(tables: ScenarioTable, params: Params, source: Mapping[str, Any]) -> None:
    """A group's relaxation time belongs to a driving force; without one it would be lost."""
    if any(isinstance(force, FORCES["driving"]) for force in params.forces.values()):
        return
    for name, group in tables.groups.items():
        if group.relaxation_time is not None:
            raise ScenarioError(
                f"groups.{name}.relaxation_time = {brief(source['groups'][name]['relaxation_time'])} (s): the scenario has no driving "
                f"force that it could belong to (forces: {', '.join(params.forces) or 'none'}). Allowed is one of kind 'driving'. "
                "Add [forces.driving], or leave relaxation_time out."
            )


def _params(tables: ScenarioTable, crowd: demand.Crowd) -> Params:
    count = len(crowd.radius)
    forces, switches = {}, {}
    for name, table in ({usual: {} for usual in USUAL_FORCES} if tables.forces is None else tables.forces).items():
        where = f"forces.{name}"
        kind = _kind(table, name, FORCES, where, "force")
        forces[name] = _parameters(kind, table, where, count, ("kind", "on"))
        on = table.get("on", True)
        if not isinstance(on, bool) and on not in (0, 1):
            raise ScenarioError(f"{where}.on = {brief(on)}: allowed are true and false.")
        switches[name] = float(on)
        said = ~np.isnan(crowd.relaxation_time)
        if isinstance(forces[name], FORCES["driving"]) and said.any():
            tau = np.where(said, crowd.relaxation_time, forces[name].relaxation_time)
            forces[name] = dataclasses.replace(forces[name], relaxation_time=_same(tau))
    motion = _kind(tables.motion, "walking", MOTIONS, "motion", "motion")
    people = People(desired_speed=_same(crowd.desired_speed), pre_movement=_same(crowd.pre_movement)) if count else People()
    moving = _parameters(motion, tables.motion, "motion", count, ("kind",))
    if np.ndim(moving.dt):
        raise ScenarioError(f"motion.dt = {brief(tables.motion['dt'])}: allowed is one number in s, the same for everybody.")
    limits = _parameters(Limits, tables.limits, "limits", count, ())
    stops = stops_of(tables.goals, count, tables.seed)
    params = Params(
        forces=forces,
        switches=switches,
        motion=moving,
        people=people,
        limits=limits,
        zones=zone_params(tables.zones),
        stops=stops,
    )
    return as_arrays(jax.tree.map(demand.reals, params))


def _same(values: np.ndarray) -> Any:
    """One number where everybody has the same, else one for each."""
    return float(values[0]) if len(np.unique(values)) == 1 else values


def _kind(table: Mapping[str, Any], name: str, known: Mapping[str, type], where: str, what: str) -> type:
    kind = table.get("kind", name)
    if not isinstance(kind, str) or kind not in known:
        label = f"{where}.kind = {brief(kind)}: unknown {what}" if "kind" in table else f"{where}: unknown {what} '{kind}'"
        raise ScenarioError(f"{label}. {nearest(str(kind), list(known))}")
    return known[kind]


def _parameters(kind: type, table: Mapping[str, Any], where: str, count: int, others: tuple[str, ...]) -> Any:
    """A force or motion with the parameters of its table; those left out keep their defaults."""
    laws = {field.name: field.metadata.get("spec") for field in dataclasses.fields(kind)}
    values = {}
    for key, value in table.items():
        if key in others:
            continue
        if key not in laws:
            raise ScenarioError(f"{where}: unknown parameter '{key}'. {nearest(key, [*laws, *others])}")
        law = laws[key]
        if law is not None:
            if isinstance(value, bool | str):
                raise ScenarioError(f"{where}.{key} = {brief(value)}: allowed are numbers in {law.unit} ({law.doc}).")
            check_value(f"{where}.{key}", value, law)
            if isinstance(value, list) and len(value) != count:
                raise ScenarioError(
                    f"{where}.{key}: has {len(value)} values for {count} people. Give one for each, or a single number."
                )
        values[key] = np.asarray(value, float) if isinstance(value, list) else value
    return kind(**values)
