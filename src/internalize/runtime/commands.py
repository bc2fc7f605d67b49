"""`internalize train` and `internalize resume`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from internalize.configs.folders import require_writable
from internalize.display.terminal import duration, errors_console, percent, results_table, run_view
from internalize.errors import require
from internalize.kinds.chain import ChainConfig
from internalize.kinds.chain.estimate import estimate
from internalize.kinds.chain.presets import PresetName, preset_in
from internalize.runs.folder import Run
from internalize.runtime.capacity import require_capacity
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.seeds import (
    Columns,
    SideBySide,
    report_side_by_side,
    result_of,
)
from internalize.runtime.kinds import ExperimentConfig
from internalize.runtime.loop import Observer
from internalize.runtime.resuming import refuse_changes
from internalize.runtime.training import load_config, resume, run_folder, threads, train


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)
    preset: PresetName | None = None
    """What the fields that are not given are: the paper's protocol (also without a preset), or the recipe that
    takes small models through on a laptop."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> TrainArguments | None:
        """What the words depart from, if they name a preset."""
        config = preset_in(words)
        return None if config is None else cls(config=config)


def train_command(arguments: TrainArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    require_writable(execution.out)
    config.check({})
    if not execution.quiet:
        _announce(config, execution)
    if arguments.many.seeds is None:
        report(train(config, execution, observers_for(config, execution)), execution)
        return None
    outcomes = arguments.many.train(config, execution)
    return report_side_by_side(outcomes, execution, COLUMNS, ("succeeded", "ood_succeeded", "internalized"))


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
    device = resolve_device(execution.device)
    require_capacity(config, device, {})
    with threads(execution.threads):
        guess = estimate(config, device)
    errors_console().print(
        f"{config.label()}: {guess.parameters:,} parameters; about {duration(guess.seconds)} and "
        f"{guess.megabytes:,.0f} MB"
    )


def report(run: Run, execution: Execution) -> None:
    """Print a finished run's results: a table for people, or one JSON object."""
    status, summary = run.status(), run.summary()
    if execution.json:
        print(json.dumps(result_of(run)))
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


COLUMNS: Columns = {
    "ID": lambda result: percent(result["id_accuracy"]),
    "OOD": lambda result: percent(result["ood_accuracy"]),
    "tokens": lambda result: _readable("response_length", result["response_length"]),
    "internalized": lambda result: _readable("internalized", result["internalized"]),
}
"""What is said of each of several seeds."""
