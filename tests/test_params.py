"""Parameters: declared once, addressed by path, checked with unit and bounds, traced and never compiled in."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crowdlab import params, trees
from crowdlab.errors import CrowdlabError, ParamError
from crowdlab.forces import FORCES, Driving, Repulsion, force
from crowdlab.integrate import MOTIONS, Walking, motion
from crowdlab.params import Limits, Params, People

STRENGTH = "forces.repulsion.strength"
SPEED = "people.desired_speed"


def crowd(**changes: Any) -> Params:
    forces = {"driving": Driving(), "repulsion": Repulsion()}
    return Params(**({"forces": forces, "switches": dict.fromkeys(forces, 1.0), "motion": Walking(), "people": People()} | changes))


def test_every_declared_number_has_a_path_in_a_fixed_order() -> None:
    tree = crowd()
    paths = [path for path, _ in params.specs(tree)]
    assert paths == [
        "forces.driving.relaxation_time",
        "forces.driving.braking_distance",
        "forces.repulsion.strength",
        "forces.repulsion.falloff",
        "switches.driving",
        "switches.repulsion",
        "motion.dt",
        "motion.speed_factor",
        "motion.top_speed",
        "motion.noise",
        "people.desired_speed",
        "people.pre_movement",
        "limits.acceleration",
        "limits.separation",
        "limits.overlap",
        "limits.step_ratio",
    ]
    assert list(params.values(tree)) == paths
    turned = crowd(forces=dict(reversed(tree.forces.items())), switches=dict(reversed(tree.switches.items())))
    assert [path for path, _ in params.specs(turned)] == paths


@pytest.mark.parametrize("cls", [*FORCES.values(), *MOTIONS.values(), People, Limits], ids=lambda cls: cls.__name__)
def test_every_declaration_is_complete(cls: Callable[[], Any]) -> None:
    declared = dict(params.specs(cls()))
    assert declared
    for path, spec in declared.items():
        assert spec.unit, path
        assert len(spec.doc) > 10, path
        assert len(spec.source) > 10, path
        assert spec.least <= spec.default <= spec.most, path
        assert spec.least <= spec.low < spec.high <= spec.most, path
        assert spec.low <= spec.default <= spec.high or math.isinf(spec.default), path
        assert not spec.log or spec.low > 0, path
    params.check(cls())


@pytest.mark.parametrize("cls", [*FORCES.values(), *MOTIONS.values()], ids=lambda cls: cls.__name__)
def test_every_law_names_its_source(cls: type) -> None:
    _, found, references = (cls.__doc__ or "").partition("References:")
    assert found
    assert any(character.isdigit() for character in references), "a year"


def test_defaults_are_those_of_the_papers() -> None:
    known = params.values(
        Params(forces={name: cls() for name, cls in FORCES.items()}, switches={}, motion=Walking(), people=People())
    )
    expected = {
        "forces.driving.relaxation_time": 0.5,
        "forces.repulsion.strength": 2000.0,
        "forces.repulsion.falloff": 0.08,
        "forces.contact.compression": 1.2e5,
        "forces.contact.friction": 2.4e5,
        "forces.wall_repulsion.strength": 2000.0,
        "forces.wall_repulsion.falloff": 0.08,
        "forces.wall_contact.compression": 1.2e5,
        "forces.wall_contact.friction": 2.4e5,
        "people.desired_speed": 1.34,
        "motion.top_speed": 5.0,
    }
    assert {path: known[path] for path in expected} == expected


@pytest.mark.parametrize("path", [path for path, _ in params.specs(crowd())])
def test_replace_changes_one_leaf_only(path: str) -> None:
    before = crowd()
    after = params.replace(before, path, 0.75)
    assert params.get(after, path) == 0.75
    changed = {p for p, value in params.values(after).items() if value != params.values(before)[p]}
    assert changed == {path}
    assert params.values(before) == params.values(crowd())  # the original is untouched
    assert jax.tree.structure(after) == jax.tree.structure(before)


@pytest.mark.parametrize("action", [params.get, lambda t, p: params.replace(t, p, 1.0), lambda t, p: params.rescale(t, p, 1.0)])
def test_unknown_paths_are_refused_with_the_nearest(action: Callable[[Params, str], Any]) -> None:
    with pytest.raises(
        ParamError, match=r"unknown parameter 'forces\.repulsion\.strenght'\. Did you mean 'forces\.repulsion\.strength'\?"
    ):
        action(crowd(), "forces.repulsion.strenght")
    with pytest.raises(ParamError, match=r"unknown parameter 'quux'\. Known: forces\.driving\.braking_distance, "):
        action(crowd(), "quux")
    with pytest.raises(ParamError, match=r"unknown parameter 'forces\.repulsion'"):
        action(crowd(), "forces.repulsion")  # a branch is no parameter


def test_rescale_moves_the_mean_and_keeps_the_ratios() -> None:
    tree = params.replace(crowd(), SPEED, jnp.asarray([1.0, 1.5, 2.0, 1.5]))
    moved = params.get(params.rescale(tree, SPEED, 3.0), SPEED)
    np.testing.assert_allclose(moved, [2.0, 3.0, 4.0, 3.0], rtol=1e-6)
    everybody = params.rescale(crowd(), SPEED, 2.0)
    assert params.get(everybody, SPEED) == 2.0
    assert jnp.ndim(params.get(everybody, SPEED)) == 0


def test_rescale_from_and_to_zero() -> None:
    tree = params.replace(crowd(), SPEED, jnp.zeros(3))
    np.testing.assert_array_equal(params.get(params.rescale(tree, SPEED, 1.2), SPEED), np.full(3, 1.2, np.float32))
    tree = params.replace(crowd(), SPEED, jnp.asarray([1.0, 3.0]))
    np.testing.assert_array_equal(params.get(params.rescale(tree, SPEED, 0.0), SPEED), 0.0)  # zero means zero


@pytest.mark.parametrize(
    ("old", "mean", "new"),
    [
        ([math.inf, 1.0], 0.5, [0.5, 0.5]),
        ([math.inf, math.inf], 0.5, [0.5, 0.5]),
        ([0.5, 0.0], math.inf, [math.inf, math.inf]),
        ([0.5, 1.5], math.inf, [math.inf, math.inf]),
    ],
)
def test_what_is_or_becomes_infinite_has_no_ratios(old: list[float], mean: float, new: list[float]) -> None:
    for path in ("limits.acceleration", "motion.speed_factor"):
        tree = params.replace(crowd(), path, jnp.asarray(old))
        np.testing.assert_array_equal(params.get(params.moved(tree, path, mean), path), new)


def test_nobody_is_moved_out_of_the_bounds() -> None:
    tree = params.replace(crowd(), "limits.separation", jnp.asarray([0.2, 1.0]))
    np.testing.assert_allclose(params.get(params.moved(tree, "limits.separation", 0.3), "limits.separation"), [0.1, 0.5])
    with pytest.raises(ParamError, match=r"limits\.separation = 1\.66667: allowed 0 to 1"):
        params.moved(tree, "limits.separation", 1.0)


def test_rescale_can_be_traced_and_differentiated() -> None:
    tree = params.replace(crowd(), SPEED, jnp.asarray([1.0, 3.0]))
    slope = jax.jit(jax.jacfwd(lambda mean: params.get(params.rescale(tree, SPEED, mean), SPEED)))(2.0)
    np.testing.assert_allclose(slope, [0.5, 1.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            STRENGTH,
            -1.0,
            r"forces\.repulsion\.strength = -1 N: allowed 0 to any size \(repulsion at contact, A\)\. A usual value is 2000 N\.",
        ),
        ("forces.driving.relaxation_time", 0.0, r"relaxation_time = 0 s: allowed 0\.001 to any size .*usual value is 0\.5 s"),
        ("switches.driving", 2.0, r"switches\.driving = 2: allowed 0 to 1 "),
        (SPEED, np.array([1.0, -0.3, 1.0]), r"people\.desired_speed = -0\.3 m/s"),
        (SPEED, math.nan, r"people\.desired_speed = nan m/s"),
        ("motion.dt", -math.inf, r"motion\.dt = -inf s"),
        (STRENGTH, math.inf, r"strength = inf N: allowed 0 to any finite size"),
        (STRENGTH, 1e300, r"strength = 1e\+300 N: allowed 0 to 3\.40282e\+38 N"),
        ("motion.dt", "fast", r"motion\.dt = 'fast': allowed are numbers in s .*Give a number\."),
    ],
)
def test_values_outside_their_bounds_are_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(ParamError, match=message) as caught:
        params.check(params.replace(crowd(), path, value))
    assert isinstance(caught.value, CrowdlabError)
    assert isinstance(caught.value, ValueError)


def test_bounds_themselves_are_allowed() -> None:
    for path, spec in params.specs(crowd()):
        params.check(params.replace(crowd(), path, spec.least))
        params.check(params.replace(crowd(), path, spec.low))
        params.check(params.replace(crowd(), path, spec.high))


@pytest.mark.parametrize("path", [STRENGTH, "motion.dt", "switches.repulsion"])
def test_numbers_of_any_kind_share_one_compilation(path: str) -> None:
    traces = 0

    @jax.jit
    def read(tree: Params) -> jax.Array:
        nonlocal traces
        traces += 1
        return 2 * params.get(tree, path)

    for value in (1, 1.0, np.float64(1), np.float32(1), jnp.float32(1), True, np.int32(1)):
        assert read(params.as_arrays(params.replace(crowd(), path, value))) == 2.0
    assert traces == 1


def test_as_arrays_takes_the_default_float_type(x64: None) -> None:
    assert {leaf.dtype for leaf in jax.tree.leaves(params.as_arrays(crowd()))} == {jnp.dtype("float64")}
    with jax.enable_x64(False):
        assert {leaf.dtype for leaf in jax.tree.leaves(params.as_arrays(crowd()))} == {jnp.dtype("float32")}


def test_static_fields_are_shape_and_traced_fields_are_leaves() -> None:
    @trees.pytree
    class Law:
        weight: Any = trees.param(default=1.0, unit="1", low=0.0, high=2.0, doc="a weight", source="here")
        order: int = trees.static(default=2)

    traces = 0

    @jax.jit
    def apply(law: Law) -> jax.Array:
        nonlocal traces
        traces += 1
        return law.weight**law.order

    assert [apply(Law(weight=float(w))) for w in (1, 2, 3)] == [1, 4, 9]
    assert traces == 1
    assert apply(Law(weight=2.0, order=3)) == 8
    assert traces == 2
    assert [path for path, _ in params.specs(Law())] == ["weight"]
    with pytest.raises(AttributeError, match="cannot assign"):
        Law().weight = 3.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Law(1.0)  # type: ignore[misc]


def test_two_laws_are_never_one_tree() -> None:
    """Or JAX takes the compiled program of the one for the other: it asks whether trees are equal, and finds most unequal by their hash."""
    for listed in (FORCES, MOTIONS):
        trees = [jax.tree.structure(kind()) for kind in listed.values()]
        for number, tree in enumerate(trees):
            assert [tree == other for other in trees] == [number == place for place in range(len(trees))]


@pytest.mark.parametrize(("kind", "decorate", "listed"), [("force", force, FORCES), ("motion", motion, MOTIONS)])
def test_a_name_that_is_taken_is_refused(kind: str, decorate: Any, listed: dict[str, type]) -> None:
    name, there = next((name, cls) for name, cls in listed.items() if cls.__module__.startswith("crowdlab."))
    same = type(there.__name__, (), {"__annotations__": {}, "__module__": "elsewhere"})
    with pytest.raises(
        ParamError, match=rf"^{kind} '{name}' of elsewhere: the name is taken by crowdlab\..*\. Choose another class name"
    ):
        decorate(same)
    assert listed[name] is there
