"""Where configs and run folders enter the runtime: each finds its kind here, and nowhere below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from internalize.configs.codec import changed_fields, to_json
from internalize.configs.command_line import parse
from internalize.configs.named import Copies, Source
from internalize.contract import Observer
from internalize.errors import BadInput, require
from internalize.kinds import config_from_json, prepare
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution, resolve_device, threads
from internalize.runtime.experiment import Experiment
from internalize.runtime.fleet.driver import FleetObserver, Outcome
from internalize.runtime.fleet.pool import execute_many
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import ExperimentConfig, Prepared
from internalize.runtime.train import resume_prepared, train_prepared


def train(
    config: ExperimentConfig,
    execution: Execution | None = None,
    observers: Sequence[Observer] = (),
    copies: Copies | None = None,
    **fields: Any,
) -> Run:
    """Carry an experiment out, or go on with it, or return at once if it is finished.

    copies: where the user's files are if not where the config says (on another machine).
    fields: entries of `Execution`, for example out="runs" or device="cpu".
    """
    prepared = prepare(config, copies)
    return train_prepared(prepared, replace(execution or Execution(), **fields), observers)


def train_many(
    configs: Sequence[ExperimentConfig],
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry all configs out in worker processes on this machine; see `execute_many`."""
    return execute_many([prepare(config) for config in configs], execution, workers, observer)


def resume(run: Run, execution: Execution, observers: Sequence[Observer] = ()) -> Run:
    """Go on with an interrupted run where it stands, from its own copies of the user's files."""
    return resume_prepared(prepare_run(run), run, execution, observers)


def run_folder(config: ExperimentConfig, out: Path, copies: Copies | None = None) -> Path:
    """Where the run of this config is or will be below `out`."""
    return prepare(config, copies).folder(out)


def load_config(run: Run) -> Any:
    """The config that the run was made with; refused if its copies of the user's files have changed."""
    identity = run.identity()
    copies = run.copies()
    for name, path in copies.items():
        same = path.is_file() and Source(name, path).digest() == identity.sources.get(name)
        require(same, "run", f"the run's copy of {name} is missing or has changed: {path}")
    return config_from_json(identity.kind, dict(identity.config), copies)


def prepare_run(run: Run) -> Prepared:
    """The run's own config, prepared with its own copies of the user's files.

    Files that were too large to be copied must still be where they were, as they were.
    """
    prepared = prepare(load_config(run), run.copies())
    recorded = run.identity().sources
    for name, digest in prepared.identity.sources.items():
        same = recorded.get(name, digest) == digest
        require(same, "run", f"{name} has changed since {run.path} was made from it, and the run has no copy")
    return prepared


def load_experiment(run: Run, device: str = "auto") -> tuple[Any, Experiment[Any]]:
    """The run's config and experiment, for whoever reads finished runs."""
    prepared = prepare_run(run)
    return prepared.config, prepared.build(resolve_device(device))


def refuse_changes(run: Run, config: ExperimentConfig, words: Sequence[str]) -> None:
    """Refuse words of the command line that would make the run another one, naming the field."""
    if not words:
        return
    wanted = parse(type(config), list(words), "internalize resume", default=config)
    for name in changed_fields(to_json(config), to_json(wanted)):
        raise BadInput(
            name,
            f"cannot change on resume: {run.path} was made with another value, and another value is another "
            f"run; use internalize train",
        )


def forecast_of(config: ExperimentConfig, execution: Execution | None = None, timed: bool = False) -> Forecast:
    """What the run of this config will cost, by its kind; nothing is trained unless it is to be timed."""
    execution, prepared = execution or Execution(), prepare(config)
    with threads(execution.threads):
        device = resolve_device(execution.device)
        return prepared.kind.forecast(prepared, device, execution.keep_stages, timed)
