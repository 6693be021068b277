"""Fixtures that several rooms share."""

import gc
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before JAX is imported: tolerances and bytes are those of a CPU
os.environ["CROWDLAB_CACHE"] = ""  # nothing of a test is kept in the folder of the user

import jax

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
# No sandbox and no GPU: a bare machine, often as root. The rest keeps the browser from looking for the outside world.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


MAPS = 20_000  # of the 65 530 that Linux allows a process; each compiled loop takes about 800, and a process that wants more dies
LOOPS = 24  # compiled, of the 40 that `simulate` keeps: a test that counts them has room for its own

# A third of the compiling (a run of two_rooms: 4 s of a processor, not 15), steps take twice as long, and what the shapes of a program are
# shows in the last bits.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


class Compiling:
    """How programs are compiled: as users do where the bits or long runs are asked for, and for notebooks, whose numbers are kept."""

    def __init__(self, asked: str) -> None:
        as_users = re.search(r"\b(bits|slow)\b", re.sub(r"not \w+", "", asked))
        self.flags = os.environ.setdefault("XLA_FLAGS", "" if as_users else QUICK)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before the kernel of a notebook is started, or a test that needs other programs than there are."""
        os.environ["XLA_FLAGS"] = "" if item.path.suffix == ".ipynb" else self.flags
        if self.flags == QUICK and item.get_closest_marker("bits"):
            pytest.skip("the same bits are promised of programs that are compiled as users do: pytest -m bits")


def pytest_configure(config: pytest.Config) -> None:
    """Before JAX looks at its flags."""
    config.pluginmanager.register(Compiling(config.option.markexpr))


@pytest.fixture(autouse=True)
def few_programs() -> Iterator[None]:
    """Compiled programs of tests that are over are given up before there are too many, and before `simulate` would within a test."""
    yield
    loops = getattr(sys.modules.get("crowdlab.stepping"), "rollout", None)
    if loops is not None and loops._cache_size() > LOOPS:
        loops.clear_cache()
    try:
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # no Linux
        return
    if maps > MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def root() -> Path:
    """Folder of the checkout."""
    return ROOT


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["float64", "float32"])
def pick(request: pytest.FixtureRequest) -> Iterator[Callable[[float, float], float]]:
    """Runs a test in both precisions, and picks the tolerance that belongs to each."""
    double = request.param == "float64"
    with jax.enable_x64(double):
        yield lambda for_double, for_single: for_double if double else for_single


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the recorded trajectories, which are not ours to ship: beside the checkout, or where CROWDLAB_DATA says."""
    folder = Path(os.environ.get("CROWDLAB_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"recorded data: no folder {folder}; set CROWDLAB_DATA to where it lies")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium. CROWDLAB_REQUIRE_BROWSER=1 makes its absence a failure."""
    asked = os.environ.get("CROWDLAB_CHROMIUM")
    found = asked or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no browser: install Chromium or set CROWDLAB_CHROMIUM to its path"
        if os.environ.get("CROWDLAB_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    """Chromium without a window, shared by the tests of one file."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        yield running
        running.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """A fresh page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()
