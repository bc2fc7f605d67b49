"""`internalize runs page`: all runs as one page, to filter, to sort and to look into."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import tyro

from internalize.configs.outputs import make_folder, write_output
from internalize.errors import BadInput, require
from internalize.explorer.page import asset, data_block, policy
from internalize.runs.commands import Selection
from internalize.runs.index import Entry
from internalize.runs.storage import read_rows

POINTS = 40
"""Of a curve: more cannot be told apart in a small picture."""
CURVES = ("id_accuracy", "accuracy", "raw_optimal_rate"), ("ood_accuracy",)
"""Which entries of an evaluation are drawn: the first of each group that is there."""

Json = dict[str, Any]


@dataclass(frozen=True)
class RunsPageArguments:
    """Write one page with all runs: filter and sort them, point at one to see its curve, open its explorer."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    page: Path | None = None
    """The file to write; index.html in the folder of the runs if not given."""


def runs_page_command(arguments: RunsPageArguments) -> None:
    out = arguments.which.out
    page = out / "index.html" if arguments.page is None else arguments.page
    require(page.suffix in (".html", ".htm"), "page", f"must be a file that ends in .html, got {page}")
    entries = arguments.which.entries()
    make_folder(page.parent, "page")
    try:
        write_output(page, runs_page(entries, out, page.parent))
    except OSError as error:
        raise BadInput("page", f"cannot write {page}: {error.strerror}") from None
    print(f"{len(entries):,} run{'' if len(entries) == 1 else 's'}: {page.resolve()}")


def runs_page(entries: list[Entry], out: Path, beside: Path) -> str:
    """The page; `beside` is the folder that it will stand in, for the links to the explorers."""
    script = "\n".join(asset(name) for name in ("drawing.js", "index.js"))
    style = asset("style.css")
    rows = [describe(entry, out, beside) for entry in entries]
    parts = {
        "POLICY": policy(script, style),
        "TITLE": html.escape(f"{len(entries):,} runs"),
        "STYLE": style,
        "DATA": data_block({"runs": rows, "folder": out.name}),
        "SCRIPT": script,
    }
    page, pieces = asset("index.html"), []
    for name, content in parts.items():
        before, _, page = page.partition(f"<!--{name}-->")
        pieces += [before, content]
    return "".join([*pieces, page])


def describe(entry: Entry, out: Path, beside: Path) -> Json:
    """One run as the table shows it, with its curve."""
    folder = out / entry.path
    return {
        "run": entry.path,
        "kind": entry.kind,
        "task": entry.task,
        "T": entry.horizon,
        "method": entry.method,
        "seed": entry.seed,
        "state": entry.state,
        "id": entry.accuracy,
        "ood": entry.ood_accuracy,
        "seconds": entry.seconds,
        "message": entry.message,
        "internalized": entry.summary.get("internalized"),
        "curve": curve_of(folder),
        "explorer": link_to(folder / "explorer.html", beside),
    }


def curve_of(folder: Path) -> list[list[float | None]]:
    """[iteration or other step, first accuracy, second accuracy] of at most `POINTS` evaluations."""
    try:
        rows = [row for row in read_rows(folder / "metrics.jsonl") if row.get("event") == "evaluation"]
    except (OSError, ValueError):
        return []
    keep = {round(i * (len(rows) - 1) / (POINTS - 1)) for i in range(POINTS)} if len(rows) > POINTS else None
    points = []
    for place, row in enumerate(rows):
        if keep is None or place in keep:
            values = [next((row[k] for k in names if isinstance(row.get(k), float)), None) for names in CURVES]
            points.append([row.get("iteration", row.get("step", place)), *values])
    return points


def link_to(page: Path, beside: Path) -> str | None:
    """A relative address, where the page is there and below the folder of the index."""
    if not page.is_file():
        return None
    try:
        return quote(page.resolve().relative_to(beside.resolve()).as_posix())
    except ValueError:
        return page.resolve().as_uri()
