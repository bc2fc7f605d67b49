"""`--seeds N`: a config with several seeds at once, and how they came out; for every kind of experiment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rich.console import Console

from internalize.display.fleet import fleet_view
from internalize.display.terminal import errors_console, results_table
from internalize.errors import require
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.many import Outcome, execute_many
from internalize.runtime.kinds import ExperimentConfig
from internalize.statistics import Rate

Config = TypeVar("Config", bound=ExperimentConfig)
Result = Mapping[str, Any]
Columns = Mapping[str, Callable[[Result], str]]
"""Head of a column → its cell for the results of one run."""


@dataclass(frozen=True)
class SideBySide:
    """Several runs of a command at once."""

    seeds: int | None = None
    """Train this many seeds, from --seed up, side by side: one run a core, one thread a run."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""

    def __post_init__(self) -> None:
        for name, count in (("seeds", self.seeds), ("workers", self.workers)):
            require(count is None or count >= 1, name, f"must be at least 1, got {count}")

    def configs(self, config: Config) -> list[Config]:
        """One a seed; only the config itself if no number of seeds was given."""
        return [replace(config, seed=config.seed + i) for i in range(self.seeds or 1)]  # type: ignore[type-var]

    def train(self, config: ExperimentConfig, execution: Execution) -> list[Outcome]:
        return train_side_by_side(self.configs(config), execution, self.workers, f"{self.seeds} seeds")


def train_side_by_side(
    configs: Sequence[ExperimentConfig], execution: Execution, workers: int | None, title: str
) -> list[Outcome]:
    """Train all of them before the eyes of the user; says which failed, and why."""
    view = None if execution.quiet else fleet_view(title, configs[0].headline)
    outcomes = execute_many(configs, execution, workers, view)
    for outcome in outcomes:
        if outcome.state != "done":
            text = f"{outcome.config.label()}: {outcome.state}, {outcome.error}"
            errors_console().print(text, style="red", markup=False, emoji=False, soft_wrap=True)
    return outcomes


def finished(outcomes: Sequence[Outcome]) -> list[Run]:
    return [outcome.run for outcome in outcomes if outcome.state == "done" and outcome.run is not None]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    return max(outcome.exit_code for outcome in outcomes)


def result_of(run: Run) -> dict[str, Any]:
    """What a command prints of a finished run with --json."""
    return {"run": str(run.path), **run.summary(), "seconds": run.status()["seconds"]}


def report_side_by_side(
    outcomes: Sequence[Outcome],
    execution: Execution,
    columns: Columns,
    rates: Sequence[str],
    result: Callable[[Run], dict[str, Any]] = result_of,
) -> int:
    """A row a run and the rates of some yes-or-no results; or all as one JSON object. Returns the exit code.

    result: what is known of a finished run.
    """
    runs = finished(outcomes)
    results = [result(run) for run in runs]
    found = {name: Rate(sum(bool(r.get(name)) for r in results), len(results)) for name in rates if results}
    if execution.json:
        counts = {name: rate.to_json() for name, rate in found.items()}
        failed = [{"run": o.config.label(), "state": o.state, "error": o.error}
                  for o in outcomes if o.state != "done"]  # fmt: skip
        print(json.dumps({"runs": results, **counts, "failed": failed}))
    elif runs and not execution.quiet:
        console = Console(highlight=False, markup=False, emoji=False)
        rows = [[*_names(run), *(cell(result) for cell in columns.values())]
                for run, result in zip(runs, results, strict=True)]  # fmt: skip
        console.print(results_table(f"{len(runs)} runs", ["seed", "hash", *columns], rows))
        for name, rate in found.items():
            console.print(f"{name.replace('_', ' ')}: {rate.successes} of {rate.trials}, {rate}")
        console.print(f"in {execution.out}; other commands find a run by its hash", soft_wrap=True)
    return exit_code(outcomes)


def _names(run: Run) -> tuple[str, str]:
    identity = run.identity()
    return str(identity.config["seed"]), identity.digest()[:8]
