"""Many configs at once: one run a core, one thread a run. Seeds, sweeps and figures all come here."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from internalize.configs.codec import to_json
from internalize.errors import require
from internalize.experiments.execution import Execution
from internalize.experiments.interruption import listening
from internalize.experiments.kinds import ExperimentConfig
from internalize.runs.folder import Run


@dataclass
class Outcome:
    """How one run of many ended."""

    config: ExperimentConfig
    state: str = "waiting"
    """waiting, running, done, failed or interrupted."""
    run: Run | None = None
    error: str = ""
    exit_code: int = 0


class FleetObserver(Protocol):
    """Whoever watches many runs."""

    def begin(self, names: Sequence[str]) -> None: ...

    def event(self, index: int, event: Mapping[str, Any]) -> None:
        """An event of the worker protocol, of the run with this index."""

    def end(self) -> None: ...


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    job: int | None = None
    listener: threading.Thread | None = None

    def close(self) -> None:
        """No more jobs; wait until it has ended and all that it said was heard."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it may be dead already
            self.process.stdin.close()
        self.process.wait()
        if self.listener is not None:
            self.listener.join()
        self.process.stdout.close()


@dataclass
class _Pool:
    """The workers, and the one queue in which their events arrive as (worker, event or None at its end)."""

    execution: Execution
    workers: list[_Worker] = field(default_factory=list)
    events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = field(default_factory=queue.Queue)

    def start_worker(self) -> _Worker:
        process = subprocess.Popen(
            [sys.executable, "-m", "internalize.experiments.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        worker = _Worker(process)
        self.workers.append(worker)
        worker.listener = threading.Thread(target=self._listen, args=(worker,), daemon=True)
        worker.listener.start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for line in worker.process.stdout:
            self.events.put((worker, json.loads(line)))
        self.events.put((worker, None))

    def give(self, worker: _Worker, index: int, config: ExperimentConfig) -> None:
        assert worker.process.stdin is not None
        job = {"kind": config.kind, "config": to_json(config), "execution": to_json(self.execution)}
        worker.job = index
        worker.process.stdin.write(json.dumps(job) + "\n")
        worker.process.stdin.flush()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


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
    for config in configs:
        config.check({})
    if workers is None:
        workers = max(1, (os.cpu_count() or 1) // (execution.threads or 1))
    require(workers >= 1, "workers", f"must be at least 1, got {workers}")
    outcomes = [Outcome(config) for config in configs]
    if observer is not None:
        observer.begin([config.label() for config in configs])
    pool = _Pool(execution)
    try:
        with listening() as stop:
            _drive(pool, outcomes, min(workers, len(configs)), observer, lambda: stop.signal)
    finally:
        pool.close()
        if observer is not None:
            observer.end()
    return outcomes


def _drive(
    pool: _Pool,
    outcomes: list[Outcome],
    workers: int,
    observer: FleetObserver | None,
    stop: Callable[[], int | None],
) -> None:
    """Hand out the waiting runs until all have ended, or, when asked to stop, until the running ones have."""
    waiting = list(range(len(outcomes)))
    for _ in range(workers):
        _give_next(pool, pool.start_worker(), waiting, outcomes)
    told = False
    while any(worker.job is not None for worker in pool.workers):
        number = stop()
        if number is not None and not told:
            waiting.clear()
            _forward(pool, number)
            told = True
        try:
            worker, event = pool.events.get(timeout=0.2)
        except queue.Empty:
            continue
        if worker.job is None:
            continue
        if event is None:
            event = {"event": "failed", "error": "the worker process died", "exit_code": 1}
            pool.workers.remove(worker)
            worker.close()
            if waiting:
                _give_next(pool, pool.start_worker(), waiting, outcomes)
        index = worker.job
        _note(outcomes[index], event)
        if observer is not None:
            observer.event(index, event)
        if event["event"] in ("done", "failed", "interrupted"):
            worker.job = None
            if worker in pool.workers:
                _give_next(pool, worker, waiting, outcomes)


def _give_next(pool: _Pool, worker: _Worker, waiting: list[int], outcomes: list[Outcome]) -> None:
    if waiting:
        index = waiting.pop(0)
        outcomes[index].state = "running"
        pool.give(worker, index, outcomes[index].config)


def _note(outcome: Outcome, event: Mapping[str, Any]) -> None:
    if "run" in event:
        outcome.run = Run.open(event["run"])
    if event["event"] in ("done", "failed", "interrupted"):
        outcome.state = event["event"]
        outcome.error = event.get("error", "")
        outcome.exit_code = event.get("exit_code", 0)


def _forward(pool: _Pool, number: int) -> None:
    """Ctrl-C reaches every process of a terminal by itself; SIGTERM reaches only the one it was sent to."""
    if number != signal.SIGINT:
        for worker in pool.workers:
            worker.process.send_signal(number)
