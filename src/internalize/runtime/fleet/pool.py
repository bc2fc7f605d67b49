"""Many runs at once on this machine: one run on each core, with one thread. For seeds, sweeps, figures."""

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from internalize.configs.codec import from_json, to_json
from internalize.configs.files import dropping_remarks, dropping_results
from internalize.configs.named import Copies, own_files
from internalize.contract import (
    Begun,
    End,
    Ended,
    Event,
    Observer,
    Row,
    RunState,
    Stage,
    Stepped,
    Written,
    event_from_json,
    event_to_json,
)
from internalize.errors import BadInput, Interrupted, RunFailed, require
from internalize.runs.folder import Run
from internalize.runs.provenance import usable_cores
from internalize.runs.storage import Journal, Owned, own, read_rows
from internalize.runtime.execution import Execution, observers_for, visible_gpus
from internalize.runtime.fleet.driver import FleetObserver, Outcome, drive
from internalize.runtime.kind import Prepared, load_kind, prepare_by
from internalize.runtime.train import compute_prepared, train_prepared


def execute_many(
    prepared: Sequence[Prepared],
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry all of them out in worker processes on this machine; the outcomes are in the same order.

    workers: how many at once; one for each core if not given. What is finished already is not done again; a run
    that fails leaves the others alone.
    """
    outcomes = [Outcome(one) for one in prepared]
    drive(outcomes, local_pool(execution, workers, len(prepared)), observer)
    return outcomes


def local_pool(execution: Execution, workers: int | None, runs: int, rows: bool = False) -> LocalPool:
    """Workers for so many runs. If not said otherwise, as many as there are cores; where runs compute on GPUs,
    not more than fit them. rows: see `LocalPool`."""
    gpus = visible_gpus(execution.device)
    if workers is None:
        workers = max(1, usable_cores() // (execution.threads or 1))
        workers = min(workers, RUNS_A_GPU * len(gpus)) if gpus else workers
    require(workers >= 1, "workers", f"must be at least 1, got {workers}")
    return LocalPool(execution, min(workers, runs), rows=rows, gpus=gpus)


RUNS_A_GPU = 4
"""A guess: small models leave most of a GPU idle. It was never tried on real hardware."""


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    gpu: str | None = None
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
    gpus: Sequence[str] = ()
    """Each worker sees one of them, and no two workers the same while another is free."""
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
        taken = Counter(worker.gpu for worker in self.workers)
        gpu = min(self.gpus, key=lambda one: taken[one], default=None)
        process = subprocess.Popen(
            _command(),
            env=_environment() | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            process_group=0,
        )
        worker = _Worker(process, gpu)
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

from internalize.runtime.fleet.pool import main
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


HEARTBEAT = 0.25
"""Seconds between two reports of progress."""


class Reporter:
    """An observer that tells what it sees as events."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self.tell = tell
        self._last = 0.0

    def begin(self, folder: Path, stage: Stage) -> None:
        self.tell(Begun(stage, str(folder)))

    def stepped(self, stage: Stage) -> None:
        now = time.perf_counter()
        if now - self._last >= HEARTBEAT:
            self._last = now
            self.tell(Stepped(stage))

    def row(self, row: Row, stage: Stage) -> None:
        self.tell(Written(stage, row))

    def end(self, state: RunState, summary: Row) -> None:
        """The job's own last line says how it ended."""


def carry_out(
    job: Mapping[str, Any],
    reporter: Reporter,
    observers: Sequence[Observer] = (),
    copies: Copies | None = None,
) -> None:
    """One run from beginning to end; whatever happens becomes an event."""
    without_folder = job.get("row", False)
    try:
        with own_files():  # whoever sent the job named them for a training
            kind = load_kind(job["kind"], copies)
            prepared = prepare_by(kind, from_json(kind.config, job["config"]), copies)
        execution = from_json(Execution, job["execution"])
        if without_folder:
            reporter.tell(Ended(End.DONE, row=compute_prepared(prepared, execution)))
            return
        if job.get("again"):
            forgive(Run(prepared.folder(execution.out)))
        pages = observers_for(prepared, replace(execution, quiet=True))
        run = train_prepared(prepared, execution, [reporter, *observers, *pages])
        reporter.tell(Ended(End.DONE, run=str(run.path)))
    except Interrupted as stopped:
        reporter.tell(Ended(End.INTERRUPTED, str(stopped), stopped.exit_code))
    except Owned as problem:
        reporter.tell(Ended(End.BUSY, str(problem)))
    except Exception as problem:  # a full disk, a mistake in somebody's task: the other runs go on
        known = isinstance(problem, BadInput | RunFailed | OSError)
        text = str(problem) if known else f"{type(problem).__name__}: {problem}"
        code = 2 if isinstance(problem, BadInput) else 1
        # a run that would fail in the same way again: that is known of it from now on
        row: Row | None = {} if without_folder and isinstance(problem, RunFailed) else None
        reporter.tell(Ended(End.FAILED, text, code, row=row))


def forgive(run: Run) -> None:
    """Let a run that failed go on from its last good checkpoint."""
    if run.status()["state"] == RunState.FAILED:
        with own(run.path):
            run.set_status(RunState.INTERRUPTED, message="tried again")


class Jobs:
    """The lines of stdin, read ahead so that the end of whoever gives the jobs is noticed at once."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._in_hand = self._ended = False
        self._deciding = threading.Lock()
        """For both: no job is begun after the end, and whatever was begun before is told of it."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            if line.endswith("\n"):  # else its writer died in the middle of it
                self._lines.put(line)
        with self._deciding:
            self._ended = True
            if self._in_hand:  # nobody waits for this run any more: a checkpoint, and out
                os.kill(os.getpid(), signal.SIGTERM)
        self._lines.put(None)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        while (line := self._lines.get()) is not None and self._take_in_hand():
            yield json.loads(line)
            with self._deciding:
                self._in_hand = False

    def _take_in_hand(self) -> bool:
        with self._deciding:
            self._in_hand = not self._ended
            return self._in_hand


def main() -> None:
    # Events have the original stdout to themselves; whatever a user's module prints goes to stderr.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with dropping_remarks(), dropping_results():
        os.dup2(2, 1)
        reporter = Reporter(lambda event: print(json.dumps(event_to_json(event)), file=events, flush=True))
        try:
            for job in Jobs():
                carry_out(job, reporter)
        except BrokenPipeError:  # nobody listens any more; the run itself has ended well
            os._exit(1)


ROWS = "rows.jsonl"


def execute_rows(
    prepared: Sequence[Prepared],
    folder: Path,
    execution: Execution,
    workers: int | None = None,
    observer: FleetObserver | None = None,
) -> list[Outcome]:
    """Carry out whatever has no row in `folder` yet; the outcomes are in the same order, with their rows.

    A config that stands there twice is computed once. One process at a time owns the folder; it alone writes,
    a whole row as soon as a run has ended. With `execution.fresh` the rows of these configs are made anew.
    """
    with own(folder):
        known = {} if execution.fresh else rows_by_identity(folder)
        others = _others(folder, prepared) if execution.fresh else list(known.values())
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in others)
        journal = Journal(folder / ROWS, lines.encode())  # without a line that a kill has cut off
        outcomes = {one.identity.digest(): _outcome(one, known) for one in prepared}
        waiting = [outcome for outcome in outcomes.values() if outcome.state == RunState.WAITING]
        if waiting:
            pool = local_pool(execution, workers, len(waiting), rows=True)
            drive(waiting, pool, observer, keep=lambda outcome: journal.append(_row(outcome)))
            journal.sync()
    return [outcomes[one.identity.digest()] for one in prepared]


def rows_by_identity(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows that are there, by the hash of the config that each belongs to."""
    return {row["identity"]: row for row in read_rows(folder / ROWS) if "identity" in row}


def _others(folder: Path, prepared: Sequence[Prepared]) -> list[dict[str, Any]]:
    asked = {one.identity.digest() for one in prepared}
    return [row for digest, row in rows_by_identity(folder).items() if digest not in asked]


def _outcome(prepared: Prepared, known: Mapping[str, Mapping[str, Any]]) -> Outcome:
    row = known.get(prepared.identity.digest())
    if row is None:
        return Outcome(prepared)
    kept = {name: row[name] for name in ("summary", "last") if name in row}
    error = row.get("error", "")
    return Outcome(prepared, RunState(row["state"]), error=error, exit_code=1 if error else 0, row=kept)


def _row(outcome: Outcome) -> dict[str, Any]:
    identity = outcome.prepared.identity
    said = {"error": outcome.error} if outcome.error else {}
    about = {"identity": identity.digest(), "kind": identity.kind, "config": dict(identity.config)}
    return {**about, "state": str(outcome.state), **said, **(outcome.row or {})}
