"""`internalize train` and `internalize resume`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from internalize.configs.folders import require_writable
from internalize.display.fleet import fleet_view
from internalize.display.terminal import duration, errors_console, percent, results_table, run_view
from internalize.errors import require
from internalize.experiments.chain import ChainConfig
from internalize.experiments.chain.estimate import estimate
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.kinds import ExperimentConfig
from internalize.experiments.loop import Observer
from internalize.experiments.many import Outcome, execute_many
from internalize.experiments.resuming import refuse_changes
from internalize.experiments.training import load_config, resume, run_folder, threads, train
from internalize.runs.folder import Run
from internalize.statistics import Rate


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    seeds: int | None = None
    """Train this many seeds, from --seed up, side by side: one run a core, one thread a run."""
    workers: int | None = None
    """Runs at the same time, with --seeds; as many as there are cores if not given."""

    def __post_init__(self) -> None:
        for name, count in (("seeds", self.seeds), ("workers", self.workers)):
            require(count is None or count >= 1, name, f"must be at least 1, got {count}")


def train_command(arguments: TrainArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    require_writable(execution.out)
    config.check({})
    if not execution.quiet:
        _announce(config, execution)
    if arguments.seeds is not None:
        return _train_seeds(config, arguments.seeds, arguments.workers, execution)
    report(train(config, execution, observers_for(config, execution)), execution)
    return None


def _train_seeds(config: ChainConfig, seeds: int, workers: int | None, execution: Execution) -> int:
    configs = [replace(config, seed=config.seed + i) for i in range(seeds)]
    view = None if execution.quiet else fleet_view(f"{seeds} seeds", config.headline)
    outcomes = execute_many(configs, execution, workers, view)
    report_many(outcomes, execution)
    return max(outcome.exit_code for outcome in outcomes)


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with an interrupted run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    rest: tyro.conf.Suppress[tuple[str, ...]] = ()
    """Whatever else was given: fields of the run's config, which must be as they are."""


def resume_command(arguments: ResumeArguments) -> None:
    execution = arguments.execution
    require(not execution.fresh, "fresh", "belongs to train: resume goes on with what is there")
    run = Run.open(arguments.run)
    config = load_config(run)
    refuse_changes(run, config, arguments.rest)
    report(resume(run, execution, observers_for(config, execution)), execution)


def observers_for(config: ExperimentConfig, execution: Execution) -> list[Observer]:
    """Who watches a run that these fields ask for."""
    if execution.quiet:
        return []
    return [run_view(config.label(), config.headline, config.samples_per_step)]


def _announce(config: ChainConfig, execution: Execution) -> None:
    """Say beforehand how long it will take and how much memory, unless the run is there already."""
    if run_folder(config, execution.out).exists() and not execution.fresh:
        return
    with threads(execution.threads):
        guess = estimate(config, resolve_device(execution.device))
    errors_console().print(
        f"{config.label()}: {guess.parameters:,} parameters; about {duration(guess.seconds)} and "
        f"{guess.megabytes:,.0f} MB"
    )


def report(run: Run, execution: Execution) -> None:
    """Print a finished run's results: a table for people, or one JSON object."""
    status, summary = run.status(), run.summary()
    if execution.json:
        print(json.dumps({"run": str(run.path), **summary, "seconds": status["seconds"]}))
    elif not execution.quiet:
        rows = [
            [name.replace("_", " "), _readable(name, value) + _interval_beside(name, summary)]
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


def _readable(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return percent(value) if name.endswith("_accuracy") else f"{value:,.{0 if value >= 1000 else 2}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def report_many(outcomes: list[Outcome], execution: Execution) -> None:
    """Print how many runs succeeded, and each of them."""
    done = [(o.run, o.run.summary()) for o in outcomes if o.state == "done" and o.run is not None]
    rates = {
        name: Rate(sum(bool(summary.get(name)) for _, summary in done), len(done))
        for name in ("succeeded", "ood_succeeded", "internalized")
        if done
    }
    failed = [
        {"run": o.config.label(), "state": o.state, "error": o.error} for o in outcomes if o.state != "done"
    ]
    if execution.json:
        runs = [{"run": str(run.path), **summary, "seconds": run.status()["seconds"]} for run, summary in done]
        counts = {name: {"count": r.successes, "of": r.trials, "interval": [r.interval.low, r.interval.high]}
                  for name, r in rates.items()}  # fmt: skip
        print(json.dumps({"runs": runs, **counts, "failed": failed}))
        return
    for failure in failed:
        errors_console().print(f"{failure['run']}: {failure['state']}, {failure['error']}", style="red")
    if execution.quiet or not done:
        return
    names = ["id_accuracy", "ood_accuracy", "response_length", "internalized"]
    rows = [[run.path.name, *(_readable(name, summary[name]) for name in names)] for run, summary in done]
    console = Console(highlight=False)
    console.print(results_table(f"{len(done)} runs", ["run", "ID", "OOD", "tokens", "internalized"], rows))
    for name, rate in rates.items():
        console.print(f"{name.replace('_', ' ')}: {rate.successes} of {rate.trials}, {rate}")
