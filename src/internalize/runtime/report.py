"""What a command says of one run: how long it will take, how it goes, and what came out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from internalize.contract import Observer
from internalize.display.terminal import duration, errors_console, percent, results_table, run_view
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution, resolve_device, threads
from internalize.runtime.kind import Prepared


def announce(prepared: Prepared, execution: Execution) -> None:
    """Say beforehand how long it will take and how much memory, unless the run is there already."""
    if prepared.folder(execution.out).exists() and not execution.fresh:
        return
    device = resolve_device(execution.device)
    prepared.kind.forecast(prepared, device).require_memory(device)
    with threads(execution.threads):
        guess = prepared.kind.forecast(prepared, device, timed=True)
    errors_console().print(
        f"{prepared.label}: {guess.parameters:,} parameters; about {duration(guess.seconds or 0.0)} and "
        f"{guess.memory_bytes / 2**20:,.0f} MB",
        soft_wrap=True,
    )


def observers_for(prepared: Prepared, execution: Execution) -> list[Observer]:
    """Who watches a run that these fields ask for."""
    if execution.quiet:
        return []
    results = prepared.kind.results
    return [run_view(prepared.label, results.headline, results.samples_per_step(prepared.config))]


def result_of(run: Run) -> dict[str, Any]:
    """What a command prints of a finished run with --json."""
    return {"run": str(run.path), **run.summary(), "seconds": run.status()["seconds"]}


def report(run: Run, execution: Execution) -> None:
    """Print a finished run's results: a table for people, or one JSON object."""
    status, summary = run.status(), run.summary()
    if execution.json:
        print(json.dumps(result_of(run)))
    elif not execution.quiet:
        rows = [
            [name.replace("_", " "), readable(name, value) + _interval_beside(name, summary)]
            for name, value in summary.items()
            if not name.endswith("_interval")
        ]
        Console(highlight=False).print(results_table(run.path.name, ["result", ""], rows))
        Console(highlight=False).print(f"{duration(status['seconds'])}, {run.path}", soft_wrap=True)


def _interval_beside(name: str, summary: Mapping[str, Any]) -> str:
    """` [98.1 %, 98.6 %]` for an accuracy whose interval the summary has too."""
    interval = summary.get(name.replace("_accuracy", "_interval"))
    if not (name.endswith("_accuracy") and isinstance(interval, list)):
        return ""
    return f" [{percent(interval[0])}, {percent(interval[1])}]"


def readable(name: str, value: Any) -> str:
    """A result as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return percent(value) if name.endswith("accuracy") else f"{value:,.{0 if value >= 1000 else 2}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
