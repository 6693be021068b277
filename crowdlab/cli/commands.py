"""The commands, what they take, and how their mistakes are told."""

import argparse
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crowdlab.cli import looking, opening, running
from crowdlab.errors import CrowdlabError
from crowdlab.scenario import PlanWarning

MISTAKE, STOPPED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a recording is not reproduced, 2 a mistake, 130 stopped."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.command is not opening.bench:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others = others
    warnings.simplefilter("ignore", PlanWarning)  # the commands tell them in lines of their own
    try:
        return int(options.command(options))
    except CrowdlabError as error:
        print(f"crowdlab: {looking.told(error)}", file=sys.stderr)
        return MISTAKE
    except BrokenPipeError:  # `crowdlab list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a file or folder of the user's that cannot be read or written
        where = f"{error.filename}: " if error.filename else ""
        print(f"crowdlab: {where}{error.strerror or error}. Give another place, or mend this one.", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt:
        print("crowdlab: stopped.", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="crowdlab", description="Crowd and flock simulation.")
    parser.add_argument("--version", action="version", version=f"crowdlab {importlib.metadata.version('crowdlab')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str, *, helps: bool = True) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, add_help=helps)
        added.set_defaults(command=function)
        return added

    run = command("run", running.run, "simulate a scenario, record it and say what came out")
    run.add_argument("scenario", metavar="SCENARIO", help="a scenario file, or the name of a shipped one (see `crowdlab list`)")
    run.add_argument("--seed", type=int, help="for the placing and for everything random; default: the scenario's")
    run.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="e.g. forces.repulsion.strength=1500")
    run.add_argument("--duration", type=float, metavar="S", help="seconds to simulate at most; default: the scenario's")
    run.add_argument("--fps", type=float, metavar="F", help="frames to record per simulated second; default: the scenario's")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder to write into; default: runs/NAME-SEED")
    run.add_argument(
        "--precision", choices=("float32", "float64"), help="of all numbers; default: float32, unless JAX_ENABLE_X64 is set"
    )
    run.add_argument("--no-html", action="store_true", help="do not write replay.html")
    run.add_argument("--force", action="store_true", help="replace what an earlier run left in the folder")
    validate = command("validate", looking.validate, "check scenario files and show what is in them")
    validate.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    validate.add_argument("--all", action="store_true", help="also print the parameters that have their usual value")
    validate.add_argument("--draw", type=Path, metavar="FILE", help="draw the plan and what was found in it as one HTML file")
    replay = command("replay", looking.replay, "run a recording again and say whether the same bytes come out")
    replay.add_argument("recording", type=Path, metavar="RECORDING", help="a recording, or the folder of a run")
    replay.add_argument("--html", type=Path, metavar="FILE", help="write it as one HTML file instead of running it again")
    picture = command("picture", looking.picture, "run scenarios up to a moment and write a picture of each, a PNG")
    picture.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="scenario files or names; default: all that are shipped")
    picture.add_argument("--at", type=float, metavar="S", help="seconds after the start; default: a moment that tells")
    picture.add_argument("--width", type=int, default=560, metavar="PIXELS", help="default: 560")
    picture.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="folder to write NAME.png into; default: this one")
    command("list", looking.show, "show the shipped scenarios, the forces with their parameters, and the observables")
    command("schema", looking.schema, "print the JSON schema of scenario files")
    lab = command("lab", opening.lab, "open JupyterLab on the first notebook, or on a scenario")
    lab.add_argument("scenario", nargs="?", metavar="SCENARIO")
    lab.add_argument("--no-browser", action="store_true", help="start the server only and print its address")
    kept = command("cache", opening.kept, "show where compiled programs and computed ways are kept, and how much they take")
    kept.add_argument("--clear", action="store_true", help="remove them")
    command("bench", opening.bench, "measure how fast the simulation runs here", helps=False)  # it reads its own arguments
    return parser
