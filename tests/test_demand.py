"""Who is there at the start: what is drawn, what is placed, what is refused."""

import contextlib
import math
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from crowdlab.demand import Body, Distribution, draw
from crowdlab.demand.groups import shared_out
from crowdlab.demand.ticks import first_look, next_look, tick, to_frame
from crowdlab.errors import ParamError, ScenarioError
from crowdlab.geometry import at
from crowdlab.params import People, spec_of
from crowdlab.scenario import PlanWarning, Scenario, build, variant
from crowdlab.simulation import simulate

SPEED = spec_of(People(), "desired_speed")
RADIUS = spec_of(Body(), "radius")
KEY = jax.random.key(3)
ROOM = [[0, 0], [10, 0], [10, 10], [0, 10]]
DOOR = {"line": [[9, 2], [9, 8]]}


def crowd(seed: int = 1, **groups: dict[str, Any]) -> Scenario:
    return build({"seed": seed, "world": {"area": ROOM}, "goals": {"door": DOOR}, "groups": groups})


def test_a_number_is_everybodys() -> None:
    np.testing.assert_array_equal(draw(1.3, 4, KEY, "speed", SPEED), [1.3] * 4)
    assert draw(1.3, 0, KEY, "speed", SPEED).shape == (0,)


def test_a_list_is_one_for_each() -> None:
    np.testing.assert_array_equal(draw([1.0, 0.0, 2.0], 3, KEY, "speed", SPEED), [1, 0, 2])
    with pytest.raises(ScenarioError, match="speed: has 2 values for 3 people"):
        draw([1.0, 2.0], 3, KEY, "speed", SPEED)


def test_uniform_draws_fill_their_range() -> None:
    values = draw(Distribution(uniform=(1.1, 1.6)), 20_000, KEY, "speed", SPEED)
    assert 1.1 < values.min() < 1.1002
    assert 1.5998 < values.max() < 1.6
    assert abs(values.mean() - 1.35) < 4 * 0.5 / math.sqrt(12 * 20_000)


def test_a_cut_normal_distribution_is_drawn_from_what_is_left() -> None:
    """Nobody is piled up at the cuts, and mean and deviation are those of the truncated distribution."""
    values = draw(Distribution(normal=(1.34, 0.26), least=1.2, most=1.4), 20_000, KEY, "speed", SPEED)
    assert values.min() > 1.2
    assert values.max() < 1.4
    assert len(np.unique(values)) > 19_900
    low, high = (1.2 - 1.34) / 0.26, (1.4 - 1.34) / 0.26
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high)]
    share = 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
    mean = 1.34 + 0.26 * (density[0] - density[1]) / share
    assert abs(values.mean() - mean) < 4 * 0.06 / math.sqrt(20_000)


def test_a_normal_distribution_respects_the_law_of_its_quantity() -> None:
    values = draw(Distribution(normal=(0.1, 1.0), least=0.0), 5000, KEY, "speed", SPEED)
    assert values.min() > 0
    assert abs(draw(Distribution(normal=(1.34, 0.26)), 20_000, KEY, "speed", SPEED).std() - 0.26) < 0.006


@pytest.mark.parametrize(
    ("quantity", "error", "message"),
    [
        (-1.0, ParamError, r"speed = -1 m/s: allowed 0 to any size"),
        (math.nan, ParamError, r"speed = nan m/s"),
        ([1.0, -2.0], ParamError, r"speed = -2 m/s"),
        (Distribution(), ScenarioError, "give exactly one of uniform"),
        (Distribution(uniform=(1, 2), normal=(1, 2)), ScenarioError, "give exactly one of uniform"),
        (
            Distribution(uniform=(2, 1)),
            ScenarioError,
            r"speed\.uniform = \[2, 1\]: allowed are two finite numbers, the smaller one first",
        ),
        (Distribution(uniform=(-1, 1)), ParamError, r"speed = -0\.\d+ m/s"),
        (Distribution(uniform=(1, 2), least=1.5), ScenarioError, "least and most cut the other laws"),
        (Distribution(normal=(1, 0)), ScenarioError, r"speed\.normal = \[1, 0\]: allowed are a mean and a deviation above zero"),
        (
            Distribution(normal=(1, 0.1), least=3, most=4),
            ScenarioError,
            "nothing of the normal distribution lies between least = 3",
        ),
        (Distribution(normal=(1, 0.1), least=2, most=1), ScenarioError, "nothing of the normal"),
    ],
)
def test_impossible_quantities_are_refused(quantity: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        draw(quantity, 2, KEY, "speed", SPEED)


def test_zero_is_zero() -> None:
    state = crowd(all={"positions": [[3, 3]], "desired_speed": 0, "social_radius": 0}).state
    assert state.desired_speed.tolist() == [0]
    assert state.social_radius.tolist() == [0]


def test_a_state_holds_everybody_in_the_order_of_the_groups() -> None:
    situation = crowd(
        left={
            "count": 3,
            "area": [[0, 0], [4, 0], [4, 10], [0, 10]],
            "goal": "door",
            "radius": {"uniform": [0.2, 0.3]},
            "mass": 60,
        },
        fixed={"positions": [[6, 3], [6, 7]], "radius": [0.3, 0.4], "social_radius": 0.5, "desired_speed": 1.5},
    )
    state = situation.state
    assert situation.groups == ("left", "fixed")
    assert state.id.tolist() == [0, 1, 2, 3, 4]
    assert state.group.tolist() == [0, 0, 0, 1, 1]
    assert state.goal.tolist() == [0, 0, 0, -1, -1]
    assert state.arrived.tolist() == [-1] * 5
    assert bool(state.alive.all())
    assert int(state.step) == 0
    assert (state.velocity == 0).all()
    np.testing.assert_allclose(state.position[:, 3:], [[6, 6], [3, 7]])
    np.testing.assert_allclose(state.mass, [60, 60, 60, 80, 80])
    np.testing.assert_allclose(state.radius[3:], [0.3, 0.4])
    np.testing.assert_array_equal(state.social_radius[:3], state.radius[:3])
    np.testing.assert_allclose(state.social_radius[3:], 0.5)
    np.testing.assert_allclose(np.hypot(*np.asarray(state.heading)), 1, rtol=1e-6)
    assert (state.heading[0, :3] > 0.5).all()
    np.testing.assert_allclose(situation.params.people.desired_speed, state.desired_speed)


def test_one_value_for_all_is_one_leaf() -> None:
    same = crowd(all={"count": 5, "area": ROOM, "relaxation_time": 0.7}).params
    assert same.people.desired_speed.shape == ()
    assert same.forces["driving"].relaxation_time == pytest.approx(0.7)
    mixed = crowd(
        slow={"count": 2, "area": ROOM, "relaxation_time": {"uniform": [0.6, 0.9]}},
        usual={"count": 2, "area": ROOM, "desired_speed": 1},
    ).params
    np.testing.assert_allclose(mixed.forces["driving"].relaxation_time[2:], 0.5)
    assert mixed.people.desired_speed.shape == (4,)


def test_the_seed_decides_and_nothing_else() -> None:
    group = {
        "count": 20,
        "area": ROOM,
        "radius": {"uniform": [0.2, 0.3]},
        "desired_speed": {"normal": [1.34, 0.26]},
        "goal_area": ROOM,
    }
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - it must be left as it was
    one, again, other = crowd(1, all=group), crowd(1, all=group), crowd(2, all=group)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    for name in ("position", "radius", "desired_speed"):
        np.testing.assert_array_equal(getattr(one.state, name), getattr(again.state, name))
        assert not np.array_equal(getattr(one.state, name), getattr(other.state, name))
    np.testing.assert_array_equal(one.world.goals, again.world.goals)


def test_people_do_not_depend_on_later_groups_or_on_how_many_there_are() -> None:
    group = {"count": 20, "area": ROOM, "radius": {"uniform": [0.2, 0.3]}}
    alone, more = crowd(all=group), crowd(all=group | {"count": 25}, late={"count": 3, "area": ROOM})
    np.testing.assert_array_equal(alone.state.radius, more.state.radius[:20])


def test_single_and_double_precision_start_alike(x64: None) -> None:
    group = {"count": 10, "area": ROOM, "radius": {"uniform": [0.2, 0.3]}, "goal_area": ROOM}
    double = crowd(all=group)
    with jax.enable_x64(False):
        single = crowd(all=group)
    assert double.state.position.dtype == np.float64
    np.testing.assert_allclose(single.state.position, double.state.position, rtol=1e-6)
    np.testing.assert_allclose(single.state.radius, double.state.radius, rtol=1e-6)
    np.testing.assert_allclose(single.world.goals, double.world.goals, rtol=1e-6)


def test_own_goals_are_random_points_that_stand() -> None:
    situation = crowd(all={"count": 30, "area": ROOM, "goal_area": [[0, 0], [2, 0], [2, 10], [0, 10]], "radius": 0.3})
    points = np.asarray(situation.world.goals)[1:, 0, 0]
    assert situation.goals[:2] == ("door", "all.0")
    assert situation.state.goal.tolist() == list(range(1, 31))
    assert not situation.world.goal_leaves[1:].any()
    assert (points[:, 0] >= 0.29).all()
    assert (points[:, 0] <= 2).all()
    assert len(np.unique(points, axis=0)) == 30


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"count": 3}, r"groups\.all: give either area or gaussian \(and count or density\) or positions"),
        ({"count": 1, "area": ROOM, "positions": [[3, 3]]}, "give either area"),
        ({"area": ROOM}, r"groups\.all: key 'count' is missing"),
        ({"count": 2, "positions": [[3, 3]]}, r"groups\.all\.count = 2: there are 1 positions"),
        ({"count": 3, "area": [[20, 0], [30, 0], [30, 10]]}, r"groups\.all\.area: lies outside the walkable area"),
        ({"count": 300, "area": [[0, 0], [3, 0], [3, 3], [0, 3]]}, r"groups\.all\.area: holds about \d+ people .*, count = 300"),
        ({"count": 1, "area": ROOM, "goal": "dor"}, r"groups\.all\.goal = 'dor': there is no such goal\. Did you mean 'door'\?"),
        ({"count": 1, "area": ROOM, "goal": "door", "goal_area": ROOM}, "has both goal and goal_area"),
        (
            {"count": 1, "area": ROOM, "goal_area": [[20, 0], [30, 0], [30, 10]]},
            r"groups\.all\.goal_area: lies outside the walkable",
        ),
        ({"positions": [[3, 3], [3.499, 3]]}, r"groups\.all\.positions\[0\] and groups\.all\.positions\[1\]: overlap by 0\.001 m"),
        ({"positions": [[3, 3], [9.8, 3]]}, r"groups\.all\.positions\[1\] at .*: its centre is 0\.2 m from a wall"),
        ({"positions": [[3, 3], [11, 3]]}, r"groups\.all\.positions\[1\] at .*: stands outside the walkable area, 1 m from it"),
        ({"positions": [[3, 3], [3, math.nan]]}, r"groups\.all\.positions\[1\] = \[3\.0, nan\]"),
    ],
)
def test_impossible_groups_are_refused_before_the_start(group: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        crowd(all=group)


def test_groups_keep_off_each_other() -> None:
    situation = crowd(
        one={"count": 60, "area": ROOM, "radius": 0.3},
        two={"positions": [[5, 5]], "radius": 0.4},
        three={"count": 60, "area": ROOM, "radius": 0.2},
    )
    places, radii = np.asarray(situation.state.position).T, np.asarray(situation.state.radius)
    apart = np.hypot(*(places[:, None] - places).T) - radii[:, None] - radii
    assert apart[np.triu_indices(121, 1)].min() > 0
    with pytest.raises(ScenarioError, match=r"groups\.two\.positions\[0\] and groups\.one\.positions\[0\]: overlap"):
        crowd(one={"positions": [[5, 5]]}, two={"positions": [[5.1, 5]]})


@pytest.mark.parametrize("origin", [(0, 0), (500_000, 5_600_000)])
@pytest.mark.parametrize(
    ("line", "walls", "spot", "message"),
    [
        ([[10, 4], [10, 4.1]], [], (0, 0), "exit: It is 0.1 m wide, and a body needs 0.5 m. Widen it"),
        ([[10, 4], [10, 4.499]], [], (0, 0), "exit: It is 0.499 m wide, and a body needs 0.5 m. Widen it"),
        (
            [[10, 4], [10, 6]],
            [[[9.8, 3], [9.8, 7]]],
            (9.8, 5),
            "exit: A wall stands 0.2 m before it, at AT, and a body needs 0.5 m. Move",
        ),
        ([[9.5, 4], [9.5, 6]], [[[9.6, 4], [9.6, 6]]], (9.6, 4), "exit: It lies nearer to a wall than the radius, at AT: move it"),
        (
            None,
            [[[5, 9.8], [3, 9.8]]],
            (3, 9.8),
            "q.queue[2]: It lies 0.1 m from a wall, at AT, and a body needs 0.25 m. Move it 0.15 m",
        ),
    ],
)
def test_a_goal_without_room_says_what_is_in_its_way(
    line: Any, walls: Any, spot: Any, message: str, origin: tuple[float, float]
) -> None:
    def moved(points: Any) -> Any:
        return (np.asarray(points, float) + origin).tolist()

    goals: dict[str, Any] = {"exit": {"line": moved(line or [[10, 4], [10, 6]])}}
    goals |= {} if line else {"q": {"queue": moved([[3, 7.7], [3, 8.7], [3, 9.7]])}}
    spec = {
        "world": {"area": moved(ROOM), "walls": [moved(wall) for wall in walls]},
        "goals": goals,
        "journeys": {"way": {"stages": [*goals][::-1]}},
        "groups": {"all": {"positions": moved([[5, 5]]), "journey": "way", "radius": 0.25}},
    }
    with pytest.raises(ScenarioError) as caught:
        build(spec)
    item, reason = message.replace("AT", at(spot, origin)).split(": ", 1)
    assert str(caught.value).startswith(f"goals.{item}: unreachable for radius 0.25 m")
    assert reason in str(caught.value)


def test_a_closed_room_is_found_before_the_start() -> None:
    wall = [[6, 0], [6, 10]]
    spec = {
        "world": {"area": ROOM, "walls": [wall]},
        "goals": {"door": DOOR, "chair": {"point": [8, 8]}},
        "groups": {"all": {"count": 4, "area": [[0, 0], [6, 0], [6, 10], [0, 10]], "goal": "door"}},
    }
    with pytest.raises(
        ScenarioError, match=r"goals\.door: unreachable for radius 0\.25 m from groups\.all\.person\[0\] .* and 3 more"
    ):
        build(spec)
    spec["goals"]["door"] = {"line": [[5.9, 2], [5.9, 8]]}
    with pytest.raises(ScenarioError, match=r"goals\.door: unreachable .* It lies nearer to a wall than the radius"):
        build(spec)
    spec["groups"]["all"]["goal"] = "chair"
    with pytest.raises(ScenarioError, match=r"goals\.chair: unreachable"):
        build(spec)
    spec["groups"]["all"] |= {"goal": None, "goal_area": [[7, 0], [10, 0], [10, 10], [7, 10]]}
    del spec["groups"]["all"]["goal"]
    with pytest.raises(ScenarioError, match=r"groups\.all\.goal_area: unreachable"):
        build(spec)


def test_nobody() -> None:
    assert crowd().state.position.shape == (2, 0)
    assert crowd(all={"count": 0, "area": ROOM, "goal": "door"}).state.position.shape == (2, 0)
    assert crowd(all={"positions": [], "goal_area": ROOM}).state.position.shape == (2, 0)


LAWS = {  # the second test of NIST TN 1822 (2013) draws pre-evacuation times, s, from these
    "uniform": ((10.0, 100.0), stats.uniform(10, 90)),
    "normal": ((60.0, 10.0), stats.norm(60, 10)),
    "lognormal": ((4.586, 0.967), stats.lognorm(0.967, scale=math.exp(4.586))),
    "gamma": ((1.291, 103.901), stats.gamma(1.291, scale=103.901)),
    "weibull": ((1.195, 139.285), stats.weibull_min(1.195, scale=139.285)),
}
WAIT = spec_of(People(), "pre_movement")


@pytest.mark.parametrize("name", LAWS)
def test_times_follow_the_law_they_are_drawn_from_whole_and_cut(name: str) -> None:
    numbers, law = LAWS[name]
    assert stats.kstest(draw(Distribution(**{name: numbers}), 5000, KEY, "wait", WAIT), law.cdf).pvalue > 0.05
    if name == "uniform":
        return
    cut = draw(Distribution(**{name: numbers}, least=40.0, most=90.0), 5000, KEY, "wait", WAIT)
    low, high = law.cdf(40.0), law.cdf(90.0)
    assert stats.kstest(cut, lambda x: (law.cdf(x) - low) / (high - low)).pvalue > 0.05
    assert (cut.min(), cut.max()) == pytest.approx((40, 90), abs=1.0)


@pytest.mark.parametrize("name", [*(name for name in LAWS if name != "uniform"), "exponential"])
@pytest.mark.parametrize("side", ["least", "most"])
@pytest.mark.parametrize("share", [0.5e-3, 2e-3, 0.5])
def test_no_law_is_cut_without_a_word(name: str, side: str, share: float) -> None:
    """Where more than a thousandth of it lies beyond what the quantity may be, the cut must be asked for."""
    numbers, law = {**LAWS, "exponential": (30.0, stats.expon(scale=30.0))}[name]
    bound = float(law.ppf(share if side == "least" else 1 - share))
    narrow = WAIT._replace(**{"least": -math.inf, side: bound})
    if share < 1e-3:
        draw(Distribution(**{name: numbers}), 2, KEY, "wait", narrow)
        return
    with pytest.raises(ScenarioError, match=rf"wait\.{name} = .*: {100 * share:.3g} % of this law .*Give {side} = "):
        draw(Distribution(**{name: numbers}), 2, KEY, "wait", narrow)
    draw(Distribution(**{name: numbers}, **{side: bound}), 2, KEY, "wait", narrow)


@pytest.mark.parametrize("numbers", [(0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.inf)])
@pytest.mark.parametrize("name", ["gamma", "weibull"])
def test_laws_without_a_shape_or_scale_are_refused(name: str, numbers: tuple[float, float]) -> None:
    with pytest.raises(ScenarioError, match=rf"^wait\.{name} = \[.*\]: allowed are a shape above zero and a scale above zero\.$"):
        draw(Distribution(**{name: numbers}), 2, KEY, "wait", WAIT)


def test_a_group_is_made_up_of_profiles_as_near_to_the_shares_as_whole_people_allow() -> None:
    scenario = build(
        {
            "world": {"area": ROOM},
            "profiles": {"child": {"radius": 0.15, "desired_speed": 0.9, "mass": 30}},
            "groups": {
                "all": {"count": 40, "area": ROOM, "mass": 75, "profiles": {"child": 0.3, "impaired": 0.2, "from_30_to_50": 0.5}}
            },
        }
    )
    speed, radius, mass = (
        np.asarray(value) for value in (scenario.state.desired_speed, scenario.state.radius, scenario.state.mass)
    )
    child = radius == np.float32(0.15)
    assert child.sum() == 12
    assert (speed[child] == np.float32(0.9)).all()
    assert (mass == np.where(child, 30, 75)).all()
    np.testing.assert_array_equal(np.asarray(scenario.state.social_radius)[child], radius[child])
    assert ((speed > 0.46) & (speed < 0.76)).sum() == 8
    assert ((speed > 1.41) & (speed < 1.54)).sum() == 20
    assert 0 < child[:12].sum() < 12  # in random order


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e308])
def test_shares_are_shares_whatever_their_scale(scale: float) -> None:
    kinds = shared_out({"child": scale, "impaired": scale, "over_50": 0.0}, 9, KEY, "groups.all.profiles")
    np.testing.assert_array_equal(kinds, shared_out({"child": 1.0, "impaired": 1.0, "over_50": 0.0}, 9, KEY, "groups.all.profiles"))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"childish": 1.0}, r"groups\.all\.profiles: there is no profile 'childish'\. Did you mean 'child'\?"),
        ({"child": -0.1}, r"groups\.all\.profiles\.child = -0\.1: allowed are shares of 0 and more"),
        ({"child": 0.0}, r"groups\.all\.profiles = \{'child': 0\.0\}: allowed are shares of 0 and more, not all 0"),
    ],
)
def test_shares_that_make_no_sense_are_refused(shares: dict[str, float], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        build(
            {
                "world": {"area": ROOM},
                "profiles": {"child": {"radius": 0.15}},
                "groups": {"all": {"count": 4, "area": ROOM, "profiles": shares}},
            }
        )


def test_a_density_gives_the_count_by_the_walkable_area() -> None:
    world = {"area": ROOM, "obstacles": [[[0, 0], [5, 0], [5, 10], [0, 10]]]}
    scenario = build({"world": world, "groups": {"all": {"density": 1.5, "area": ROOM}}})
    assert scenario.state.id.size == 75
    assert variant(scenario, people=10).state.id.size == 10
    with pytest.raises(ScenarioError, match=r"groups\.all\.density = 1 \(1/m\^2\): belongs to an area without a count"):
        crowd(all={"density": 1.0, "count": 3, "area": ROOM})


def test_a_gaussian_start_is_a_normal_distribution_without_overlap() -> None:
    bell = {"centre": [5.0, 5.0], "deviation": 1.5}
    place = np.asarray(crowd(all={"count": 150, "gaussian": bell, "radius": 0.05}).state.position, float)
    for coordinate in place:
        assert stats.kstest((coordinate - 5.0) / 1.5, stats.norm.cdf).pvalue > 0.01
    assert np.hypot(*(place[:, :, None] - place[:, None, :]))[~np.eye(150, dtype=bool)].min() >= 0.1
    with pytest.raises(
        ScenarioError, match=r"groups\.all\.gaussian: about \d+ people of radius 0\.25 m find a place 0\.1 m or so from"
    ):
        crowd(all={"count": 50, "gaussian": {"centre": [5.0, 5.0], "deviation": 0.1}})
    with pytest.raises(ScenarioError, match=r"gaussian\.deviation = 0 m: allowed are numbers above 0"):
        crowd(all={"count": 1, "gaussian": {"centre": [5.0, 5.0], "deviation": 0.0}})


@pytest.mark.parametrize(
    ("centre", "message"),
    [
        ([math.nan, 5.0], r"centre\[0\] = \[nan, 5.0\]: allowed are finite numbers in m"),
        ([5.0, math.inf], r"centre\[0\] = \[5.0, inf\]: allowed are finite numbers in m"),
        ([5.0, 1e20], r"centre: a corner at 1e\+20 m"),
        ([10.5, 5.0], r"centre: \(10.5, 5\) m lies outside the walkable area. Move it"),
    ],
)
def test_a_gaussian_start_has_its_centre_where_people_walk(centre: list[float], message: str) -> None:
    with pytest.raises(ScenarioError, match=rf"^groups\.all\.gaussian\.{message}"):
        crowd(all={"count": 3, "gaussian": {"centre": centre, "deviation": 1.0}})


def test_nobody_walks_before_the_own_time() -> None:
    """RiMEA guideline (2016), test 5: everybody stands until their pre-movement time is over, and walks from then on."""
    scenario = crowd(all={"positions": [[2, 3], [2, 5], [2, 7]], "goal": "door", "pre_movement": [0, 0.25, 0.5]})
    run = simulate(scenario, None, KEY, 800, every=50)
    moved = np.hypot(*np.moveaxis(np.asarray(run.frames.position, float) - [[2, 3], [2, 5], [2, 7]], -1, 0))  # (F, 3)
    time = np.asarray(run.frames.step) * 0.001
    for person, start in enumerate((0.0, 0.25, 0.5)):
        np.testing.assert_array_equal(moved[time <= start, person], 0.0)
        # From rest: v0 (t - tau (1 - exp(-t / tau))).
        t = time[time > start] - start
        np.testing.assert_allclose(moved[time > start, person], 1.34 * (t - 0.5 * (1 - np.exp(-t / 0.5))), atol=2e-3)


@pytest.mark.parametrize(
    ("per_second", "dt", "most", "programs"),  # pieces for each gap between frames and looks
    [
        (10, 0.002, 1, 1),
        (5, 0.01, 1, 1),
        (2.5, 0.01, 1, 1),
        (8, 0.002, 3, 4),
        (12, 0.002, 2.2, 4),
        (30, 0.01, 1.4, 2),
        (24, 0.001, 1.7, 4),
    ],
)
def test_pieces_between_frames_and_looks_are_few_and_so_are_programs(
    per_second: float, dt: float, most: float, programs: int
) -> None:
    every, watch = round(1 / (per_second * dt)), tick(dt)
    steps = 20 * math.lcm(every, watch)
    now, pieces, frames = 0, set(), []
    begun = []
    while now < steps:
        ahead, stride, due = to_frame(next_look(now, dt) - now, now % every, every, watch)
        begun.append(now)
        pieces.add((ahead, stride))
        frames += range(now + stride, now + ahead + 1, stride) if due else []
        now += ahead
    assert frames == list(range(every, steps + 1, every))
    looks = range(0, steps, watch)
    assert set(looks) <= set(begun)
    assert len(begun) <= most * len({*looks, *frames})
    assert len(pieces) <= programs


@pytest.mark.parametrize("dt", [0.001, 0.002, 0.005, 0.01, 0.02, 0.05])
def test_a_time_on_a_look_is_seen_at_it_however_the_step_is_rounded(dt: float) -> None:
    looks = np.arange(1, 20_000)
    for step in (dt, float(np.float32(dt))):
        np.testing.assert_array_equal(first_look(looks * tick(dt) * dt, step), looks * tick(dt))


def apart(scenario: Scenario) -> float:
    """Least gap between two bodies, m."""
    place, radius = np.asarray(scenario.state.position, float).T, np.asarray(scenario.state.radius, float)
    gaps = np.hypot(*np.moveaxis(place[:, None] - place, -1, 0)) - radius[:, None] - radius
    return float(gaps[np.triu_indices(len(place), 1)].min())


@settings(max_examples=40, deadline=None)
@given(
    seed=some.integers(0, 1000),
    given_places=some.lists(some.floats(0.3, 19.7), min_size=1, max_size=6),
    count=some.integers(1, 6),
    width=some.sampled_from([0.6, 1.2, 4.0]),
)
def test_nobody_is_placed_in_anybody(seed: int, given_places: list[float], count: int, width: float) -> None:
    """Also in a narrow room, where sites of the lattice are farther apart than bodies are wide."""
    spots = [x for number, x in enumerate(sorted(given_places)) if not number or x - sorted(given_places)[number - 1] > 0.51]
    strip = [[0, 0], [20, 0], [20, width], [0, width]]
    groups = {"a": {"positions": [[x, width / 2] for x in spots]}, "b": {"count": count, "area": strip}}
    with contextlib.suppress(ScenarioError):  # where there is no room
        assert apart(build({"seed": seed, "world": {"area": strip}, "groups": groups})) > 0


def test_groups_that_share_ground_are_placed_jointly() -> None:
    """Whoever has a small area gets it before those who may stand anywhere, whatever comes first in the file."""
    long, nook = [[0, 0], [10, 0], [10, 4], [0, 4]], [[0, 0], [1.2, 0], [1.2, 1.2], [0, 1.2]]
    groups = {"many": {"count": 90, "area": long}, "two": {"count": 2, "area": nook}}
    for order in (["many", "two"], ["two", "many"]):
        scenario = build({"world": {"area": long}, "groups": {name: groups[name] for name in order}})
        them = np.asarray(scenario.state.position)[:, np.asarray(scenario.state.group) == order.index("two")]
        assert (them < 1.2).all()
        assert apart(scenario) > 0
    with pytest.raises(ScenarioError, match=r"groups.two.area: holds about 6 people of radius 0.25 m, count = 9"):
        build({"world": {"area": long}, "groups": {**groups, "two": {"count": 9, "area": nook}}})


def test_a_few_stout_ones_do_not_make_a_crowd_loose() -> None:
    """A lattice for all alike would be that of the stoutest: 81 of them."""
    long = [[0, 0], [10, 0], [10, 4], [0, 4]]
    mixed = {"area": long, "profiles": {"with_luggage": 0.02, "under_30": 0.98}}
    assert apart(build({"world": {"area": long}, "groups": {"all": {"count": 130, **mixed}}})) > 0
    with pytest.raises(ScenarioError, match=r"holds about 1[56]\d people of radius 0.25 to 0.35 m, count = 170"):
        build({"world": {"area": long}, "groups": {"all": {"count": 170, **mixed}}})


def test_a_start_may_be_broader_one_way_than_the_other() -> None:
    bell = {"centre": [5.0, 5.0], "deviation": [1.5, 0.5]}
    place = np.asarray(crowd(all={"count": 150, "gaussian": bell, "radius": 0.05}).state.position, float)
    np.testing.assert_allclose(place.std(1), [1.5, 0.5], rtol=0.15)


def test_ground_beyond_the_plan_is_told() -> None:
    with pytest.warns(
        PlanWarning, match=r"groups.all.area: reaches out of the walkable area at .*, 100 m². Nobody is placed there"
    ):
        crowd(all={"count": 3, "area": [[0, 0], [20, 0], [20, 10], [0, 10]]})
