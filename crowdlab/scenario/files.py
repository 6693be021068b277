"""Finding and reading scenario files."""

import tomllib
from pathlib import Path
from typing import Any

from crowdlab.errors import ParamError, ScenarioError, nearest
from crowdlab.scenario.building import Scenario, build


def load(path: str | Path) -> Scenario:
    """Read a scenario file, or a shipped scenario by its name.

    Raises:
        ScenarioError, ParamError: names the file, the table and the key, the value, what is allowed and what to change.
    """
    spec, file = read(path)
    try:
        return build(spec, name=file.stem, folder=file.parent)
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}", place=error.place) from None
    except ParamError as error:
        raise ParamError(f"{file}: {error}") from None


def read(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The tables of a scenario file, or of a shipped scenario by its name, as they stand, and the file. Raises ScenarioError."""
    file = _find(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig")), file  # some editors begin a file with a mark
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file}: is not TOML: {error}. Mend that line.") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{file}: is not a text in UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise ScenarioError(f"{file}: cannot be read ({error.strerror}). Check the name and the rights.") from None


def shipped() -> dict[str, Path]:
    """Scenarios that come with crowdlab: name -> file."""
    package = Path(__file__).parents[1]
    checkout = package.parent / "scenarios"
    folder = checkout if (package.parent / "pyproject.toml").is_file() and checkout.is_dir() else package / "_scenarios"
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def _find(path: str | Path) -> Path:
    file, known = Path(path), shipped()
    if not str(path).strip():
        raise ScenarioError(f"the name of a scenario is missing. Give the path of a .toml file, or a name: {', '.join(known)}.")
    if file.is_file():
        return file
    if str(path) in known:
        return known[str(path)]
    if file.suffix == ".toml" or len(file.parts) > 1 or file.exists():
        what = "this is a folder" if file.is_dir() else "there is no such file"
        raise ScenarioError(f"{file}: {what}. Give the path of a scenario file, or a name: {', '.join(known)}.")
    raise ScenarioError(f"there is no scenario '{path}'. {nearest(str(path), list(known))} Or give the path of a .toml file.")
