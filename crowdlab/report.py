"""In words and tables: what a recorded run says about its crowd, what stands in a scenario, and what there is to choose from."""

import csv
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from crowdlab import geometry, measures, stability
from crowdlab import params as parameters
from crowdlab.forces.base import FORCES
from crowdlab.integrate import MOTIONS, Kinematics
from crowdlab.observe import OBSERVABLES
from crowdlab.params import Params
from crowdlab.record import Recording
from crowdlab.scenario import Scenario
from crowdlab.state import INSIDE, LEFT, REFUSED, REMOVED, STANDING, WAITING, State

OUTCOMES = (LEFT, STANDING, REMOVED, INSIDE, WAITING, REFUSED)
LISTED = 10  # people who did not arrive that are printed one by one
HEALTH = {  # what a summary says of how the run went, with units
    "looks": "steps",
    "long_looks": "steps",
    "step_ratio": "1",
    "strain": "1",
    "capped": "agent-steps",
    "separated": "agent-steps",
}
SHAPE = re.compile(r", \(\) [^;.,]+")  # shape and unit in the first line of an observable: for programmers


def summary(recording: Recording) -> dict[str, Any]:
    """Counts, times, flow and overlap with their units, ready for JSON."""
    people, dt = recording.people, recording.dt
    outcome, arrival = people["outcome"], np.where(people["arrived"] >= 0, people["arrived"] * dt, np.nan)
    total, arrived = len(outcome), arrival[np.isfinite(arrival)]
    overlap = recording.series.get("largest_overlap")
    return {
        "scenario": recording.manifest["scenario"],
        "title": recording.manifest["source"].get("title", ""),
        "seed": recording.manifest["seed"],
        "complete": recording.complete,
        "simulated": _quantity(recording.steps * dt, "s"),
        "time_step": _quantity(dt, "s"),
        "people": {"in": total, **{word: int((outcome == word).sum()) for word in OUTCOMES}},
        "arrivals": {
            "first": _quantity(arrived.min(initial=math.inf), "s"),
            "median": _quantity(np.median(arrived) if len(arrived) else None, "s"),
            "last": _quantity(arrived.max(initial=-math.inf), "s"),
            "of_95_percent": _quantity(measures.evacuation_time(arrival, 0.95), "s"),
        },
        "entries": _entries(recording),
        "flow": flows(recording),
        "health": {name: _quantity(value, HEALTH[name]) for name, value in recording.health.items() if name in HEALTH},
        "largest_overlap": _quantity(None if overlap is None or not len(overlap) else float(overlap.max()), "m"),
        "not_arrived": [one._asdict() for one in measures.not_arrived(recording)],
        "versions": _once(recording.manifest["versions"]),
    }


def flows(recording: Recording) -> dict[str, dict[str, Any]]:
    """For every exit that somebody left by: mean flow (n - 1) / (last - first) in 1/s, and n."""
    people, found = recording.people, {}
    for number, name in enumerate(recording.manifest["goals"]):
        times = people["arrived"][(people["outcome"] == "left") & (people["goal"] == number)] * recording.dt
        if len(times):
            found[name] = {**_quantity(measures.mean_flow(times), "1/s"), "people": len(times)}
    return found


def _entries(recording: Recording) -> dict[str, dict[str, Any]]:
    """For every group that comes in over time what came of those who were due."""
    units = {"mean_wait": "s", "longest_wait": "s"}
    return {
        name: {word: _quantity(value, units[word]) if word in units else value for word, value in one._asdict().items()}
        for name, one in measures.entries(recording).items()
    }


def lines(found: dict[str, Any]) -> list[str]:
    """A summary in a few lines for people."""
    people, arrivals = found["people"], found["arrivals"]
    times = ", ".join(f"{word} {_shown(arrivals[word])}" for word in ("first", "median", "last"))
    came, most = people["left"] + people["standing"], arrivals["of_95_percent"]
    of = f" of {came} who arrived" if came < people["in"] else ""
    ninety = f"95 % at {_shown(most)}" if most["value"] is not None else "95 % not reached"
    outside = "".join(
        f", {people[word]} {told}" for word, told in ((WAITING, "waiting outside"), (REFUSED, "refused")) if people[word]
    )
    text = [
        f"people    {people['in']} in, {people['left']} have left, {people['standing']} standing at their goal, "
        f"{people['removed']} removed, {people['inside']} still inside{outside}",
        f"arrivals  {times}{of}; {ninety}" if came else "arrivals  none",
    ]
    text += [
        f"entry     {name}: {one['came_in']} of {one['due']} who were due came in; waited for room {_shown(one['mean_wait'])} in the mean, "
        f"{_shown(one['longest_wait'])} at most, {one['looks_without_room']} looks without room"
        for name, one in found["entries"].items()
        if one["due"]
    ]
    text += [f"flow      {_shown(flow)} through {name} ({flow['people']} people)" for name, flow in found["flow"].items()]
    if found["largest_overlap"]["value"] is not None:
        text.append(f"overlap   {_overlap(found['largest_overlap']['value'])} in the recorded frames")
    text += _health({name: quantity["value"] for name, quantity in found["health"].items()})
    missing = found["not_arrived"]
    for one in missing[:LISTED]:
        x, y = one["position"]
        text.append(f"{one['outcome']:<9} agent {one['id']} ({one['group']}) at ({x:.2f}, {y:.2f}) m: {one['reason']}")
    if len(missing) > LISTED:
        rest = Counter(str(one["kind"]) for one in missing[LISTED:])
        kinds = ", ".join(f"{count} {kind}" for kind, count in rest.most_common())
        text.append(f"missing   and {rest.total()} more: {kinds}; summary.json names all")
    return text


def _health(found: dict[str, float]) -> list[str]:
    """How long the step was for the forces, if anybody was near enough to tell, and how often the limits acted."""
    text, ratio, long = [], found.get("step_ratio", 0.0), int(found.get("long_looks", 0))
    if long:
        text.append(
            f"step      up to {ratio:.2f} times the longest at which springs and drags are stable, longer in {long} of "
            f"{found['looks']:.0f} looks"
        )
    elif ratio > 0:
        text.append(f"step      at most {ratio:.2g} of the longest at which springs and drags are stable")
    if capped := found.get("capped"):
        text.append(f"cap       limits.acceleration acted in {capped:.0f} agent-steps")
    if separated := found.get("separated"):
        text.append(f"parted    limits.separation moved bodies apart in {separated:.0f} agent-steps")
    return text


def _overlap(deepest: float) -> str:
    if deepest <= 0:
        return "nobody touched"
    return f"at most {deepest:.3f} m" if deepest >= 0.001 else "less than 0.001 m"


def _once(versions: dict[str, str]) -> dict[str, str]:
    """A device whose kind has the name of its platform is named once: cpu."""
    return {name: " ".join(dict.fromkeys(text.split())) if name == "device" else text for name, text in versions.items()}


def write_summary(path: Path, found: dict[str, Any]) -> None:
    """Write a summary as JSON."""
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_measures(path: Path, recording: Recording) -> dict[str, str]:
    """Write one row per recorded frame after the start: time, ledger, observables, empty where there is none. Returns column -> unit."""
    columns = {"time": recording.times[1:], "step": np.asarray(recording.frames.step)[1:]}
    units = {"time": "s", "step": "1"}
    for word, counts in recording.ledger().items():
        columns[word], units[word] = counts[1:], "1"
    for name, values in recording.series.items():
        unit = recording.manifest["observe"][name]
        for index, column in enumerate(values.reshape(len(values), -1).T):
            title = name if values.ndim == 1 else f"{name}_{index}"
            columns[title], units[title] = column, unit
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(_plain(column) for column in columns.values()), strict=True))
    return units


def _plain(column: np.ndarray) -> list[Any]:
    """Values as the shortest decimals that give them back: 1.3 and not 1.2999999523162842 for a float32; nothing for NaN."""
    values = [str(value) for value in column] if column.dtype == np.float32 else column.tolist()
    return ["" if missing else value for value, missing in zip(values, np.isnan(column), strict=True)]


def _quantity(value: float | None, unit: str) -> dict[str, Any]:
    return {"value": None if value is None or not math.isfinite(value) else round(float(value), 9), "unit": unit}


def _shown(quantity: dict[str, Any], digits: int = 2) -> str:
    value = quantity["value"]
    unit = {"1/s": "per second"}.get(quantity["unit"], quantity["unit"])
    return "unknown" if value is None else f"{value:.{digits}f} {unit}"


def described(scenario: Scenario, *, every: bool = True) -> list[str]:
    """Geometry, people and parameters of a scenario, one line each; not `every` one, but those that differ from the usual value."""
    rings = geometry.polygons(scenario.area, scenario.origin)
    corners, walls = np.concatenate([ring for part in rings for ring in part]), np.asarray(scenario.world.walls)
    columns, rows = (
        " to ".join(map(geometry.metres, pair))
        for pair in zip(scenario.on_map(corners.min(0)), scenario.on_map(corners.max(0)), strict=True)
    )
    floor = sum(_enclosed(part[0]) - sum(_enclosed(hole) for hole in part[1:]) for part in rings)
    length = float(np.hypot(*(walls[:, 1] - walls[:, 0]).T).sum())
    text = [
        f"{scenario.name}: {scenario.title}",
        f"  area       {floor:.4g} m² within x {columns} m, y {rows} m; {length:.4g} m of walls",
    ]
    if any(scenario.origin):
        text.append(
            f"  origin     {', '.join(map(geometry.metres, scenario.origin))} m are taken off inside and put back in all that is told"
        )
    group, goal, leaves = (np.asarray(a) for a in (scenario.state.group, scenario.state.goal, scenario.world.goal_leaves))
    for number, name in enumerate(scenario.groups):
        table = scenario.source["groups"][name]
        aims = sorted({scenario.goals[g] if g >= 0 else "no goal" for g in goal[group == number].tolist()})
        if "journey" in table or "goal" in table:
            aims = [f"the journey {table['journey']}" if "journey" in table else table["goal"]] * bool(aims)
        shown = ", ".join(aims) if len(aims) <= 3 else f"{len(aims)} goals of their own"
        text.append(
            f"  group      {name}: {(group == number).sum()} people{f' to {shown}' if aims else ''}{_coming(scenario, number)}"
        )
    exits = [name for name, leave in zip(scenario.goals, leaves, strict=True) if leave]
    text.append(f"  exits      {', '.join(exits) or 'none'}")
    text.append(f"  run        {scenario.duration:g} s, {scenario.frames_per_second:g} frames per second, seed {scenario.seed}")
    specs, values = dict(parameters.specs(scenario.params)), parameters.values(scenario.params)
    told = [path for path in specs if every or not np.array_equal(values[path], np.asarray(specs[path].default, np.float32))]
    text += [f"  parameter  {path} = {_setting(path, values[path], specs[path].unit)}" for path in told]
    if len(told) < len(specs):
        acting = ", ".join(scenario.params.forces)
        text.append(f"  parameters {len(specs) - len(told)} have their usual value (--all prints them); forces: {acting}")
    return text


def _coming(scenario: Scenario, group: int) -> str:
    """When the people of a group are due, in words; nothing for those who are there at the start."""
    due = np.empty(0) if scenario.sources is None else scenario.sources.due[np.asarray(scenario.state.group) == group]
    return f", due from {due.min():.2f} to {due.max():.2f} s" if np.isfinite(due).any() else ""


def advised(params: Params, state: State) -> list[str]:
    """How long a step may be, one line for each force and situation, the shortest first."""
    rows = stability.advice(params, state)
    text = [f"  step       motion.dt = {_leaf(params.motion.dt)} s; springs and drags are stable below"]
    limits = [f"{row.step:.3g} s" if row.step else "none" for row in rows]
    width = max(len(limit) for limit in limits)
    names = [row.force if row.mode == "both" else f"{row.force}, {row.mode}" for row in rows]
    return text + [f"    {limit:<{width}}  {name}: {row.where}" for limit, name, row in zip(limits, names, rows, strict=True)]


def too_long(params: Params, state: State) -> str:
    """One sentence if the step is longer than springs and drags are stable in a dense crowd, else nothing."""
    limit, dt = stability.all_together(params, state), params.time_step
    if dt <= limit.step:
        return ""
    digit = 10.0 ** math.floor(math.log10(limit.step))
    return (
        f"motion.dt = {dt:g} s: springs and drags are stable below {limit.step:.2g} s where the crowd is dense ({limit.where}); "
        f"if it gets so dense, give motion.dt={math.floor(limit.step / digit) * digit:.1g}."
    )


def vocabulary() -> list[str]:
    """The forces with their parameters, the motions with those they share, and the observables, one line each."""
    text = ["Forces"]
    for name, law in sorted(FORCES.items()):
        text += [f"  {name}: {_first_line(law)}", *(f"    {line}" for line in _declared(law))]
    text += ["", "Motions"] + [f"  {name}: {_first_line(law)}" for name, law in sorted(MOTIONS.items())]
    text += [f"    {line}" for line in _declared(Kinematics)] + ["", "Observables"]
    units = {name: "" if one.unit == "1" else f" [{one.unit}]" for name, one in OBSERVABLES.items()}
    return text + [f"  {name}{units[name]}: {SHAPE.sub('', one.doc)}" for name, one in sorted(OBSERVABLES.items())]


def _first_line(law: type) -> str:
    return (law.__doc__ or "").strip().splitlines()[0]


def _declared(law: type) -> list[str]:
    """A parameter of a law per line."""
    return [
        f"{name} = {_setting(name, spec.default, spec.unit)}, slider {spec.low:g} to {spec.high:g}: {spec.doc}"
        for name, spec in parameters.specs(law())
    ]


def _enclosed(ring: np.ndarray) -> float:
    """Area inside a ring of corners, m²."""
    (x, y), (x_next, y_next) = ring.T, np.roll(ring, -1, axis=0).T
    return abs(float((x * y_next - x_next * y).sum())) / 2


def _setting(path: str, leaf: Any, unit: str) -> str:
    """A parameter as it is printed: a switch is on or off, an infinite limit is none, a pure number has no unit."""
    numbers = np.asarray(leaf)
    if path.startswith("switches.") and numbers.ndim == 0:
        return "on" if numbers else "off"
    if np.isposinf(numbers).all():
        return "no limit"
    return _leaf(leaf) if unit in ("", "1") else f"{_leaf(leaf)} {unit}"


def _leaf(leaf: Any) -> str:
    numbers = np.asarray(leaf)
    if numbers.ndim == 0:
        return f"{float(numbers):g}"
    if not numbers.size:
        return "none, for nobody"
    return f"{numbers.mean():.4g} (each their own, {numbers.min():.4g} to {numbers.max():.4g})"
