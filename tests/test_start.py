"""Starting: what an import loads, compiled programs kept for the next time, and the switch between precisions."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from scenes import make_params, make_scenario, make_state, make_world

import crowdlab
from crowdlab import cache, cli
from crowdlab.errors import CrowdlabError
from crowdlab.precision import use_precision
from crowdlab.record import Recording

pytestmark = pytest.mark.engine


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "TF_"))} | environment,
    )


def test_an_import_alone_loads_neither_jax_nor_what_draws() -> None:
    heavy = "jax", "scipy", "shapely", "bokeh", "ipywidgets"
    script = f"import sys, crowdlab; print([name for name in {heavy} if name in sys.modules], crowdlab.CrowdlabError.__name__)"
    assert started("-c", script).stdout.split("\n")[0] == "[] CrowdlabError"


@pytest.mark.parametrize("name", crowdlab.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(crowdlab, name).__name__ in (name, f"crowdlab.{name}") or name == "Run"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulte'"):
        crowdlab.simulte  # noqa: B018


def test_the_second_start_compiles_nothing_and_gives_the_same_bytes(tmp_path: Path) -> None:
    kept, files = tmp_path / "kept", []
    for run in ("first", "second"):
        done = started(
            *("-m", "crowdlab", "run", "free_walk", "--no-html", "--duration", "1", "--out", str(tmp_path / run)),
            CROWDLAB_CACHE=str(kept),
        )
        assert "features" not in done.stderr  # XLA's warning about processors, which does not apply
        files.append({path.name for path in kept.rglob("*-cache")})
    assert files[0] == files[1] != set()
    plain = started(
        *("-m", "crowdlab", "run", "free_walk", "--no-html", "--duration", "1", "--out", str(tmp_path / "plain")), CROWDLAB_CACHE=""
    )
    assert plain.returncode == 0
    recordings = [(tmp_path / run / "recording.sqlite").read_bytes() for run in ("first", "second", "plain")]
    assert len(set(recordings)) == 1


def test_where_programs_are_kept_is_up_to_the_user(tmp_path: Path) -> None:
    chosen = cache.settings({"CROWDLAB_CACHE": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "0"})
    assert Path(chosen["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path
    assert "TF_CPP_MIN_LOG_LEVEL" not in chosen  # what the user has set stays
    assert (
        cache.settings({"CROWDLAB_CACHE": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "1"})["TF_CPP_MIN_LOG_LEVEL"] == "3"
    )  # JAX's own
    assert cache.settings({"CROWDLAB_CACHE": ""}) == {}
    (tmp_path / "file").touch()
    assert cache.settings({"CROWDLAB_CACHE": str(tmp_path / "file")}) == {}  # no folder can be made there


def test_kept_programs_are_shown_and_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept" / "machine").mkdir(parents=True)
    (tmp_path / "kept" / "machine" / "program").write_bytes(bytes(2_000_000))
    monkeypatch.setenv("CROWDLAB_CACHE", str(tmp_path / "kept"))
    assert cli.main(["cache"]) == 0
    assert f"{tmp_path / 'kept'}: 1 files, 2.0 MB." in capsys.readouterr().out
    assert cli.main(["cache", "--clear"]) == 0
    assert not (tmp_path / "kept").exists()
    assert cli.main(["cache", "--clear"]) == 0
    assert ": 0 files, 0.0 MB removed" in capsys.readouterr().out
    (tmp_path / "kept").write_text("a file of somebody else's")
    assert cli.main(["cache", "--clear"]) == 2
    said = capsys.readouterr()
    assert (said.out, "kept: Not a directory" in said.err) == ("", True)


@pytest.mark.bits
def test_double_precision_from_the_command_line_is_recorded_and_replayed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    started("-m", "crowdlab", "run", "free_walk", "--no-html", "--duration", "1", "--out", str(out), "--precision", "float64")
    recording = Recording.open(out / "recording.sqlite")
    assert recording.manifest["float64"]
    assert "Same bytes" in started("-m", "crowdlab", "replay", str(out)).stdout


def test_people_placed_in_another_precision_are_refused() -> None:
    scenario = make_scenario(make_world(), make_state([(0.0, 0.0)]), make_params(("driving",)))
    with (
        jax.enable_x64(True),
        pytest.raises(CrowdlabError, match=r"placed in float32, the precision now is float64: .* after use_precision"),
    ):
        crowdlab.simulate(scenario, None, jax.random.key(0), 2)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(CrowdlabError, match="'double': allowed are float32 and float64"):
        use_precision("double")
