"""What is drawn on a floor besides its walls: zones and doors, as plain numbers."""

import math

import numpy as np

from crowdlab.scenario import Scenario

PLACE = 0.15  # m, radius of the ring that marks a place in a queue or a waiting area
ARROWS = "→↗↑↖←↙↓↘"  # from the direction x on, turning left


def fixed_walls(scenario: Scenario) -> np.ndarray:
    """Walls (W, 2, 2) m that always stand; those of doors are not among them, nor copies beyond a periodic box."""
    if scenario.world.periodic:
        walls, lower, size = (np.asarray(each, float) for each in (scenario.world.walls, scenario.world.lower, scenario.world.size))
        hair = 1e-5 * (size.max() + np.abs(lower).max())
        return walls[((walls >= lower - hair) & (walls <= lower + size + hair)).all((1, 2))]
    if scenario.doors is None:
        return np.asarray(scenario.world.walls, float)
    shut, open_ = (np.asarray(world.walls, float) for world in (scenario.doors.shut, scenario.doors.world(0)))
    return shut[(shut == open_).all((1, 2))]


def drawn_goals(scenario: Scenario) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, edges (G, E, 2, 2) m, and whether people leave there, of the goals that are somewhere; a direction is nowhere."""
    world = scenario.world if scenario.doors is None else scenario.doors.world(0)  # whatever doors leave open of them
    edges, leaves = np.asarray(world.goals, float), np.asarray(world.goal_leaves)
    shown = np.array([name not in scenario.directions for name in scenario.goals], bool)
    return [name for name in scenario.goals if name not in scenario.directions], edges[shown], leaves[shown]


def door_columns(scenario: Scenario, closed: int) -> dict[str, np.ndarray]:
    """One row per edge of a door: ends, m, its door, and how strongly it is drawn as open and as closed, 0 or 1."""
    lines = scenario.doors.lines if scenario.doors is not None else ()
    edges = np.concatenate([np.zeros((0, 2, 2)), *lines]).astype(np.float32)
    number = np.repeat(np.arange(len(lines), dtype=np.int32), [len(line) for line in lines])
    shut = (closed >> number & 1).astype(np.float32)
    ends = {"x0": edges[:, 0, 0], "y0": edges[:, 0, 1], "x1": edges[:, 1, 0], "y1": edges[:, 1, 1]}
    return {**ends, "door": number, "open": 1 - shut, "closed": shut}


def waiting_places(scenario: Scenario) -> np.ndarray:
    """Places (P, 2) m in queues and waiting areas."""
    plan = scenario.world.journeys
    return np.zeros((0, 2)) if plan is None else np.asarray(plan.places, float)[np.asarray(plan.place_goal) >= 0]


def zone_rings(scenario: Scenario) -> dict[str, list[np.ndarray]]:
    """Rings (n, 2) m of each zone by name; a point lies in a zone that has it in an odd number of rings."""
    rings = {}
    for name, edges in zip(sorted(scenario.params.zones), np.asarray(scenario.world.zones, float), strict=True):
        true = edges[(edges[:, 0] != edges[:, 1]).any(1)]  # without those that pad
        ends = np.flatnonzero((true[:, 1] != np.roll(true[:, 0], -1, 0)).any(1)) + 1
        rings[name] = [ring[:, 0] for ring in np.split(true, ends) if len(ring)]
    return rings


def zone_labels(scenario: Scenario) -> list[tuple[str, np.ndarray]]:
    """Name and place (2,) m of what is written on each zone; an arrow shows where stairs go up."""
    labels = []
    for (name, rings), up in zip(zone_rings(scenario).items(), np.asarray(scenario.world.zone_up, float), strict=True):
        arrow = f" (up {ARROWS[round(math.atan2(up[1], up[0]) / (math.pi / 4)) % 8]})" if up.any() else ""
        points = np.concatenate(rings)
        labels.append((name + arrow, (points.min(0) + points.max(0)) / 2))
    return labels
