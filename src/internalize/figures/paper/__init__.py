"""The figures of the paper, one file for each, and their list; a figure is imported when it is asked for."""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from internalize.configs.named import is_object_name, load_object, own_files
from internalize.errors import BadInput, closest, require
from internalize.runs.location import runs_folder
from internalize.runs.storage import Shape, read_json, require_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from internalize.figures.figure import Figure
    from internalize.sweeps.recorded import Recorded, RecordedRun

NAMES = (
    "ood-degradation",
    "methods",
    "orders",
    "more-orders",
    "groups",
    "isoparameter",
    "scatter",
    "mlp-hints",
    "mixture",
    "attention-parity",
    "heads",
    "left-vs-right",
    "construction-size",
    "parity-watch",
)
"""In the order of the paper."""


def find_figure(name: str) -> Figure:
    """One of the paper's, or a user's own: `module:attribute` or `file.py:attribute`."""
    if is_object_name(name):
        with own_files():
            made, _ = load_object(name, "figure", {})
        from internalize.figures.figure import Figure

        kind = type(made).__name__
        require(isinstance(made, Figure), "figure", f"{name} must be an internalize Figure, got: {kind}")
        own: Figure = made
        good = re.fullmatch(r"\w[\w.-]*", own.name) is not None and own.name not in NAMES
        why = "must be letters and digits, and no name of a figure of the paper: it names the folder of results"
        require(good, "figure.name", f"{why}; got {own.name!r}")
        return own
    require(not name.endswith(".py"), "figure", f"which one of the file? for example {name}:FIGURE")
    known = name.replace("_", "-")
    if known not in NAMES:
        near = closest(known, list(NAMES))
        raise BadInput(
            "figure", f"unknown figure {name!r}{near}; known: {', '.join(NAMES)}, or your own module:attribute"
        )
    found: Figure = import_module(f"internalize.figures.paper.{known.replace('-', '_')}").FIGURE
    return found


# The list --------------------------------------------------------------------------------------------------

LISTED: tuple[Literal["paper", "laptop"], ...] = ("laptop", "paper")
"""Tiers whose runs the list tells of."""
RESULTS = Path("results")
VERDICT = "verdict.json"
"""The file by which a folder of results is known."""


@dataclass(frozen=True)
class FiguresArguments:
    """The figures of the paper: what each shows, and the verdicts on its claims."""

    runs: bool = False
    """Also count the runs that are done, and say how long the others take here: some seconds."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    results: Path = RESULTS
    """Folder of the finished figures; a run that has a row in one of their tables counts as done."""
    json: bool = False
    """Print one JSON object, last."""


def figures_command(arguments: FiguresArguments) -> None:
    for field_name, folder in (("out", arguments.out), ("results", arguments.results)):
        require(folder.is_dir() or not folder.exists(), field_name, f"{folder} is not a folder")
    there = arguments.results.exists() or arguments.results == RESULTS  # before the first figure there is none
    require(there, "results", f"there is no folder {arguments.results}")
    known = cache(_table_of_runs)  # several figures look into one table
    entries = [_entry(name, arguments, known) for name in NAMES]
    if arguments.json:
        print(json.dumps({"figures": entries}))
        return
    from internalize.display.terminal import PlainConsole, TitledTable

    table = TitledTable("Figures of the paper")
    for column in ("figure", "shows", *(LISTED if arguments.runs else ()), "claims"):
        table.add_column(column, no_wrap=column == "figure")  # a name that is cut cannot be typed
    for entry in entries:
        progress = (_progress(found) for found in entry.get("runs", {}).values())
        table.add_row(entry["figure"], entry["shows"], *progress, entry["verdicts"])
    console = PlainConsole()
    console.print(table)
    more = "" if arguments.runs else " internalize figures --runs counts the runs that are done."
    console.print(f"internalize figure NAME makes one; --plan shows its claims.{more}", soft_wrap=True)
    if arguments.runs:
        told = "Runs that are only planned (--later) are counted; times are of all cores of this machine."
        console.print(told, soft_wrap=True)


def _table_of_runs(table: Path) -> dict[str, RecordedRun]:
    from internalize.sweeps.recorded import recorded_in

    return recorded_in(table)


def _entry(
    name: str, arguments: FiguresArguments, read: Callable[[Path], dict[str, RecordedRun]]
) -> dict[str, Any]:
    told = told_by(name)
    entry: dict[str, Any] = {"figure": name, "paper": told["paper"], "shows": told["shows"]}
    if arguments.runs:
        from internalize.figures.commands import status
        from internalize.figures.recorded import recorded_runs

        figure = find_figure(name)
        known: Recorded = {}
        with suppress(BadInput):  # a damaged table knows no runs, and does not end the list
            known = recorded_runs(arguments.results, figure, read) if arguments.results.is_dir() else {}
        entry["runs"] = {tier: vars(status(figure, tier, arguments.out, known, later=True)) for tier in LISTED}
    return {**entry, "verdicts": _verdicts_told(arguments.results / name)}


def told_by(name: str) -> dict[str, str]:
    """What a figure's file says of it in plain text: read and not executed, since that would load torch."""
    text = Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    (made,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and "FIGURE" in ast.unparse(node).split("=")[0]
    )
    assert isinstance(made, ast.Call)
    texts = {word.arg: word.value for word in made.keywords if word.arg in ("paper", "shows")}
    return {str(key): str(ast.literal_eval(value)) for key, value in texts.items()}


def _progress(found: dict[str, Any]) -> str:
    """`12/45`, and below it the time that the others take."""
    from internalize.display.terminal import duration

    if not found["planned"]:
        return "no runs"
    left = "" if found["done"] == found["planned"] else f"\n{duration(found['seconds'])}"
    return f"{found['done']}/{found['planned']}{left}"


def _verdicts_told(folder: Path) -> str:
    """`3 confirmed, 1 planned`, from the results that are there."""
    try:
        record = require_shape(read_json(folder / VERDICT), {"claims": (list,)}, needed=["claims"])
        shape: Shape = {"verdict": (str,), "scale": (str, type(None))}
        claims = [require_shape(claim, shape, needed=["verdict"]) for claim in record["claims"]]
        words = [claim["verdict"] + (" (toy)" if claim.get("scale") == "toy" else "") for claim in claims]
    except FileNotFoundError:
        return "not made"
    except (OSError, ValueError):
        return "damaged"
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "not judged"
