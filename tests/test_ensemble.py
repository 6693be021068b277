"""Runs abreast: each has, to the last bit, what it would have alone."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

from crowdlab import ensemble, simulation
from crowdlab import params as numbers
from crowdlab.ensemble import simulate_many
from crowdlab.errors import CrowdlabError, NonFiniteError, ParamError, UnstableError
from crowdlab.neighbours import sizing as room
from crowdlab.params import Params
from crowdlab.scenario import Scenario
from crowdlab.simulation import Run, simulate
from crowdlab.state import State

WALLS = [[(-1.0, -1.2), (5.0, -1.2)], [(-1.0, 2.4), (5.0, 2.4)]]
OF_THE_LIST = (".peak_", ".largest_move")  # what is said of the list in use, which the runs share
OBSERVED = ("people", "arrived", "mean_speed", "largest_overlap", "largest_contact_pressure", "kinetic_energy")


def crowd(people: int, seed: int = 0) -> State:
    """Touching each other, two on one point, some leave by the exit at once."""
    place = np.random.default_rng(seed).uniform((0, -0.9), (3.5, 2.1), (people, 2))
    place[1:2] = place[:1]
    return make_state(place, (0.3, 0.1), goal=np.arange(people) % 2, radius=np.linspace(0.2, 0.3, people))


def scene(people: int = 14, **changes: Any) -> Scenario:
    world = make_world(WALLS, [[(3.0, -1.2), (3.0, 2.4)], (0.0, 0.0)], leaves=True)
    params = make_params(None, {"motion.noise": 0.1, "motion.dt": 0.004, "limits.step_ratio": 1e3, "limits.overlap": 1e3} | changes)
    return make_scenario(world, crowd(people), params)


def same(many: Run, number: int, one: Run) -> None:
    """Every leaf of the one run, for as many people as it has."""
    people, leaves = one.final.id.shape[0], jax.tree.leaves_with_path(one)
    for (path, alone), abreast in zip(leaves, jax.tree.leaves(many), strict=True):
        name = jax.tree_util.keystr(path)
        if any(word in name for word in OF_THE_LIST):
            continue
        own = np.asarray(abreast)[number]
        if ".frames" in name and own.ndim > 1:
            own = own[:, :people]
        elif ".final" in name and own.ndim:
            own = own[..., :people]
        np.testing.assert_array_equal(own, alone, err_msg=f"run {number}: {name}")


@pytest.mark.parametrize("cells", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.bits
def test_each_run_is_the_one_that_it_would_be_alone(cells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = OBSERVED[2:3] if cells else OBSERVED
    monkeypatch.setattr(room, "FEW", 0 if cells else 300)
    monkeypatch.setattr("crowdlab.planning.FEW", 0 if cells else 300)
    scenario, keys = scene(), jax.random.split(jax.random.key(3), 5)
    states = [crowd(people, seed) for seed, people in enumerate((14, 5, 14, 0, 14))]
    faster = numbers.replace(scenario.params, "people.desired_speed", jnp.asarray(2.0, jnp.float32))
    own = numbers.replace(scenario.params, "forces.repulsion.falloff", jnp.linspace(0.05, 0.1, 14).astype(jnp.float32))
    quiet = numbers.replace(scenario.params, "switches.repulsion", jnp.asarray(0.0, jnp.float32))
    # One run has no noise among those that have, one has limits that act among those that have none.
    quiet = numbers.replace(quiet, "motion.noise", jnp.asarray(0.0, jnp.float32))
    faster = numbers.replace(faster, "limits.separation", jnp.asarray(0.4, jnp.float32))
    params = [scenario.params, faster, quiet, scenario.params, own]
    if cells:  # what differs from parameter to parameter does so without cells too; each program costs seconds
        keys, states, params = keys[:2], states[:2], params[:2]
    runs = len(params)
    assert (ensemble.plan_for_all(scenario, list(zip(params, states, strict=True))).half > 0) is cells
    many = simulate_many(scenario, keys, 60, params=params, states=states, every=20, observe=observed)
    assert many.frames.position.shape == (runs, 3, 14, 2)
    assert {name: values.shape for name, values in many.series.items()} == dict.fromkeys(observed, (runs, 3))
    assert not np.asarray(many.frames.alive)[1, :, 5:].any()
    for number in range(runs):
        alone = make_scenario(scenario.world, states[number], params[number])
        same(many, number, simulate(alone, None, keys[number], 60, every=20, observe=observed))


@pytest.mark.bits
def test_groups_and_pieces_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, keys = scene(8), jax.random.split(jax.random.key(1), 5)
    whole = simulate_many(scenario, keys, 24, every=4, observe=OBSERVED)
    monkeypatch.setattr(ensemble, "ROWS", 17)
    monkeypatch.setattr(simulation, "PIECE", 8)
    cut = simulate_many(scenario, keys, 24, every=4, observe=OBSERVED)
    assert [group.keys.size for group in ensemble.groups(ensemble._members(scenario, keys, None, None))] == [2, 2, 2]
    for (path, one), other in zip(jax.tree.leaves_with_path(whole), jax.tree.leaves(cut), strict=True):
        if not any(word in jax.tree_util.keystr(path) for word in OF_THE_LIST):
            np.testing.assert_array_equal(one, other, err_msg=jax.tree_util.keystr(path))


@pytest.mark.bits
def test_a_plan_that_is_too_small_is_enlarged(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, keys = scene(12), jax.random.split(jax.random.key(2), 3)
    right = simulate_many(scenario, keys, 10, every=10)
    planned = ensemble.plan_for_all
    monkeypatch.setattr(ensemble, "plan_for_all", lambda *given: planned(*given)._replace(capacity=1, touching=1, walls=1))
    small = simulate_many(scenario, keys, 10, every=10)
    np.testing.assert_array_equal(small.final.position, right.final.position)


@pytest.mark.parametrize("people", [0, 1])
def test_hardly_anybody(people: int) -> None:
    scenario, keys = scene(people), jax.random.split(jax.random.key(2), 2)
    many = simulate_many(scenario, keys, 4, every=2, observe=("people",))
    assert many.frames.position.shape == (2, 2, people, 2)
    assert (np.asarray(many.series["people"]) == people).all()
    none = simulate_many(scenario, keys, 0)
    assert none.frames.position.shape == (2, 0, people, 2)


@pytest.mark.bits
def test_a_run_that_breaks_is_named_as_if_alone() -> None:
    calm, keys = scene(3, **{"motion.noise": 0.0}), jax.random.split(jax.random.key(4), 3)
    hard = numbers.replace(calm.params, "limits.step_ratio", jnp.asarray(1e-3, jnp.float32))
    with pytest.raises(UnstableError, match=r"scene, run 1: agent \d+ was pressed") as abreast:
        simulate_many(calm, keys, 60, params=[calm.params, hard, hard], every=60)
    with pytest.raises(UnstableError) as alone:
        simulate(make_scenario(calm.world, calm.state, hard), None, keys[1], 60, every=60)
    one, other = abreast.value, alone.value
    assert (one.step, one.agent, one.place) == (other.step, other.agent, other.place)
    np.testing.assert_array_equal(one.state.position, other.state.position)


def test_a_small_crowd_with_own_numbers_breaks_in_words_too() -> None:
    calm, keys = scene(5, **{"motion.noise": 0.0}), jax.random.split(jax.random.key(4), 2)
    own = numbers.replace(calm.params, "limits.step_ratio", jnp.full(3, 1e-3, jnp.float32))
    with pytest.raises(UnstableError, match=r"scene, run 1: agent \d+ was pressed") as error:
        simulate_many(calm, keys, 60, params=[calm.params, own], states=[calm.state, crowd(3)], every=60)
    assert isinstance(error.value.state, State)
    assert error.value.state.id.tolist() == [0, 1, 2]


def refusals() -> dict[str, tuple[Callable[[Scenario, jax.Array], object], type[CrowdlabError], str]]:
    def changed(params: Params, path: str, value: float) -> Params:
        return numbers.replace(params, path, jnp.asarray(value, jnp.float32))

    return {
        "one key": (lambda s, k: simulate_many(s, k[0], 2), CrowdlabError, r"keys of shape \(\): allowed is \(R,\)"),
        "old key": (lambda s, k: simulate_many(s, jax.random.PRNGKey(0), 2), CrowdlabError, r"allowed is \(R,\)"),
        "no key": (lambda s, k: simulate_many(s, None, 2), CrowdlabError, "a NoneType for a key"),
        "nobody knows where": (
            lambda s, k: simulate_many(s, k, 2, states=[s.state, s.state.with_(position=s.state.position.at[0, 1].set(jnp.nan))]),
            NonFiniteError,
            r"scene, run 1: agent 1 starts at \(nan, ",
        ),
        "no parameters": (
            lambda s, k: simulate_many(s, k, 2, params=[None] * 2),
            ParamError,
            "run 0 has a NoneType for parameters",
        ),
        "no states": (lambda s, k: simulate_many(s, k, 2, states=[None] * 2), CrowdlabError, "run 0 starts from a NoneType"),
        "no step": (
            lambda s, k: simulate_many(s, k, 2, params=changed(s.params, "motion.dt", np.nan)),
            ParamError,
            r"motion\.dt = nan s: allowed",
        ),
        "half steps": (lambda s, k: simulate_many(s, k, 2.0), CrowdlabError, r"steps = 2\.0, every = 1: allowed are whole frames"),
        "parameters": (lambda s, k: simulate_many(s, k, 2, params=[s.params]), ParamError, "1 parameters for 2 keys"),
        "states": (lambda s, k: simulate_many(s, k, 2, states=[s.state] * 3), CrowdlabError, "3 states for 2 keys"),
        "dt": (
            lambda s, k: simulate_many(s, k, 2, params=[s.params, changed(s.params, "motion.dt", 0.002)]),
            ParamError,
            r"run 1 has motion\.dt = 0\.002 s, run 0 0\.004 s",
        ),
        "forces": (
            lambda s, k: simulate_many(s, k, 2, params=[s.params, make_params(("driving",))]),
            ParamError,
            "run 1 has other forces",
        ),
        "step": (
            lambda s, k: simulate_many(s, k, 2, states=[s.state, s.state.with_(step=jnp.asarray(3, jnp.int32))]),
            CrowdlabError,
            "run 1 starts at step 3, run 0 at 0",
        ),
        "value": (
            lambda s, k: simulate_many(s, k, 2, params=[s.params, changed(s.params, "people.desired_speed", -1.0)]),
            ParamError,
            r"people\.desired_speed = -1",
        ),
    }


@pytest.mark.parametrize("case", refusals())
def test_what_cannot_go_abreast_is_refused(case: str) -> None:
    ask, kind, words = refusals()[case]
    with pytest.raises(kind, match=words):
        ask(scene(2), jax.random.split(jax.random.key(0), 2))
