"""The commands that open something else: lab and bench."""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from crowdlab import cache, scenario

FIRST = "01_a_first_crowd.ipynb"
COPY = "crowdlab-notebooks"  # folder for the installed notebooks


def lab(options: argparse.Namespace) -> int:
    """Open JupyterLab; the server runs until it is stopped."""
    target = first_of(notebooks()) if options.scenario is None else notebook_for(options.scenario)
    command = [sys.executable, "-m", "jupyterlab", str(target), "--ip=127.0.0.1"]  # for nobody but this machine, whatever is set
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # as in containers; JupyterLab refuses otherwise
    if options.no_browser:
        command.append("--no-browser")
    return subprocess.run(command, check=False, env={**os.environ, **cache.settings()}).returncode


def kept(options: argparse.Namespace) -> int:
    """Show where the compiled programs and computed ways are, and remove them if asked to."""
    place = cache.folder()
    if place is None:
        print(f"Nothing is kept: {cache.PLACE} is empty.")
        return 0
    files, used = cache.size(place)
    if options.clear:
        cache.clear(place)
    print(f"{place}: {files} files, {used / 1e6:.1f} MB{' removed' if options.clear else ''}. {cache.PLACE} names another folder.")
    return 0


def notebooks() -> Path:
    """Folder of the tutorial notebooks: the checkout's, a copy of the installation's, or else the current one."""
    package = Path(__file__).parents[1]
    if (package.parent / "pyproject.toml").is_file() and any((package.parent / "notebooks").glob("*.ipynb")):
        return package.parent / "notebooks"
    installed = package / "_notebooks"
    return copied(installed, _writable() / COPY) if any(installed.glob("*.ipynb")) else Path.cwd()


def copied(source: Path, target: Path) -> Path:
    """Copy what is not there yet, so that work is not lost with the environment. Whatever is there stays. Returns `target`."""
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / path.relative_to(source)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    print(f"The notebooks are in {target}; those that were there already are as they were.", flush=True)
    return target


def first_of(folder: Path) -> Path:
    """The notebook to begin with, or else the folder."""
    return folder / FIRST if (folder / FIRST).is_file() else folder


def _writable() -> Path:
    """The current folder or, where one cannot write, a temporary one."""
    return Path.cwd() if os.access(Path.cwd(), os.W_OK) else Path(tempfile.mkdtemp(prefix="crowdlab-"))


def notebook_for(name: str) -> Path:
    """A small notebook that opens the lab on a scenario, in the current folder or, where one cannot write, in a temporary one."""
    loaded = scenario.load(name)  # a mistake shows here and not in the browser
    shown = str(Path(name).resolve()) if Path(name).is_file() else name
    texts = {
        "markdown": f"# {loaded.title or loaded.name}",
        "code": f"import crowdlab\n\ncrowdlab.lab({shown!r})",
    }
    blank: dict[str, dict[str, Any]] = {"markdown": {}, "code": {"execution_count": None, "outputs": []}}
    cells = [{"cell_type": kind, "id": kind, "metadata": {}, "source": text, **blank[kind]} for kind, text in texts.items()]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    path = Path.cwd() / f"{loaded.name}.ipynb"
    if path.exists():
        return path  # the user's own by now
    path = _writable() / path.name
    path.write_text(content, encoding="utf-8")
    return path


def bench(options: argparse.Namespace) -> int:
    """Hand over to the measuring room."""
    return int(importlib.import_module("crowdlab.bench").main(options.others) or 0)
