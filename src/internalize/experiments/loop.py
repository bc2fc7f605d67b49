"""The one loop: every kind of experiment is carried out here."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from internalize.experiments.execution import Execution, keeps_stage
from internalize.experiments.interruption import Interrupted, StopRequest
from internalize.experiments.protocol import Experiment, Row, S, Stage
from internalize.experiments.streams import Streams
from internalize.runs.checkpoint import Checkpoint, load_newest, save_checkpoint
from internalize.runs.folder import Run
from internalize.runs.journal import Journal, read_rows


class Observer(Protocol):
    """Whoever wants to watch: a live view, a tracker. Nothing it does changes a run."""

    def begin(self, run: Run, stage: Stage) -> None: ...

    def stepped(self, stage: Stage) -> None: ...

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: str, summary: Row) -> None: ...


class Diverged(RuntimeError):
    """The loss is no longer a number."""


@dataclass
class _Books(Generic[S]):
    """What the loop keeps: the two journals, the clock, and who watches."""

    run: Run
    metrics: Journal
    timing: Journal
    observers: Sequence[Observer]
    started: float
    last_checkpoint: float

    def row(self, row: Row, stage: Stage) -> None:
        self.metrics.append(row)
        for observer in self.observers:
            observer.row(row, stage)
        wrong = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
        if wrong:
            raise Diverged(f"{wrong[0]} is {row[wrong[0]]} at step {stage.step}")

    def checkpoint(self, state: S, stage: Stage) -> None:
        length = self.metrics.sync()
        now = time.perf_counter()
        self.timing.append(
            {
                "step": stage.step,
                "stage": stage.index,
                "seconds": round(now - self.started, 3),
                "at": time.time(),
            }
        )
        saved = Checkpoint(state.tensors(), dict(state.scalars()), length)
        save_checkpoint(self.run.path / "checkpoints", stage.step, saved)
        self.started = now
        self.last_checkpoint = now


def execute(
    experiment: Experiment[S],
    run: Run,
    streams: Streams,
    execution: Execution,
    stop: StopRequest,
    observers: Sequence[Observer] = (),
) -> Row:
    """Begin or continue the run and carry it to its end; returns the summary.

    1. Continue from the newest good checkpoint, or begin.
    2. Advance until the experiment is done; after every step: log, evaluate, keep, save as each is due.
    3. Measure once more, write the model, say that it is done.
    """
    state, books = _begin(experiment, run, streams, observers)
    try:
        while not experiment.done(state):
            state, row = experiment.advance(state, streams)
            stage = experiment.stage(state)
            _after_step(experiment, state, stage, row, books, streams, execution)
            _stop_if_asked(stop, state, stage, books)
        return _finish(experiment, state, books, streams)
    except Diverged as problem:
        _close(books, "failed", message=str(problem))
        raise
    except Interrupted:
        _close(books, "interrupted")
        raise
    finally:
        books.metrics.close()
        books.timing.close()


def seconds_spent(run: Run) -> float:
    """Seconds of training and evaluation that went into the run's checkpoints, over all its sittings."""
    return sum(row["seconds"] for row in read_rows(run.path / "timing.jsonl"))


def _begin(
    experiment: Experiment[S], run: Run, streams: Streams, observers: Sequence[Observer]
) -> tuple[S, _Books[S]]:
    metrics = run.path / "metrics.jsonl"
    saved = load_newest(run.path / "checkpoints", metrics.stat().st_size if metrics.exists() else 0)
    state = experiment.init(streams) if saved is None else experiment.restore(saved.tensors, saved.scalars)
    keep = 0 if saved is None else saved.metrics_bytes
    now = time.perf_counter()
    timing = Journal(run.path / "timing.jsonl", 0 if saved is None else None)
    books: _Books[S] = _Books(run, Journal(metrics, keep), timing, observers, now, now)
    run.set_status("running")
    for observer in observers:
        observer.begin(run, experiment.stage(state))
    return state, books


def _after_step(
    experiment: Experiment[S],
    state: S,
    stage: Stage,
    row: Row | None,
    books: _Books[S],
    streams: Streams,
    execution: Execution,
) -> None:
    if row is not None:
        books.row(row, stage)
    if experiment.evaluation_due(state):
        books.row(experiment.evaluate(state, streams), stage)
    if stage.just_ended and keeps_stage(execution.keep_stages, stage.index, stage.total):
        books.run.save_stage(stage.index, experiment.snapshot(state))
    overdue = time.perf_counter() - books.last_checkpoint > 60 * execution.checkpoint_minutes
    if stage.just_ended or overdue:
        books.checkpoint(state, stage)
    for observer in books.observers:
        observer.stepped(stage)


def _stop_if_asked(stop: StopRequest, state: S, stage: Stage, books: _Books[S]) -> None:
    if stop.signal is not None:
        books.checkpoint(state, stage)
        raise Interrupted(stop.signal, str(books.run.path))


def _finish(experiment: Experiment[S], state: S, books: _Books[S], streams: Streams) -> Row:
    finish = experiment.finish(state, streams)
    stage = experiment.stage(state)
    books.run.save_model(finish.weights, finish.model_files)
    books.checkpoint(state, stage)
    seconds = round(seconds_spent(books.run), 3)
    _close(books, "done", summary=finish.summary, seconds=seconds)
    return finish.summary


def _close(books: _Books[S], state: str, summary: Row | None = None, **more: object) -> None:
    if summary is not None:
        more["summary"] = summary
    books.run.set_status(state, **more)
    for observer in books.observers:
        observer.end(state, summary or {})
