"""People get through narrow doors and past each other, or stand where the forces hold them; nobody waits before free space."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from crowdlab import params as numbers
from crowdlab.ensemble import simulate_many
from crowdlab.scenario import Scenario, build
from crowdlab.simulation import Run

RADIUS, SPEED = 0.25, 1.3  # m, m/s
DRIVE = 80 * SPEED / 0.5  # N, of somebody who stands: 208 N
WIDTHS = (0.52, 0.6, 0.8, 1.0)  # m
REST = 20.0  # s


def people(goal: str, positions: Any) -> dict[str, Any]:
    return {"positions": positions, "goal": goal, "radius": RADIUS, "desired_speed": SPEED}


def doors(start: float) -> Scenario:
    """Four rooms one above the other, each with a door of another width in a wall 0.2 m thick, and one person before each."""
    middles = [4.0 * row + 2.0 for row in range(4)]
    ends = [0.0, *(m + side * w / 2 for m, w in zip(middles, WIDTHS, strict=True) for side in (-1, 1)), 16.0]
    blocks = [[[8, low], [8.2, low], [8.2, high], [8, high]] for low, high in zip(ends[::2], ends[1::2], strict=True)]
    return build(
        {
            "world": {
                "area": [[0, 0], [11, 0], [11, 16], [0, 16]],
                "obstacles": blocks,
                "walls": [[[0, y], [8, y]] for y in (4.0, 8.0, 12.0)],
            },
            "goals": {"out": {"line": [[9.2, 0], [9.2, 16]]}},
            "groups": {"all": people("out", [[start, middle] for middle in middles])},
        }
    )


def push_of_the_posts(width: float, falloff: float) -> float:
    """Largest force, N, with which the two posts of a door hold back somebody in its middle: eq. 3 of Helbing, Farkas & Vicsek 2000."""
    before = np.linspace(0, 1, 100_001)  # m, of the centre before the posts
    away = np.hypot(before, width / 2)
    return float((2 * 2000 * np.exp((RADIUS - away) / falloff) * before / away).max())


def test_narrow_doors_hold_whom_their_posts_push_harder_than_the_drive() -> None:
    """Soft walls hold at 0.52 and 0.6 m. Hard ones let everybody by who walks up; before 0.52 m they hold whoever starts from rest."""
    pushes = np.array([[push_of_the_posts(width, falloff) for width in WIDTHS] for falloff in (0.08, 0.02)])
    assert pushes.round().tolist() == [[1077, 615, 156, 40], [397, 50, 0, 0]]
    far, near = doors(5.0), doors(7.8)
    soft, hard = (numbers.replace(far.params, "forces.wall_repulsion.falloff", jnp.float32(falloff)) for falloff in (0.08, 0.02))
    keys, people = jax.random.split(jax.random.key(0), 4), [far.state] * 2 + [near.state] * 2
    run = simulate_many(far, keys, 6000, params=[soft, hard] * 2, states=people, every=6000)
    passed = np.asarray(run.final.arrived) >= 0
    np.testing.assert_array_equal(
        passed, np.concatenate((pushes < DRIVE, pushes < DRIVE)) | [[False] * 4, [True] * 4, *[[False] * 4] * 2]
    )
    np.testing.assert_array_equal(passed, np.asarray(run.final.position)[:, 0] > 8)


def crossing(width: float) -> Scenario:
    """Four people on the four arms of a crossing of two corridors."""
    h, far, line = width / 2, 6.0, 5.5
    corners = [[-far, -h], [-h, -h], [-h, -far], [h, -far], [h, -h], [far, -h]]
    lines = {
        "east": [[line, -h], [line, h]],
        "west": [[-line, -h], [-line, h]],
        "north": [[-h, line], [h, line]],
        "south": [[-h, -line], [h, -line]],
    }
    starts = {"east": [-4.0, 0.0], "west": [4.0, 0.0], "north": [0.0, -4.0], "south": [0.0, 4.0]}
    return build(
        {
            "world": {"area": corners + [[-x, -y] for x, y in corners]},
            "goals": {name: {"line": ends} for name, ends in lines.items()},
            "groups": {f"{name}ward": people(name, [start]) for name, start in starts.items()},
            "motion": {"noise": 0.07, "dt": 0.005},
        }
    )


def corridors() -> Scenario:
    """Three corridors of 20 m between two rooms: two people head-on in 0.9 and in 1.5 m, and 20 people against 20 in 4 m."""

    def side(goal: str, left: float, first: float) -> dict[str, Any]:
        area = [[left, 0], [left + 8, 0], [left + 8, 4], [left, 4]]
        crowd = {"count": 20, "area": area, "goal": goal, "radius": RADIUS, "desired_speed": SPEED}
        return {f"{goal}ward": crowd, f"{goal}ward_alone": people(goal, [[first, 5.45], [first, 7.75]])}

    return build(
        {
            "world": {
                "area": [[-2, 0], [22, 0], [22, 8.5], [-2, 8.5]],
                "obstacles": [[[0, low], [20, low], [20, high], [0, high]] for low, high in ((4, 5), (5.9, 7))],
            },
            "goals": {"east": {"line": [[20.5, 0], [20.5, 8.5]]}, "west": {"line": [[-0.5, 0], [-0.5, 8.5]]}},
            "groups": side("east", 0.3, 7.0) | side("west", 11.7, 13.0),
            "motion": {"noise": 0.07, "dt": 0.005},
        }
    )


def watched(scenario: Scenario, seconds: float, keys: int = 10) -> Run:
    """Runs abreast with a frame every 0.5 s."""
    every = round(0.5 / scenario.params.time_step)
    return simulate_many(scenario, jax.random.split(jax.random.key(1), keys), round(seconds / 0.5) * every, every=every)


def resting_before_free_space(run: Run, ahead: dict[int, tuple[float, float]]) -> int:
    """How often somebody has stayed within his radius of where he was for 20 s while no body stands in the metre before his own.

    `ahead` is the direction to each goal.
    """
    place, alive = np.asarray(run.frames.position, float), np.asarray(run.frames.alive)
    direction = np.array([ahead[goal] for goal in np.asarray(run.final.goal)[0].tolist()])  # (N, 2)
    frames = round(REST / 0.5)
    away = [place[:, later : len(place[0]) - frames + later] - place[:, :-frames] for later in range(1, frames + 1)]
    rests = alive[:, frames:] & (np.hypot(*np.moveaxis(np.stack(away), -1, 0)).max(0) < RADIUS)
    offset = place[:, frames:, None] - place[:, frames:, :, None]  # (R, F, N, N, 2) m, from one to the other
    along = (offset * direction[:, None]).sum(-1)
    beside = np.abs(offset[..., 0] * direction[:, None, 1] - offset[..., 1] * direction[:, None, 0])
    taken = (alive[:, frames:, None] & (along > 0) & (along < 1 + 2 * RADIUS) & (beside < 2 * RADIUS)).any(-1)
    return int((rests & ~taken).sum())


EAST_AND_WEST = {0: (1.0, 0.0), 1: (-1.0, 0.0)}


@pytest.fixture(scope="module")
def run() -> Run:
    return watched(corridors(), 50.0)


def test_twenty_against_twenty_all_leave_whatever_the_key(run: Run) -> None:
    crowd = np.isin(np.asarray(run.final.group[0]), (0, 2))
    assert crowd.sum() == 40
    assert (np.asarray(run.final.arrived)[:, crowd] >= 0).all()


def test_two_who_meet_in_a_corridor_pass_where_both_fit(run: Run) -> None:
    """0.9 m are narrower than two bodies: there they stand face to face where drive and repulsion balance, for ever."""
    alone = np.flatnonzero(np.isin(np.asarray(run.final.group[0]), (1, 3)))
    arrived = np.asarray(run.final.arrived)[:, alone] >= 0
    assert (arrived == [False, True, False, True]).all()
    narrow = np.asarray(run.final.position)[:, :, alone[::2]]
    np.testing.assert_allclose(np.hypot(*np.diff(narrow, axis=-1)[..., 0].T) - 2 * RADIUS, 0.08 * np.log(2000 / DRIVE), atol=0.02)


def test_four_at_a_crossing_get_past_each_other() -> None:
    run = watched(crossing(2.0), 30.0)
    assert (np.asarray(run.final.arrived) >= 0).all()
    assert not resting_before_free_space(run, EAST_AND_WEST | {2: (0.0, 1.0), 3: (0.0, -1.0)})


def test_nobody_rests_before_free_space(run: Run) -> None:
    assert not resting_before_free_space(run, EAST_AND_WEST)
    gone = run.frames.alive & (run.final.group != 1)[:, None]  # without the one who stands before them, two stand before nothing
    alone = dataclasses.replace(run, frames=dataclasses.replace(run.frames, alive=gone))
    assert resting_before_free_space(alone, EAST_AND_WEST)
