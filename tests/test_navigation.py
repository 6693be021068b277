"""Ways to goals: on the host as fields, on the device as directions and arrivals."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from scenes import make_state

from crowdlab import navigation
from crowdlab.errors import ScenarioError
from crowdlab.geometry import Floor, covers, edges_of, lay_floor, read_area, read_place, sample_points, within
from crowdlab.navigation import choose_cell, fields, pad_goals, sound_cell
from crowdlab.navigation.sight import in_sight, nearest_points
from crowdlab.scenario import PlanWarning, Scenario, build
from crowdlab.state import State, World

desired_direction = jax.jit(lambda state, world: navigation.desired_direction(state, world).stacked)
distance_to_goal_in_sight = jax.jit(navigation.distance_to_goal_in_sight)
reached = jax.jit(navigation.reached)

ROOM = [[0, 0], [12, 0], [12, 8], [0, 8]]


def scenario(area: Any, goal: dict[str, Any], starts: Any, radius: float = 0.25, **world: Any) -> Scenario:
    """One person for each start, who may overlap: they are here to look at ways only."""
    places = np.atleast_2d(np.asarray(starts, float))
    group = {"positions": places[:1], "goal": "goal", "radius": radius, "desired_speed": 1.0}
    one = build({"world": {"area": area, **world}, "goals": {"goal": goal}, "groups": {"all": group}})
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(places), axis=-1) if leaf.ndim else leaf, one.state)
    return dataclasses.replace(one, state=many.with_(position=jnp.asarray(places.T, float)))


def floor_of(area: Any, walls: Any = (), obstacles: Any = ()) -> Floor:
    blocks = [(f"block {i}", read_area(block)) for i, block in enumerate(obstacles)]
    return lay_floor(read_area(area), blocks, [np.array(line, float) for line in walls])


def starts_in(floor: Floor, count: int, radius: float = 0.25, box: Any = None) -> np.ndarray:
    room = within(floor, floor.area if box is None else read_area(box), radius)
    return sample_points(room, count, jax.random.key(5), "starts")


def walk(situation: Scenario, seconds: float, dt: float = 0.02) -> tuple[State, np.ndarray, np.ndarray]:
    """Everybody goes where he wants at 1 m/s, with no force at all: last state, path (steps, N, 2) m, length walked (N,) m."""
    world = situation.world

    def one(carry: tuple[State, jax.Array], _: None) -> tuple[tuple[State, jax.Array], jax.Array]:
        state, length = carry
        step = dt * navigation.desired_direction(state, world).stacked
        before = state.position
        state = state.with_(position=before + step)
        hit = navigation.reached(state, before, world)
        state = state.with_(arrived=jnp.where(hit, state.step, state.arrived), step=state.step + 1)
        return (state, length + jnp.sqrt((step**2).sum(0) + 1e-30)), state.position.T

    start = (situation.state, jnp.zeros_like(situation.state.radius))
    (state, length), path = jax.jit(lambda carry: jax.lax.scan(one, carry, length=int(seconds / dt)))(start)
    return state, np.asarray(path, float), np.asarray(length, float)


def lowest_clearance(floor: Floor, path: np.ndarray, starts: np.ndarray) -> float:
    """Smallest distance to a wall on the way, of people who started at least as far off."""
    return min(float(floor.clearance(places).min()) for places in path[::7])


DOOR = {
    width: [
        [0, 0], [8, 0], [8, 4 - width / 2], [8.2, 4 - width / 2], [8.2, 1], [11, 1],
        [11, 7], [8.2, 7], [8.2, 4 + width / 2], [8, 4 + width / 2], [8, 8], [0, 8],
    ]
    for width in (0.45, 0.52, 0.6, 0.8, 1.0)
}  # fmt: skip
EXIT = {"line": [[9.2, 1], [9.2, 7]]}


@pytest.mark.parametrize("width", [0.52, 0.6, 0.8, 1.0])
def test_narrow_doors_are_found_and_passed_with_clearance(width: float) -> None:
    floor = floor_of(DOOR[width])
    starts = starts_in(floor, 60, box=[[0, 0], [8, 0], [8, 8], [0, 8]])
    state, path, _ = walk(scenario(DOOR[width], EXIT, starts), 16)
    assert (state.arrived >= 0).all()
    assert lowest_clearance(floor, path, starts) > 0.24


def test_too_narrow_a_door_is_refused_before_the_start() -> None:
    message = (
        r"goals\.goal: unreachable for radius 0\.25 m from groups\.all\.positions\[0\] at \(2, 2\) m\. "
        r"The door at \(8\.1, 4\) m is 0\.45 m wide\."
    )
    with pytest.raises(ScenarioError, match=message):
        scenario(DOOR[0.45], EXIT, [[2, 2]])
    assert scenario(DOOR[0.45], EXIT, [[2, 2]], radius=0.2).world.ways.shape[0] == 1


TRAP = [[[6, 1], [9, 1], [9, 7], [6, 7]]]  # a U of thin walls, open to the left
BEHIND = {"point": [11, 4], "reach": 0.3}


def test_out_of_a_u_trap_of_thin_walls() -> None:
    floor = floor_of(ROOM, TRAP)
    starts = np.concatenate([starts_in(floor, 100), [[8.6, 4], [8.6, 1.4], [8.6, 6.6]]])
    state, path, _ = walk(scenario(ROOM, BEHIND, starts, walls=TRAP), 30)
    assert (state.arrived >= 0).all()
    assert not floor.blocked(path[:-1:5].reshape(-1, 2)[: len(path[5::5].reshape(-1, 2))], path[5::5].reshape(-1, 2)).any()
    assert lowest_clearance(floor, path, starts) > 0.23


def test_ring_sector_of_300_degrees_is_walked_inside() -> None:
    turn = np.radians(np.linspace(0, 300, 121))
    arc = np.stack([np.cos(turn), np.sin(turn)], 1)
    ring = np.concatenate([5 * arc, 3 * arc[::-1]]).tolist()
    state, path, _ = walk(scenario(ring, {"point": (4 * arc[-5]).tolist()}, [[4.0, 0.3], [3.5, 0.5], [4.5, 0.5]]), 26)
    assert (state.arrived >= 0).all()
    assert floor_of(ring).clearance(path.reshape(-1, 2)).min() > 0.24
    assert covers(read_area(ring), path.reshape(-1, 2)).all()


def test_far_goal_in_sight_is_walked_to_straight() -> None:
    situation = scenario([[-22, -2], [22, -2], [22, 2], [-22, 2]], {"line": [[20, -2], [20, 2]]}, [[-20, 0.7], [-20, -1.4]])
    direction = desired_direction(situation.state, situation.world)
    np.testing.assert_allclose(direction, [[1, 1], [0, 0]], atol=1e-7)
    np.testing.assert_allclose(distance_to_goal_in_sight(situation.state, situation.world), 40, rtol=1e-6)


def test_sight_is_that_of_a_body_and_exact() -> None:
    """Rays agree with the distance of the line of sight to the walls, computed one by one."""
    floor = floor_of(ROOM, obstacles=[[[3, 0.9], [4, 0.9], [4, 6], [3, 6]], [[6, 3], [9, 2], [7.5, 5]]])
    points = sample_points(within(floor, floor.area, 0.01), 3000, jax.random.key(3), "points")
    walls = shapely.MultiLineString(list(floor.walls))
    block = [[5, 6.5], [6, 6.5], [6, 7.5], [5, 7.5]]
    for shape in (read_place("", point=[11, 7]), read_place("", line=[[1, 1], [1, 4]]), read_place("", polygon=block)):
        edges = edges_of(shape)
        aim = nearest_points(points, edges, 0.25)
        seen = in_sight(points, aim, edges, 0.25, floor.walls, 0.25)
        gap = shapely.distance(shapely.linestrings(np.stack([points, aim.point], 1)), walls)
        assert not seen[gap < 0.99 * 0.25 - 0.01].any()
        assert seen[gap > 0.25 + 0.07].all()  # neighbouring rays are up to a quarter of the radius apart
        assert 0.05 < seen.mean() < 0.95


@pytest.mark.parametrize("exit_", [{"line": [[12, 3], [12, 4.2]]}, {"polygon": [[11, 3], [12, 3], [12, 5], [11, 5]]}])
def test_an_exit_on_the_outline_is_walked_through(exit_: dict[str, Any]) -> None:
    starts = starts_in(floor_of(ROOM), 40)
    situation = scenario(ROOM, exit_, starts)
    state, path, _ = walk(situation, 18)
    assert (state.arrived >= 0).all()
    post = np.array([12, 3])
    assert np.hypot(*(path.reshape(-1, 2) - post).T).min() > 0.15  # the raster ends at the outline, and the field with it


def test_people_pushed_out_come_back() -> None:
    situation = scenario(ROOM, {"point": [6, 4]}, [[6, 1]])
    state = situation.state.with_(position=jnp.asarray([[-0.2], [3.0]]))
    assert desired_direction(state, situation.world)[0, 0] > 0.8
    state = state.with_(position=jnp.asarray([[6.0], [8.3]]))
    assert desired_direction(state, situation.world)[1, 0] < -0.8


@pytest.mark.parametrize("tilt", np.linspace(0.05, 1.5, 5))
def test_a_thin_wall_is_not_mixed_across(tilt: float) -> None:
    """On both sides of a long thin wall people go their own way, however it lies on the raster and even pressed against it."""
    along, across = np.array([math.cos(tilt), math.sin(tilt)]), np.array([-math.sin(tilt), math.cos(tilt)])
    wall = [(6 * side * along + 0.0137).tolist() for side in (-1, 1)]
    goal = 3.0 * across + 0.0137
    along_wall = np.linspace(-5, 5, 401)
    spots = along_wall[:, None] * along + 0.0137
    for gap in (0.1, 0.15, 0.3):
        here = np.concatenate([[[-7.5, 7.5]], spots + gap * across, spots - gap * across])
        situation = scenario([[-8, -8], [8, -8], [8, 8], [-8, 8]], {"point": goal.tolist(), "reach": 0.2}, here, walls=[wall])
        direction = np.asarray(desired_direction(situation.state, situation.world)).T[1:]
        ahead, behind = direction[:401], direction[401:]
        assert (ahead @ across > 0.2).all(), "on the goal's side people walk to the goal"
        assert (behind @ across < 0.1).all(), "nobody behind the wall is drawn into it"
        edge = np.abs(along_wall) > 1
        outward = (behind @ along * np.sign(along_wall))[edge]
        assert (outward > 0.8).all() or gap < 0.25, "behind it they walk along it to the nearer end, once they are clear of it"


@pytest.mark.parametrize("count", [1, 3])
def test_direction_is_differentiable_everywhere(count: int) -> None:
    starts = [[6, 4], [1, 1], [11, 7]][:count]
    situation = scenario(ROOM, {"point": [6, 4.0001]}, starts, walls=TRAP)

    def total(position: jax.Array) -> jax.Array:
        state = situation.state.with_(position=position)
        far = distance_to_goal_in_sight(state, situation.world)
        return desired_direction(state, situation.world).sum() + jnp.where(jnp.isfinite(far), far, 0.0).sum()

    gradient = jax.jit(jax.grad(total))
    for shift in (0.0, 1e-4, 0.05, 0.1):
        assert jnp.isfinite(gradient(situation.state.position + shift)).all()


def people(positions: Any, radius: float = 0.25) -> State:
    return make_state(positions, radius=radius, goal=0)


def bare_world(goals: list[np.ndarray], leaves: list[bool], reach: float = 0.5) -> World:
    return World(
        walls=jnp.zeros((0, 2, 2)),
        wall_vertices=jnp.zeros((0, 2)),
        wall_directions=jnp.zeros((0, 1, 2)),
        wall_part=jnp.zeros(0, int),
        goals=jnp.asarray(pad_goals(goals)),
        goal_leaves=jnp.asarray(leaves),
        goal_reach=jnp.full(len(goals), reach),
        ways=jnp.ones((len(goals), 3, 12, 12)),
        ways_cell=jnp.asarray(1.0),
        lower=(-1.0, -1.0),
        size=(11.0, 11.0),
    )


LINE = np.array([[[5.0, 2.0], [5.0, 4.0]]])
THIN = edges_of(read_place("", polygon=[[5, 2], [5.02, 2], [5.02, 4], [5, 4]]))
TRIANGLE = edges_of(read_place("", polygon=[[5, 2], [7, 2], [6, 4]]))


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ([4.9, 3], [5.1, 3], True),
        ([5.1, 3], [4.9, 3], True),
        ([4.9, 3], [5.0, 3], True),  # touches at its end
        ([5.0, 3], [5.1, 3], True),  # and at its start
        ([4.9, 2], [5.1, 2], True),  # through the end of the line
        ([4.9, 1.9], [5.1, 1.9], False),  # beside it
        ([4.8, 3], [4.9, 3], False),
        ([5, 1], [5, 1.5], False),  # in the line's own direction, short of it
        ([5, 1], [5, 1], False),  # at rest on its extension
        ([5, 1], [5, 2.5], True),  # along it, onto it
        ([3, 3], [3, 3], False),
    ],
)
def test_an_exit_line_is_crossed_or_not(before: list[float], after: list[float], counts: bool) -> None:
    world = bare_world([LINE, TRIANGLE], [True, True])
    assert bool(reached(people([after]), jnp.asarray([before], float).T, world)[0]) == counts


def test_a_thin_exit_counts_a_long_step_once() -> None:
    world = bare_world([THIN, np.concatenate([TRIANGLE, TRIANGLE])], [True, True])
    step = 0.13
    for offset in np.linspace(0, step, 27):
        hits = 0
        state = people([[4.0 + offset, 3.1]])
        for _ in range(15):
            before = state.position
            state = state.with_(position=before + jnp.asarray([[step], [0.0]]))
            hit = reached(state, before, world)
            hits += int(hit[0])
            state = state.with_(alive=state.alive & ~hit, arrived=jnp.where(hit, 1, state.arrived))
        assert hits == 1


def test_padding_changes_nothing() -> None:
    """A triangle padded to seven edges: the same distances, the same inside as the polygon."""
    world = bare_world([TRIANGLE, np.concatenate([TRIANGLE] * 2 + [LINE])], [True, True])
    assert world.goals.shape[1] == 7
    generator = np.random.default_rng(1)
    points = generator.uniform([4, 1], [8, 5], (400, 2))
    state = people(points)
    got = np.asarray(reached(state, state.position, world))
    np.testing.assert_array_equal(got, covers(read_area([[5, 2], [7, 2], [6, 4]]), points))
    target = bare_world([TRIANGLE, np.concatenate([TRIANGLE] * 2 + [LINE])], [False, False])
    far = np.asarray(distance_to_goal_in_sight(state, target))
    expected = shapely.distance(shapely.points(points), shapely.LinearRing([[5, 2], [7, 2], [6, 4]]))
    np.testing.assert_allclose(far, expected, atol=1e-5)


def test_targets_are_reached_within_their_distance() -> None:
    point = np.array([[[5.0, 3.0], [5.0, 3.0]]])
    world = bare_world([point, TRIANGLE], [False, True], reach=0.5)
    state = people([[5.4, 3.0], [5.6, 3.0], [5.0, 3.0]])
    assert reached(state, state.position, world).tolist() == [True, False, True]


def test_nobody_arrives_twice_or_without_a_goal() -> None:
    world = bare_world([LINE], [True])
    state = people([[5.1, 3]] * 4)
    before = jnp.asarray([[4.9, 3.0]] * 4).T
    state = state.with_(
        alive=jnp.asarray([True, False, True, True]), arrived=jnp.asarray([-1, -1, 7, -1]), goal=jnp.asarray([0, 0, 0, -1])
    )
    assert reached(state, before, world).tolist() == [True, False, False, False]
    direction = np.asarray(desired_direction(state, world))
    assert np.hypot(*direction).round(6).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_wide_exit_is_aimed_at_where_the_body_fits() -> None:
    world = bare_world([LINE], [True])
    state = people([[3, 3.2], [3, 5], [3, 0]], radius=0.5)
    aims = [[5, 3.2], [5, 3.5], [5, 2.5]]
    expected = np.array(aims) - np.asarray(state.position).T
    expected /= np.hypot(*expected.T)[:, None]
    np.testing.assert_allclose(np.asarray(desired_direction(state, world)).T, expected, atol=1e-6)
    stout = people([[3, 4], [3, 2]], radius=1.5)
    aim = np.array([5, 3]) - np.asarray(stout.position).T
    np.testing.assert_allclose(np.asarray(desired_direction(stout, world)).T, aim / np.hypot(*aim.T)[:, None], atol=1e-6)


def test_a_world_without_goals() -> None:
    situation = build({"world": {"area": ROOM}, "groups": {"all": {"positions": [[3, 3]]}}})
    assert (desired_direction(situation.state, situation.world) == 0).all()
    assert not reached(situation.state, situation.state.position, situation.world).any()
    assert jnp.isinf(distance_to_goal_in_sight(situation.state, situation.world)).all()


def test_the_raster_suits_the_thinnest_and_fits_the_memory() -> None:
    assert choose_cell((20, 20), 1, 0.25) == 0.1
    assert choose_cell((20, 20), 1, 0.1) == pytest.approx(0.1 / math.sqrt(2))
    for size, goals in (((2000.0, 1000.0), 1), ((40.0, 30.0), 500)):
        cell = choose_cell(size, goals, 0.25)
        assert size[0] * size[1] / cell**2 * goals <= 8.1e6


def test_a_raster_too_coarse_is_told_and_beside_thin_walls_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never is it coarser without a word than what people of that radius need; the same goes for walls and for doors."""
    group = {"area": [[0, 0], [5, 0], [5, 10], [0, 10]], "count": 4, "radius": 0.2, "goal": "out"}
    plain = {"world": {"area": [[0, 0], [10, 0], [10, 10], [0, 10]]}, "goals": {"out": {"line": [[10, 0], [10, 10]]}}}
    plain["groups"] = {"all": group}
    walled = {**plain, "world": {**plain["world"], "walls": [[[6, 3], [6, 7]]]}}
    doored = {**plain, "doors": {"gate": {"line": [[6, 3], [6, 7]], "closes": [5]}}}
    sound = sound_cell(0.2)
    assert sound == pytest.approx(0.2 / math.sqrt(2))
    for factor, told, refused in ((0.9, False, False), (1.1, True, False), (1.9, True, False), (2.1, True, True)):
        monkeypatch.setattr(fields, "NODES", 144 / (factor * sound) ** 2)
        for spec in (plain, walled, doored):
            if refused and spec is not plain:
                with pytest.raises(
                    ScenarioError, match=r"nodes 0\.297 m apart.* allowed beside walls without thickness.* 0\.283 m"
                ):
                    build(spec)
            elif told:
                with pytest.warns(PlanWarning, match=r"nodes .* farther apart than 0\.141 m.* for a radius of 0\.2 m.*1 goal,"):
                    findings = build(spec).findings
                assert findings[-1].amount == pytest.approx(factor * sound)
            else:
                assert not build(spec).findings


def test_a_batch_is_its_members() -> None:
    situation = scenario(ROOM, BEHIND, [[1, 1], [8, 4], [3, 7]], walls=TRAP)
    many = jax.vmap(lambda position: desired_direction(situation.state.with_(position=position), situation.world))
    expected = desired_direction(situation.state, situation.world)
    np.testing.assert_allclose(many(situation.state.position[None])[0], expected, atol=1e-6)


@pytest.mark.parametrize("far", [6.05, 7.0])
def test_no_way_leads_through_another_exit(far: float) -> None:
    """A lift with a door on each side: who wants in on the one side does not go out of the world on the other."""
    scenario = build(
        {
            "world": {"area": [[0, 0], [10, 0], [10, 10], [0, 10]], "obstacles": [[[6, 4], [far, 4], [far, 6], [6, 6]]]},
            "goals": {"left": {"line": [[6, 4], [6, 6]]}, "right": {"line": [[far, 4], [far, 6]]}},
            "groups": {name: {"positions": [[9, 5], [8, 4.5]], "goal": name} for name in ("left",)}
            | {"too": {"positions": [[9, 6.5]], "goal": "right"}},
        }
    )
    x, y = np.asarray(navigation.desired_direction(scenario.state, scenario.world).stacked)
    assert (abs(y[:2]) > 0.25).all(), "round the lift"
    np.testing.assert_allclose(
        [x[2], y[2]], np.array([far - 9, -0.75]) / np.hypot(far - 9, 0.75), atol=0.01
    )  # to its nearest point
