"""The loop: how a run is cut, recorded, planned and repaired changes no bit; what cannot be trusted is raised."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import params, simulation
from crowdlab.abreast import rows_of
from crowdlab.checks import check_run
from crowdlab.commands import Command, CommandQueue, Kind
from crowdlab.errors import CommandError, CrowdlabError, NonFiniteError, ParamError
from crowdlab.neighbours import Grid
from crowdlab.observe import OBSERVABLES, observable
from crowdlab.scenario import Scenario
from crowdlab.session import Session
from crowdlab.simulation import Run, chunks, plan, rollout, simulate, trusted

MANY, STEPS, KEY = 40, 60, jax.random.key(11)
SLOW = pytest.mark.slow
WATCHED = ("mean_speed", "people")
ORDERS = (
    Command(33, Kind.GOAL, (-1.0, 0.0), agent=3),
    Command(10, Kind.PUSH, (0.3, 0.0), group=0),
    Command(29, Kind.PUSH, (0.0, 0.5), zone=(-1.0, -1.0, 1.0, 1.0)),
    Command(41, Kind.REMOVE, agent=5),
)


def dense() -> Scenario:
    """People in contact with each other and with bent walls, an exit that some reach, noise."""
    generator = np.random.default_rng(7)
    place = np.stack(np.meshgrid(np.arange(10) * 0.55, np.arange(4) * 0.55), -1).reshape(-1, 2) - (2.5, 0.8)
    state = make_state(place + generator.uniform(-0.02, 0.02, place.shape), (0.6, 0.0), goal=0)
    changes = {"motion.dt": 0.005, "motion.noise": 0.1, "people.desired_speed": np.linspace(1.0, 1.6, MANY)}
    corners = np.array([(2.4, -1.1), (1.0, -1.2), (0.0, -1.15), (-1.0, -1.2), (-2.9, -1.1), (-2.9, 1.15), (0.0, 1.25), (2.4, 1.15)])
    world = make_world(np.stack((corners[:-1], corners[1:]), 1), [[(2.6, -2.0), (2.6, 2.0)]], leaves=True)
    return make_scenario(world, state, make_params(changes=changes))


def roomy(scenario: Scenario) -> Grid:
    """A true grid with room for all; with 5 m/s at most its list is good for five steps."""
    return plan(scenario, scenario.params, scenario.state)._replace(half=2, capacity=MANY, span=MANY, walls=8, refresh=4)


@pytest.fixture(scope="module")
def scene() -> Scenario:
    return dense()


@pytest.fixture(scope="module")
def grid(scene: Scenario) -> Grid:
    return roomy(scene)


@pytest.fixture(scope="module")
def whole(scene: Scenario, grid: Grid) -> Run:
    """The run that all others are compared with."""
    run = simulate(scene, None, KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=grid)
    assert 0 < run.final.alive.sum() < MANY - 1  # somebody left, somebody was removed
    return run


def same(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def join(parts: Sequence[Run]) -> tuple[Any, Any]:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *[(part.frames, part.series) for part in parts])


@pytest.mark.bits
def test_sixty_steps_are_twenty_three_and_thirty_seven(scene: Scenario, grid: Grid, whole: Run) -> None:
    state, parts = scene.state, []
    for many in (23, 37):
        due = [order for order in ORDERS if order.step >= int(state.step)]
        parts += chunks(scene, scene.params, KEY, many, chunk=many, commands=due, observe=WATCHED, grid=grid, state=state)
        state = parts[-1].final
    same(join(parts), (whole.frames, whole.series))
    same(state, whole.final)


@pytest.mark.parametrize(("capacity", "refresh", "span", "slots"), [(30, 1, 40, 19), (64, 3, 64, 48)])
@pytest.mark.bits
def test_room_and_refresh_change_no_bit(
    capacity: int, refresh: int, span: int, slots: int, scene: Scenario, grid: Grid, whole: Run
) -> None:
    other = grid._replace(capacity=capacity, refresh=refresh, span=span, walls=slots)
    run = simulate(scene, None, KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=other)
    assert run.health.peak_neighbours > 15
    assert run.health.peak_walls > 3
    same((run.frames, run.series, run.final), (whole.frames, whole.series, whole.final))


@pytest.mark.parametrize("every", [4, 20])
@pytest.mark.bits
def test_recording_every_so_many_steps_changes_no_bit(every: int, scene: Scenario, grid: Grid, whole: Run) -> None:
    run = simulate(scene, None, KEY, STEPS, every=every, commands=ORDERS, observe=WATCHED, grid=grid)
    assert run.frames.step.tolist() == list(range(every, STEPS + 1, every))
    same((run.frames, run.series), jax.tree.map(lambda leaf: leaf[every - 1 :: every], (whole.frames, whole.series)))
    same(run.final, whole.final)


@pytest.mark.bits
def test_a_parameter_set_off_the_frame_beat(scene: Scenario, grid: Grid) -> None:
    moves = (Command(27, Kind.SET, (2.0, 0.0), path="people.desired_speed"), Command(20, Kind.SET, (0.0, 0.0), path="motion.noise"))
    often, seldom = (simulate(scene, None, KEY, STEPS, every=every, commands=moves, grid=grid) for every in (1, 20))
    same(seldom.frames, jax.tree.map(lambda leaf: leaf[19::20], often.frames))
    same(seldom.final, often.final)
    assert seldom.final.desired_speed.mean() == pytest.approx(2.0)
    np.testing.assert_allclose(seldom.final.desired_speed / seldom.final.desired_speed[0], np.linspace(1.0, 1.6, MANY), rtol=1e-6)


def test_nothing_is_compiled_when_a_parameter_moves(scene: Scenario, grid: Grid) -> None:
    simulate(scene, None, KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=grid)
    compiled = rollout._cache_size()
    for path, value in (("forces.repulsion.strength", 1500), ("forces.contact.friction", 0.0), ("switches.contact", np.float64(0))):
        simulate(scene, params.replace(scene.params, path, value), KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=grid)
    other_orders = (Command(3, Kind.PUSH, (0.1, 0.1)),)
    simulate(scene, None, jax.random.key(99), STEPS, commands=other_orders, observe=WATCHED, grid=grid)
    assert rollout._cache_size() == compiled


def digest() -> str:
    """Bytes of the whole run in hexadecimal digits, and proof that NumPy's generator was left alone."""
    import hashlib

    numpy_state = np.random.get_state()  # noqa: NPY002 -- the very generator that must stay untouched
    scenario = dense()
    run = simulate(scenario, None, KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=roomy(scenario))
    for before, now in zip(numpy_state, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(before, now)
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((run.frames, run.series)))).hexdigest()


@SLOW
@pytest.mark.bits
def test_two_fresh_processes_give_these_bytes(whole: Run) -> None:
    here = Path(__file__).parent
    script = "import sys; sys.path.insert(0, sys.argv[1]); import test_simulation; print(test_simulation.digest())"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(here)],
            cwd=here.parent,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    assert {process.communicate(timeout=120)[0].decode().strip() for process in started} == {digest()}


def test_the_key_decides(scene: Scenario, grid: Grid, whole: Run) -> None:
    other = simulate(scene, None, jax.random.key(12), STEPS, commands=ORDERS, observe=WATCHED, grid=grid)
    assert np.abs(other.frames.position - whole.frames.position).max() > 1e-3


@pytest.mark.bits
def test_a_list_kept_too_long_is_repaired(scene: Scenario, grid: Grid, whole: Run) -> None:
    small = grid._replace(skin=0.05, refresh=STEPS)
    queue = CommandQueue.of(sorted(ORDERS, key=lambda order: order.step))
    run, mended = trusted(scene, scene.params, scene.state, KEY, queue, small, steps=STEPS, every=1, observe=WATCHED)
    assert mended.refresh < STEPS
    assert run.health.largest_move <= mended.skin / 2
    same((run.frames, run.series), (whole.frames, whole.series))


@pytest.mark.bits
def test_a_planned_run_is_the_run_with_room_to_spare(scene: Scenario, whole: Run) -> None:
    run = simulate(scene, None, KEY, STEPS, commands=ORDERS, observe=WATCHED)
    same((run.frames, run.series, run.final), (whole.frames, whole.series, whole.final))


def test_leaving_the_finite_numbers_is_an_error_that_knows_the_last_good_state(scene: Scenario, grid: Grid) -> None:
    violent = params.replace(params.replace(scene.params, "forces.repulsion.strength", 1e38), "forces.repulsion.falloff", 0.01)
    message = r"scene: agent \d+ left the finite numbers at step 1; the last good state is that of step 0, where it stood at "
    with pytest.raises(NonFiniteError, match=message) as caught:
        simulate(scene, violent, KEY, STEPS, commands=ORDERS, observe=WATCHED, grid=grid)
    assert "motion.dt (now 0.005 s;" in str(caught.value)
    assert (caught.value.step, caught.value.state.step) == (1, 0)
    assert 0 <= caught.value.agent < MANY
    assert np.isfinite(caught.value.state.position).all()


def test_what_is_refused_before_the_first_step(scene: Scenario, grid: Grid) -> None:
    def start(**changes: Any) -> None:
        simulate(**({"scenario": scene, "params": None, "key": KEY, "steps": STEPS, "every": 1} | changes))

    with pytest.raises(CrowdlabError, match=r"scene: steps = 60, every = 7: allowed are whole frames\. Make"):
        start(every=7)
    with pytest.raises(CrowdlabError, match="steps = 60, every = 0"):
        start(every=0)
    with pytest.raises(CrowdlabError, match="steps = -5"):
        start(steps=-5)
    with pytest.raises(CrowdlabError, match=r"scene: unknown observable 'mean_sped'\. Did you mean 'mean_speed'\?"):
        start(observe=("mean_sped",))
    with pytest.raises(ParamError, match=r"motion\.dt = 0 s"):
        start(params=params.replace(scene.params, "motion.dt", 0.0))
    with pytest.raises(ParamError, match=r"for people and \S+ m for walls; the grid given was planned for 0\.5 m and "):
        start(grid=grid._replace(reach=0.5))
    with pytest.raises(CommandError, match=r"order PUSH at step 60: the run ends before it, at step 60\."):
        start(commands=[Command(60, Kind.PUSH)])


@pytest.fixture
def own() -> Iterator[Callable[..., str]]:
    """Registers a law as an observable for one test, and gives its name."""
    before = dict(OBSERVABLES)

    def register(law: Callable[..., Any]) -> str:
        law.__doc__ = "What it gives."
        return observable("1")(law).__name__

    yield register
    OBSERVABLES.clear()
    OBSERVABLES.update(before)


WEIGHTS = np.ones(MANY)


def rows(state: Any, near: Any, world: Any, params: Any) -> Any:
    return state.mass


def places(state: Any, near: Any, world: Any, params: Any) -> Any:
    return state.position.T


def speeds(state: Any, near: Any, world: Any, params: Any) -> Any:
    return params.people.desired_speed


def nearest(state: Any, near: Any, world: Any, params: Any) -> Any:
    return near.distance.min(1)


def weighed(state: Any, near: Any, world: Any, params: Any) -> Any:
    return (WEIGHTS * state.mass).sum()


@pytest.mark.parametrize("law", [rows, places, speeds, nearest, weighed])
@pytest.mark.parametrize("begin", [simulate, Session], ids=["simulate", "session"])
def test_an_observable_of_single_rows_is_refused(law: Any, begin: Any, scene: Scenario, own: Callable[..., str]) -> None:
    told = rf"scene: observable '{own(law)}' has the shape \(.*\) for 40 people and .* for 41: allowed .*observe\.total"
    with pytest.raises(CrowdlabError, match=told):
        begin(scene, observe=(law.__name__,), **({} if begin is Session else {"params": None, "key": KEY, "steps": 10}))


def test_observables_are_tried_with_those_who_run(scene: Scenario) -> None:
    few = np.arange(5)
    check_run(scene, rows_of(scene.params, few), STEPS, 1, WATCHED, rows_of(scene.state, few))


def mean_place(state: Any, near: Any, world: Any, params: Any) -> Any:
    return jnp.where(state.alive, state.position, 0.0).sum(1) / state.alive.sum()


def goals(state: Any, near: Any, world: Any, params: Any) -> Any:
    return (state.goal == jnp.arange(7)[:, None]).sum(1)


def test_an_observable_may_have_a_shape_of_its_own(scene: Scenario, own: Callable[..., str]) -> None:
    seen = simulate(scene, None, KEY, 4, every=2, observe=(own(mean_place), own(goals))).series
    assert (seen["mean_place"].shape, seen["goals"].shape) == ((2, 2), (2, 7))
    couple = make_scenario(scene.world, make_state([(0, 0), (2, 0)]), make_params())
    assert simulate(couple, None, KEY, 4, observe=("mean_place",)).series["mean_place"].shape == (4, 2)


def test_what_chunks_refuse(scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match=r"scene: chunk = 0 steps: allowed are 1 and more"):
        next(chunks(scene, scene.params, KEY, 10, chunk=0))
    for path, value in (
        ("people.desired_speed", np.ones(3)),
        ("forces.repulsion.strength", np.ones((2, MANY))),
        ("motion.dt", np.ones(MANY)),
    ):
        with pytest.raises(ParamError, match=rf"{path}: an array of shape .*: allowed are one number"):
            simulate(scene, params.replace(scene.params, path, value), KEY, 10)


def test_a_step_too_long_for_the_drive_is_refused(scene: Scenario) -> None:
    hasty = params.replace(scene.params, "forces.driving.relaxation_time", 0.0025)
    with pytest.raises(ParamError, match=r"motion\.dt = 0\.005 s: forces\.driving is stable below 0\.005 s only"):
        simulate(scene, hasty, KEY, 10)


def test_nobody_walks() -> None:
    empty = make_scenario(make_world(goals=[(0, 0)]), make_state(np.zeros((0, 2))), make_params())
    run = simulate(empty, None, KEY, 4, observe=("people", "mean_speed", "largest_overlap"))
    assert run.frames.position.shape == (4, 0, 2)
    assert [float(run.series[name][-1]) for name in ("people", "largest_overlap")] == [0, 0]
    assert np.isnan(run.series["mean_speed"]).all()


def test_no_steps_give_no_frames(scene: Scenario) -> None:
    run = simulate(scene, None, KEY, 0, observe=WATCHED)
    assert run.frames.position.shape == (0, MANY, 2)
    assert run.series["people"].shape == (0,)
    np.testing.assert_array_equal(run.final.position, scene.state.position)


@pytest.mark.bits
def test_programs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that compiled without end would die of too many memory maps."""
    monkeypatch.setattr(simulation, "PROGRAMS", 2)
    scenario = make_scenario(make_world(), make_state([(0.0, 0.0)]), make_params(("driving",)))
    ends = []
    for every in (1, 2, 3, 6):
        ends.append(np.asarray(simulate(scenario, None, jax.random.key(0), 6, every=every).final.position).tobytes())
        assert rollout._cache_size() <= 2
    assert len(set(ends)) == 1
