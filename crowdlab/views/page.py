"""One file that replays a run in any browser, from disk, with the network off."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
from bokeh.layouts import row

from crowdlab.errors import CrowdlabError
from crowdlab.observe import OBSERVABLES
from crowdlab.record import Recording
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run
from crowdlab.state import whereabouts
from crowdlab.views.embed import HERE, compressed, facts_text, item, library, script
from crowdlab.views.plaza import Plaza, ledger
from crowdlab.views.series import Timeline
from crowdlab.views.theme import repainting

ABSENT = 255  # in place of a speed: this person is not in the scene


class Film(NamedTuple):
    """A run as plain arrays, the start included: F frames of N people."""

    scenario: Scenario
    times: np.ndarray  # (F,) s
    position: np.ndarray  # (F, N, 2) m
    velocity: np.ndarray  # (F, N, 2) m/s
    heading: np.ndarray  # (F, N, 2) unit
    alive: np.ndarray  # (F, N) bool
    people: dict[str, np.ndarray]  # whereabouts, (F, N) bool each
    radius: np.ndarray  # (N,) m
    closed: np.ndarray  # (F,) which doors are closed, as State.closed
    series: dict[str, np.ndarray]  # observable -> (F,); NaN where it was not observed

    @classmethod
    def of(cls, source: Run | Recording, scenario: Scenario | None = None, dt: float | None = None) -> "Film":
        """Args: a Run needs the scenario it ran, and the time step in s if that was another; a recording brings its own.

        Raises:
            CrowdlabError: a Run without its scenario.
        """
        if isinstance(source, Recording):
            return cls._of_recording(source)
        if scenario is None:
            raise CrowdlabError("replay_html of a Run: a Run does not know its walls. Give scenario=, or a Recording.")
        return cls._of_run(source, scenario, scenario.params.time_step if dt is None else dt)

    @classmethod
    def _of_recording(cls, recording: Recording) -> "Film":
        frames = recording.frames
        return cls(
            scenario=recording.scenario,
            times=recording.times,
            position=np.asarray(frames.position),
            velocity=np.asarray(frames.velocity),
            heading=np.asarray(frames.heading),
            alive=np.asarray(frames.alive),
            people=_people(np.asarray(frames.alive), recording.people, np.asarray(frames.step)),
            radius=recording.people["radius"],
            closed=np.asarray(frames.closed),
            series=_curves(recording.series),
        )

    @classmethod
    def _of_run(cls, run: Run, scenario: Scenario, dt: float) -> "Film":
        frames, start = run.frames, scenario.state
        step = np.r_[int(start.step), np.asarray(frames.step)]

        def whole(first: Any, later: Any) -> np.ndarray:
            return np.concatenate((np.asarray(first).T[None], np.asarray(later)))

        alive = whole(start.alive, frames.alive)
        return cls(
            scenario=scenario,
            times=step * dt,
            position=whole(start.position, frames.position),
            velocity=whole(start.velocity, frames.velocity),
            heading=whole(start.heading, frames.heading),
            alive=alive,
            people=_people(alive, {name: np.asarray(getattr(run.final, name)) for name in ("arrived", "entered")}, step),
            radius=np.asarray(start.radius),
            closed=np.r_[int(start.closed), np.asarray(frames.closed)],
            series=_curves(run.series),
        )


def _people(alive: np.ndarray, people: Mapping[str, np.ndarray], step: np.ndarray) -> dict[str, np.ndarray]:
    """Whereabouts of everybody in the frames of these steps, (F, N) bool each, from when they came in and arrived."""
    reached, when = people["arrived"], step[:, None]
    return whereabouts(alive, (reached >= 0) & (reached <= when), people["entered"], when)


def _curves(series: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Observables with one number per frame; the start was not observed."""
    return {name: np.r_[np.nan, np.asarray(values, float)] for name, values in series.items() if np.ndim(values) == 1}


def replay_html(source: Run | Recording, path: str | Path, *, scenario: Scenario | None = None, dt: float | None = None) -> Path:
    """Write one HTML file that plays the run, with walls, true sizes, headings, speeds and time series, without server or network.

    A Run needs its scenario, and `dt`, s, if it ran with another time step than that. Positions are kept to 1/65535 of the scene's
    size (under a millimetre up to 50 m).
    """
    film = Film.of(source, scenario, dt)
    scenario = film.scenario
    plaza = Plaza(scenario, width=540, height=520)  # both fit side by side into 1280 pixels
    plots = Timeline(tuple(film.series), width=290, height=_shared(plaza, tuple(film.series)), marked=True)
    plots.show({"t": film.times, **film.series})
    plots.time.end = max(float(film.times[-1]), 1e-9)
    layout = row(plaza.figure, plots.layout, spacing=12)
    packed, facts = _packed(film)
    facts |= {
        "item": item(layout),
        "theme": repainting(plaza, plots),
        "title": plaza.figure.title.id,
    }
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(scenario.title),
        note=f"{len(film.times)} frames, written by crowdlab. Space plays and pauses, the arrow keys move the time.",
        library=library(),
        film=compressed(packed),
        facts=facts_text(facts),
        script=script("page.js"),
    )
    target = Path(path)
    target.write_text(page, encoding="utf-8")
    return target


def _shared(plaza: Plaza, names: Sequence[str]) -> int:
    """Height of each time series, pixels, so that all together stand as high as the scene."""
    plots = max(1, len({OBSERVABLES[name].unit for name in names}))
    return int(np.clip((plaza.figure.frame_height - 12 * (plots - 1)) / plots, 95, 190))


def _packed(film: Film) -> tuple[bytes, dict[str, Any]]:
    """The film as bytes (differences between frames, which compress well) and the facts needed to read it."""
    there = film.position[film.alive]
    lower = there.min(0, initial=0.0) if not len(there) else there.min(0)
    size = np.maximum(there.max(0) - lower if len(there) else 1.0, 1e-6)
    place = np.clip(np.rint((np.where(film.alive[..., None], film.position, lower) - lower) / size * 65535), 0, 65535).astype(
        np.uint16
    )
    place = _held(place, film.alive)
    angle = np.rint(np.arctan2(film.heading[..., 1], film.heading[..., 0]) / (2 * np.pi) * 256).astype(np.int64).astype(np.uint8)
    speed = np.hypot(film.velocity[..., 0], film.velocity[..., 1])
    top = max(float(speed[film.alive].max(initial=0.0)), 1e-6)
    level = np.where(film.alive, np.rint(np.clip(speed / top, 0, 1) * 254), ABSENT).astype(np.uint8)
    parts = [place[..., 0], place[..., 1], _held(angle, film.alive), level]
    steps = [np.diff(part, axis=0, prepend=np.zeros_like(part[:1])) for part in parts]  # unsigned: wraps round
    facts = {
        "name": film.scenario.name,
        "people": len(film.radius),
        "ids": np.asarray(film.scenario.state.id).tolist(),
        "radius": np.round(film.radius.astype(float), 4).tolist(),
        "times": np.round(film.times, 6).tolist(),
        "lower": lower.astype(float).tolist(),
        "size": np.asarray(size, float).tolist(),
        "top_speed": top,
        "closed": film.closed.tolist(),
        "headlines": [ledger({word: who[frame] for word, who in film.people.items()}) for frame in range(len(film.times))],
    }
    return b"".join(np.ascontiguousarray(part).tobytes() for part in steps), facts


def _held(values: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """The same with the last value kept for those who are gone, so that they cost nothing when compressed."""
    held = values.copy()
    for frame in range(1, len(held)):
        gone = ~alive[frame]
        held[frame][gone] = held[frame - 1][gone]
    return held
