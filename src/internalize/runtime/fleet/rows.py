"""Thousands of tiny runs: one row is kept of each, and no folder.

The rows stand in one file, which is the memory of the whole: it is read when the same runs are asked for again,
so that what was killed goes on where it was, and whoever draws reads it without training anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from internalize.contract import RunState
from internalize.runs.lock import own
from internalize.runs.storage import Journal, read_rows
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.driver import FleetObserver, Outcome, drive
from internalize.runtime.fleet.pool import local_pool
from internalize.runtime.kind import Prepared

ROWS = "rows.jsonl"


def execute_rows(
    prepared: Sequence[Prepared],
    folder: Path,
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry out whatever has no row in `folder` yet; the outcomes are in the same order, with their rows.

    A config that stands there twice is computed once. One process at a time owns the folder; it alone writes,
    a whole row as soon as a run has ended. With `execution.fresh` the rows of these configs are made anew.
    """
    with own(folder):
        known = {} if execution.fresh else rows_by_identity(folder)
        others = _others(folder, prepared) if execution.fresh else list(known.values())
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in others)
        journal = Journal(folder / ROWS, lines.encode())  # without a line that a kill has cut off
        outcomes = {one.identity.digest(): _outcome(one, known) for one in prepared}
        waiting = [outcome for outcome in outcomes.values() if outcome.state == RunState.WAITING]
        if waiting:
            pool = local_pool(execution, workers, len(waiting), rows=True)
            drive(waiting, pool, observer, keep=lambda outcome: journal.append(_row(outcome)))
            journal.sync()
    return [outcomes[one.identity.digest()] for one in prepared]


def rows_by_identity(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows that are there, by the hash of the config that each belongs to."""
    return {row["identity"]: row for row in read_rows(folder / ROWS) if "identity" in row}


def _others(folder: Path, prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
    asked = {one.identity.digest() for one in prepared}
    return [row for digest, row in rows_by_identity(folder).items() if digest not in asked]


def _outcome(prepared: Prepared, known: Mapping[str, Mapping[str, Any]]) -> Outcome:
    row = known.get(prepared.identity.digest())
    if row is None:
        return Outcome(prepared)
    kept = {name: row[name] for name in ("summary", "last") if name in row}
    error = row.get("error", "")
    return Outcome(prepared, RunState(row["state"]), error=error, exit_code=1 if error else 0, row=kept)


def _row(outcome: Outcome) -> dict[str, Any]:
    identity = outcome.prepared.identity
    said = {"error": outcome.error} if outcome.error else {}
    about = {"identity": identity.digest(), "kind": identity.kind, "config": dict(identity.config)}
    return {**about, "state": str(outcome.state), **said, **(outcome.row or {})}
