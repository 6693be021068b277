"""The commands that look at what is there: validate, replay, picture, list, schema."""

import argparse
import contextlib
import importlib
import json
import sys
import tomllib
from pathlib import Path

from crowdlab import report, scenario
from crowdlab.checks import check_run
from crowdlab.errors import CrowdlabError
from crowdlab.record import Recording, verify

RECORDING = "recording.sqlite"  # in the folder of a run


def told(error: CrowdlabError) -> str:
    """The message, and what the command line alone cannot know: it loads nobody's own forces."""
    if "unknown force" not in str(error):
        return str(error)
    return (
        f"{error} The command line knows the shipped forces only: one of your own must be imported in the Python process that "
        "loads the scenario, a script or a notebook."
    )


def validate(options: argparse.Namespace) -> int:
    """Check scenarios and describe those that are right. Returns 2 if one is not."""
    wrong = 0
    if options.draw is not None and len(options.scenarios) > 1:
        raise CrowdlabError(
            f"--draw {options.draw}: allowed for one scenario at a time, here are {len(options.scenarios)}. Give one."
        )
    for name in options.scenarios:
        try:
            loaded = scenario.load(name)
            check_run(loaded, loaded.params, 0, 1, ())
        except CrowdlabError as error:
            wrong += 1
            print(f"crowdlab: {told(error)}", file=sys.stderr)
            with contextlib.suppress(CrowdlabError):  # of what cannot even be read there is no more to say
                _geometry(name, options.draw)
            continue
        print("\n".join(report.described(loaded, every=options.all)))
        _geometry(loaded, options.draw)
        print("\n".join(report.advised(loaded.params, loaded.state)))
        print(f"{loaded.name}: ok")
    return 2 if wrong else 0


def _geometry(source: str | scenario.Scenario, drawing: Path | None) -> None:
    """Print what was found in a plan, and draw it if asked to."""
    found = scenario.geometry_report(source)
    lines = found.lines()
    print("\n".join([f"  geometry   {'' if lines else 'nothing to remark'}".rstrip(), *(f"    {line}" for line in lines)]))
    if drawing is not None:
        importlib.import_module("crowdlab.views").plan_html(found, drawing)
        print(f"    written {drawing}")


def replay(options: argparse.Namespace) -> int:
    """Run a recording again and compare, or write its page. Returns 1 if other bytes come out."""
    given = options.recording
    recording = Recording.open(given / RECORDING if given.is_dir() else given)
    if options.html is not None:
        importlib.import_module("crowdlab.views").replay_html(recording, options.html)
        print(f"written {options.html}")
        return 0
    if not recording.complete:
        print(f"This run was cut off; it holds all up to {recording.last_step * recording.dt:g} s.")
    verdict = verify(recording)
    print(verdict)
    return 0 if verdict.same else 1


def picture(options: argparse.Namespace) -> int:
    """Write a picture of each scenario at one moment of a run."""
    if not 60 <= options.width <= 8000:
        raise CrowdlabError(f"--width {options.width}: allowed are 60 to 8000 pixels. Give such a width.")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.scenarios or scenario.shipped():
        loaded = scenario.load(name)
        still = importlib.import_module("crowdlab.views").pictured(loaded, options.at, width=options.width)
        target = options.out / f"{loaded.name}.png"
        target.write_bytes(still)
        print(f"written {target}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print what there is to choose from."""
    print("Scenarios")
    for name, path in scenario.shipped().items():
        print(f"  {name:<18} {tomllib.loads(path.read_text(encoding='utf-8')).get('title', '')}")
    print("\n" + "\n".join(report.vocabulary()))
    return 0


def schema(options: argparse.Namespace) -> int:
    """Print the JSON schema of scenario files."""
    print(json.dumps(scenario.schema(), indent=2))
    return 0
