"""`--seeds N`: a config with several seeds at once, and how they came out; for every kind of experiment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from internalize.contract import RunState, named, still_speaking
from internalize.display.terminal import PlainConsole, errors_console, fleet_view, results_table
from internalize.errors import Interrupted, RunFailed, require
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution, resolve_device, result_of, say_if_done
from internalize.runtime.fleet.driver import Outcome
from internalize.runtime.fleet.pool import execute_many
from internalize.runtime.kind import Columns, Prepared, prepare_by
from internalize.statistics import rates_of

if TYPE_CHECKING:
    import torch

MOST = 100_000
"""Runs of one command: each is prepared before the first begins."""


@dataclass(frozen=True)
class SideBySide:
    """Several runs of a command at once."""

    seeds: int | None = None
    """Train this many seeds, from --seed up, side by side: one run on each core, with one thread."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""

    def __post_init__(self) -> None:
        for name, count in (("seeds", self.seeds), ("workers", self.workers)):
            require(count is None or count >= 1, name, f"must be at least 1, got {count}")
            require(count is None or count <= MOST, name, f"must be at most {MOST:,}, got {count}")

    def is_one_run(self) -> bool:
        """Whether no number of seeds was given; then there is nothing to do at the same time."""
        alone = self.seeds is None
        require(not alone or self.workers is None, "workers", "belongs to --seeds: one run is one process")
        return alone

    def with_seeds(self, prepared: Prepared) -> list[Prepared]:
        """One for each seed; only the prepared config itself if no number of seeds was given."""
        config, kind = prepared.config, prepared.kind
        others = [replace(config, seed=config.seed + i) for i in range(1, self.seeds or 1)]
        return [prepared, *(prepare_by(kind, other, prepared.copies) for other in others)]

    def train(self, prepared: Prepared, execution: Execution) -> list[Outcome]:
        every = self.with_seeds(prepared)
        silent = execution.quiet or execution.fresh
        for other in [] if silent else every[1:]:  # of the first it was said
            if (folder := other.folder(execution.out)).exists():
                say_if_done(other, folder)
        return train_side_by_side(every, execution, self.workers, f"{self.seeds} seeds")


def train_side_by_side(
    prepared: Sequence[Prepared], execution: Execution, workers: int | None, title: str
) -> list[Outcome]:
    """Train all of them, with a view of their progress; then say which failed, and why.

    What this machine cannot hold or end is refused before any of them begins.
    """
    _require_possible(prepared, resolve_device(execution.device))
    results = prepared[0].kind.results
    view = None if execution.quiet else fleet_view(title, results.headline, unit=results.unit)
    outcomes = execute_many(prepared, execution, workers, view)
    for outcome in outcomes:
        if outcome.state != RunState.DONE:
            text = f"{outcome.prepared.label}: {outcome.state}, {outcome.error}"
            errors_console().print(text, style="red", markup=False, emoji=False, soft_wrap=True)
    return outcomes


def _require_possible(prepared: Sequence[Prepared], device: torch.device) -> None:
    """What seeds have in common is counted once."""
    shapes = {json.dumps({**one.identity.config, "seed": 0}, sort_keys=True): one for one in prepared}
    for one in shapes.values():
        one.kind.forecast(one, device).require_memory(device)


def finished(outcomes: Sequence[Outcome]) -> list[Run]:
    return [outcome.run for outcome in outcomes if outcome.state == RunState.DONE and outcome.run is not None]


def require_finished(outcomes: Sequence[Outcome]) -> list[Run]:
    """All runs, for a result that needs every one; else how the first that is missing ended."""
    for outcome in outcomes:
        if outcome.exit_code > 128:
            raise Interrupted(outcome.exit_code - 128, None)
        if outcome.state != RunState.DONE or outcome.run is None:
            raise RunFailed(
                f"{outcome.prepared.label} {outcome.state}: {outcome.error}; the same command goes on"
            )
    return finished(outcomes)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    return max(outcome.exit_code for outcome in outcomes)


def report_side_by_side(
    outcomes: Sequence[Outcome],
    execution: Execution,
    columns: Columns,
    rates: Sequence[str],
    result: Callable[[Run], dict[str, Any]] = result_of,
) -> int:
    """A table with a row for each run, and rates of yes-or-no results; or one JSON object. Gives the exit code.

    result: what is known of a finished run.
    """
    runs = finished(outcomes)
    results = [result(run) for run in runs]
    found = rates_of(results, rates)
    if execution.json:
        counts = {name: rate.to_json() for name, rate in found.items()}
        failed = [{"run": o.prepared.label, "state": o.state, "error": o.error}
                  for o in outcomes if o.state != RunState.DONE]  # fmt: skip
        print(json.dumps({"runs": results, **counts, "failed": failed}))
    elif runs and not execution.quiet:
        console = PlainConsole(markup=False, emoji=False)
        rows = [[*_names(run), *(cell(result) for cell in columns.values())]
                for run, result in zip(runs, results, strict=True)]  # fmt: skip
        console.print(results_table(f"{len(runs)} runs", ["seed", "hash", *columns], rows))
        for name, rate in found.items():
            console.print(f"{named(name)}: {rate.successes} of {rate.trials}, {rate}")
        for run, found_of in zip(runs, results, strict=True):
            if said := still_speaking(found_of):
                console.print(f"warning: seed {_names(run)[0]} {said}", style="yellow", soft_wrap=True)
        console.print(f"in {execution.out}; other commands find a run by its hash", soft_wrap=True)
    return exit_code(outcomes)


def _names(run: Run) -> tuple[str, str]:
    identity = run.identity()
    return str(identity.config["seed"]), identity.digest()[:8]
