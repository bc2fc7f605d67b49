"""`internalize train` and `internalize resume`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from internalize.display.terminal import duration, errors_console, percent, results_table, run_view
from internalize.errors import require
from internalize.experiments.chain import ChainConfig
from internalize.experiments.chain.estimate import estimate
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.kinds import ExperimentConfig
from internalize.experiments.loop import Observer
from internalize.experiments.training import identity_of, load_config, resume, threads, train
from internalize.runs.folder import Run


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)


def train_command(arguments: TrainArguments) -> None:
    config, execution = arguments.config, arguments.execution
    if not execution.quiet:
        _announce(config, execution)
    report(train(config, execution, observers_for(config, execution)), execution)


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with an interrupted run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)


def resume_command(arguments: ResumeArguments) -> None:
    execution = arguments.execution
    require(not execution.fresh, "fresh", "belongs to train: resume goes on with what is there")
    run = Run.open(arguments.run)
    config = load_config(run)
    report(resume(run, execution, observers_for(config, execution)), execution)


def observers_for(config: ExperimentConfig, execution: Execution) -> list[Observer]:
    """Who watches a run that these fields ask for."""
    if execution.quiet:
        return []
    return [run_view(config.label(), config.headline, config.samples_per_step)]


def _announce(config: ChainConfig, execution: Execution) -> None:
    """Say beforehand how long it will take and how much memory, unless the run is there already."""
    sources = config.check({})
    folder = execution.out / identity_of(config, sources).folder_name(config.label())
    if folder.exists() and not execution.fresh:
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
        rows = [[name, _readable(name, value)] for name, value in summary.items() if "interval" not in name]
        for row in rows:
            interval = summary.get(row[0].replace("_accuracy", "_interval"))
            if row[0].endswith("_accuracy") and isinstance(interval, list):
                row[1] += f" [{percent(interval[0])}, {percent(interval[1])}]"
        Console(highlight=False).print(results_table(run.path.name, ["result", ""], rows))
        Console(highlight=False).print(f"{duration(status['seconds'])}, {run.path}", soft_wrap=True)


def _readable(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return percent(value) if name.endswith("_accuracy") else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
