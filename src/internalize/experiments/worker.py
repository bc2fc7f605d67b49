"""A process that carries out runs for `execute_many`: one JSON object a line in, events out.

Started as `python -m internalize.experiments.worker`. A plain subprocess and not multiprocessing: it works
the same from a script without a main guard, from a notebook and from another machine's shell, and needs no
pickle.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from internalize.configs.codec import from_json
from internalize.errors import BadInput, RunFailed
from internalize.experiments.execution import Execution
from internalize.experiments.interruption import Interrupted
from internalize.experiments.kinds import config_from_json
from internalize.experiments.protocol import Row, Stage
from internalize.experiments.training import train
from internalize.runs.folder import Run

HEARTBEAT = 0.25
"""Seconds between two reports of progress."""


class Reporter:
    """An observer that writes what it sees as lines of JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = 0.0

    def send(self, event: str, **content: Any) -> None:
        print(json.dumps({"event": event, **content}), file=self._stream, flush=True)

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


def carry_out(job: Mapping[str, Any], reporter: Reporter) -> None:
    """One run from beginning to end; whatever happens becomes an event."""
    try:
        config = config_from_json(job["kind"], job["config"])
        run = train(config, from_json(Execution, job["execution"]), [reporter])
        reporter.send("done", run=str(run.path))
    except Interrupted as stopped:
        reporter.send("interrupted", error=str(stopped), exit_code=stopped.exit_code)
    except (BadInput, RunFailed, OSError) as problem:
        reporter.send("failed", error=str(problem), exit_code=2 if isinstance(problem, BadInput) else 1)


def main() -> None:
    # Events have the original stdout to themselves; whatever a user's module prints goes to stderr.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, str(Path.cwd()))
    reporter = Reporter(events)
    for line in sys.stdin:
        carry_out(json.loads(line), reporter)


if __name__ == "__main__":
    main()
