"""The report as one page: how the time of a step grows with the crowd, code by code, and the tables."""

from pathlib import Path

from crowdlab.bench.measures import Measure, Report
from crowdlab.bench.tables import told
from crowdlab.views import Growth, sheet

Curves = dict[str, tuple[list[float], list[float]]]


def write(report: Report, path: Path) -> Path:
    """Write one HTML file that needs no network."""
    measures = [one for one in report.of("codes") if one.rounds]
    figures = []
    for density in sorted({one.density or 0.0 for one in measures}):
        here = [one for one in measures if one.density == density]
        steps, seconds = curves(here, "step_time", 1e3), curves([one for one in here if one.dt], "person_seconds", 1.0)
        figures.append(Growth(steps, x="people", y="time of a step [ms]", title=f"{density:g} people per m²"))
        figures.append(
            Growth(seconds, x="people", y="person-seconds per second", title=f"{density:g} people per m², each code at its step")
        )
    machine = report.machine
    note = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['time']}; crowdlab {machine['versions']['crowdlab']}, "
        f"JAX {machine['versions']['jax']} on {machine['platform'].upper()}"
    )
    return sheet(path, figures, title="How fast crowdlab is here", note=note, text=told(report))


def curves(measures: list[Measure], quantity: str, scale: float) -> Curves:
    """One curve per code and step: people against a quantity."""
    found: Curves = {}
    for one in measures:
        name = one.code if one.dt is None else f"{one.code}, {one.dt:g} s"
        sizes, values = found.setdefault(name, ([], []))
        sizes.append(float(one.people))
        values.append(getattr(one, quantity) * scale)
    return found
