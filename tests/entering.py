"""Configs carried out or priced in one call: what commands do in several, each in its own place."""

from __future__ import annotations

from collections.abc import Sequence

from internalize import Execution
from internalize.configs.named import own_files
from internalize.kinds import prepare
from internalize.runtime.fleet.driver import FleetObserver, Outcome
from internalize.runtime.fleet.pool import execute_many
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import ExperimentConfig, cpu


def train_many(
    configs: Sequence[ExperimentConfig],
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry all configs out in worker processes."""
    with own_files():
        prepared = [prepare(config) for config in configs]
    return execute_many(prepared, execution, workers, observer)


def forecast_of(config: ExperimentConfig, execution: Execution | None = None) -> Forecast:
    """What the run will cost on the processor; nothing is timed."""
    prepared = prepare(config)
    return prepared.kind.forecast(prepared, cpu(), (execution or Execution()).keep_stages)
