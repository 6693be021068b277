"""How fast the simulation runs here, beside its peers in the same run: `crowdlab bench`.

Everybody walks across a walled hall to an exit far away: Helbing-Farkas-Vicsek complete, with contact, friction, walls and way-finding.
Only ratios of one run mean something; a busy machine slows all codes alike.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from crowdlab.commands import CommandQueue
from crowdlab.errors import CrowdlabError
from crowdlab.params import as_arrays
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import plan, trusted

ROUNDS = 3  # each code is timed so often, in turn; the best counts, because others disturb and never help
SPACE = 60.0  # m of empty hall ahead, so that nobody arrives while the clock runs
RADIUS, SPEED = 0.25, 1.34  # m, m/s
PEER_STEPS = (0.01, 0.001)  # s: JuPedSim's default step, and the one that friction in a dense door asks for (as ours)


class Measure(NamedTuple):
    """One code at one size."""

    code: str
    people: int
    dt: float  # s
    steps: int  # timed
    seconds: float  # of the best round
    compile_seconds: float  # before the first step; 0 for a code that needs none

    @property
    def agent_steps(self) -> float:
        """Agent-steps per second."""
        return self.people * self.steps / self.seconds

    @property
    def person_seconds(self) -> float:
        """Simulated person-seconds per second."""
        return self.agent_steps * self.dt


def crowd(people: int, density: float) -> dict[str, Any]:
    """Scenario of `people` on a jittered lattice at `density` per m2 in a walled hall, with an exit at its far end."""
    step = float(1 / np.sqrt(density))
    columns = int(np.ceil(np.sqrt(people)))
    side = columns * step
    lattice = np.stack(np.meshgrid(np.arange(columns), np.arange(columns)), -1).reshape(-1, 2)[:people]
    most = max(0.0, min(0.05, (step - 2 * RADIUS) / 2 * 0.9))  # m, so that no two overlap at the start
    places = (lattice + 0.5) * step + 0.5 + np.random.default_rng(0).uniform(-most, most, (people, 2))
    width, length = side + 1.0, side + SPACE
    return {
        "title": f"{people} people at {density:g} per m2",
        "seed": 0,
        "duration": 1.0,
        "world": {"area": [[0, 0], [length, 0], [length, width], [0, width]]},
        "goals": {"exit": {"line": [[length - 0.5, 0], [length - 0.5, width]]}},
        "groups": {"crowd": {"positions": places.tolist(), "goal": "exit", "desired_speed": SPEED, "radius": RADIUS}},
    }


def ours(scenario: Scenario, steps: int) -> tuple[Callable[[], None], float, float]:
    """A function that runs `steps` steps of crowdlab, its dt in s and the seconds that compiling took."""
    params, state, key = as_arrays(scenario.params), scenario.state, jax.random.key(0)
    grid, queue = plan(scenario, params, state), CommandQueue.of((), 0)

    def run() -> None:
        nonlocal grid
        result, grid = trusted(scenario, params, state, key, queue, grid, steps=steps, every=steps)
        result.final.position.block_until_ready()

    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    start = time.perf_counter()
    run()
    return run, float(params.motion.dt), max(0.0, first - (time.perf_counter() - start))


def jupedsim_social_force(spec: dict[str, Any], steps: int, dt: float) -> Callable[[], None]:
    """A function that runs `steps` steps of JuPedSim's social force model on the same people and hall, from where it stands."""
    import jupedsim

    simulation = jupedsim.Simulation(
        model=jupedsim.SocialForceModel(), geometry=[tuple(corner) for corner in spec["world"]["area"]], dt=dt
    )
    (x, low), (_, high) = spec["goals"]["exit"]["line"]
    stage = simulation.add_exit_stage([(x, low), (x + 0.4, low), (x + 0.4, high), (x, high)])
    journey = simulation.add_journey(jupedsim.JourneyDescription([stage]))
    for place in spec["groups"]["crowd"]["positions"]:
        simulation.add_agent(
            jupedsim.SocialForceModelAgentParameters(
                position=tuple(place), journey_id=journey, stage_id=stage, desired_speed=SPEED, radius=RADIUS
            )
        )
    simulation.iterate(1)
    return lambda: simulation.iterate(steps)


def compare(people: int, density: float, *, seconds: float) -> list[Measure]:
    """Time all codes at one size, in turn; `seconds` is about how long each round of each code may take."""
    spec = crowd(people, density)
    scenario = build(spec, name=f"bench_{people}")
    steps = int(np.clip(seconds * 3e6 / people, 50, 2000))
    run, dt, compiling = ours(scenario, steps)
    lanes: list[tuple[str, float, int, float, Callable[[], None]]] = [("crowdlab", dt, steps, compiling, run)]
    try:
        peer_steps = int(np.clip(seconds * 2e5 / people, 5, 2000))
        for peer_dt in PEER_STEPS:
            # It goes on from round to round: nobody may arrive before the last.
            most = min(peer_steps, int(0.7 * SPACE / (SPEED * peer_dt * ROUNDS)))
            lanes.append(("JuPedSim social force", peer_dt, most, 0.0, jupedsim_social_force(spec, most, peer_dt)))
    except ImportError:
        print("JuPedSim is not installed, so nothing stands beside crowdlab: pip install 'crowdlab[bench]'", flush=True)
    best = [np.inf] * len(lanes)
    for _ in range(ROUNDS):
        for number, lane in enumerate(lanes):
            start = time.perf_counter()
            lane[-1]()
            best[number] = min(best[number], time.perf_counter() - start)
    return [Measure(code, people, d, n, t, c) for (code, d, n, c, _), t in zip(lanes, best, strict=True)]


def table(measures: list[Measure]) -> str:
    """Markdown table of all measures; the ratio is crowdlab's agent-steps per second over the other's, and likewise person-seconds."""
    lines = [
        "| people | code | step [s] | agent-steps/s | person-seconds/s | crowdlab over it: agent-steps | person-seconds | compile [s] |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in measures:
        own = next(m for m in measures if m.people == one.people and m.code == "crowdlab")
        lines.append(
            f"| {one.people} | {one.code} | {one.dt:g} | {one.agent_steps:,.0f} | {one.person_seconds:,.0f} "
            f"| {own.agent_steps / one.agent_steps:.1f} | {own.person_seconds / one.person_seconds:.1f} | {one.compile_seconds:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Entry of `crowdlab bench`; prints a table and, with --out, writes the same as JSON."""
    parser = argparse.ArgumentParser(prog="crowdlab bench", description="Measure crowdlab beside JuPedSim in one run.")
    parser.add_argument("--people", type=int, nargs="+", default=[100, 1000, 10000], help="sizes of the crowd")
    parser.add_argument("--density", type=float, default=2.0, help="people per m2 (default 2)")
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long one round of one code takes (default 1)")
    parser.add_argument("--out", type=Path, help="also write the measures to this JSON file")
    options = parser.parse_args(arguments)
    if min(options.people) < 1 or not 0 < options.density < 1 / (2 * RADIUS) ** 2 or not 0 < options.seconds < np.inf:
        raise CrowdlabError(
            f"bench: people = {options.people}, density = {options.density:g} per m2, seconds = {options.seconds:g}: allowed are at least "
            f"1 person, more than 0 and less than {1 / (2 * RADIUS) ** 2:g} per m2 (bodies of {RADIUS} m) and more than 0 s."
        )
    measures: list[Measure] = []
    for people in options.people:
        print(f"timing {people} people ...", flush=True)
        measures += compare(people, options.density, seconds=options.seconds)
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}, all in one run, best of {ROUNDS} rounds:\n\n{table(measures)}")
    if options.out:
        options.out.write_text(json.dumps([m._asdict() for m in measures], indent=1), encoding="utf-8")
    return 0
