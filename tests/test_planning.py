"""The plan of a run: made anew when it has become far too large, to the same bits, and not again and again."""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import neighbours, params, planning, simulation
from crowdlab.commands import Command, Kind
from crowdlab.errors import ParamError
from crowdlab.neighbours import Grid
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, chunks
from crowdlab.state import Health

CROWD, KEY = 60, jax.random.key(5)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Grid]]:
    """The grids of all pieces, small crowds having a true grid too and every compilation paying."""
    grids: list[Grid] = []
    plain = simulation.trusted

    def watched(*arguments: Any, **options: Any) -> tuple[Run, Grid]:
        run, grid = plain(*arguments, **options)
        grids.append(grid)
        return run, grid

    monkeypatch.setattr(simulation, "trusted", watched)
    for room in (planning, neighbours.sizing):
        monkeypatch.setattr(room, "FEW", 0)
    monkeypatch.setattr(planning, "COMPILING", 0)
    return grids


def parting() -> Scenario:
    """A dense disc of people who walk apart for ever."""
    angle, radius = np.arange(CROWD) * 2.4, 0.06 * np.sqrt(np.arange(CROWD) + 1)
    unit = np.stack((np.cos(angle), np.sin(angle)), 1)
    state = make_state(unit * radius[:, None], 2 * unit * (0.3 + radius)[:, None], radius=0.01)
    params = make_params(("repulsion",), {"forces.repulsion.strength": 1.0, "motion.dt": 0.02})
    return make_scenario(make_world(), state, params)


@pytest.mark.bits
def test_room_that_is_no_longer_needed_is_given_up_to_the_same_bits(used: list[Grid]) -> None:
    scene = parting()

    def way(grid: Grid | None) -> bytes:
        parts = chunks(scene, scene.params, KEY, 120, chunk=40, every=10, grid=grid)
        return b"".join(np.asarray(part.frames.position).tobytes() for part in parts)

    anew = way(None)
    wide, still_wide, tight = used
    assert still_wide == wide
    assert 2 * tight.capacity <= wide.capacity
    used.clear()
    assert way(wide) == anew
    assert used == [wide, wide, wide]  # a grid given stays


def returning() -> Scenario:
    """A dense disc of people who are thrown apart and walk back to its middle."""
    angle, radius = np.arange(80) * 2.4, 0.06 * np.sqrt(np.arange(80) + 1)
    unit = np.stack((np.cos(angle), np.sin(angle)), 1)
    state = make_state(unit * radius[:, None], 12 * unit * radius[:, None], radius=0.01, goal=0)
    changes = {
        "forces.repulsion.strength": 1.0,
        "forces.driving.relaxation_time": 0.8,
        "people.desired_speed": 2.0,
        "motion.dt": 0.02,
    }
    return make_scenario(make_world(goals=[(0.0, 0.0)], reach=0.01), state, make_params(("driving", "repulsion"), changes))


@pytest.mark.bits
@pytest.mark.slow
def test_a_thinned_and_tightened_plan_that_overflows_is_repaired_to_the_same_bits(used: list[Grid]) -> None:
    scene = returning()
    removal = Command(5, Kind.REMOVE, zone=(-9.0, -9.0, 9.0, 0.1))

    def way(grid: Grid | None) -> bytes:
        parts = list(chunks(scene, scene.params, KEY, 160, chunk=40, every=10, commands=[removal], grid=grid))
        assert 32 < parts[-1].final.alive.sum() <= 40
        return b"".join(np.asarray(part.frames.position).tobytes() for part in parts)

    anew = way(None)
    wide, thin, tight, mended = used
    assert wide.half > 0
    assert (wide.copy_rows, thin.copy_rows) == (80, 40)
    assert tight.capacity < thin.capacity  # room was given up, and taken again where it was missed
    assert tight.capacity < mended.capacity
    used.clear()
    assert way(wide) == anew
    assert used == [wide] * 4


def test_room_is_tightened_only_where_it_pays_and_less_than_half_is_needed() -> None:
    grid = Grid(9, 9, 2, 40, 40, 16, 6, 1.0, 1.0, 0.2, 10, copy_rows=100)

    def after(*peaks: int, ahead: int = 10**9, half: int = 2) -> Grid:
        names = ("peak_neighbours", "peak_touching", "peak_span", "peak_walls")
        health = Health.good().with_(**dict(zip(names, map(np.int32, peaks), strict=True)))
        return planning.tightened(grid._replace(half=half), health, 9, ahead)

    assert after(21, 7, 21, 4) == grid
    assert after(14, 16, 40, 6) == grid._replace(capacity=20)
    assert after(14, 16, 40, 6, ahead=1000) == grid
    assert after(3, 5, 14, 2) == grid._replace(capacity=4, touching=8, span=19, walls=3)
    assert after(3, 5, 0, 4, half=0) == grid._replace(half=0)  # there is always room for a few
    assert after(3, 5, 0, 2, half=0) == grid._replace(half=0, capacity=32, touching=12, walls=3)


def test_room_that_was_missed_is_not_given_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd that comes and goes: what comes out of each piece is made up, no loop is run."""
    needed, rooms = iter((10, 10, 50, 10, 10, 10)), []

    def made_up(*arguments: Any, steps: int, **options: Any) -> tuple[Run, Grid]:
        state, grid = arguments[2], arguments[5]
        health = Health.good().with_(peak_neighbours=np.int32(next(needed)), peak_span=np.int32(10))
        grid = planning.repaired(arguments[0], grid, health, state, options["ahead"]) or grid
        rooms.append(grid.capacity)
        return Run(frames=None, series={}, final=state.with_(step=state.step + steps), health=health), grid  # type: ignore[arg-type]

    monkeypatch.setattr(simulation, "trusted", made_up)
    for room in (planning, neighbours.sizing):
        monkeypatch.setattr(room, "FEW", 0)
    monkeypatch.setattr(planning, "COMPILING", 0)
    scene = parting()
    assert len(list(chunks(scene, scene.params, KEY, 120, chunk=20))) == 6
    assert rooms == [60, 16, 60, 60, 60, 60]


@pytest.mark.parametrize("living", [30, 300])
def test_rows_go_only_where_it_pays(living: int) -> None:
    many = 1000
    scene = make_scenario(make_world(), make_state(np.zeros((many, 2)), alive=np.arange(many) < living), make_params())
    grid = Grid(9, 9, 2, 400, 400, 16, 6, 1.0, 1.0, 0.2, 10, copy_rows=many)
    rows = {30: 64, 300: 504}[living]

    def after(ahead: float, of: Grid = grid) -> Grid:
        return planning.thinned(scene, scene.params, scene.state, of, int(ahead))

    pays = planning.COMPILING / (many - rows)
    assert after(0.9 * pays) == grid
    assert after(1.1 * pays) == grid._replace(
        copy_rows=rows, half=2 if rows == 504 else 0, span=min(400, rows), capacity=min(400, rows)
    )
    assert after(1.1 * pays, of=grid._replace(copy_rows=0)) == after(1.1 * pays)
    assert after(1.0, of=grid._replace(copy_rows=16)).copy_rows == rows  # more live than there are rows


def pressed(motion: str) -> Scenario:
    """People in contact with each other and with walls."""
    generator = np.random.default_rng(7)
    place = np.stack(np.meshgrid(np.arange(6) * 0.48, np.arange(4) * 0.48), -1).reshape(-1, 2)
    state = make_state(place + generator.uniform(-0.02, 0.02, (24, 2)), (0.6, 0.0), goal=0)
    world = make_world([[(-0.4, -0.4), (3.0, -0.4)], [(3.0, -0.4), (3.2, 1.9)]], [(9.0, 9.0)])
    return make_scenario(world, state, make_params(None, {"motion.dt": 0.002, "people.desired_speed": 1.3}, motion=motion))


@pytest.mark.parametrize(("motion", "half"), [("walking", 2), pytest.param("runge_kutta", 0, marks=pytest.mark.slow)])
@pytest.mark.bits
def test_a_program_without_what_does_not_act_gives_the_same_bits(motion: str, half: int) -> None:
    scene = pressed(motion)
    full = planning.plan(scene, scene.params, scene.state)._replace(half=half, refresh=8)
    bare = planning.bare(full, scene.params)
    assert (full.with_limits, full.with_noise, bare.with_limits, bare.with_noise) == (True, True, False, False)
    ends = [simulation.simulate(scene, None, KEY, 60, every=60, grid=grid).final for grid in (full, bare)]
    for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


ACTING = (("limits.separation", 0.5, "limits"), ("limits.acceleration", 9.0, "limits"), ("motion.noise", 0.3, "noise"))


@pytest.mark.parametrize(("path", "value", "part"), ACTING)
def test_what_acts_at_some_time_is_compiled_in_and_missed_in_words(path: str, value: float, part: str) -> None:
    scene = parting()
    bare = planning.bare(planning.plan(scene, scene.params, scene.state), scene.params)
    moved, order = params.replace(scene.params, path, value), Command(10, Kind.SET, (value, 0.0), path=path)
    assert getattr(planning.bare(bare, scene.params, moved), f"with_{part}")
    assert not planning.suffices(bare, moved, scene.state)
    for numbers, orders in ((moved, ()), (scene.params, (order,))):
        with pytest.raises(
            ParamError, match=rf"and the grid given is for programs without\. Pass grid=grid\._replace\(with_{part}=True\)"
        ):
            simulation.simulate(scene, numbers, KEY, 20, grid=bare, commands=orders)


@pytest.mark.parametrize(("path", "value"), [("limits.acceleration", 1e-4), ("motion.noise", 0.01)])
@pytest.mark.bits
def test_what_is_set_on_the_way_acts_from_then_on(path: str, value: float) -> None:
    scene = parting()
    full = planning.plan(scene, scene.params, scene.state)
    order = Command(10, Kind.SET, (value, 0.0), path=path)
    free = simulation.simulate(scene, None, KEY, 20, every=10, grid=full)
    planned, given = (simulation.simulate(scene, None, KEY, 20, every=10, commands=(order,), grid=grid) for grid in (None, full))
    np.testing.assert_array_equal(planned.frames.position, given.frames.position)
    np.testing.assert_array_equal(planned.frames.position[0], free.frames.position[0])
    assert (planned.frames.position[1] != free.frames.position[1]).any()


def test_a_motion_that_does_not_say_whether_it_draws_is_given_a_key() -> None:
    scene = parting()
    silent = dataclasses.replace(scene.params, motion=SimpleNamespace(dt=0.02))
    assert planning.parts(silent)["with_noise"]
