"""What is refused before the first step, by every way to run."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenes import make_params, make_scenario, make_state, make_world

import crowdlab
from crowdlab import checks
from crowdlab import params as numbers
from crowdlab.abreast import peoples
from crowdlab.errors import CrowdlabError, NonFiniteError, ParamError, RunError
from crowdlab.scenario import Scenario, load
from crowdlab.simulation import chunks, simulate
from crowdlab.state import State, Trip

KEY = jax.random.key(0)


@pytest.fixture
def scene() -> Scenario:
    return make_scenario(make_world(), make_state([(0.0, 0.0), (3.0, 0.0)], id=[4, 7]), make_params(("driving",)))


def in_pieces(scenario: Scenario, key: Any = KEY, **given: Any) -> None:
    next(chunks(scenario, scenario.params, key, given.pop("steps", 2), chunk=2, **given))


def at_once(scenario: Scenario, key: Any = KEY, **given: Any) -> None:
    simulate(scenario, None, key, given.pop("steps", 2), **given)


def sloped(scenario: Scenario, key: Any = KEY, **given: Any) -> None:
    crowdlab.gradient(scenario, lambda run: run.final.position.sum(), ["motion.dt"], key, given.pop("steps", 2), **given)


def many(scenario: Scenario, key: Any = KEY, **given: Any) -> None:
    crowdlab.simulate_many(scenario, jax.random.split(key, 2), given.pop("steps", 2), **given)


def live(scenario: Scenario, *, steps: int = 2) -> None:
    crowdlab.Session(scenario, chunk=steps).advance()


EVERY_WAY = pytest.mark.parametrize("way", [in_pieces, at_once, sloped, many, live])
WAYS = pytest.mark.parametrize("way", [in_pieces, at_once, sloped])


@WAYS
@pytest.mark.parametrize("key", [0, None, "7", jnp.arange(2), jax.random.PRNGKey(0)], ids=repr)
def test_what_is_no_key(way: Callable[..., None], key: Any, scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match=r"for a key: allowed is one, as jax\.random\.key\(seed\) gives"):
        way(scene, key)


@WAYS
def test_many_keys_for_one_run(way: Callable[..., None], scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match=r"keys of shape \(3,\): allowed is one"):
        way(scene, jax.random.split(KEY, 3))


@WAYS
@pytest.mark.parametrize(
    "counts", [{"steps": 2.0}, {"steps": "2"}, {"every": 1.0}, {"every": 0}, {"steps": -1}, {"every": 3}], ids=repr
)
def test_what_is_no_number_of_frames(way: Callable[..., None], counts: dict[str, Any], scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match="allowed are whole frames"):
        way(scene, **counts)


@WAYS
@pytest.mark.parametrize("field", ["position", "velocity"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_who_starts_nowhere_is_named(way: Callable[..., None], field: str, value: float, scene: Scenario) -> None:
    state = scene.state.with_(**{field: getattr(scene.state, field).at[1, 1].set(value)})
    with pytest.raises(NonFiniteError, match=r"scene: agent 7 starts at .* at step 0: allowed are finite numbers") as error:
        way(make_scenario(scene.world, state, scene.params))
    assert error.value.agent == 7


@EVERY_WAY
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (2**31 - 2, "2 steps from step 2147483646: allowed are steps 0 to 2147483647"),
        (-1, "from step -1: allowed are steps 0 to"),
        ([3, 4], r"state\.step is int32 of shape \(2,\): allowed is int32 of shape \(\)"),
        (1.0, r"state\.step is float32 of shape \(\)"),
        (np.int8(1), r"state\.step is int8 of shape \(\)"),  # would start anew after 127
    ],
)
def test_steps_that_cannot_be_counted(way: Callable[..., None], step: Any, words: str, scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match=words):
        way(make_scenario(scene.world, scene.state.with_(step=jnp.asarray(step)), scene.params))


WHOLE = ("id", "group", "goal", "arrived", "entered")


@pytest.mark.parametrize("field", [field.name for field in peoples(State) if field.name != "trip"])
def test_arrays_of_another_kind_or_length(field: str, scene: Scenario) -> None:
    right = getattr(scene.state, field)
    kinds = [jnp.int8, jnp.float32] if field in WHOLE else [jnp.int32, jnp.float16]
    for wrong in (right.tolist(), *map(right.astype, kinds), right[..., :0], right[..., None], jnp.concatenate((right, right), -1)):
        where = "position" if field == "id" and np.shape(wrong) != right.shape else field  # the ids say how many people there are
        with pytest.raises(CrowdlabError, match=rf"scene: (state\.{where} is|its people were placed in)"):
            checks.check_start("scene", scene.state.with_(**{field: wrong}), scene.world)


def test_trips_belong_to_journeys_and_their_stages(scene: Scenario) -> None:
    with pytest.raises(CrowdlabError, match=r"scene: the state has a trip, the world no journeys"):
        checks.check_start("scene", scene.state.with_(trip=Trip.begun(scene.state.goal)), scene.world)
    shop = load("shop")
    with pytest.raises(CrowdlabError, match="the state has no trip"):
        checks.check_start("shop", shop.state.with_(trip=None), shop.world)
    stage = shop.state.trip.stage
    for wrong, words in (
        (stage.at[3].set(9), "agent 3 has the trip.stage 9"),
        (stage[:2], r"state\.trip\.stage is int32 of shape"),
    ):
        with pytest.raises(CrowdlabError, match=words):
            checks.check_start("shop", shop.state.with_(trip=shop.state.trip.with_(stage=wrong)), shop.world)


@EVERY_WAY
def test_who_starts_where_steps_are_lost_in_rounding_is_named(way: Callable[..., None], scene: Scenario) -> None:
    state = scene.state.with_(position=scene.state.position.at[1, 1].set(-1700.0))
    with pytest.raises(
        RunError, match=r"scene: agent 7 starts at \(3, -1700\) m at step 0, .* allowed are 1678 m in x and y"
    ) as error:
        way(make_scenario(scene.world, state, scene.params))
    assert error.value.place == (3, -1700)
    far = dataclasses.replace(make_scenario(scene.world, state, scene.params), origin=(5e5, 5.6e6))
    words = r"agent 7 starts at \(500003, 5598300\) m at step 0, so far from the origin \(500000, 5600000\) m that"
    with pytest.raises(RunError, match=words) as error:
        way(far)
    assert error.value.place == (500_003, 5_598_300)
    checks.check_near("scene", state.with_(alive=jnp.array([True, False])), 0.001)
    checks.check_near("scene", state, 0.0011)
    with jax.enable_x64(True):
        checks.check_near("scene", state.with_(position=state.position.astype(float)), 1e-6)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("radius", -0.25, "agent 7 has the radius -0.25 m: allowed is 0 to any finite size"),
        ("social_radius", float("nan"), "agent 7 has the social_radius nan m"),
        ("mass", 0.0, "agent 7 has the mass 0 kg: allowed is more than 0"),
        ("mass", float("inf"), "agent 7 has the mass inf kg"),
        ("goal", 0, "agent 7 has the goal 0: allowed is -1, for none"),
        ("goal", -2, "agent 7 has the goal -2"),
        ("id", 4, r"ids \[4, 4\]"),
        ("id", -1, r"ids \[4, -1\]"),
    ],
)
def test_a_state_made_by_hand_is_looked_at(field: str, value: float, words: str, scene: Scenario) -> None:
    state = scene.state.with_(**{field: getattr(scene.state, field).at[1].set(value)})
    with pytest.raises(CrowdlabError, match=words):
        at_once(make_scenario(scene.world, state, scene.params))


def test_the_dead_may_lie_anywhere(scene: Scenario) -> None:
    state = scene.state.with_(position=scene.state.position.at[0, 1].set(jnp.nan), alive=jnp.array([True, False]))
    at_once(make_scenario(scene.world, state, scene.params))


def test_several_names_may_come_in_any_sequence_but_not_as_a_word(scene: Scenario) -> None:
    one = simulate(scene, None, KEY, 2, observe=["people"])  # type: ignore[arg-type]
    assert one.series["people"].tolist() == [2, 2]
    with pytest.raises(CrowdlabError, match=r"observe = 'people': allowed are several names\. Give \('people',\)"):
        simulate(scene, None, KEY, 2, observe="people")  # type: ignore[arg-type]


def test_what_is_no_number_is_named_with_its_path(scene: Scenario) -> None:
    with pytest.raises(ParamError, match=r"people\.desired_speed = "):
        simulate(scene, numbers.replace(scene.params, "people.desired_speed", "fast"), KEY, 2)


@pytest.mark.parametrize("paths", ["motion.dt", []], ids=repr)
def test_slopes_are_asked_for_by_a_list_of_names(paths: Any, scene: Scenario) -> None:
    with pytest.raises(ParamError, match=r"the paths are .*: allowed are one name or more in a list"):
        crowdlab.gradient(scene, lambda run: run.final.position.sum(), paths, KEY, 2)
