"""The house rules: who may import whom, where each third-party library lives, and how large and how documented a room is."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "crowdlab"

# In import order: a room imports only rooms above it.
ROOMS = (
    "errors",
    "cache",
    "trees",
    "params",
    "arithmetic",
    "abreast",
    "state",
    "precision",
    "geometry",
    "walls",
    "navigation",
    "zones",
    "neighbours",
    "forces",
    "integrate",
    "limits",
    "stability",
    "guards",
    "commands",
    "journeys",
    "demand",
    "observe",
    "statistics",
    "scenario",
    "stepping",
    "muster",
    "planning",
    "checks",
    "simulation",
    "ensemble",
    "gradients",
    "record",
    "measures",
    "exchange",
    "sweeps",
    "calibrate",
    "session",
    "decide",
    "views",
    "live",
    "widgets",
    "bench",
    "verify",
    "report",
    "cli",
    "__init__",
    "__main__",
)

# What a room must not import although it stands higher up (or is not ours).
FORBIDDEN = {
    "forces": {"jax.random"},
    "integrate": {"forces", "neighbours"},
    "journeys": {"forces"},
    "demand": {"forces"},
    "observe": {"forces", "jax.random"},
    "scenario": {"simulation"},
    "decide": {"params", "forces", "simulation"},
    "views": {"session", "forces"},
    "live": {"forces", "scenario"},
    "widgets": {"jax", "forces", "neighbours"},
    "cli": {"jax"},
}

# Third-party libraries and the outside world, each in its home.
HOMES = {
    "anywidget": {"live"},
    "bokeh": {"views", "live"},
    "ezdxf": {"exchange"},
    "h5py": {"exchange"},
    "httpx": {"decide"},
    "ipywidgets": {"widgets"},
    "jupedsim": {"bench"},
    "mesa": {"bench"},
    "msgspec": {"scenario"},
    "optax": {"calibrate"},
    "pedpy": {"exchange", "bench"},
    "platformdirs": {"cache"},
    "PIL": {"views"},
    "pyarrow": {"exchange"},
    "pysocialforce": {"bench"},
    "scipy": {"demand", "neighbours", "geometry", "navigation", "statistics", "calibrate"},
    "shapely": {"geometry"},
    "sqlite3": {"record"},
    "tqdm": {"cli"},
    "traitlets": {"live"},
}
EVERYWHERE = {"jax", "numpy"}
READS_FILES = {"cache", "scenario", "record", "exchange", "sweeps", "views", "live", "bench", "verify", "report", "cli"}
OUTSIDE_WORLD = {"pathlib", "os", "shutil", "tempfile", "subprocess", "socket", "urllib", "io"}
PROVIDES = {"PIL": "pillow", "traitlets": "ipywidgets"}  # import name -> the requirement that brings it

MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
IDS = [str(module) for module in MODULES]
each_module = pytest.mark.parametrize("module", MODULES, ids=IDS)


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def room(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def imported(module: Path) -> Iterator[str]:
    """Dotted names that a module imports, those inside functions included; `from a import b` gives `a.b`."""
    package = ("crowdlab", *module.parent.parts)
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            where = ".".join(filter(None, (start, node.module)))
            yield from (f"{where}.{alias.name}" for alias in node.names)


def rooms_used(module: Path) -> set[str]:
    used = {name.split(".")[1] for name in imported(module) if name.startswith("crowdlab.")}
    return {name if name in ROOMS else "__init__" for name in used} - {room(module)}


@each_module
def test_room_is_on_the_map(module: Path) -> None:
    assert room(module) in ROOMS, (
        f"{module} is no room of the house: give it a place in ROOMS and in README's map, or move its content"
    )


@each_module
def test_imports_point_up_the_list(module: Path) -> None:
    allowed = set(ROOMS[: ROOMS.index(room(module))])
    assert rooms_used(module) <= allowed, f"{module} imports rooms below it: {sorted(rooms_used(module) - allowed)}"


@each_module
def test_forbidden_doors_stay_shut(module: Path) -> None:
    outside = {name for name in imported(module) if not name.startswith("crowdlab")}
    for closed in FORBIDDEN.get(room(module), set()):
        used = closed in rooms_used(module) or any(name == closed or name.startswith(f"{closed}.") for name in outside)
        assert not used, f"{module} imports {closed}"
    if "jax.random" in FORBIDDEN.get(room(module), set()):
        assert "jax.random" not in ast.unparse(tree(module)), f"{module} draws random numbers"
    if room(module) == "forces":
        assert not any("Grid" in name for name in imported(module)), f"{module}: a force sees neighbours, never the grid"


@each_module
def test_libraries_stay_at_home(module: Path) -> None:
    for name in sorted({name.split(".")[0] for name in imported(module)} - EVERYWHERE - {"crowdlab"}):
        if name in HOMES:
            assert room(module) in HOMES[name], f"{module} imports {name}, which lives in {sorted(HOMES[name])}"
        elif name in OUTSIDE_WORLD:
            assert room(module) in READS_FILES, f"{module} imports {name}: files are touched in {sorted(READS_FILES)} only"
        else:
            assert name in sys.stdlib_module_names, f"{module} imports {name}, which has no home in HOMES"


def test_requirements_are_those_imported() -> None:
    """Nothing is imported that an installation does not bring, and nothing is required that no room uses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[^\w-]", line)[0] for line in project["dependencies"]]
    extras = [re.split(r"[^\w-]", line)[0] for lines in project["optional-dependencies"].values() for line in lines]
    used = {name.split(".")[0] for module in MODULES for name in imported(module)} & (EVERYWHERE | set(HOMES)) - {"sqlite3"}
    used = {PROVIDES.get(name, name) for name in used} - {"pillow"}  # Pillow comes with Bokeh
    assert used <= {*names, *extras}
    assert {*names} - used <= {"jupyterlab"}, "a requirement that no room imports"  # JupyterLab is the place, not a library


@each_module
def test_randomness_comes_from_keys(module: Path) -> None:
    legacy = re.findall(
        r"\bnp\.random\.(?!Generator\b|default_rng\b|SeedSequence\b|PCG64\b|Philox\b)\w+", ast.unparse(tree(module))
    )
    assert not legacy, f"{module}: {legacy} change or read NumPy's global generator"
    assert not {"random", "secrets"} & {name.split(".")[0] for name in imported(module)}
    assert not re.search(r"default_rng\(\s*\)", ast.unparse(tree(module))), f"{module}: a generator without a seed"


@each_module
def test_room_fits_on_a_few_screens(module: Path) -> None:
    lines = len((PACKAGE / module).read_text(encoding="utf-8").splitlines())
    assert lines <= 300, f"{module} has {lines} lines: is it still one room?"
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{module}: {node.name} has {length} lines"


@each_module
def test_public_things_are_documented(module: Path) -> None:
    assert ast.get_docstring(tree(module)), f"{module} does not say what it is"
    missing = []
    for scope in ast.walk(tree(module)):
        if not isinstance(scope, ast.Module | ast.ClassDef) or (isinstance(scope, ast.ClassDef) and scope.name.startswith("_")):
            continue
        for node in scope.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                missing += [] if ast.get_docstring(node) else [node.name]
    assert not missing, f"{module}: {missing} without a docstring"


@each_module
def test_arguments_are_named(module: Path) -> None:
    """What is passed through as `**anything` hides misspelt names; a copy with changed fields (`with_`) is the one exception."""
    for function in ast.walk(tree(module)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.args.kwarg and function.name != "with_":
            gathered = function.args.kwarg.arg
            calls = (keyword for node in ast.walk(function) if isinstance(node, ast.Call) for keyword in node.keywords)
            passed = any(word.arg is None and isinstance(word.value, ast.Name) and word.value.id == gathered for word in calls)
            assert not passed, f"{module}: {function.name} passes **{gathered} on"
            assert gathered not in {"kwargs", "kw", "options"}, f"{module}: {function.name} takes **{gathered}"


@each_module
def test_names_say_something(module: Path) -> None:
    defined = {
        node.name for node in ast.walk(tree(module)) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    words = {word.lower() for name in {*module.parts, *defined} for word in re.findall(r"[A-Za-z][a-z]*", name)}
    empty = words & {"util", "utils", "helper", "helpers", "manager", "misc", "common", "stuff"}
    assert not empty, f"{module}: {empty} is no word of the field"


def tracked() -> list[Path]:
    """Every file of the repository, by its path below the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return [Path(name) for name in listing.stdout.split("\0") if name and (ROOT / name).exists()]
    hidden = ("build", "dist", "__pycache__")
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [
        path
        for path in files
        if not any(part.startswith(".") or part.endswith(".egg-info") or part in hidden for part in path.parts)
    ]


def test_top_level_is_fixed() -> None:
    fixed = {"pyproject.toml", "README.md", "LICENSE", "crowdlab", "notebooks", "scenarios", "tests", "binder"}
    names = {path.parts[0] for path in tracked()}
    assert {name for name in names if not name.startswith(".")} <= fixed
    assert not {path.name for path in tracked()} & {"poetry.lock", "uv.lock", "Pipfile.lock", "pdm.lock"}, "no lock file"


def test_no_registry_and_no_machine_is_named() -> None:
    """An installation takes its registry from the user's own settings, and paths are those of any machine."""
    hosts = "|".join(["py" + "pi.org", "python" + "hosted", "npm" + "js", "index" + "-url", "debian" + r"\.org", "ana" + "conda"])
    places = r"(^|[^\w.$}])/(" + "work|root|home|tmp|Users" + r")/[\w.]"
    found = []
    for path in tracked():
        if path.suffix in {".png", ".gif", ".ico", ".sqlite"}:
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            if re.search(hosts, line) or re.search(places, line):
                found.append(f"{path}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
