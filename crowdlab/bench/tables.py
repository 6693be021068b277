"""The measures as tables in plain text that are Markdown as well, and as sentences."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from crowdlab.bench.flock import CLAIMED
from crowdlab.bench.floor import work
from crowdlab.bench.lanes import LANES, grouped
from crowdlab.bench.measures import Measure, Report, drift, exponent, reference

NOTHING = "–"


def told(report: Report) -> str:
    """All that was measured, lane by lane."""
    parts = {
        "codes": _codes,
        "batch": _pair,
        "walls": _pair,
        "plan": _pair,
        "departed": _pair,
        "steady": _steady,
        "devices": _devices,
        "claims": _claims,
        "roofline": lambda measures: _roofline(measures, report.of("codes")),
        "bytes": _bytes,
    }
    texts = [part(report.of(lane)) for lane, part in parts.items() if report.of(lane)]
    texts = [text for text in texts if text]
    faults = [
        f"{one.code}, {grouped(one.people)} people{'' if one.density is None else f' at {one.density:g} per m²'}: {one.fault}"
        for one in report.measures
        if one.fault
    ]
    if faults:
        texts.append("Without a number:\n" + "\n".join(f"- {fault}" for fault in faults))
    return "\n\n".join(texts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns stand in line; the first is flush left, the others flush right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (width + 2) if i == 0 else "-" * (width + 1) + ":" for i, width in enumerate(widths))
    return "\n".join((line(head), f"|{rule}|", *(line(row) for row in rows)))


def _prose(text: str) -> str:
    return textwrap.fill(text, 120)


def number(value: float | None) -> str:
    """Three digits: 4 630 000 as 4.63 million, 0.000123 as 0.000123; a dash for nothing."""
    if value is None or math.isnan(value):
        return NOTHING
    if abs(value) >= 999_500:
        return f"{float(f'{value:.3g}') / 1e6:,.10g} million".replace(",", " ")
    rounded = float(f"{value:.3g}")
    return grouped(round(rounded)) if abs(rounded) >= 100 else f"{rounded:.10g}"


def _time(seconds: float) -> str:
    """A step in ms."""
    return number(1e3 * seconds)


HEAD = ("code", "dt [s]", "step [ms]", "median", "agent-steps/s", "person-s/s", "× steps", "× person-s", "MB", "compile [s]")


def _codes(measures: list[Measure]) -> str:
    texts = []
    for density, people in sorted({(one.density or 0.0, one.people) for one in measures if one.rounds}):
        here = [one for one in measures if (one.density, one.people) == (density, people) and one.rounds]
        own = next((one for one in here if one.facts.get("ours")), None)
        rows = [_row(one, reference(one, here), own) for one in here]
        texts.append(f"{grouped(people)} people at {density:g} per m²\n\n{table(HEAD, rows)}")
    return "\n\n".join((*texts, *_explained(measures), *_growth(measures)))


def _row(one: Measure, same: Measure | None, own: Measure | None) -> tuple[str, ...]:
    """One code; `same` is crowdlab at its step, `own` crowdlab at its own."""
    return (
        one.code,
        NOTHING if one.dt is None else f"{one.dt:g}",
        _time(one.step_time),
        _time(one.median_step_time),
        number(one.agent_steps),
        number(one.person_seconds),
        NOTHING if same is None else number(same.agent_steps / one.agent_steps),
        NOTHING if own is None else number(own.person_seconds / one.person_seconds),
        NOTHING if one.memory is None else number(one.memory / 1e6),
        number(one.compiling),
    )


def _explained(measures: list[Measure]) -> list[str]:
    """What the columns mean and what was compared."""
    timed = [one for one in measures if one.rounds]
    if not timed:
        return []
    own = next((one for one in timed if one.facts.get("ours")), None)
    text = (
        "Step: best and median round. × is crowdlab over the code of that row: agent-steps per second at the same step where crowdlab was "
        "run at it, else at its own; person-seconds per second with each code at the step given and crowdlab at its own, the first row. "
        "MB is what the crowd and its compiling took at most, without the libraries. "
    )
    if own is not None:
        text += (
            f"crowdlab computes in {own.facts['precision']} and looks {own.facts['reach']:.2f} m far, beyond which a social force is under "
            "0.001 N; JuPedSim looks 2.5 m far, and all other codes compute in float64. "
        )
    busiest = {one.code: max(o.busy or 0.0 for o in timed if o.code == one.code) for one in timed}
    text += "Cores kept busy: " + "; ".join(f"{code} {busy:.1f}" for code, busy in busiest.items())
    versions = ", ".join(dict.fromkeys(one.version for one in timed if one.version))
    return [_prose(f"{text}. {f'Versions: {versions}.' if versions else ''}")]


def _growth(measures: list[Measure]) -> list[str]:
    """How the step time grows with the crowd, for every code that was run at two sizes."""
    lines = []
    for density in sorted({one.density or 0.0 for one in measures}):
        for code, dt in dict.fromkeys((one.code, one.dt) for one in measures):
            same = [one for one in measures if (one.code, one.dt, one.density) == (code, dt, density)]
            found = [(high, exponent(same, 1e3, high)) for high in (1e5, 1e6)]
            told = [
                f"{slope:.2f} up to {number(min(high, max(o.people for o in same if o.rounds)))}" for high, slope in found if slope
            ]
            if told:
                step = "" if dt is None else f", dt {dt:g} s"
                lines.append(f"- {code}{step}, {density:g} per m²: {', '.join(dict.fromkeys(told))}")
    return ["Step time grows with the power of the number of people (fit from 1 000 on):\n" + "\n".join(lines)] if lines else []


def _pair(measures: list[Measure]) -> str:
    """Cases side by side, each over the first."""
    rows = [
        (one.code, _time(one.step_time), _time(one.median_step_time), number(one.agent_steps)) for one in measures if one.rounds
    ]
    if not rows:
        return ""
    text = f"{LANES[measures[0].lane]}\n\n{table(('case', 'step [ms]', 'median', 'agent-steps/s'), rows)}"
    first, *others = (one for one in measures if one.rounds)
    for one in others if measures[0].rounds else ():
        if one.lane == "batch":
            text += f"\n\nThroughput of {one.code} over {first.code}: {one.agent_steps / first.agent_steps:.2f}"
        else:
            text += f"\n\nStep time of {one.code} over {first.code}: {one.step_time / first.step_time:.2f}"
    return text


def _steady(measures: list[Measure]) -> str:
    (one,) = measures
    change = drift(one)
    if change is None:
        return LANES["steady"]
    pieces = [min(column) for column in zip(*one.pieces, strict=True)]
    return (
        f"{LANES['steady']}: {number(one.people)} people, {len(pieces)} pieces of {one.steps // len(pieces)} steps, best of "
        f"{len(one.rounds)} rounds\n\n{', '.join(number(1e3 * seconds) for seconds in pieces)} ms. Last over first: {change:.2f}"
    )


def _devices(measures: list[Measure]) -> str:
    rows = []
    for one in (one for one in measures if one.rounds):
        plain = next((o for o in measures if o.people == one.people and not o.facts.get("ours") and o.rounds), None)
        ratio = NOTHING if plain is None else number(one.agent_steps / plain.agent_steps)
        where = str(one.facts.get("device", "CPU"))
        rows.append((one.code, grouped(one.people), where, _time(one.step_time), number(one.agent_steps), ratio))
    note = "" if any(one.facts.get("platform", "cpu") != "cpu" for one in measures) else "\n\nJAX has no GPU here."
    return f"{LANES['devices']}\n\n{table(('code', 'people', 'device', 'step [ms]', 'agent-steps/s', 'over NumPy'), rows)}{note}"


def _claims(measures: list[Measure]) -> str:
    rows = []
    for one in (one for one in measures if one.rounds):
        claim = CLAIMED[one.people]["cells" in one.code]
        rows.append(
            (
                one.code,
                grouped(one.people),
                _time(one.step_time),
                number(claim),
                NOTHING if claim is None else number(1e3 * one.step_time / claim),
            )
        )
    return f"{LANES['claims']}\n\n{table(('method', 'boids', 'a tick here [ms]', 'claimed [ms]', 'here over claim'), rows)}"


def _roofline(measures: list[Measure], codes: list[Measure]) -> str:
    machine, counts = (next((one for one in measures if one.code == name), None) for name in ("machine", "counts"))
    if machine is None or counts is None or "bytes_per_second" not in machine.facts or "pairs" not in counts.facts:
        return ""
    same = [one for one in (*measures, *codes) if (one.people, one.density) == (counts.people, counts.density)]
    own = next((one for one in same if one.code == "crowdlab" and one.rounds), None)
    if own is None:
        return ""
    rates, facts, people = machine.facts, counts.facts, own.people
    least = work(people, facts["pairs"], facts["touching"], facts["near_walls"])
    listed = work(people, facts["slots"], facts["touching_slots"], facts["wall_slots"])
    rows = []
    for name, asked in (("in reach", least), ("in the list", listed)):
        floor = asked.seconds(rates)
        rows.append(
            (
                f"pairs and walls {name}",
                number(facts["pairs" if asked is least else "slots"] / people),
                number(asked.moved / 1e6),
                number(asked.flops / 1e6),
                number(asked.transcendentals / 1e6),
                _time(floor),
                f"{floor / own.step_time:.0%}",
            )
        )
    head = ("counted", "pairs per person", "moved [MB]", "flops [M]", "exp, sqrt, 1/x [M]", "floor [ms]", "share reached")
    xla = facts.get("xla", {})
    counted = ", ".join(f"{number(value / 1e6)} million {name}" for name, value in xla.items())
    return (
        f"{LANES['roofline']}: {grouped(people)} people at {own.density:g} per m², a step takes {_time(own.step_time)} ms\n\n"
        f"{table(head, rows)}\n\n"
        + _prose(
            f"Measured here: {rates['bytes_per_second'] / 1e9:.1f} GB/s, {rates['flops_per_second'] / 1e9:.0f} Gflop/s, "
            f"{rates['transcendentals_per_second'] / 1e9:.2f} G exponentials/s. The work is a written model (`bench/floor.py`), the "
            "least that these laws and a list ask for; the floor is the slowest of the three. XLA's own count of one step with its list, "
            f"every loop counted once: {counted or 'none'}."
        )
    )


def _bytes(measures: list[Measure]) -> str:
    lines = []
    for people in sorted({one.people for one in measures}):
        found = [digest for one in measures if one.people == people for digest in one.facts.get("digest", [])]
        runs = f"{len(found)} runs in {sum(one.people == people and bool(one.rounds) for one in measures)} processes"
        verdict = "the same bytes" if len(set(found)) == 1 else "NOT the same bytes" if found else "no run"
        lines.append(f"- {grouped(people)} people: {runs}: {verdict}")
    return f"{LANES['bytes']}\n\n" + "\n".join(lines)


def same_bytes(report: Report) -> bool:
    """Whether every run of a size in the lane `bytes` gave the same bytes, and there were some."""
    found: dict[int, list[Any]] = {}
    for one in report.of("bytes"):
        found.setdefault(one.people, []).extend(one.facts.get("digest", []) or [None])
    return all(len(set(digests)) == 1 and None not in digests for digests in found.values())
