"""`internalize runs`: list, show, compare and export."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from internalize.configs.file_names import require_file
from internalize.configs.files import is_standard_output
from internalize.display.terminal import plain
from internalize.errors import BadInput, RunWarning, closest, require
from internalize.runs.folder import Run
from internalize.runs.index import INDEX, Entry, Filter, Store, require_if_there
from internalize.runs.listing import as_json, described, description, last_measurements, listing, one_line
from internalize.runs.location import runs_folder
from internalize.runs.manifest import changed_files
from internalize.runs.table import Table

Order = Literal["name", "accuracy", "ood", "took", "newest"]
State = Literal["new", "running", "interrupted", "failed", "done", "damaged"]


@dataclass(frozen=True)
class Selection:
    """Which runs."""

    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    task: str | None = None
    """Only runs of this task, circuit or game, such as C7; of a file div3.json, div3 is enough."""
    method: str | None = None
    """Only runs of this method, such as left."""
    status: State | None = None
    """Only runs in this state."""
    min_accuracy: float | None = None
    """Only finished runs with at least this accuracy in distribution, between 0 and 1."""

    def __post_init__(self) -> None:
        good = self.min_accuracy is None or 0 <= self.min_accuracy <= 1
        require(good, "min-accuracy", f"must lie in 0…1, got {self.min_accuracy}")

    def filter(self) -> Filter:
        return Filter(self.task, self.method, self.status, self.min_accuracy)

    def entries(self) -> list[Entry]:
        return Store(self.out).entries(self.filter())


@dataclass(frozen=True)
class RunsArguments:
    """List runs: all of them, or those of a task, a method, a state or an accuracy.

    tokens: the length of an answer. views: samples trained on for each possible input. cost: operations of the
    training until the answer came at once; > means that after so many it did not."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    sort: Order = "name"
    """By name; or the best accuracy first, in distribution or out of it; the longest; or the newest."""
    limit: int | None = None
    """List at most this many."""
    rebuild: bool = False
    """Make the index anew from the folders first."""
    json: bool = False
    """Print one JSON list."""

    def __post_init__(self) -> None:
        require(self.limit is None or self.limit >= 1, "limit", f"must be at least 1, got {self.limit}")


def runs_command(arguments: RunsArguments) -> None:
    if arguments.rebuild:
        Store(arguments.which.out).rebuild()
    found = in_order(arguments.which.entries(), arguments.sort)
    entries = found[: arguments.limit]
    so_far = last_measurements(entries, arguments.which.out)
    if arguments.json:
        print(json.dumps([as_json(entry, so_far.get(entry.path)) for entry in entries]))
        return
    if entries:
        # a file or another program gets whole names, whatever the width of the terminal beside it
        print(listing(entries, shutil.get_terminal_size().columns if sys.stdout.isatty() else None, so_far))
    shown = f"{len(entries):,} of " if len(entries) < len(found) else ""
    print(f"{shown}{len(found):,} run{'' if len(found) == 1 else 's'} in {arguments.which.out}")
    if not found:
        print(_what_there_is(arguments.which), file=sys.stderr)


def in_order(entries: list[Entry], order: Order) -> list[Entry]:
    """By name, as they come; or by a number, the largest first, and those that have none last."""
    if order == "name":
        return entries
    column = {"accuracy": "accuracy", "ood": "ood_accuracy", "took": "seconds", "newest": "created"}[order]
    known = [entry for entry in entries if getattr(entry, column) is not None]
    rest = [entry for entry in entries if getattr(entry, column) is None]
    return [*sorted(known, key=lambda entry: getattr(entry, column), reverse=True), *rest]


def _what_there_is(which: Selection) -> str:
    """Where no run is found: what could be asked for instead."""
    everything = Selection(which.out).entries()
    if not everything:
        return "for a first one: internalize train --preset laptop --task C2 --horizon 6"
    tasks = sorted({entry.task for entry in everything if entry.task})
    near = closest(which.task or "", tasks)
    return f"none of {len(everything):,} runs fits{near}; their tasks: {', '.join(map(one_line, tasks))}"


@dataclass(frozen=True)
class RunsShowArguments:
    """A run's config, results and curves."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    json: bool = False
    """Print one JSON object, with all rows of metrics."""


def runs_show_command(arguments: RunsShowArguments) -> None:
    from internalize.runs.folder import Run

    run = Run.open(arguments.run)
    _warn_of_damage(run)
    print(json.dumps(described(run)) if arguments.json else description(run))


def _warn_of_damage(run: Run) -> None:
    """Of a finished run: what is shown below is what is left of it. `runs verify` looks at every byte."""
    found = [f"{run.path / name} {reason}" for name, reason in changed_files(run.path, thorough=False).items()]
    try:
        require_if_there(run.path / "provenance.json")
    except BadInput as error:
        found = found or [error.message]
    for line in found:
        warnings.warn(f"damaged: {line}; see: internalize runs verify {run.path}", RunWarning, stacklevel=2)


@dataclass(frozen=True)
class RunsCompareArguments:
    """Runs or groups of runs side by side, with intervals; groups are paired by seed."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Two or more of: a run, a folder of runs, or a pattern of names such as 'C7-T25-left-*'. The first is what
    the others are compared with."""
    metric: str = "id_accuracy"
    """The entry of the results whose differences are looked at."""
    markdown: bool = False
    """Print a Markdown table."""
    latex: bool = False
    """Print a LaTeX table, for the package booktabs."""
    json: bool = False
    """Print one JSON object."""

    def __post_init__(self) -> None:
        one = self.markdown + self.latex + self.json <= 1
        require(one, "markdown", "choose one of --markdown, --latex and --json")


def runs_compare_command(arguments: RunsCompareArguments) -> None:
    from internalize.runs.comparison import compare, comparison_cells, comparison_text
    from internalize.runs.table import latex_table, markdown_table

    require(len(arguments.runs) >= 2, "runs", f"needs at least two to compare, got {len(arguments.runs)}")
    result = compare(arguments.runs, arguments.metric)
    if arguments.markdown:
        print(plain(markdown_table(*comparison_cells(result))))
    elif arguments.latex:
        print(plain(latex_table(*comparison_cells(result))))
    else:
        print(json.dumps(result) if arguments.json else comparison_text(result))


@dataclass(frozen=True)
class RunsExportArguments:
    """All runs as one table: one line for each run, with its config and results in columns."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    csv: Path | None = None
    """File to write, with commas between the columns; - is standard output."""
    parquet: Path | None = None
    """File to write, for pandas, polars, duckdb and others. Needs the extra `parquet`."""
    public: bool = False
    """Before the folders are handed on: look in each for what its owner would not publish (paths, names, keys,
    own files, strangers' files). What is found is listed, nothing is written, and the exit code is 1."""


def runs_export_command(arguments: RunsExportArguments) -> int:
    from internalize.runs.table import export_table

    named = arguments.csv is not None or arguments.parquet is not None
    require(named or arguments.public, "csv", "name a file to write: --csv FILE or --parquet FILE")
    require_files(arguments.csv, arguments.parquet)
    entries = arguments.which.entries()
    if arguments.public and _has_private_matters(arguments.which.out, entries):
        return 1
    for line in write_files(export_table(entries), arguments.csv, arguments.parquet):
        print(line)
    return 0


def _has_private_matters(out: Path, entries: list[Entry]) -> bool:
    """Say what the folders of these runs hold that is nobody's business."""
    from internalize.runs.doctor import private_matters

    found = [f"{out / entry.path}/{line}" for entry in entries for line in private_matters(out / entry.path)]
    for line in found:
        print(plain(line))
    print(f"{len(entries):,} runs looked at, {len(found):,} remarks", file=sys.stderr)
    if (out / INDEX).exists():
        print(
            f"leave out {out / INDEX}: it may hold paths of this machine, and is made anew by itself",
            file=sys.stderr,
        )
    return bool(found)


def require_files(csv: Path | None, parquet: Path | None) -> None:
    """Refuse either name before the other file is written."""
    for option, path in (("csv", csv), ("parquet", parquet)):
        if path is not None and not is_standard_output(path):
            require_file(path, option)


def write_files(table: Table, csv: Path | None, parquet: Path | None) -> list[str]:
    """Write a table of runs to the files that are named; returns a line about each."""
    from internalize.runs.table import write_csv, write_parquet

    lines = []
    for option, path, write in (("csv", csv, write_csv), ("parquet", parquet, write_parquet)):
        if path is None:
            continue
        try:
            write(table, path)
        except BrokenPipeError:  # its reader has seen enough
            raise
        except OSError as error:
            raise BadInput(option, f"cannot write {path}: {error.strerror}") from None
        if not is_standard_output(path):  # a remark would stand among the rows
            lines.append(f"{len(table):,} runs, {len(table.columns)} columns: {path}")
    return lines
