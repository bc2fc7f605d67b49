"""Runs that are known by their row in a table, and need not be trained again.

Run folders are large and stay where they were made; a table (`internalize collect … --csv`) is small and
travels with the code. A run's name holds the hash of all that it computes: a row of that name is the very run
that a case asks for.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from internalize.configs.files import LARGEST_JSON, read_text
from internalize.errors import BadInput
from internalize.runs.table import dotted_fields
from internalize.sweeps.sweep import Case, Sweep

RUN = "run"


@dataclass(frozen=True)
class RecordedRun:
    """A row of a table of finished runs."""

    table: Path
    results: dict[str, Any]
    """All columns, config fields too, as text was turned back into values."""


Recorded = Mapping[str, RecordedRun]
"""By the run's name."""


def recorded_in(table: Path | None) -> dict[str, RecordedRun]:
    """The runs of a table; none where there is no table."""
    return {} if table is None else {row[RUN]: RecordedRun(table, row) for row in table_rows(table)}


def table_rows(table: Path) -> list[dict[str, Any]]:
    """The rows of a table that names a run in each, as text was turned back into values."""
    reader = csv.DictReader(io.StringIO(read_text(table, "recorded", LARGEST_JSON), newline=""))
    rows, named = list(reader), RUN in (reader.fieldnames or ())
    if not named or any(None in row or None in row.values() or not row[RUN] for row in rows):
        raise BadInput("recorded", f"{table} is not a table of runs: a row is cut, or has no run's name")
    return [{name: text if name == RUN else _value(text) for name, text in row.items()} for row in rows]


def _value(text: str) -> Any:
    """What a cell said: tables hold numbers, True and False, lists as JSON, and words."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    try:
        return float(text) if text in ("nan", "inf", "-inf") else json.loads(text)
    except ValueError:
        return text


def run_name(case: Case) -> str:
    """The folder's name that the case's run has, wherever it lies."""
    return case.prepared.folder(Path()).name


def without_recorded(sweep: Sweep, recorded: Recorded) -> Sweep:
    """The cases that are still to be trained."""
    return Sweep(sweep.name, tuple(case for case in sweep.cases if run_name(case) not in recorded))


def recorded_row(case: Case, recorded: Recorded, without: Sequence[str] = ()) -> dict[str, Any] | None:
    """The case's own fields and what a table says of the rest; None if no table knows the run.

    without: columns of the table that are left out.
    """
    known = recorded.get(run_name(case))
    if known is None:
        return None
    fields = dotted_fields(case.config)
    rest = {
        name: value for name, value in known.results.items() if name not in (RUN, "kind", *without, *fields)
    }
    return {RUN: run_name(case), "kind": case.config.kind, **fields, **rest}
