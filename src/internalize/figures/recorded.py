"""Runs that are known by their row in the table of a finished figure, and need not be trained again.

Run folders are large and stay where they were made; `results/NAME/NAME.csv` is small and travels with the code.
A run's name holds the hash of all that it computes: a row of that name is the very run that a case asks for.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internalize.configs.files import read_text
from internalize.errors import BadInput, require
from internalize.figures.cases import TIERS
from internalize.figures.figure import Figure
from internalize.figures.paper import NAMES, VERDICT, find_figure
from internalize.runs.storage import read_json, require_shape
from internalize.sweeps import Case, Sweep
from internalize.sweeps.collection import config_fields

RUN = "run"
EARLY = "not_judged_yet"
"""A table's column that marks runs for later whose siblings were not all there when it was written."""


@dataclass(frozen=True)
class RecordedRun:
    """A row of a finished figure's table."""

    table: Path
    results: dict[str, Any]
    """All columns, config fields too, as text was turned back into values."""


def recorded_runs(results: Path, figure: Figure) -> dict[str, RecordedRun]:
    """By the run's name: the rows of all tables in a folder of results whose columns this figure can use.

    A figure derives columns from a run's curves, which are no longer there: the tables of figures that derive
    the same ones are read, its own among them.
    """
    require(results.is_dir(), "recorded", f"no folder {results}: name one that holds finished figures")
    found: dict[str, RecordedRun] = {}
    for name in (figure.name, *NAMES):
        if name in NAMES and find_figure(name).columns_of_run is not figure.columns_of_run:
            continue
        for folder in (name, *(f"{name}-{tier}" for tier in TIERS)):
            table = results / folder / f"{name}.csv"
            if table.is_file():
                found = {**_rows_of(table), **found}
    return found


def _rows_of(table: Path) -> dict[str, RecordedRun]:
    rows = list(csv.DictReader(read_text(table, "recorded").splitlines()))
    if any(None in row or None in row.values() or not row.get(RUN) for row in rows):
        raise BadInput("recorded", f"{table} is not a table of runs: a row is cut, or has no run's name")
    return {row[RUN]: RecordedRun(table, {name: _value(text) for name, text in row.items()}) for row in rows}


def _value(text: str) -> Any:
    """What a cell said: tables hold numbers, True and False, lists as JSON, and words."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_name(case: Case) -> str:
    """The folder's name that the case's run has, wherever it lies."""
    return case.prepared.folder(Path()).name


def without_recorded(sweep: Sweep, recorded: Mapping[str, RecordedRun]) -> Sweep:
    """The cases that are still to be trained."""
    return Sweep(sweep.name, tuple(case for case in sweep.cases if run_name(case) not in recorded))


def rows_of_tables(cases: Sequence[Case], recorded: Mapping[str, RecordedRun]) -> list[dict[str, Any]]:
    """A row for each case that a table knows: the case's own fields, and what the table says of the rest."""
    rows = []
    for case in cases:
        name = run_name(case)
        if name in recorded:
            fields = config_fields(case)
            rows.append({RUN: name, "kind": case.config.kind, **fields, **_without(recorded[name], fields)})
    return rows


def _without(run: RecordedRun, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.results.items() if name not in (RUN, EARLY, "kind", *fields)}


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
