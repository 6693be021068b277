"""Forces: values by hand, the same law as JuPedSim, and laws that every registered force obeys.

All tests share one shape (8 rows, some of them dead, three walls, two goals), so that little is compiled.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jupedsim
import numpy as np
import pytest
import shapely
from scenes import make_params, make_state, make_world, real

from crowdlab import params as numbers
from crowdlab.arithmetic import Vector
from crowdlab.forces import FORCES, base
from crowdlab.neighbours import find
from crowdlab.params import Params
from crowdlab.state import State, World
from crowdlab.stepping import with_people

ROWS = 8
WALLS = [[(-5.0, 0.0), (5.0, 0.0)], [(5.0, 0.0), (5.0, 5.0)], [(-9.0, -9.0), (-8.0, -9.0)]]
GOALS = [(100.0, 2.0), (-4.0, 3.0)]
PATHS = [path for path, _ in numbers.specs(make_params(tuple(FORCES)).forces)]
STRENGTHS = {"strength", "compression", "friction"}  # at zero these switch their term off
each_force = pytest.mark.parametrize("name", sorted(FORCES))


def _terms(params: Params, state: State, world: World, seed: int = 0) -> tuple[dict[str, jax.Array], jax.Array]:
    """Every force apart and the sum of all, (2, N) m/s^2."""
    state = with_people(state, params, world)
    near, _ = find(state, world, None, jax.random.key(seed))
    return base.by_name(params, state, near, world), base.total(params, state, near, world).stacked


terms = jax.jit(_terms)


def surroundings() -> World:
    return make_world(WALLS, GOALS)


def few(position: Any, velocity: Any = (0.0, 0.0), **about: Any) -> State:
    """Some people, and dead rows on top of the first."""
    place = np.asarray(position, float)
    count = len(place)

    def padded(values: Any, width: tuple[int, ...] = ()) -> np.ndarray:
        own = np.broadcast_to(np.asarray(values), (count, *width))
        return np.concatenate((own, np.broadcast_to(own[:1], (ROWS - count, *width))))

    about = {name: padded(values) for name, values in about.items()}
    return make_state(padded(place, (2,)), padded(velocity, (2,)), alive=np.arange(ROWS) < count, **about)


def crowd() -> State:
    """Everything at once: contacts with people, a wall and a corner, unequal people, one without goal, one dead row."""
    return make_state(
        [(0.0, 0.2), (0.45, 0.3), (0.2, 0.75), (4.8, 0.15), (4.4, 0.45), (-4.0, 2.5), (-4.3, 2.2), (0.1, 0.4)],
        [(1.0, -0.5), (-0.3, 0.8), (0.2, 0.1), (0.9, 0.4), (0.0, 0.0), (0.1, 1.2), (-1.0, 0.3), (3.0, 3.0)],
        radius=[0.25, 0.3, 0.28, 0.22, 0.35, 0.25, 0.27, 0.3],
        social_radius=[0.3, 0.25, 0.28, 0.4, 0.35, 0.3, 0.2, 0.3],
        mass=[80.0, 60.0, 75.0, 90.0, 55.0, 80.0, 70.0, 80.0],
        goal=[0, 0, 1, 0, -1, 1, 1, 0],
        alive=np.arange(ROWS) < 7,
    )


def push(name: str, state: State, **values: Any) -> np.ndarray:
    """One force on everybody, (N, 2) m/s^2, with some of its parameters changed."""
    params = make_params(None, {f"forces.{name}.{key}": value for key, value in values.items()})
    return np.asarray(terms(params, state, surroundings())[0][name].T)


# Values by hand


def test_driving_by_hand(pick: Callable[..., float]) -> None:
    people = few([(1, 2), (1, 4), (-4, 2.5)], [(0.3, -0.2), (0.3, -0.2), (0.1, 0.4)], goal=[0, -1, 1])
    close = partial(np.testing.assert_allclose, rtol=pick(1e-12, 1e-5), atol=pick(1e-12, 1e-6))
    close(push("driving", people)[:3], [((1.34 - 0.3) / 0.5, 0.4), (-0.6, 0.4), (-0.2, (1.34 - 0.4) / 0.5)])
    eased = push("driving", people, braking_distance=2.0, relaxation_time=0.25)[:3]
    close(eased, [((1.34 - 0.3) / 0.25, 0.8), (-1.2, 0.8), (-0.4, (1.34 * 0.5 / 2.0 - 0.4) / 0.25)])


def test_repulsion_by_hand(pick: Callable[..., float]) -> None:
    people = few([(1, 2), (1.45, 2.6)], radius=0.1, social_radius=[0.3, 0.2], mass=[80.0, 60.0])
    force = 2000 * math.exp((0.5 - 0.75) / 0.08)
    assert force == pytest.approx(87.87, abs=0.01)
    expected = [(-0.6 * force / 80, -0.8 * force / 80), (0.6 * force / 60, 0.8 * force / 60)]
    np.testing.assert_allclose(push("repulsion", people)[:2], expected, rtol=pick(1e-12, 1e-5))
    force = 500 * math.exp(-0.25 / 0.2)
    expected = [(-0.6 * force / 80, -0.8 * force / 80), (0.6 * force / 60, 0.8 * force / 60)]
    np.testing.assert_allclose(push("repulsion", people, strength=500.0, falloff=0.2)[:2], expected, rtol=pick(1e-12, 1e-5))


def test_contact_by_hand(pick: Callable[..., float]) -> None:
    people = few([(1, 2), (1.3, 2.4)], [(0.2, 0.1), (-0.4, 0.5)], radius=[0.3, 0.25], social_radius=0.01, mass=[80.0, 60.0])
    # The first is pushed along n = (-0.6, -0.8); t = (0.8, -0.6); (v2 - v1) . t = -0.48 - 0.24 = -0.72 m/s.
    compression, friction = 1.2e5 * 0.05, 2.4e5 * 0.05 * -0.72
    force = compression * np.array([-0.6, -0.8]) + friction * np.array([0.8, -0.6])
    np.testing.assert_allclose(push("contact", people)[:2], [force / 80, -force / 60], rtol=pick(1e-12, 1e-5))


def test_walls_by_hand(pick: Callable[..., float]) -> None:
    place = [(0, 0.4), (-3, 0.2), (4.8, 0.15), (-5.3, -0.4)]
    people = few(
        place, [(0, 0), (1, -0.5), (0.3, 0.4), (0, 0)], radius=0.25, social_radius=[0.3, 0.25, 0.2, 0.3], mass=[80, 60, 80, 50]
    )
    close = partial(np.testing.assert_allclose, rtol=pick(1e-12, 1e-5), atol=pick(1e-12, 1e-6))

    def force(gap: float) -> float:
        return 2000 * math.exp(-gap / 0.08)

    end = force(0.5 - 0.3)  # beyond the end of a wall its end point pushes, along (-0.6, -0.8)
    expected = [(0, force(0.1) / 80), (0, force(-0.05) / 60), (-force(0.0) / 80, force(-0.05) / 80)]
    close(push("wall_repulsion", people)[:4], [*expected, (-0.6 * end / 50, -0.8 * end / 50)])
    k, kappa = 1.2e5, 2.4e5
    corner = ((-k * 0.05 - kappa * 0.1 * 0.3) / 80, (k * 0.1 - kappa * 0.05 * 0.4) / 80)
    expected = [(0, 0), (-kappa * 0.05 * 1 / 60, k * 0.05 / 60), corner, (0, 0)]
    close(push("wall_contact", people)[:4], expected)


def test_touching_is_no_jump(pick: Callable[..., float]) -> None:
    # At d = r_ij and d_W = r_i the force is A n, with nothing from compression.
    people = few([(1, 2), (1.5, 2), (-3, 0.25)], [(0.5, 0.5), (-1, 2), (1, 0)])
    separate, total = jax.device_get(terms(make_params(), people, surroundings()))
    assert not separate["contact"][:, :3].any()
    assert not separate["wall_contact"][:, :3].any()
    social = (separate["repulsion"] + separate["wall_repulsion"]).T[:3]
    np.testing.assert_allclose(social, [(-25, 0), (25, 0), (0, 25)], rtol=pick(1e-12, 1e-5))
    if total.dtype == np.float64:
        nudge = 1e-9
        nearer = few([(1, 2), (1.5 - nudge, 2), (-3, 0.25 - nudge)], [(0.5, 0.5), (-1, 2), (1, 0)])
        jump = terms(make_params(), nearer, surroundings())[1] - total
        slope = (2000 / 0.08 + 1.2e5 + 2.4e5 * 2) / 80
        assert np.abs(jump[:, :3]).max() <= 2 * slope * nudge


@pytest.mark.parametrize("shares", [(0.1, 0.2, 0.3, 0.49), (0.5, 0.51, 0.7, 1.0), (1.2, 1.6, 2.0, 3.0)])
def test_head_on_pairs_repel_along_the_line(shares: tuple[float, ...]) -> None:
    x = np.repeat(-20.0 * np.arange(1, 5), 2)
    x[1::2] += shares
    people = few(np.stack((x, np.full(ROWS, 10.0)), 1), np.stack((np.tile([1.3, -1.3], 4), np.zeros(ROWS)), 1))
    separate = jax.device_get(terms(make_params(), people, surroundings())[0])
    both = separate["repulsion"] + separate["contact"]
    assert not both[1].any()
    for distance, (left, right) in zip(shares, both[0].reshape(4, 2), strict=True):
        assert left == -right
        assert right > 0 if distance < 1.65 else right == 0  # nothing below 1e-3 N


# Friction


def test_friction_takes_energy(pick: Callable[..., float]) -> None:
    # For pairs and for walls: whatever the velocities, friction does no positive work.
    rng = np.random.default_rng(1)
    for _ in range(20):
        state = crowd().with_(velocity=real(rng.normal(0, 2, (2, ROWS))))
        power = {
            name: state.mass * (state.velocity * push(name, state, compression=0.0).T).sum(0) * state.alive
            for name in ("contact", "wall_contact")
        }
        assert power["contact"].sum() < 0
        assert (power["wall_contact"] <= 0).all()
        assert power["wall_contact"].sum() < 0


# Parameters


def test_per_agent_parameters_equal_common_ones(x64: None) -> None:
    params, state, world = make_params(), crowd(), surroundings()

    def per_agent(params: Params, other: Params) -> Params:
        """Even rows from the one, odd rows from the other; switches stay common."""
        even = np.arange(ROWS) % 2 == 0
        mixed = jax.tree.map(lambda a, b: jnp.where(even, a, b), params, other)
        return dataclasses.replace(mixed, switches=params.switches)

    changes = {path: value * 1.3 + 0.1 for path, value in numbers.values(params).items() if path.startswith(("forces", "people"))}
    other = make_params(None, changes)
    mine, theirs = (jax.device_get(terms(p, state, world)) for p in (params, other))
    mixed = jax.device_get(terms(per_agent(params, other), state, world))
    for one, two, both in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), jax.tree.leaves(mixed), strict=True):
        np.testing.assert_allclose(both[:, 0::2], one[:, 0::2], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(both[:, 1::2], two[:, 1::2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
def test_parameter_changes_only_its_own_term(path: str) -> None:
    owner, _ = path.split(".")
    names = tuple(FORCES)
    before = make_params(names)
    path = f"forces.{path}"
    after = make_params(names, {path: numbers.get(before, path) * 1.5 + 0.6})
    old, new = (terms(params, crowd(), surroundings())[0] for params in (before, after))
    assert {name for name in names if (old[name] != new[name]).any()} == {owner}


def test_terms_of_a_contact_add_up(x64: None) -> None:
    for name in ("contact", "wall_contact"):
        squeeze, rub = push(name, crowd(), friction=0.0), push(name, crowd(), compression=0.0)
        np.testing.assert_allclose(push(name, crowd()), squeeze + rub, rtol=1e-12, atol=1e-12)
        assert squeeze.any()
        assert rub.any()


# An independent program


def test_one_step_of_jupedsim(x64: None) -> None:
    # A free walker, two touching people who rub, two apart, and one near a wall without touching it.
    dt, names = 0.01, ["free", "rubbing", "rubbing", "apart", "apart", "wall", "sliding"]
    place = [(-5, -5), (0, 0), (0.55, 0.1), (5, 5), (5.5, 5.6), (9.6, -5), (9.75, 0)]
    velocity = [(0.3, 0), (1, 0.3), (-0.5, 0.6), (0.2, 0.1), (0, -1), (0.1, 1), (0, 1)]
    radius, mass = [0.25, 0.3, 0.28, 0.3, 0.2, 0.3, 0.3], [70.0, 80.0, 60.0, 80.0, 50.0, 80.0, 80.0]
    theirs = jupedsim.Simulation(model=jupedsim.SocialForceModel(), geometry=shapely.box(-10, -10, 10, 10), dt=dt)
    stage = theirs.add_direct_steering_stage()
    journey = theirs.add_journey(jupedsim.JourneyDescription([stage]))
    agents = [
        theirs.add_agent(
            jupedsim.SocialForceModelAgentParameters(
                position=p, velocity=v, mass=m, radius=r, desired_speed=1.2, journey_id=journey, stage_id=stage
            )
        )
        for p, v, m, r in zip(place, velocity, mass, radius, strict=True)
    ]
    for agent in agents:
        theirs.agent(agent).target = (1.0, 9.0)
    theirs.iterate()
    their_change = np.array([theirs.agent(agent).model.velocity for agent in agents]) - velocity
    near_sides = [[(-10, -10), (10, -10)], [(10, -10), (10, 10)], [(-9, 15), (-8, 15)]]  # as many walls as elsewhere
    state = few(place, velocity, mass=mass, radius=radius, goal=0)
    params = make_params(None, {"people.desired_speed": 1.2})
    separate, total = jax.device_get(terms(params, state, make_world(near_sides, [(1.0, 9.0), (0.0, 0.0)])))
    agree = np.array([name != "sliding" for name in names])
    np.testing.assert_allclose(dt * total.T[:7][agree], their_change[agree], rtol=1e-9, atol=1e-12)
    # JuPedSim 1.4.2 adds wall friction with the opposite sign, so that it speeds up whoever slides along a wall; ours brakes.
    friction = separate["wall_contact"][1, 6]
    assert friction == pytest.approx(-2.4e5 * 0.05 / 80)
    assert their_change[6, 1] - dt * total[1, 6] == pytest.approx(-2 * dt * friction, rel=1e-9)


# Laws of every force


@each_force
def test_shape_and_type(pick: Callable[..., float], name: str) -> None:
    value = terms(make_params(tuple(FORCES)), crowd(), surroundings())[0][name]
    assert value.shape == (2, ROWS)
    assert value.dtype == (jnp.float64 if pick(1, 0) else jnp.float32)
    assert value.any(), "the crowd does not excite this force"


@each_force
def test_zero_strength_is_no_force(name: str) -> None:
    strengths = [field.name for field in dataclasses.fields(FORCES[name]) if field.name in STRENGTHS]
    changes = {f"forces.{name}.{field}": 0.0 for field in strengths} or {f"switches.{name}": 0.0}
    separate, total = terms(make_params(tuple(FORCES), changes), crowd(), surroundings())
    rest = sum(value for other, value in separate.items() if other != name)
    np.testing.assert_allclose(total, jnp.where(crowd().alive, rest, 0.0), rtol=1e-5, atol=1e-4)
    assert not strengths or not separate[name].any()


@each_force
def test_dead_rows_feel_and_exert_nothing(name: str) -> None:
    names = tuple(FORCES)
    alone = make_params(names, {f"switches.{other}": float(other == name) for other in names})
    here, elsewhere = crowd(), crowd()
    elsewhere = elsewhere.with_(
        position=elsewhere.position.at[:, 7].set(jnp.array([-4.1, 2.4])), velocity=elsewhere.velocity.at[:, 7].set(0.0)
    )
    one, other = (np.asarray(terms(alone, state, surroundings())[1]) for state in (here, elsewhere))
    assert (one == other).all()
    assert not one[:, 7].any()
    dead = terms(alone, here.with_(alive=jnp.zeros(ROWS, bool)), surroundings())[1]
    assert not dead.any()


def hard() -> State:
    """Two on one point, two at rest side by side, one on a wall, one on the end of a wall, one in a corner, one on the goal."""
    place = [(1.0, 1.0), (1.0, 1.0), (2.0, 2.0), (2.5, 2.0), (0.0, 0.0), (-5.0, 0.0), (5.0, 0.0), (-4.0, 3.0)]
    moving = [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.5, 0.0), (0.0, 0.0), (0.0, 0.0)]
    return make_state(place, moving, goal=[0, 0, 1, -1, 0, 1, 0, 1])


@jax.jit
def gradients(params: Params, state: State, world: World) -> dict[str, Any]:
    """Of each force's weighted sum, by its parameters and by all that is continuous in the state."""
    weights = jnp.cos(jnp.arange(2.0 * ROWS)).reshape(2, ROWS)

    def felt(force: Any, own: dict[str, jax.Array]) -> jax.Array:
        moved = state.with_(**own)
        near, _ = find(moved, world, None, jax.random.key(0))
        return (weights * Vector.of(force(moved, near, world)).stacked).sum()

    state = with_people(state, params, world)
    own = {f: getattr(state, f) for f in ("position", "velocity", "radius", "social_radius", "mass", "desired_speed", "heading")}
    return {name: jax.value_and_grad(felt, argnums=(0, 1))(force, own) for name, force in params.forces.items()}


@each_force
@pytest.mark.parametrize("braking", [0.0, 1.0])
def test_hard_places_are_finite(name: str, braking: float) -> None:
    params = make_params(tuple(FORCES), {"forces.driving.braking_distance": braking})
    for leaf in jax.tree.leaves(gradients(params, hard(), surroundings())[name]):
        assert np.isfinite(leaf).all()


def test_compiled_equals_plain() -> None:
    params, state, world = make_params(tuple(FORCES)), crowd(), surroundings()
    state = with_people(state, params, world)
    near = jax.jit(lambda: find(state, world, None, jax.random.key(0))[0])()
    compiled, plain = terms(params, state, world)[0], base.by_name(params, state, near, world)
    for name in FORCES:
        np.testing.assert_allclose(compiled[name], plain[name], rtol=1e-5, atol=1e-4)


def test_every_parameter_vmaps_over_its_range() -> None:
    """Each row of the batch has one parameter at the low end, the middle or the high end of its slider."""
    params, state, world = make_params(tuple(FORCES)), crowd(), surroundings()
    rows = [
        numbers.replace(params, path, real(value))
        for path, spec in numbers.specs(params)
        if path.startswith("forces")
        for value in (spec.low, (spec.low + spec.high) / 2, spec.high)
    ]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    _, together = jax.jit(jax.vmap(_terms, in_axes=(0, None, None)))(batch, state, world)
    assert np.isfinite(together).all()
    for row, value in zip(rows, together, strict=True):
        one = terms(row, state, world)[1]
        np.testing.assert_allclose(value, one, rtol=1e-5, atol=1e-5 * float(jnp.abs(one).max()))


@pytest.mark.bits
def test_one_number_for_all_gives_the_bits_of_one_for_each() -> None:
    """XLA would divide by a scalar otherwise than by an array; the same run beside others has the array."""
    place = np.random.default_rng(4).uniform((-3.0, 0.1), (4.9, 4.0), (64, 2))
    odd = {
        "driving.relaxation_time": 0.37,
        "driving.braking_distance": 0.7,
        "repulsion.falloff": 0.083,
        "wall_repulsion.falloff": 0.071,
    }
    params = make_params(None, {f"forces.{path}": value for path, value in odd.items()})
    own = dataclasses.replace(params, forces=jax.tree.map(lambda leaf: jnp.full(64, leaf), params.forces))
    state, world = make_state(place, (0.3, -0.7), goal=np.arange(64) % 2), surroundings()
    for one, other in zip(*(jax.tree.leaves(terms(given, state, world)) for given in (params, own)), strict=True):
        np.testing.assert_array_equal(one, other)
