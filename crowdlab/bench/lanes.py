"""What can be measured: each lane is a few heats, and each heat a few codes that run in turn."""

from typing import NamedTuple

from crowdlab.bench import crowd
from crowdlab.bench.crowd import Task
from crowdlab.bench.flock import CLAIMED
from crowdlab.bench.rounds import Entry, Heat

LANES = {
    "codes": "every code at every size and density",
    "batch": "64 runs of 200 people at once, beside one",
    "walls": "1 000 far wall segments, beside 10",
    "plan": "500 people among 1 000 wall segments, beside an empty hall of the same density",
    "departed": "10 000 people of whom 9 000 have left, beside 1 000",
    "steady": "10 000 steps, the last beside the first",
    "devices": "5 000 people on every device that JAX has, beside plain NumPy",
    "claims": "boids in pure Python, beside what a tutorial claims",
    "roofline": "the shortest time a step could take on this machine",
    "bytes": "the same run twice, in two processes: the same bytes",
}
LONE = ("batch", "walls", "plan", "departed", "steady", "roofline", "bytes")  # need no peers
OWN_STEP, PEER_STEP = 0.001, 0.01  # s: where friction in a dense crowd is stable; JuPedSim's default
BYTES_STEPS = 4_000_000  # agent-steps of a piece that is compared


class Choice(NamedTuple):
    """What was asked for."""

    people: tuple[int, ...]
    densities: tuple[float, ...]  # 1/m^2
    lanes: tuple[str, ...]
    peers: bool
    rounds: int
    whole: bool  # the long versions
    platform: str = "cpu"  # what JAX computes on when it may choose


def heats(choice: Choice) -> list[Heat]:
    """All heats of the lanes chosen, small crowds first."""
    makers = (_codes, _batch, _walls, _plan, _departed, _steady, _devices, _claims, _roofline, _bytes)
    return [heat for lane, make in zip(LANES, makers, strict=True) if lane in choice.lanes for heat in make(choice)]


def _codes(choice: Choice) -> list[Heat]:
    made = []
    for density in sorted(choice.densities):
        for people in sorted(choice.people):
            fine, coarse = (Task(people=people, density=density, dt=dt) for dt in (OWN_STEP, PEER_STEP))
            entries = [Entry("crowdlab", "crowdlab", fine)]
            if choice.peers:
                entries += [
                    Entry("crowdlab", "crowdlab", coarse),
                    Entry("JuPedSim social force", "jupedsim_social_force", fine),
                    Entry("JuPedSim social force", "jupedsim_social_force", coarse),
                    Entry("JuPedSim collision-free", "jupedsim_collision_free_speed", coarse),
                    Entry("PySocialForce", "pysocialforce", fine),
                    Entry("NumPy, all pairs", "numpy", fine),
                    Entry("Mesa boids", "mesa_boids", fine),
                ]
            made.append(Heat("codes", f"{grouped(people)} people at {density:g} per m²", tuple(entries), choice.rounds))
    return made


def _batch(choice: Choice) -> list[Heat]:
    many = (1, 4, 16, 64) if choice.whole else (1, 64)
    entries = [Entry(f"{runs} {'run' if runs == 1 else 'runs'} of 200", "batch", Task(people=200, runs=runs)) for runs in many]
    return [Heat("batch", LANES["batch"], tuple(entries), choice.rounds)]


def _walls(choice: Choice) -> list[Heat]:
    entries = [Entry(f"{grouped(many)} far walls", "crowdlab", Task(people=1000, far_walls=many)) for many in (10, 1000)]
    return [Heat("walls", LANES["walls"], tuple(entries), choice.rounds)]


def _plan(choice: Choice) -> list[Heat]:
    cases = (("empty hall", 0), ("among 125 columns of 8 walls", 1000 // crowd.CORNERS))
    density = choice.densities[0]
    entries = [Entry(name, "crowdlab", Task(people=500, density=density, columns=columns)) for name, columns in cases]
    return [Heat("plan", f"{LANES['plan']}, {density:g} per m²", tuple(entries), choice.rounds)]


def _departed(choice: Choice) -> list[Heat]:
    tasks = {"1 000 people": Task(people=10_000, absent=9000), "1 000 of 10 000": Task(people=10_000, gone=9000)}
    return [Heat("departed", LANES["departed"], tuple(Entry(name, "thinned", task) for name, task in tasks.items()), choice.rounds)]


def _steady(choice: Choice) -> list[Heat]:
    task = Task(people=1000, steps=1000, pieces=10)
    return [Heat("steady", LANES["steady"], (Entry("crowdlab", "crowdlab", task),), choice.rounds)]


def _devices(choice: Choice) -> list[Heat]:
    made = []
    for people in sorted({5000, *(people for people in choice.people if choice.whole and people > 5000)}):
        task = Task(people=people)
        entries = [
            Entry("crowdlab on CPU", "crowdlab", task, {"JAX_PLATFORMS": "cpu"}),
            Entry("NumPy, all pairs", "numpy", task),
        ]
        if choice.platform != "cpu":
            entries.insert(0, Entry(f"crowdlab on {choice.platform.upper()}", "crowdlab", task))
        made.append(Heat("devices", f"{grouped(people)} people on every device", tuple(entries), choice.rounds))
    return made


def _claims(choice: Choice) -> list[Heat]:
    made = []
    for people, (all_pairs, _) in CLAIMED.items():
        if people <= 1000 or choice.whole:
            entries = [Entry("boids in pure Python, by cells", "flock_grid", Task(people=people))]
            if all_pairs is not None:
                entries.append(Entry("boids in pure Python, all pairs", "flock", Task(people=people)))
            made.append(Heat("claims", f"{grouped(people)} boids in pure Python", tuple(entries), choice.rounds))
    return made


def _roofline(choice: Choice) -> list[Heat]:
    people = max((many for many in choice.people if many <= 100_000), default=1000)
    density = choice.densities[0]
    task = Task(people=people, density=density)
    entries = [Entry("machine", "machine", Task(people=0)), Entry("counts", "counts", task)]
    if "codes" not in choice.lanes:  # else its step is known from there
        entries.append(Entry("crowdlab", "crowdlab", task))
    return [Heat("roofline", f"roofline for {grouped(people)} people", tuple(entries), choice.rounds)]


def _bytes(choice: Choice) -> list[Heat]:
    made = []
    for people in sorted(choice.people):
        steps = min(max(BYTES_STEPS // people, 20), 500)
        task = Task(people=people, density=choice.densities[0], steps=steps, pieces=2, digest=True)
        entries = [Entry(f"{word} process", "crowdlab", task) for word in ("first", "second")]
        made.append(Heat("bytes", f"{grouped(people)} people twice", tuple(entries), 2))
    return made


def grouped(number: int) -> str:
    """12 345 for 12345."""
    return f"{number:,}".replace(",", " ")


def cost(heat: Heat, seconds: float) -> float:
    """About how long a heat takes, s: for the time left only."""
    starts = sum(
        (8.0 if entry.runs in {"crowdlab", "thinned", "batch", "counts", "machine"} else 3.0) + entry.task.people / 2e4
        for entry in heat.entries
    )
    return starts + len(heat.entries) * seconds * (heat.rounds + 1.5)


def impossible(choice: Choice) -> str:
    """Why no crowd can be like that; empty where it can."""
    for people in choice.people:
        if not 1 <= people <= 10_000_000:
            return f"--people {people}: allowed are 1 to 10 000 000. Give such a number."
    for density in choice.densities:
        if not 0.01 <= density <= 0.99 * crowd.MOST_DENSE:
            return (
                f"--density {density:g} per m²: allowed are 0.01 to {0.99 * crowd.MOST_DENSE:.2f}, where bodies with a radius of "
                f"{crowd.RADIUS:g} m touch. Give a lower density."
            )
    return ""
