"""From a config to a finished run: what the command line and Python users call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from internalize.configs.codec import to_json
from internalize.configs.named import Copies, Source
from internalize.errors import require
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.interruption import listening
from internalize.experiments.kinds import ExperimentConfig, config_from_json
from internalize.experiments.loop import Observer, execute
from internalize.experiments.protocol import Experiment
from internalize.experiments.streams import Streams
from internalize.runs.folder import Run
from internalize.runs.identity import Identity
from internalize.runs.lock import own
from internalize.runs.provenance import provenance


def train(
    config: ExperimentConfig,
    execution: Execution | None = None,
    observers: Sequence[Observer] = (),
    **fields: Any,
) -> Run:
    """Carry an experiment out, or go on with it, or return at once if it is finished.

    fields: entries of `Execution`, for example out="runs" or device="cpu".
    """
    execution = replace(execution or Execution(), **fields)
    device = resolve_device(execution.device)
    sources = config.check({})
    identity = identity_of(config, sources)
    run = Run.create(execution.out, config.label(), identity)
    with own(run.path), threads(execution.threads):
        if execution.fresh:
            run.clear()
        if not run.is_done:
            run.begin(identity, sources, provenance(device))
            _carry_out(config, run, device, execution, observers)
    return run


def resume(run: Run, execution: Execution, observers: Sequence[Observer] = ()) -> Run:
    """Go on with an interrupted run where it stands, from its own copies of the user's files."""
    device = resolve_device(execution.device)
    config = load_config(run)
    config.check(run.copies())
    with own(run.path), threads(execution.threads):
        if not run.is_done:
            _carry_out(config, run, device, execution, observers)
    return run


def _carry_out(
    config: ExperimentConfig,
    run: Run,
    device: torch.device,
    execution: Execution,
    observers: Sequence[Observer],
) -> None:
    experiment = config.build(device, run.copies())
    with listening() as stop:
        execute(experiment, run, Streams(config.seed, device), execution, stop, observers)


def identity_of(config: ExperimentConfig, sources: Sequence[Source]) -> Identity:
    return Identity(config.kind, to_json(config), {source.name: source.digest() for source in sources})


def load_config(run: Run) -> ExperimentConfig:
    """The config that the run was made with; refused if its copies of the user's files have changed."""
    identity = run.identity()
    for name, path in run.copies().items():
        same = path.is_file() and Source(name, path).digest() == identity.sources.get(name)
        require(same, "run", f"the run's copy of {name} is missing or has changed: {path}")
    return config_from_json(identity.kind, identity.config)


def load_experiment(run: Run, device: str = "auto") -> tuple[ExperimentConfig, Experiment[Any]]:
    """The run's config and experiment, for whoever reads finished runs."""
    config = load_config(run)
    copies: Copies = run.copies()
    return config, config.build(resolve_device(device), copies)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many processor threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
