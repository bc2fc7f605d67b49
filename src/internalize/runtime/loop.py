"""The one loop: every kind of experiment is carried out here, and its books are kept."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from internalize.contract import Observer, Row, RunState, Stage
from internalize.errors import BadInput, Interrupted, RunFailed, RunWarning
from internalize.runs.checkpoint import Checkpoint, drop_older, load_newest, save_checkpoint
from internalize.runs.folder import Run
from internalize.runs.manifest import write_manifest
from internalize.runs.measurements import require_measurements
from internalize.runs.provenance import read_times
from internalize.runs.storage import Journal, Unreadable
from internalize.runtime.execution import Execution, keeps_stage
from internalize.runtime.kind import Experiment, S, State, Streams
from internalize.runtime.restoration import SenselessCheckpoint, restored

if TYPE_CHECKING:
    from torch import Tensor


def execute(
    experiment: Experiment[S],
    run: Run,
    streams: Streams,
    execution: Execution,
    stop: StopRequest,
    observers: Sequence[Observer] = (),
    about: Row | None = None,
    numbers: Callable[[Row], Row] = lambda summary: {},
) -> Row:
    """Begin or continue the run and carry it to its end; returns the summary.

    about: what the run's status says from the beginning; numbers: what it says besides at the end, from the
    summary.

    1. Continue from the newest good checkpoint, or begin and save the beginning.
    2. Advance until the experiment is done; after every step: log, measure, keep, save as each is due.
    3. Measure once more, write the model, say that it is done.
    """
    audience = Audience(observers)
    try:
        with stop.cutting_short():
            state, books, measured = _begin(experiment, run, streams, audience, about or {})
        if not measured:
            _after_step(experiment, state, books, streams, execution, stop)
        while not experiment.done(state):
            state, row = experiment.advance(state, streams)
            if row is not None:
                books.row(row, experiment.stage(state))
            _after_step(experiment, state, books, streams, execution, stop)
        with stop.cutting_short():
            return _finish(experiment, state, books, streams, numbers)
    except StopNow:
        _leave(run, audience, RunState.INTERRUPTED)
        assert stop.signal is not None
        raise Interrupted(stop.signal, str(run.path)) from None
    except SenselessCheckpoint as problem:  # which says nothing against the run itself
        _leave(run, audience, RunState.INTERRUPTED, str(problem))
        raise
    except RunFailed as problem:
        _leave(run, audience, RunState.FAILED, str(problem))
        raise
    except BaseException as problem:  # a full disk, a second Ctrl-C, a mistake in somebody's code
        _leave(run, audience, RunState.INTERRUPTED, f"{type(problem).__name__}: {problem}")
        raise


def compute(experiment: Experiment[S], streams: Streams, stop: StopRequest) -> tuple[Row, Row]:
    """The same in memory, without a folder or books: the summary and the last measurement.

    For runs so small that beginning anew costs less than a checkpoint: a wish to stop raises `StopNow`.
    """
    with stop.cutting_short():
        state, last = experiment.init(streams), Row()
        while not experiment.done(state):
            state, row = experiment.advance(state, streams)
            if stop.signal is not None:  # where a long step has taken the wish for its own
                raise StopNow
            _refuse_row(row or {}, experiment.stage(state))
            if experiment.evaluation_due(state):
                last = experiment.evaluate(state, streams)
                _refuse_row(last, experiment.stage(state))
        summary = experiment.finish(state, streams).summary
        _refuse_row(summary, experiment.stage(state))
        return summary, last


def _begin(
    experiment: Experiment[S], run: Run, streams: Streams, audience: Audience, about: Row
) -> tuple[S, Books, bool]:
    """The state to go on from, the books, and whether the state's step was measured already."""
    saved = load_newest(run.path / "checkpoints", run.digest())
    if saved is None:
        state = experiment.init(streams)
        books = Books(run, audience, step=-1, metrics=b"")
        # A state that depends on more than the seed (which kernel was faster here) is settled from now on.
        books.checkpoint(state, experiment.stage(state))
    else:
        state = restored(experiment, saved, run.path / "checkpoints")
        drop_older(run.path / "checkpoints", saved.step)
        books = Books(run, audience, saved.step, saved.metrics)
    run.set_status(RunState.RUNNING, **about)
    audience.begin(run.path, experiment.stage(state))
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


def _finish(
    experiment: Experiment[S], state: S, books: Books, streams: Streams, numbers: Callable[[Row], Row]
) -> Row:
    finish = experiment.finish(state, streams)
    _refuse_row(finish.summary, experiment.stage(state))
    books.run.save_model(finish.weights, finish.model_files)
    books.note_time(experiment.stage(state))
    seconds = round(seconds_spent(books.run), 3)
    books.run.set_status(RunState.DONE, summary=finish.summary, seconds=seconds, **numbers(finish.summary))
    write_manifest(books.run.path)
    books.audience.end(RunState.DONE, finish.summary)
    return finish.summary


def _leave(run: Run, audience: Audience, state: RunState, message: str = "") -> None:
    with suppress(OSError):  # a disk that is full may have no room for this either
        run.set_status(state, **({"message": message} if message else {}))
    audience.end(state, {})


# The books ------------------------------------------------------------------------------------------------


class Diverged(RunFailed):
    """The loss is no longer a number."""


class Audience:
    """All observers. One that fails is named once and not told anything more; the run goes on."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)

    def begin(self, folder: Path, stage: Stage) -> None:
        self._tell(lambda observer: observer.begin(folder, stage))

    def stepped(self, stage: Stage) -> None:
        self._tell(lambda observer: observer.stepped(stage))

    def row(self, row: Row, stage: Stage) -> None:
        self._tell(lambda observer: observer.row(row, stage))

    def end(self, state: RunState, summary: Row) -> None:
        self._tell(lambda observer: observer.end(state, summary))
        self._observers = []

    def _tell(self, message: Callable[[Observer], None]) -> None:
        for observer in list(self._observers):
            try:
                message(observer)
            except Exception as error:  # whatever it was, the training matters more
                self._observers.remove(observer)
                name = type(observer).__name__
                text = f"{name} failed and is left out from here on: {type(error).__name__}: {error}"
                warnings.warn(text, RunWarning, stacklevel=2)


class Books:
    """The journals of a run from a step on, and its checkpoints."""

    def __init__(self, run: Run, audience: Audience, step: int, metrics: bytes) -> None:
        """step, metrics: of the checkpoint to go on from; whatever the journals hold beyond it is dropped."""
        self.run = run
        self.audience = audience
        self.identity = run.digest()
        before = [row for row in read_times(run) if row["step"] <= step]
        self.timing = Journal(run.path / "timing.jsonl", "".join(f"{json.dumps(r)}\n" for r in before).encode())
        self.metrics = Journal(run.path / "metrics.jsonl", metrics)
        self.started = self.last_checkpoint = time.perf_counter()
        self.started_processor = time.process_time()

    def row(self, row: Row, stage: Stage) -> None:
        _refuse_row(row, stage)
        self.metrics.append(row)
        self.audience.row(row, stage)

    def checkpoint(self, state: State, stage: Stage, measured: bool = True) -> None:
        tensors = state.tensors()
        _refuse_unless_finite(tensors, stage)
        saved = Checkpoint(stage.step, tensors, dict(state.scalars()), self.metrics.sync(), measured)
        save_checkpoint(self.run.path / "checkpoints", self.identity, saved)
        self.last_checkpoint = time.perf_counter()
        self.note_time(stage)

    def note_time(self, stage: Stage) -> None:
        """Seconds since the last note; noted after a checkpoint, so that no second is counted twice."""
        now, processor = time.perf_counter(), time.process_time()
        self.timing.append(
            {
                "step": stage.step,
                "stage": stage.index,
                "seconds": round(now - self.started, 3),
                "processor": round(processor - self.started_processor, 3),
                "at": time.time(),
            }
        )
        self.started, self.started_processor = now, processor


def seconds_spent(run: Run) -> float:
    """Seconds of training and evaluation that went into the run's checkpoints, over all its sittings."""
    return sum(float(row["seconds"]) for row in read_times(run))


def _refuse_row(row: Row, stage: Stage) -> None:
    for name, value in row.items():
        if not _is_finite(value):
            raise Diverged(f"{name} is {value} at step {stage.step}")
    try:
        require_measurements(row)
    except Unreadable as problem:
        raise BadInput("measurements", f"a row at step {stage.step} {problem}") from None


def _is_finite(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(_is_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _refuse_unless_finite(tensors: Mapping[str, Tensor], stage: Stage) -> None:
    """A state from which nothing good can come must not push out the last good checkpoint."""
    import torch

    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise Diverged(f"{name} is not finite at step {stage.step}")


class StopNow(BaseException):
    """Leaves work that can be done again, where somebody asked to stop. Whoever began the work catches it."""


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self, aloud: bool) -> None:
        """aloud: whether the user is told that the wish was heard: stopping may take a while."""
        self.signal: int | None = None
        self._aloud = aloud
        self._may_cut_short = False

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """A second Ctrl-C quits at once; a second SIGTERM changes nothing: the checkpoint is on its way."""
        first = self.signal is None
        if number == signal.SIGINT and not first:
            raise KeyboardInterrupt
        self.signal = number
        if first and self._aloud:
            # a line that cannot be said, in the midst of another or to nobody, must not disturb the stopping
            with suppress(OSError, RuntimeError, ValueError):
                print("internalize: stopping, writing a checkpoint…", file=sys.stderr, flush=True)
        if self._may_cut_short:
            raise StopNow

    @contextmanager
    def cutting_short(self) -> Iterator[None]:
        """For work that can be done again from scratch, such as measuring: a wish to stop ends it at once."""
        if self.signal is not None:
            raise StopNow
        self._may_cut_short = True
        try:
            yield
        except Exception as error:
            if self.signal is None:
                raise
            # the signal came in a library's callback, which lost `StopNow`, and so the library fails
            raise StopNow from error
        finally:
            self._may_cut_short = False


_heard: ContextVar[StopRequest | None] = ContextVar("the request of the `listening` around", default=None)


@contextmanager
def listening(aloud: bool = True) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request while the block runs.

    Off the main thread (a notebook's worker, a pool) Python allows no handlers: nothing is installed then.
    """
    request = StopRequest(aloud)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    # a closed terminal; whoever was started by nohup does not mind it, and Windows has none
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, request.ask) for number in numbers}
    outer, unraisable = _heard.set(request), sys.unraisablehook
    # the signal may come while Python tidies up, where nothing can be raised: the next step hears of the wish
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, StopNow) else unraisable(lost)
    try:
        yield request
    finally:
        _heard.reset(outer)
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def cut_short_if_asked() -> Iterator[None]:
    """For a long step of an experiment: a wish to stop raises `StopNow` in the midst of it.

    The experiment catches it and gives the state back as it was before the step. Where nobody listens to
    signals the block runs to its end.
    """
    request = _heard.get()
    if request is None:
        yield
        return
    with request.cutting_short():
        yield
