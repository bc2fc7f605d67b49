"""What the loop keeps: the two journals, the clock, and who watches."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from internalize.errors import RunFailed, RunWarning
from internalize.runs.checkpoint import Checkpoint, save_checkpoint
from internalize.runs.folder import Run
from internalize.runs.journal import Journal, read_rows
from internalize.runtime.experiment import Row, Stage, State


class Observer(Protocol):
    """Whoever wants to watch: a live view, a tracker. Nothing it does changes a run."""

    def begin(self, run: Run, stage: Stage) -> None: ...

    def stepped(self, stage: Stage) -> None: ...

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: str, summary: Row) -> None: ...


class Diverged(RunFailed):
    """The loss is no longer a number."""


class Audience:
    """All observers. One that fails is named once and not told anything more; the run goes on."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)

    def begin(self, run: Run, stage: Stage) -> None:
        self._tell(lambda observer: observer.begin(run, stage))

    def stepped(self, stage: Stage) -> None:
        self._tell(lambda observer: observer.stepped(stage))

    def row(self, row: Row, stage: Stage) -> None:
        self._tell(lambda observer: observer.row(row, stage))

    def end(self, state: str, summary: Row) -> None:
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
        before = [row for row in read_rows(run.path / "timing.jsonl") if row["step"] <= step]
        self.timing = Journal(run.path / "timing.jsonl", "".join(f"{json.dumps(r)}\n" for r in before).encode())
        self.metrics = Journal(run.path / "metrics.jsonl", metrics)
        self.started = self.last_checkpoint = time.perf_counter()
        self.started_processor = time.process_time()

    def row(self, row: Row, stage: Stage) -> None:
        for name, value in row.items():
            if not _is_finite(value):
                raise Diverged(f"{name} is {value} at step {stage.step}")
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
    return sum(row["seconds"] for row in read_rows(run.path / "timing.jsonl"))


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_finite(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)


def _refuse_unless_finite(tensors: dict[str, Tensor], stage: Stage) -> None:
    """A state from which nothing good can come must not push out the last good checkpoint."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise Diverged(f"{name} is not finite at step {stage.step}")
