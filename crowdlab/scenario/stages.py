"""Journeys as a scenario file has them: their stages, checked, and who has which."""

import dataclasses
import math

from crowdlab import demand
from crowdlab.errors import ScenarioError, nearest
from crowdlab.scenario.tables import JourneyTable, ScenarioTable, StageTable

RAREST = 1e-30  # least weight as a share of the largest that single precision can reckon with
VISITS = 31  # goals that one list to visit may have; they are the bits of a number


def staged(name: str, journey: JourneyTable) -> list[StageTable]:
    """The stages of a journey, checked by themselves. Raises ScenarioError naming the stage."""
    where = f"journeys.{name}"
    stages = [StageTable(goal=stage) if isinstance(stage, str) else stage for stage in journey.stages]
    if not stages:
        raise ScenarioError(f"{where}.stages: is empty. Give one goal or more.")
    for number, stage in enumerate(stages):
        spot = f"{where}.stages[{number}]"
        given = [key for key in ("goal", "choose", "visit") if getattr(stage, key) is not None]
        if len(given) != 1:
            raise ScenarioError(f"{spot}: has {', '.join(given) or 'neither goal, choose nor visit'}. Give one of these three.")
        _check_stage(stage, given[0], spot)
    if stages[-1].patience is not None and not journey.loop:
        raise ScenarioError(
            f"{where}.stages[{len(stages) - 1}].patience: nothing follows the last stage. Add one, or leave patience out."
        )
    if len(stages) == 1 and journey.loop and stages[0].visit is None:
        raise ScenarioError(f"{where}: a loop of one stage leads from there to there. Give two or more, or leave loop out.")
    for number, (stage, after) in enumerate(zip(stages, stages[1:] + stages[:1] * journey.loop, strict=False)):
        if stage.goal is not None and stage.goal == after.goal:
            raise ScenarioError(f"{where}.stages[{number}]: '{stage.goal}' follows itself. Take one of them out.")
    return stages


def _check_stage(stage: StageTable, kind: str, where: str) -> None:
    names = goals_of(stage)
    if not names or len(set(names)) < len(names):
        raise ScenarioError(f"{where}.{kind} = {names}: allowed are one goal or more, each once. Correct it.")
    belongs = {"by": "choose", "weights": "choose", "rethink": "choose", "order": "visit", "some": "visit"}
    for key, owner in belongs.items():
        if getattr(stage, key) is not None and owner != kind:
            raise ScenarioError(f"{where}.{key}: belongs to '{owner}', not to '{kind}'. Leave it out, or give {owner}.")
    if stage.weights is not None:
        good = len(stage.weights) == len(names) and all(0 <= weight < math.inf for weight in stage.weights)
        if stage.by not in (None, "weights") or not good or not sum(stage.weights):
            raise ScenarioError(
                f"{where}.weights = {stage.weights}: allowed is one number of 0 and more for each of {len(names)} goals, not all 0, "
                "where chance decides. Correct them, or leave them out."
            )
        least = min(weight for weight in stage.weights if weight) / max(stage.weights)
        if least < RAREST:
            raise ScenarioError(
                f"{where}.weights = {stage.weights}: one is {least:.3g} of the largest: allowed are 0, and {RAREST:g} of it and more. "
                "Give 0 for what is never to be chosen."
            )
    if stage.rethink is not None and stage.by in (None, "weights"):
        raise ScenarioError(f"{where}.rethink: chance does not think again. Give by = 'shortest', 'least_crowded' or 'quickest'.")
    if kind == "visit" and len(names) > VISITS:
        raise ScenarioError(f"{where}.visit: {len(names)} goals: allowed are {VISITS}. Cut the list into several stages.")
    if stage.some is not None and stage.some > len(names):
        raise ScenarioError(f"{where}.some = {stage.some}: there are {len(names)} goals to visit. Give at most so many.")


def goals_of(stage: StageTable) -> list[str]:
    """The goals among which a stage chooses, or which it visits."""
    return [stage.goal] if stage.goal is not None else list(stage.choose or stage.visit or ())


@dataclasses.dataclass(frozen=True, eq=False)
class Itineraries:
    """The journeys of a scenario, those included that lead to one goal with places of its own."""

    stages: dict[str, list[StageTable]]  # of each journey
    loops: frozenset[str]  # journeys whose first stage follows the last
    aims: frozenset[str]  # goals that groups have without a journey

    @property
    def passing(self) -> set[str]:
        """Goals after which something else comes in some journey."""
        found = set()
        for name, stages in self.stages.items():
            on = stages if name in self.loops else stages[:-1]
            found |= {goal for stage in on for goal in goals_of(stage)}
            found |= {goal for stage in stages if len(stage.visit or ()) > 1 for goal in goals_of(stage)}
        return found

    @property
    def ends(self) -> set[str]:
        """Goals after which nothing else comes for somebody."""
        last = [stages[-1] for name, stages in self.stages.items() if name not in self.loops]
        return set(self.aims) | {goal for stage in last for goal in goals_of(stage)}

    @property
    def goals(self) -> dict[str, list[str]]:
        """All goals of each journey."""
        return {
            name: list(dict.fromkeys(goal for stage in stages for goal in goals_of(stage))) for name, stages in self.stages.items()
        }


def _check_direction(tables: ScenarioTable, name: str, number: int, stage: StageTable, goal: str) -> None:
    """A direction is walked in for ever, so it is the end of a journey or has a patience. Raises ScenarioError."""
    if tables.goals[goal].direction is None:
        return
    journey, where = tables.journeys[name], f"journeys.{name}.stages[{number}]"
    if stage.visit is not None or stage.by not in (None, "weights"):
        raise ScenarioError(
            f"{where}: '{goal}' is a direction, which has no end and no length. Choose it by weights, or give it as a goal."
        )
    if stage.patience is None and (journey.loop or number + 1 < len(journey.stages)):
        raise ScenarioError(
            f"{where}: '{goal}' is a direction, in which people walk for ever. Give patience, or let it be the last stage."
        )


def read_journeys(tables: ScenarioTable) -> tuple[Itineraries, dict[str, demand.Group]]:
    """The journeys, and the groups with one for everybody who needs one. Raises ScenarioError naming journey, stage and goal."""
    stages = {name: staged(name, journey) for name, journey in tables.journeys.items()}
    for name, row in stages.items():
        for number, stage in enumerate(row):
            for goal in goals_of(stage):
                if goal not in tables.goals:
                    raise ScenarioError(
                        f"journeys.{name}.stages[{number}]: there is no goal '{goal}'. {nearest(goal, list(tables.goals))}"
                    )
                _check_direction(tables, name, number, stage, goal)
                if stage.by == "quickest" and tables.goals[goal].line is None:
                    raise ScenarioError(
                        f"journeys.{name}.stages[{number}].by = 'quickest': goal '{goal}' is no line, whose width would say how many pass "
                        "in a second. Choose among lines, or by 'least_crowded'."
                    )
    loops = frozenset(name for name, journey in tables.journeys.items() if journey.loop)
    for name, row in stages.items():
        served = [goal for goal in goals_of(row[-1]) if tables.goals[goal].queue is not None]
        if served and name not in loops:
            raise ScenarioError(
                f"journeys.{name}: ends in the queue '{served[0]}', which nobody would leave. Add a stage after it."
            )
    for name, goal_table in tables.goals.items():
        if "." in name and (goal_table.stay is not None or goal_table.brake is not None):
            raise ScenarioError(f"goals.{name}: a dot in the name of a goal with stay or brake, which are parameters. Rename it.")
    groups: dict[str, demand.Group] = {}
    for name, group in tables.groups.items():
        journey: str | None = group.journey
        own = None if group.goal is None else tables.goals.get(group.goal)
        if journey is not None and (group.goal is not None or group.goal_area is not None):
            raise ScenarioError(f"groups.{name}: has a journey and a goal of its own. Give one of them.")
        if journey is not None and journey not in stages:
            raise ScenarioError(f"groups.{name}.journey = '{journey}': there is no such journey. {nearest(journey, list(stages))}")
        if own is not None and (own.places is not None or own.queue is not None):
            if own.queue is not None:
                raise ScenarioError(
                    f"groups.{name}.goal = '{group.goal}': a queue, which nobody would leave. Give a journey with a stage after it."
                )
            journey = f"to {group.goal}"
            if journey in tables.journeys:
                raise ScenarioError(f"journeys.{journey}: the name of the way to the goal '{group.goal}'. Choose another name.")
            stages[journey] = [StageTable(goal=group.goal)]
            groups[name] = dataclasses.replace(group, goal=None, journey=journey)
        else:
            groups[name] = group
    return Itineraries(stages, loops, frozenset(group.goal for group in groups.values() if group.goal is not None)), groups
