"""Who takes part: departed people cost nothing, and it changes no bit who stands in which row of the copy, or in none."""

import math
from typing import Any

import jax
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world, shuffled

from crowdlab import muster, params, planning
from crowdlab.abreast import rows_of
from crowdlab.commands import Command, Kind
from crowdlab.errors import NonFiniteError
from crowdlab.observe import total
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, chunks, plan, rollout, simulate
from crowdlab.state import State
from crowdlab.stepping import with_people

MANY, STEPS, KEY = 130, 360, jax.random.key(4)
WATCHED = ("arrived", "kinetic_energy", "largest_contact_pressure", "largest_overlap", "mean_speed", "people")
ORDERS = (
    Command(20, Kind.REMOVE, zone=(-30.0, -0.5, -4.0, 0.5)),
    Command(150, Kind.GOAL, (1.0, 0.0), agent=0),  # to one who has left by then
    Command(160, Kind.GOAL, (1.0, 0.0), agent=129),
    Command(170, Kind.PUSH, (0.2, 0.3), group=0),
)


def leaving(people: int = MANY) -> Scenario:
    """A crowd in rows before a line that all cross, those in front at once, with noise and everybody different."""
    generator = np.random.default_rng(3)
    place = np.stack(np.meshgrid(np.arange(26) * 0.6 - 7.5, np.arange(5) * -0.6), -1).reshape(-1, 2)[:people]
    place += generator.uniform(-0.03, 0.03, place.shape)
    changes = {
        "motion.dt": 0.005,
        "motion.noise": 0.1,
        "people.desired_speed": generator.uniform(1.5, 2.5, people),
        "forces.repulsion.strength": generator.uniform(1500.0, 2000.0, people),
    }
    world = make_world(
        [[(-8.5, 1.0), (-8.5, -7.0)], [(8.5, 1.0), (8.5, -7.0)]], [[(-9.0, 0.5), (9.0, 0.5)], (0.0, -8.0)], leaves=True
    )
    state = make_state(
        place, (0.0, 1.5), goal=0, radius=generator.uniform(0.2, 0.25, people), mass=generator.uniform(60, 90, people)
    )
    return make_scenario(world, state, make_params(None, changes))


@pytest.fixture(scope="module")
def scene() -> Scenario:
    return leaving()


@pytest.fixture(scope="module")
def whole(scene: Scenario) -> Run:
    """The run of everybody in his own row to the end."""
    run = simulate(scene, None, KEY, STEPS, every=10, observe=WATCHED, commands=ORDERS)
    assert 0 < run.final.alive.sum() < 40
    return run


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every copy that can be smaller is smaller."""
    monkeypatch.setattr(planning, "COMPILING", 0)


@pytest.fixture
def sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is sorted by place, however few they are."""
    monkeypatch.setattr(muster, "SORTED", 0)


def same(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).shape == np.asarray(b).shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def pieces(scene: Scenario, chunk: int, **options: Any) -> list[Run]:
    return list(chunks(scene, scene.params, KEY, STEPS, chunk=chunk, every=10, observe=WATCHED, commands=ORDERS, **options))


def joined(parts: list[Run]) -> tuple[Any, Any, State]:
    frames = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[(part.frames, part.series) for part in parts])
    return (*frames, parts[-1].final)


@pytest.mark.bits
def test_a_smaller_copy_changes_no_bit_and_compiles_one_program_for_each_size(scene: Scenario, whole: Run, eager: None) -> None:
    before = rollout._cache_size()
    parts = pieces(scene, 20)
    same(joined(parts), (whole.frames, whole.series, whole.final))
    sizes = {muster.size(int(part.final.alive.sum()), MANY) for part in parts}
    assert sizes == {130, 72, 40}
    assert rollout._cache_size() - before == len(sizes) <= math.log2(MANY / muster.LEAST) + 1


@pytest.mark.bits
def test_the_order_of_places_changes_no_bit(scene: Scenario, whole: Run, sorting: None) -> None:
    same(joined(pieces(scene, STEPS)), (whole.frames, whole.series, whole.final))
    before = rollout._cache_size()
    same(joined(pieces(scene, 20)), (whole.frames, whole.series, whole.final))
    assert rollout._cache_size() - before <= 1  # the program of everybody


def test_a_copy_is_those_rows_and_goes_back_to_them(scene: Scenario) -> None:
    """By declaration and not by shape: two people, for whom (2, N) and the (2,) of a run look alike."""
    state = make_state([(0.0, 0.0), (1.0, 5.0)], [(0.1, 0.2), (0.3, 0.4)], mass=[60.0, 70.0])
    turned = rows_of(state, np.array([1, 0]))
    same(turned, shuffled(state, np.array([1, 0])))
    tree = make_params(None, {"people.desired_speed": [1.0, 2.0], "forces.contact.friction": [3.0, 4.0]})
    copy = rows_of(tree, np.array([1]))
    assert (copy.people.desired_speed.tolist(), copy.forces["contact"].friction.tolist()) == ([2.0], [4.0])
    assert copy.forces["contact"].compression is tree.forces["contact"].compression

    alive = np.arange(MANY) % 3 == 0
    start = with_people(scene.state, scene.params, scene.world).with_(
        alive=alive, arrived=np.where(np.arange(MANY) % 3 == 1, 7, -1).astype(np.int32)
    )
    crowd = muster.muster(scene.params, start, scene.world, plan(scene, scene.params, start))
    assert crowd.rows is not None
    assert len(set(crowd.rows)) == len(crowd.rows) == 72
    assert int(crowd.state.alive.sum()) == alive.sum() == 44
    assert int(crowd.state.left) + int((crowd.state.arrived >= 0).sum()) == 43
    assert int(crowd.state.removed) == MANY - 72 - int(crowd.state.left)
    same(crowd.restored(crowd.state), start)


def test_sizes_are_halves() -> None:
    assert [muster.size(n, 1000) for n in (1000, 505, 504, 257, 256, 3, 0)] == [1000, 1000, 504, 504, 256, 64, 64]
    assert [muster.size(0, n) for n in (0, 1, 31, 63, 64, 65)] == [0, 1, 31, 63, 32, 40]
    for people in (64, 100, 1000, 12345):
        sizes = {muster.size(living, people) for living in range(people + 1)}
        assert len(sizes) <= math.log2(people / muster.LEAST) + 1
        assert all(muster.size(living, people) >= living for living in range(people + 1))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_nobody_one_and_two(count: int, sorting: None, eager: None) -> None:
    world = make_world(goals=[[(-9.0, 0.5), (9.0, 0.5)]], leaves=True)
    state = make_state([(0.0, 0.0), (3.0, 0.0)][:count], (0.0, 1.0), goal=0)
    crowd = make_scenario(world, state, make_params(None, {"motion.dt": 0.01}))
    run = simulate(crowd, None, KEY, 100, every=100, observe=("arrived", "people"))
    assert run.frames.position.shape == (1, count, 2)
    assert (int(run.series["people"][0]), int(run.series["arrived"][0])) == (0, count)


@pytest.mark.bits
def test_when_all_are_gone_they_stay_where_they_left(scene: Scenario, eager: None) -> None:
    orders = (Command(10, Kind.REMOVE),)
    parts = list(chunks(scene, scene.params, KEY, 60, chunk=20, every=10, observe=WATCHED, commands=orders))
    for part in parts[1:]:
        assert not part.frames.alive.any()
        same(part.frames.position[0], parts[0].frames.position[0])
        same(part.series["people"], np.zeros(2, np.int32))
    same(parts[-1].final.with_(step=parts[0].final.step), parts[0].final)


def test_the_last_good_state_is_that_of_everybody(scene: Scenario, sorting: None) -> None:
    violent = params.replace(params.replace(scene.params, "forces.repulsion.strength", 1e38), "forces.repulsion.falloff", 0.01)
    start = scene.state.with_(alive=np.arange(MANY) < 50)
    with pytest.raises(NonFiniteError) as caught:
        list(chunks(scene, violent, KEY, 20, chunk=20, state=start))
    assert caught.value.agent < 50
    same(caught.value.state, start.with_(desired_speed=violent.people.desired_speed))


@pytest.mark.bits
def test_observables_add_in_one_order(scene: Scenario) -> None:
    generator = np.random.default_rng(5)
    values = (generator.normal(size=(2, MANY)) * 10.0 ** generator.integers(-3, 4, MANY)).astype(np.float32)
    alive = generator.uniform(size=MANY) < 0.6
    state = scene.state.with_(alive=alive)
    expected = jax.jit(total)(values, state)
    np.testing.assert_allclose(expected, values[:, alive].astype(float).sum(1), rtol=1e-5)
    for rows in (generator.permutation(MANY), np.flatnonzero(alive), generator.permutation(np.flatnonzero(alive))):
        same(jax.jit(total)(values[:, rows], rows_of(state, rows)), expected)
        same(total(values[0, rows], rows_of(state, rows)), expected[0])
