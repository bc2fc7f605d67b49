"""How long a run had taken when it had done so many steps, from its journal `timing.jsonl`."""

from __future__ import annotations

from typing import Literal

from internalize.runs.folder import Run
from internalize.runs.journal import read_rows

Clock = Literal["seconds", "processor"]
"""seconds: by the clock on the wall; processor: of computing, which other work on the machine does not change
much."""


def seconds_at(run: Run, step: float, clock: Clock = "processor") -> float | None:
    """Over all sittings. Between two notes of the journal, as if every step took as long as the others.

    None where the journal has not come so far, or was written before this clock was read.
    """
    before, total = 0, 0.0
    for row in read_rows(run.path / "timing.jsonl"):
        if clock not in row:
            return None
        steps = row["step"] - before
        if row["step"] >= step and steps > 0:
            return total + float(row[clock]) * (step - before) / steps
        before, total = row["step"], total + float(row[clock])
    return total if step <= before else None


def seconds_in_all(run: Run, clock: Clock = "processor") -> float | None:
    """All that the journal holds; None where it was written before this clock was read."""
    rows = read_rows(run.path / "timing.jsonl")
    return sum(float(row[clock]) for row in rows) if all(clock in row for row in rows) else None
