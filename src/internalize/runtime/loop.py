"""The one loop: every kind of experiment is carried out here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from internalize.errors import RunFailed
from internalize.runs.checkpoint import load_newest
from internalize.runs.folder import Run
from internalize.runtime.books import Audience, Books, Diverged, Observer, seconds_spent
from internalize.runtime.execution import Execution, keeps_stage
from internalize.runtime.experiment import Experiment, Row, S
from internalize.runtime.stop import Interrupted, StopNow, StopRequest
from internalize.runtime.streams import Streams

__all__ = ["Diverged", "Observer", "execute", "seconds_spent"]


def execute(
    experiment: Experiment[S],
    run: Run,
    streams: Streams,
    execution: Execution,
    stop: StopRequest,
    observers: Sequence[Observer] = (),
) -> Row:
    """Begin or continue the run and carry it to its end; returns the summary.

    1. Continue from the newest good checkpoint, or begin and save the beginning.
    2. Advance until the experiment is done; after every step: log, measure, keep, save as each is due.
    3. Measure once more, write the model, say that it is done.
    """
    audience = Audience(observers)
    try:
        with stop.cutting_short():
            state, books, measured = _begin(experiment, run, streams, audience)
        if not measured:
            _after_step(experiment, state, books, streams, execution, stop)
        while not experiment.done(state):
            state, row = experiment.advance(state, streams)
            if row is not None:
                books.row(row, experiment.stage(state))
            _after_step(experiment, state, books, streams, execution, stop)
        with stop.cutting_short():
            return _finish(experiment, state, books, streams)
    except StopNow:
        _leave(run, audience, "interrupted")
        assert stop.signal is not None
        raise Interrupted(stop.signal, str(run.path)) from None
    except RunFailed as problem:
        _leave(run, audience, "failed", str(problem))
        raise
    except BaseException as problem:  # a full disk, a second Ctrl-C, a mistake in somebody's code
        _leave(run, audience, "interrupted", f"{type(problem).__name__}: {problem}")
        raise


def _begin(experiment: Experiment[S], run: Run, streams: Streams, audience: Audience) -> tuple[S, Books, bool]:
    """The state to go on from, the books, and whether the state's step was measured already."""
    saved = load_newest(run.path / "checkpoints", run.digest())
    if saved is None:
        state = experiment.init(streams)
        books = Books(run, audience, step=-1, metrics=b"")
        # A state that depends on more than the seed (which kernel was faster here) is settled from now on.
        books.checkpoint(state, experiment.stage(state))
    else:
        state = experiment.restore(saved.tensors, saved.scalars)
        books = Books(run, audience, saved.step, saved.metrics)
    run.set_status("running")
    audience.begin(run, experiment.stage(state))
    return state, books, saved is None or saved.measured


def _after_step(
    experiment: Experiment[S],
    state: S,
    books: Books,
    streams: Streams,
    execution: Execution,
    stop: StopRequest,
) -> None:
    stage = experiment.stage(state)
    if experiment.evaluation_due(state):
        try:
            with stop.cutting_short():
                row = experiment.evaluate(state, streams)
        except StopNow:
            books.checkpoint(state, stage, measured=False)
            raise
        books.row(row, stage)
    if stage.just_ended and keeps_stage(execution.keep_stages, stage.index, stage.total):
        books.run.save_stage(stage.index, experiment.snapshot(state))
    books.audience.stepped(stage)
    overdue = time.perf_counter() - books.last_checkpoint > 60 * execution.checkpoint_minutes
    asked = stop.signal is not None  # read once: a wish that comes during the saving waits for the next step
    if stage.just_ended or experiment.done(state) or overdue or asked:
        books.checkpoint(state, stage)
    if asked:
        raise StopNow


def _finish(experiment: Experiment[S], state: S, books: Books, streams: Streams) -> Row:
    finish = experiment.finish(state, streams)
    books.run.save_model(finish.weights, finish.model_files)
    books.note_time(experiment.stage(state))
    seconds = round(seconds_spent(books.run), 3)
    books.run.set_status("done", summary=finish.summary, seconds=seconds)
    books.audience.end("done", finish.summary)
    return finish.summary


def _leave(run: Run, audience: Audience, state: str, message: str = "") -> None:
    with suppress(OSError):  # a disk that is full may have no room for this either
        run.set_status(state, **({"message": message} if message else {}))
    audience.end(state, {})
