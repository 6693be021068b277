"""The commands that open something else: lab and bench."""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from crowdlab import scenario


def lab(options: argparse.Namespace) -> int:
    """Open JupyterLab; the server runs until it is stopped."""
    target = notebooks() if options.scenario is None else notebook_for(options.scenario)
    command = [sys.executable, "-m", "jupyterlab", str(target), *(["--no-browser"] if options.no_browser else [])]
    return subprocess.run(command, check=False).returncode


def notebooks() -> Path:
    """Folder of the tutorial notebooks: the checkout's, the installation's, or else the current one."""
    package = Path(__file__).parents[1]
    for folder in (package.parent / "notebooks", package / "_notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    return Path.cwd()


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
    if not os.access(Path.cwd(), os.W_OK):
        path = Path(tempfile.mkdtemp(prefix="crowdlab-")) / path.name
    path.write_text(content, encoding="utf-8")
    return path


def bench(options: argparse.Namespace) -> int:
    """Hand over to the measuring room."""
    return int(importlib.import_module("crowdlab.bench").main(options.others) or 0)
