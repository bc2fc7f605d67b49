"""Many runs at once on this machine: one run a core, one thread a run. Seeds, sweeps and figures come here."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from internalize.configs.codec import to_json
from internalize.contract import End, Ended, Event, event_from_json
from internalize.errors import require
from internalize.runs.provenance import usable_cores
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.driver import FleetObserver, Outcome, drive
from internalize.runtime.kind import Prepared


def execute_many(
    prepared: Sequence[Prepared],
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry all of them out in worker processes on this machine; the outcomes are in the same order.

    workers: how many at once; one a core if not given. What is finished already is not done again; a run
    that fails leaves the others alone.
    """
    outcomes = [Outcome(one) for one in prepared]
    drive(outcomes, local_pool(execution, workers, len(prepared)), observer)
    return outcomes


def local_pool(execution: Execution, workers: int | None, runs: int, rows: bool = False) -> LocalPool:
    """Workers for so many runs; as many as there are cores if not said otherwise. rows: see `LocalPool`."""
    if workers is None:
        workers = max(1, usable_cores() // (execution.threads or 1))
    require(workers >= 1, "workers", f"must be at least 1, got {workers}")
    return LocalPool(execution, min(workers, runs), rows=rows)


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
class LocalPool:
    """At most `size` workers, started when first needed, and the one queue in which their events arrive."""

    execution: Execution
    size: int
    workers: list[_Worker] = field(default_factory=list)
    rows: bool = False
    """Whether a run leaves a row behind, and no folder."""
    said: queue.Queue[tuple[_Worker, Event | None]] = field(default_factory=queue.Queue)
    """(worker, event), and (worker, None) at its end."""

    def free(self) -> int:
        return self.size - sum(worker.job is not None for worker in self.workers)

    def submit(self, index: int, prepared: Prepared, again: bool) -> None:
        worker = next((worker for worker in self.workers if worker.job is None), None) or self._start_worker()
        job = {
            "kind": prepared.place,
            "config": to_json(prepared.config),
            "execution": to_json(self.execution),
            "again": again,
            "row": self.rows,
        }
        worker.job = index
        assert worker.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its listener tells that it is dead
            worker.process.stdin.write(json.dumps(job) + "\n")
            worker.process.stdin.flush()

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        """What was said since the last call; waits so many seconds for a first word."""
        found: list[tuple[int, Event]] = []
        until = time.monotonic() + timeout
        while not found:
            try:
                worker, event = self.said.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if event is None:
                event = self._bury(worker)
            if worker.job is None:
                continue
            found.append((worker.job, event))
            if isinstance(event, Ended):
                worker.job = None
        return found

    def _bury(self, worker: _Worker) -> Ended:
        self.workers.remove(worker)
        worker.close()
        code = worker.process.returncode
        end, how = (End.LOST, f"signal {-code}") if code < 0 else (End.FAILED, f"exit code {code}")
        return Ended(end, f"the worker process died ({how})", exit_code=1)

    def stop(self) -> None:
        """Ask for checkpoints. The workers are a process group each: no Ctrl-C reaches them by itself."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def _start_worker(self) -> _Worker:
        process = subprocess.Popen(
            _command(),
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            process_group=0,
        )
        worker = _Worker(process)
        self.workers.append(worker)
        worker.listener = threading.Thread(target=self._listen, args=(worker,), daemon=True)
        worker.listener.start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        try:
            for line in worker.process.stdout:
                if line.endswith("\n"):  # else it died in the middle of it
                    self.said.put((worker, event_from_json(json.loads(line))))
        finally:  # whatever happened: a worker whose end is not told is waited for in vain
            self.said.put((worker, None))


# The worker's interpreter ----------------------------------------------------------------------------------

BOOT = """
import sys
from importlib.util import module_from_spec, spec_from_file_location

place = sys.argv[1]
spec = spec_from_file_location("internalize", place + "/__init__.py", submodule_search_locations=[place])
package = sys.modules["internalize"] = module_from_spec(spec)
spec.loader.exec_module(package)

from internalize.runtime.fleet.worker import main
main()
"""
"""Loads this very package, wherever it is, without a search for it."""


def _command() -> list[str]:
    """Starts a worker that imports nothing from the folder in which the user is: Python's safe path."""
    package = Path(__file__).resolve().parents[2]
    return [sys.executable, "-P", "-c", BOOT, str(package)]


def _environment() -> dict[str, str]:
    """Empty entries of PYTHONPATH, which are easily there by accident, would mean the user's folder."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}
