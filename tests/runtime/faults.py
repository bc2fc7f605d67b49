"""What the tests of faults share: a small run, ways to stop it, and the bytes that must come out."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, Run, ScheduleConfig, train
from internalize.errors import Interrupted

CONFIG = ChainConfig(
    task="C2",
    horizon=3,
    iterations=90,
    batch=8,
    model=ModelConfig(depth=1, width=16, heads=4),
    schedule=ScheduleConfig(kind="adaptive", threshold=0.69, memory=5, shortest=20, cap=40),
    evaluation=EvaluationConfig(every=25, samples=20, final_samples=40),
    log_every=7,
    kernel="plain",
)
WORDS = [
    *("train", "--horizon", "3", "--iterations", "90", "--batch", "8", "--kernel", "plain", "--log-every", "7"),
    *("--model.depth", "1", "--model.width", "16", "--model.heads", "4", "--quiet"),
    *("--evaluation.samples", "20", "--evaluation.final-samples", "40"),
]


class Watcher:
    """Does something at a step."""

    def __init__(self, step: int, action: Callable[[], None]) -> None:
        self.step, self.action = step, action
        self.first: int | None = None
        self.ended = ""

    def begin(self, folder: Path, stage: Any) -> None:
        self.first = stage.step

    def stepped(self, stage: Any) -> None:
        if stage.step == self.step:
            self.action()

    def row(self, row: Any, stage: Any) -> None: ...

    def end(self, state: str, summary: Any) -> None:
        self.ended = state


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def interrupted_at(step: int, out: Path, config: ChainConfig = CONFIG, **fields: Any) -> Run:
    """The folder of a run that was asked to stop at a step."""
    with pytest.raises(Interrupted):
        train(config, Execution(out=out, **fields), [Watcher(step, send(signal.SIGTERM))])
    (folder,) = out.iterdir()
    return Run.open(folder)


def results(out: Path) -> dict[str, bytes]:
    """The bytes of the only run in a folder."""
    (run,) = out.iterdir()
    return bytes_of(run)


def bytes_of(run: Path) -> dict[str, bytes]:
    """Every byte that must be the same: metrics, model, stages, and the last checkpoint with the optimizer."""
    files = [run / "metrics.jsonl", run / "config.json", *run.glob("model/*"), *run.glob("stages/*")]
    files.append(max(run.glob("checkpoints/*.safetensors")))
    content = {str(path.relative_to(run)): path.read_bytes() for path in files}
    status = json.loads((run / "status.json").read_text())
    assert status["state"] == "done"
    assert not list(run.rglob("*.tmp")), "a half-written file was left behind"
    return {**content, "summary": json.dumps(status["summary"]).encode()}
