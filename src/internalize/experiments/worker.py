"""A process that carries out runs for `execute_many`: one JSON object a line in, events out.

Started as `python -m internalize.experiments.worker`. A plain subprocess and not multiprocessing: it works
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
from internalize.configs.trust import own_files
from internalize.errors import BadInput, RunFailed
from internalize.experiments.execution import Execution
from internalize.experiments.interruption import Interrupted
from internalize.experiments.kinds import config_from_json
from internalize.experiments.loop import Observer
from internalize.experiments.protocol import Row, Stage
from internalize.experiments.training import run_folder, train
from internalize.runs.folder import Run
from internalize.runs.lock import Owned, own

HEARTBEAT = 0.25
"""Seconds between two reports of progress."""


class Reporter:
    """An observer that tells what it sees as events: objects of plain JSON."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._last = 0.0

    def send(self, event: str, **content: Any) -> None:
        self._tell({"event": event, **content})

    def begin(self, run: Run, stage: Stage) -> None:
        self.send("begin", run=str(run.path), stage=vars(stage))

    def stepped(self, stage: Stage) -> None:
        now = time.perf_counter()
        if now - self._last >= HEARTBEAT:
            self._last = now
            self.send("stepped", stage=vars(stage))

    def row(self, row: Row, stage: Stage) -> None:
        self.send("row", row=row, stage=vars(stage))

    def end(self, state: str, summary: Row) -> None:
        """The job's own last line says how it ended."""


def carry_out(
    job: Mapping[str, Any],
    reporter: Reporter,
    observers: Sequence[Observer] = (),
    copies: Copies | None = None,
) -> None:
    """One run from beginning to end; whatever happens becomes an event."""
    try:
        config = config_from_json(job["kind"], job["config"])
        execution = from_json(Execution, job["execution"])
        if job.get("again"):
            with own_files():  # as `train` does
                folder = run_folder(config, execution.out, copies)
            forgive(Run(folder))
        run = train(config, execution, [reporter, *observers], copies)
        reporter.send("done", run=str(run.path))
    except Interrupted as stopped:
        reporter.send("interrupted", error=str(stopped), exit_code=stopped.exit_code)
    except Owned as problem:
        reporter.send("busy", error=str(problem))
    except Exception as problem:  # a full disk, a mistake in somebody's task: the other runs go on
        known = isinstance(problem, BadInput | RunFailed | OSError)
        text = str(problem) if known else f"{type(problem).__name__}: {problem}"
        reporter.send("failed", error=text, exit_code=2 if isinstance(problem, BadInput) else 1)


def forgive(run: Run) -> None:
    """Let a run that failed go on from its last good checkpoint."""
    if run.status()["state"] == "failed":
        with own(run.path):
            run.set_status("interrupted", message="tried again")


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
    os.dup2(2, 1)
    sys.path.insert(0, str(Path.cwd()))
    reporter = Reporter(lambda event: print(json.dumps(event), file=events, flush=True))
    try:
        for job in Jobs():
            carry_out(job, reporter)
    except BrokenPipeError:  # nobody listens any more; the run itself has ended well
        os._exit(1)


if __name__ == "__main__":
    main()
