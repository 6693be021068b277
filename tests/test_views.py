"""Figures in metres at true size, time series with units, the replay page and the still picture."""

import base64
import dataclasses
import gzip
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from bokeh.models import ColorBar, Label
from PIL import Image

from crowdlab.errors import CrowdlabError
from crowdlab.record import Recorder, Recording
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import Run, chunks, simulate
from crowdlab.views import DARK, EITHER, LIGHT, Plaza, Theme, Timeline, curves, picture, replay_html, timeline
from crowdlab.views.chart import LEFT, TOP, _ticks
from crowdlab.views.drawing import HEAD
from crowdlab.views.marks import fixed_walls, zone_labels, zone_rings
from crowdlab.views.page import Film
from crowdlab.views.plaza import goal_labels, headline, people_columns
from crowdlab.views.series import round_up
from crowdlab.views.theme import repainting

WATCHED = ("people", "arrived", "mean_speed", "largest_overlap")
ROOM = {
    "title": "A room with a pillar & a door",
    "seed": 5,
    "world": {"area": [[0, 0], [8, 0], [8, 4], [0, 4]], "obstacles": [[[3, 1], [4, 1], [4, 2], [3, 2]]]},
    "goals": {"door": {"line": [[8.0, 1.2], [8.0, 2.8]]}, "window": {"point": [1.0, 3.5]}},
    "groups": {
        "leaving": {
            "count": 5,
            "area": [[5, 0.5], [7.5, 0.5], [7.5, 3.5], [5, 3.5]],
            "goal": "door",
            "radius": {"uniform": [0.2, 0.3]},
        },
        "looking": {"count": 2, "area": [[0.5, 0.5], [2.5, 0.5], [2.5, 2.5], [0.5, 2.5]], "goal": "window"},
    },
    "forces": {"driving": {}, "repulsion": {}, "wall_repulsion": {}},
    "motion": {"dt": 0.01},
}


@pytest.fixture(scope="module")
def room() -> Scenario:
    return build(ROOM, name="room")


@pytest.fixture(scope="module")
def run(room: Scenario) -> Run:
    return simulate(room, room.params, jax.random.key(1), 400, every=20, observe=WATCHED)


def test_plaza_draws_metres_at_one_scale(room: Scenario) -> None:
    plot = Plaza(room, width=640, height=480).figure
    across = plot.frame_width / (plot.x_range.end - plot.x_range.start)
    up = plot.frame_height / (plot.y_range.end - plot.y_range.start)
    assert across == pytest.approx(up, rel=0.01)
    assert (plot.xaxis[0].axis_label, plot.yaxis[0].axis_label) == ("x [m]", "y [m]")
    bars = [item for item in plot.right if isinstance(item, ColorBar)]
    assert [bar.title for bar in bars] == ["speed [m/s]"]
    labels = {item.text for item in plot.center if isinstance(item, Label)}
    assert labels == {"door", "window"}


def test_floor_has_its_hole_and_every_wall_is_drawn(room: Scenario) -> None:
    plaza = Plaza(room)
    floor = plaza.figure.renderers[0].data_source.data
    assert len(floor["xs"][0][0]) == 2, "outer ring and pillar"
    walls = plaza.figure.renderers[1].data_source.data
    assert len(walls["x0"]) == room.world.walls.shape[0]


def test_people_have_true_size_heading_and_speed_and_vanish_when_they_leave(room: Scenario) -> None:
    state = room.state.with_(velocity=jnp.ones_like(room.state.velocity) * 0.6, alive=room.state.alive.at[2].set(False))
    columns = people_columns(state)
    assert columns["id"].tolist() == [0, 1, 3, 4, 5, 6]
    assert np.allclose(columns["r"], np.asarray(state.radius)[columns["id"]])
    assert np.allclose(np.hypot(columns["x1"] - columns["x"], columns["y1"] - columns["y"]), columns["r"], rtol=1e-5)
    assert np.allclose(columns["speed"], 0.6 * np.sqrt(2))
    assert headline(room, state, 1.25) == "room    t = 1.2 s    7 people: 6 inside, 1 removed"


def test_many_goals_share_a_label() -> None:
    goals = {f"seat {k}": {"point": [1.0 + 0.5 * k, 3.0]} for k in range(10)}
    spec = ROOM | {"goals": goals, "groups": {"all": ROOM["groups"]["leaving"] | {"goal": "seat 3"}}}  # type: ignore[operator, index]
    assert [name for name, _, _ in goal_labels(build(spec, name="seats"))] == ["seat"]


def test_every_colour_follows_the_theme(room: Scenario) -> None:
    plaza, plots = Plaza(room, theme=DARK), Timeline(WATCHED, theme=DARK)
    paints = repainting(plaza, plots)
    models = {model.id: model for figure in (plaza.figure, *plots.figures) for model in figure.references()}
    for model, name, role in paints["paints"]:
        value = getattr(models[model], name)
        assert getattr(value, "value", value) == paints["dark"][role]
    assert len({tuple(paint[:2]) for paint in paints["paints"]}) == len(paints["paints"])


def contrast(one: str, other: str) -> float:
    """Ratio of luminances as readability guidelines define it."""

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        return float(np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_curves_stand_out(theme: Theme) -> None:
    for role in ("text", "exit", "target", "wall", "ink"):
        assert contrast(getattr(theme, role), theme.floor) > 4.5, role
    for role in ("first", "second", "third"):
        assert contrast(getattr(theme, role), theme.paper) > 4.5, role


def test_timeline_puts_each_unit_in_its_plot(run: Run) -> None:
    plots = Timeline(WATCHED)
    assert [plot.yaxis[0].axis_label for plot in plots.figures] == ["people", "mean speed\n[m/s]", "largest overlap\n[m]"]
    assert plots.figures[-1].xaxis[0].axis_label == "time [s]"
    series = {"t": np.asarray(run.frames.step) * 0.1, **{name: np.asarray(values) for name, values in run.series.items()}}
    plots.show(series)
    assert plots.time.end == 50.0
    assert plots.ranges["people"].end >= 7
    assert plots.ranges["people"] is plots.ranges["arrived"]
    assert plots.limits(series) == [], "ranges that hold already stay"
    assert timeline(WATCHED, series).children


def test_what_is_unknown_is_a_gap_in_a_timeline() -> None:
    plots = Timeline(("mean_speed",))
    plots.show({"t": np.arange(3.0), "mean_speed": np.array([1.0, np.nan, np.nan])})
    assert np.isnan(plots.series.data["mean_speed"]).tolist() == [False, True, True]
    assert plots.ranges["mean_speed"].end == 2.0


def test_small_overlaps_are_plain_decimals() -> None:
    plots = Timeline(("largest_overlap",))
    assert not plots.figures[0].yaxis[0].formatter.use_scientific
    plots.show({"t": np.arange(3.0), "largest_overlap": np.array([0.0, 1e-9, 0.0])})
    assert plots.ranges["largest_overlap"].end == 0.002


def test_people_keep_their_colours_when_one_is_clicked(room: Scenario) -> None:
    plaza = Plaza(room)
    drawn = [one for one in plaza.figure.renderers if one.data_source is plaza.agents]
    assert len(drawn) == 2
    for one in drawn:
        assert one.selection_glyph is one.glyph is one.nonselection_glyph, "a copy would not be repainted"


@pytest.mark.parametrize(
    ("value", "end"), [(0.0, 0.0), (1.0, 1.0), (1.01, 2.0), (25, 30), (30, 30), (31, 50), (0.07, 0.1), (700, 1000)]
)
def test_ends_of_ranges_are_round(value: float, end: float) -> None:
    assert round_up(value) == pytest.approx(end)


def unpacked(page: str, name: str) -> bytes:
    found = re.search(rf'<script id="{name}"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    return gzip.decompress(base64.b64decode(found[1]))


def facts_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="facts"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_replay_page_holds_the_run(room: Scenario, run: Run, tmp_path: Path) -> None:
    page = replay_html(run, tmp_path / "replay.html", scenario=room).read_text(encoding="utf-8")
    facts = facts_of(page)
    frames, people = len(facts["times"]), facts["people"]
    assert (frames, people, facts["times"][0], facts["times"][-1]) == (21, 7, 0.0, 4.0)
    raw = unpacked(page, "film")
    many = frames * people
    x = np.cumsum(np.frombuffer(raw, np.uint16, many).reshape(frames, people), 0, dtype=np.uint16)
    speed = np.cumsum(np.frombuffer(raw, np.uint8, many, 5 * many).reshape(frames, people), 0, dtype=np.uint8)
    position, alive = np.asarray(run.frames.position), np.asarray(run.frames.alive)
    assert np.array_equal(speed[1:] != 255, alive)
    assert not alive.all(), "somebody has left"
    shown = facts["lower"][0] + x[1:] / 65535 * facts["size"][0]
    assert np.abs(shown - position[..., 0])[alive].max() < 1e-3
    assert facts["headlines"][0] == "7 people: 7 inside"
    assert "left" in facts["headlines"][-1]
    assert "A room with a pillar &amp; a door" in page
    assert not re.search(r'(src|href)="', page), "nothing is fetched"
    assert b"bokeh" in unpacked(page, "bokeh")[:2000].lower()


def test_replay_page_of_a_recording_is_the_same(room: Scenario, run: Run, tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.sqlite", room, seed=1, every=20, observe=WATCHED) as recorder:
        list(recorder.run(400, chunk=100))
    recorded = replay_html(Recording.open(tmp_path / "run.sqlite"), tmp_path / "recorded.html").read_text(encoding="utf-8")
    direct = replay_html(run, tmp_path / "direct.html", scenario=room).read_text(encoding="utf-8")
    assert unpacked(recorded, "film") == unpacked(direct, "film")
    names = ("times", "headlines", "radius", "lower", "size")
    assert {name: facts_of(recorded)[name] for name in names} == {name: facts_of(direct)[name] for name in names}


def test_replay_page_of_a_run_needs_its_scenario(run: Run, tmp_path: Path) -> None:
    with pytest.raises(CrowdlabError, match="does not know its walls"):
        replay_html(run, tmp_path / "replay.html")
    assert not (tmp_path / "replay.html").exists()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_picture_shows_people_where_they_are(room: Scenario, theme: Theme) -> None:
    image = Image.open(io.BytesIO(picture(room, width=900, theme=theme))).convert("RGB")
    assert image.width == 900
    lower, size = np.array(room.world.lower), np.array(room.world.size)
    scale = 900 / size[0]
    x, y = (np.asarray(room.state.position)[:, 0] - lower) * scale
    beside = x - 0.5 * scale * float(room.state.radius[0])
    tone = image.getpixel((int(beside), int(HEAD + size[1] * scale - y)))
    assert tone[2] > tone[1] + 30, f"a person at rest is violet, not {tone}"  # type: ignore[index, operator]


def test_picture_without_paper_stands_on_any_page(room: Scenario) -> None:
    still = picture(room, theme=EITHER)
    image = Image.open(io.BytesIO(still))
    assert image.getpixel((2, 2))[3] == 0, "no paper"  # type: ignore[index]
    data, facts = still._repr_png_()
    assert (data, facts) == (bytes(still), {"width": 900})
    assert repr(still) == "Still(900 pixels wide)"


def test_curves_lie_where_their_numbers_say() -> None:
    x = np.linspace(-1.0, 3.0, 50)
    still = curves({"up": (x, x), "flat": (x, np.full(50, 2.0))}, x="time [s]", y="speed [m/s]", width=600)
    image = Image.open(io.BytesIO(still)).convert("RGBA")
    assert (image.width, still.shown) == (1200, 600)
    blue, orange = (np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) for colour in (EITHER.first, EITHER.second))
    tones = np.asarray(image, float)[2 * TOP :, 2 * LEFT :]
    solid = tones[..., 3] > 200
    rows, columns = np.nonzero(solid & (np.abs(tones[..., :3] - blue).sum(-1) < 20))
    assert np.corrcoef(rows, columns)[0, 1] < -0.99, "the rising line rises"
    rows, _ = np.nonzero(solid & (np.abs(tones[..., :3] - orange).sum(-1) < 20))
    assert np.ptp(rows) < 8, "the flat line is flat"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ({}, "0 curves"),
        ({name: ([0, 1], [0, 1]) for name in "abcd"}, "4 curves"),
        ({"a": ([0, 1], [0, 1, 2])}, "'a' has columns of shape"),
        ({"a": ([0, 1], [0, math.nan])}, "'a' has values that are not finite"),
    ],
)
def test_curves_refuse_what_they_cannot_draw(lines: dict[str, Any], says: str) -> None:
    with pytest.raises(CrowdlabError, match=says):
        curves(lines, x="x", y="y")


@pytest.mark.parametrize("values", [(0.2, 0.9), (-6.0, 9.0), (1.3, 1.34), (5.0, 5.0), (0.0, 36.0)])
def test_ticks_enclose_the_values_and_are_few(values: tuple[float, float]) -> None:
    places = _ticks(np.array(values), 9)
    assert 2 <= len(places) <= 11
    assert places[0] <= values[0] + 1e-9
    assert places[-1] >= values[1] - 1e-9


MARKED = {
    "world": {"area": [[0, 0], [10, 0], [10, 4], [0, 4]], "walls": [[[5, 0], [5, 1.4]], [[5, 2.6], [5, 4]]]},
    "goals": {"out": {"line": [[10, 0], [10, 4]]}},
    "doors": {"gate": {"line": [[5, 1.4], [5, 2.6]], "opens": [0.6], "closes": [3.0]}},
    "zones": {
        "mud": {"speed": 0.5, "polygon": {"outer": [[1, 0], [4, 0], [4, 4], [1, 4]], "holes": [[[2, 1], [3, 1], [3, 2], [2, 2]]]}},
        "ramp": {"kind": "stairs", "up": [0, -3], "polygon": [[6, 0], [9, 0], [9, 4]]},
    },
    "groups": {"all": {"positions": [[3.8, 2], [2.2, 2.5]], "goal": "out", "radius": 0.2}},
    "forces": {"driving": {}, "wall_repulsion": {}, "wall_contact": {}},
    "motion": {"dt": 0.02},
}


@pytest.fixture(scope="module")
def marked() -> Scenario:
    return build(MARKED, name="marked")


def test_doors_are_drawn_as_they_are_and_apart_from_walls(marked: Scenario) -> None:
    plaza = Plaza(marked)
    assert len(fixed_walls(marked)) == len(build({**MARKED, "doors": {}}).world.walls)
    for closed in (1, 0):
        plaza.show(marked.state.with_(closed=np.int32(closed)), 0.0)
        assert (plaza.doors.data["closed"].tolist(), plaza.doors.data["open"].tolist()) == ([closed], [1 - closed])
    assert [float(plaza.doors.data[name][0]) for name in ("x0", "y0", "x1", "y1")] == pytest.approx([5, 1.4, 5, 2.6])


def test_doors_over_time_are_in_the_frames(marked: Scenario) -> None:
    """As the run itself had them, tick by tick; closing waits for who stands in the door."""
    pieces = list(chunks(marked, marked.params, jax.random.key(0), 250, chunk=10, every=10))
    frames = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[piece.frames for piece in pieces])
    found = Film.of(dataclasses.replace(pieces[-1], frames=frames), marked).closed
    assert found.tolist() == [1, *[int(piece.final.closed) for piece in pieces]]
    assert len(set(np.flatnonzero(np.diff(found)))) == 2


def test_zones_have_their_rings_and_names(marked: Scenario) -> None:
    rings = zone_rings(marked)
    assert {name: sorted(len(ring) for ring in own) for name, own in rings.items()} == {"mud": [4, 4], "ramp": [3]}
    area = [
        sum(shapely.Polygon(ring).area * (1 if len(ring) < 4 or np.ptp(ring[:, 0]) > 2 else -1) for ring in own)
        for own in rings.values()
    ]
    assert area == pytest.approx([11, 6])
    assert [name for name, _ in zone_labels(marked)] == ["mud", "ramp (up ↓)"]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_zone_is_tinted_on_the_floor_and_not_in_its_hole(marked: Scenario, theme: Theme) -> None:
    image = Image.open(io.BytesIO(picture(marked, width=900, theme=theme))).convert("RGB")
    scale = 900 / marked.world.size[0]

    def seen(x: float, y: float) -> int:
        spot = (int((x + 1) * scale), int(HEAD + (marked.world.size[1] - 1 - y) * scale))
        around = [image.getpixel((spot[0] + dx, spot[1] + dy)) for dx in range(-9, 10) for dy in range(-9, 10)]
        return len(set(around))  # type: ignore[arg-type]

    assert seen(1.5, 0.6) > 3 > seen(2.5, 1.5)
    assert seen(0.5, 1.0) == 1
    assert contrast(theme.zone, theme.floor) > 4.5
