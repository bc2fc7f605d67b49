"""Runs that are known by their row in the table of a finished figure, and need not be trained again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from internalize.errors import require
from internalize.figures.cases import TIERS
from internalize.figures.figure import Figure
from internalize.figures.paper import NAMES, VERDICT, find_figure
from internalize.runs.storage import read_json, require_shape
from internalize.sweeps import Case
from internalize.sweeps.recorded import RUN, Recorded, RecordedRun, recorded_in, recorded_row, table_rows

EARLY = "not_judged_yet"
"""A table's column that marks runs for later whose siblings were not all there when it was written."""


def recorded_runs(
    results: Path, figure: Figure, read: Callable[[Path], dict[str, RecordedRun]] = recorded_in
) -> dict[str, RecordedRun]:
    """By the run's name: the rows of all tables in a folder of results whose columns this figure can use.

    A figure derives columns from a run's curves, which are no longer there: the tables of figures that derive
    the same ones are read, its own among them. read: how; who asks for many figures may remember the tables.
    """
    require(results.is_dir(), "recorded", f"no folder {results}: name one that holds finished figures")
    found: dict[str, RecordedRun] = {}
    for name in (figure.name, *NAMES):
        known = find_figure(name) if name in NAMES else figure
        if known.table is not None or known.columns_of_run is not figure.columns_of_run:
            continue  # a table that was computed, not trained, or with other columns
        for folder in (name, *(f"{name}-{tier}" for tier in TIERS)):
            table = results / folder / f"{name}.csv"
            if table.is_file():
                rows = read(table)
                for run in rows.values():
                    _require_outcomes(run.results, table)
                found = {**rows, **found}
    require(
        bool(found) or not _holds_one_figure(results),
        "recorded",
        f"{results} holds one figure: name the folder of all, {results.parent}",
    )
    return found


def _holds_one_figure(folder: Path) -> bool:
    return (folder / VERDICT).is_file()


def _require_outcomes(row: Mapping[str, Any], table: Path) -> None:
    """A row that says too little, or what cannot be, would end in a wrong verdict or in none."""

    def require_cell(name: str, good: bool, right: str) -> None:
        said = f"got {row[name]!r}" if name in row else "there is no such column"
        require(good, "recorded", f"{table}, run {row[RUN]}: {name} must be {right}, {said}")

    for name in OUTCOMES.get(row.get("kind", ""), ()):
        require_cell(name, row.get(name) is not None, "there")
    for name, value in row.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is None:
            continue
        if name.endswith("accuracy"):
            require_cell(name, number and 0 <= value <= 1, "a share from 0 to 1")
        elif name in YES_OR_NO:
            require_cell(name, isinstance(value, bool), "True or False")
        elif name in ABOVE_ZERO:
            require_cell(name, number and value > 0, "a number above 0")
        elif name in NUMBERS:
            require_cell(name, number, "a number")
    if row.get("iterations_until") is not None:
        require_cell("happened", isinstance(row.get("happened"), bool), "True or False")


OUTCOMES = {
    "chain": ("id_accuracy", "ood_accuracy", "succeeded", "internalized"),
    "hints": ("accuracy", "subnetwork_accuracy", "folded_accuracy", "succeeded"),
    "parity": ("support_recovered", "exact", "chain_exact", "internalized"),
}
"""What every finished run of a kind has, and its claims look at."""
YES_OR_NO = {name for names in OUTCOMES.values() for name in names if not name.endswith("accuracy")} | {
    "happened",
    "chain_learned",
    "ood_succeeded",
    "ood_failed",
}

ABOVE_ZERO = ("iterations_until", "operations_until", "possible_inputs")
NUMBERS = (
    *("samples", "views_per_input", "chain_response_length", "ood_gap", "ood_gap_trend", "stages_passed"),
    *("above_chance", "operations", "result.iterations", "seconds", "processor_seconds"),
)
"""What is computed with, where a row has it."""


def curves_beside(table: Path) -> Path:
    """The table of the curves whose runs a table holds."""
    return table.with_name(f"{table.stem}-curves.csv")


def recorded_curves(figure: Figure, sources: Mapping[str, Path]) -> dict[str, list[dict[str, Any]]]:
    """By the run's name: its points in the table of curves that stands beside the table that knows the run.

    sources: the table of each run. A curve of another figure than this one may show something else: only tables
    of figures that take the same curves are read.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for table in dict.fromkeys(sources.values()):
        path = curves_beside(table)
        known = find_figure(table.stem) if table.stem in NAMES else figure
        if known.curve_of_run is not figure.curve_of_run or not path.is_file():
            continue
        for point in table_rows(path):
            run = point.pop(RUN)
            if sources.get(run) == table:
                found.setdefault(run, []).append(_numbers(point, path))
    return found


def _numbers(point: dict[str, Any], path: Path) -> dict[str, Any]:
    """A word in the place of a number would turn the axis of a picture into a list of words."""
    for name, value in point.items():
        good = isinstance(value, int | float)
        require(good, "recorded", f"{path} is damaged: {name} must be a number, got {value!r}")
    return point


def rows_of_tables(cases: Sequence[Case], recorded: Recorded) -> list[dict[str, Any]]:
    """A row for each case that a table knows."""
    rows = (recorded_row(case, recorded, without=[EARLY]) for case in cases)
    return [row for row in rows if row is not None]


def provenance_of(table: Path) -> dict[str, list[Any]]:
    """The versions, machines and revisions that made the table's runs, as its verdict tells."""
    try:
        record = require_shape(
            read_json(table.parent / VERDICT), {"provenance": (dict,)}, needed=["provenance"]
        )
        runs = require_shape(record["provenance"], {"runs": (dict,)}, needed=["runs"])["runs"]
    except (OSError, ValueError):
        return {}
    return {name: values for name, values in runs.items() if isinstance(values, list)}
