"""`internalize runs`: list, show, compare and export."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from internalize.errors import BadInput, require
from internalize.runs.finding import RUNS
from internalize.runs.listing import as_json, listing
from internalize.runs.store import Entry, Filter, Store

State = Literal["new", "running", "interrupted", "failed", "done", "damaged"]


@dataclass(frozen=True)
class Selection:
    """Which runs."""

    out: Path = RUNS
    """Folder that holds the run folders."""
    task: str | None = None
    """Only runs of this task, circuit or game, such as C7."""
    method: str | None = None
    """Only runs of this method, such as left."""
    status: State | None = None
    """Only runs in this state."""
    min_accuracy: float | None = None
    """Only finished runs with at least this accuracy in distribution, between 0 and 1."""

    def __post_init__(self) -> None:
        good = self.min_accuracy is None or 0 <= self.min_accuracy <= 1
        require(good, "min-accuracy", f"must lie in 0…1, got {self.min_accuracy}")

    def entries(self) -> list[Entry]:
        wanted = Filter(self.task, self.method, self.status, self.min_accuracy)
        return Store(self.out).entries(wanted)


@dataclass(frozen=True)
class RunsArguments:
    """List runs: all of them, or those of a task, a method, a state or an accuracy."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    rebuild: bool = False
    """Make the index anew from the folders first."""
    json: bool = False
    """Print one JSON list."""


def runs_command(arguments: RunsArguments) -> None:
    if arguments.rebuild:
        Store(arguments.which.out).rebuild()
    entries = arguments.which.entries()
    if arguments.json:
        print(json.dumps([as_json(entry) for entry in entries]))
        return
    if entries:
        print(listing(entries))
    print(f"{len(entries):,} run{'' if len(entries) == 1 else 's'} in {arguments.which.out}")


@dataclass(frozen=True)
class RunsShowArguments:
    """A run's config, results and curves."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    json: bool = False
    """Print one JSON object, with all rows of metrics."""


def runs_show_command(arguments: RunsShowArguments) -> None:
    from internalize.runs.folder import Run
    from internalize.runs.showing import described, description

    run = Run.open(arguments.run)
    print(json.dumps(described(run)) if arguments.json else description(run))


@dataclass(frozen=True)
class RunsCompareArguments:
    """Runs or groups of runs side by side, with intervals; groups are paired by seed."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Two or more of: a run's folder, the beginning of a hash, a folder of runs, or a pattern of names such as
    'runs/C7-T25-left-*'. The first is what the others are compared with."""
    metric: str = "id_accuracy"
    """The entry of the results whose differences are looked at."""
    json: bool = False
    """Print one JSON object."""


def runs_compare_command(arguments: RunsCompareArguments) -> None:
    from internalize.runs.comparing import compare, comparison_text

    require(len(arguments.runs) >= 2, "runs", f"needs at least two to compare, got {len(arguments.runs)}")
    result = compare(arguments.runs, arguments.metric)
    print(json.dumps(result) if arguments.json else comparison_text(result))


@dataclass(frozen=True)
class RunsExportArguments:
    """All runs as one table: a line a run, with its config and results in columns."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    csv: Path | None = None
    """File to write, with commas between the columns."""
    parquet: Path | None = None
    """File to write, for pandas, polars, duckdb and others. Needs the extra `parquet`."""


def runs_export_command(arguments: RunsExportArguments) -> None:
    from internalize.runs.exporting import export_table, write_csv, write_parquet

    named = arguments.csv is not None or arguments.parquet is not None
    require(named, "csv", "name a file to write: --csv FILE or --parquet FILE")
    table = export_table(arguments.which.entries())
    for path, write in ((arguments.csv, write_csv), (arguments.parquet, write_parquet)):
        if path is not None:
            _write(write, table, path)
            print(f"{len(table):,} runs, {len(table.columns)} columns: {path}")


def _write(write: Any, table: Any, path: Path) -> None:
    try:
        write(table, path)
    except OSError as error:
        raise BadInput("export", f"cannot write {path}: {error.strerror}") from None
