"""Many configs at once: one run a core, one thread a run. Seeds, sweeps and figures all come here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from internalize.configs.trust import own_files
from internalize.errors import require
from internalize.experiments.driving import Backend, Driver, FleetObserver, Outcome
from internalize.experiments.execution import Execution
from internalize.experiments.interruption import listening
from internalize.experiments.kinds import ExperimentConfig
from internalize.experiments.pool import LocalPool

__all__ = ["Backend", "FleetObserver", "Outcome", "drive", "execute_many"]


def execute_many(
    configs: Sequence[ExperimentConfig],
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry all configs out in worker processes on this machine; the outcomes are in the configs' order.

    workers: how many at once; one a core if not given. What is finished already is not done again; a run
    that fails leaves the others alone.
    """
    with own_files():
        for config in configs:
            config.check({})
    outcomes = [Outcome(config) for config in configs]
    drive(outcomes, local_pool(execution, workers, len(configs)), observer)
    return outcomes


def local_pool(execution: Execution, workers: int | None, runs: int) -> LocalPool:
    """Workers for so many runs; as many as there are cores if not said otherwise."""
    if workers is None:
        workers = max(1, (os.cpu_count() or 1) // (execution.threads or 1))
    require(workers >= 1, "workers", f"must be at least 1, got {workers}")
    return LocalPool(execution, min(workers, runs))


def drive(
    outcomes: list[Outcome],
    backend: Backend,
    observer: FleetObserver | None = None,
    retries: int = 0,
    folders: Sequence[Path] | None = None,
    forgiving: bool = False,
    names: Sequence[str] | None = None,
) -> None:
    """Carry out, on a backend, all that waits; the outcomes are changed in place.

    retries: how often a run that failed is tried again.
    folders: of the runs. Where given, runs that another process is training are waited for, and taken over
    if it dies; else they count as failed.
    forgiving: whether runs whose folders say that they failed before go on all the same.
    names: what the observer is to call the runs; their labels if not given.
    """
    driver = Driver(outcomes, backend, observer, retries, folders, forgiving)
    if observer is not None:
        observer.begin(names or [outcome.config.label() for outcome in outcomes])
    try:
        with listening(aloud=observer is not None) as stop:
            driver.run(lambda: stop.signal)
    finally:
        backend.close()
        if observer is not None:
            observer.end()
