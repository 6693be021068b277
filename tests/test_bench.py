"""The bench measures what it says: the same people for every code, none overlapping, nobody arriving, ratios of one run."""

import numpy as np
import pytest

from crowdlab import bench
from crowdlab.errors import CrowdlabError


@pytest.mark.parametrize(("people", "density"), [(7, 0.5), (100, 2.0), (50, 3.9)])
def test_nobody_overlaps_at_the_start(people: int, density: float) -> None:
    places = np.asarray(bench.crowd(people, density)["groups"]["crowd"]["positions"])
    apart = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) + np.eye(people) * 9
    assert places.shape == (people, 2)
    assert apart.min() > 2 * bench.RADIUS


def test_all_codes_in_one_run() -> None:
    measures = bench.compare(10, 2.0, seconds=0.001)
    assert [(one.code, one.dt) for one in measures] == [
        ("crowdlab", pytest.approx(0.001)),
        ("JuPedSim social force", 0.01),
        ("JuPedSim social force", 0.001),
    ]
    for one in measures:
        assert one.agent_steps == pytest.approx(10 * one.steps / one.seconds)
        assert one.person_seconds == pytest.approx(one.agent_steps * one.dt)
    assert f"{measures[0].agent_steps / measures[1].agent_steps:.1f}" in bench.table(measures)


@pytest.mark.parametrize("arguments", [["--people", "0"], ["--density", "4"], ["--seconds", "nan"], ["--seconds", "0"]])
def test_what_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CrowdlabError, match=r"bench: people = .*: allowed are at least"):
        bench.main(arguments)
