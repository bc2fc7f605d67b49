"""A process that carries out runs for `execute_many`: one JSON object a line in, events out.

Started by `pool.py` with Python's safe path: nothing is imported from the folder in which the user is, unless a
config names it (`configs/named.py` finds it there). A plain subprocess and not multiprocessing: it works
the same from a script without a main guard, from a notebook and from another machine's shell, and needs no
pickle.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from internalize.configs.codec import from_json
from internalize.configs.named import Copies
from internalize.configs.standard_streams import dropping_remarks, dropping_results
from internalize.configs.trust import own_files
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
    event_to_json,
)
from internalize.errors import BadInput, RunFailed
from internalize.runs.folder import Run
from internalize.runs.lock import Owned, own
from internalize.runtime.execution import Execution
from internalize.runtime.kind import load_kind, prepare_by
from internalize.runtime.stop import Interrupted
from internalize.runtime.train import compute_prepared, train_prepared

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
        run = train_prepared(prepared, execution, [reporter, *observers])
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
