"""Many runs side by side: the same bytes as one after the other, and one bad run leaves the others alone."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from rich.console import Console

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, OptimizerConfig, train
from internalize.contract import Begun, End, Ended, Event, RunState, Stage, Stepped, Written, event_to_json
from internalize.display.terminal import LiveFleet
from internalize.errors import BadInput
from internalize.kinds import prepare
from internalize.kinds.chain.kind import KIND
from internalize.runtime.fleet import seeds
from internalize.runtime.fleet.driver import Outcome
from internalize.runtime.fleet.pool import local_pool
from tests.entering import train_many
from tests.runtime.faults import bytes_of

BRIEF = ChainConfig(
    task="C2",
    horizon=3,
    method="left",
    iterations=60,
    batch=16,
    model=ModelConfig(depth=1, width=16, heads=4),
    evaluation=EvaluationConfig(every=1_000, samples=50, final_samples=100),
)


def test_side_by_side_gives_the_same_bytes_as_one_after_the_other(tmp_path: Path) -> None:
    configs = [replace(BRIEF, seed=seed) for seed in range(3)]
    outcomes = train_many(configs, Execution(out=tmp_path / "together"), workers=2)
    assert [outcome.state for outcome in outcomes] == ["done"] * 3
    for config in configs:
        train(config, out=tmp_path / "apart")
    for outcome in outcomes:
        assert outcome.run is not None
        together, apart = outcome.run.path, tmp_path / "apart" / outcome.run.path.name
        assert bytes_of(together) == bytes_of(apart)


def test_a_run_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    diverges = replace(BRIEF, optimizer=OptimizerConfig(lr=1e30))
    outcomes = train_many([BRIEF, diverges, replace(BRIEF, seed=1)], Execution(out=tmp_path), workers=1)
    assert [outcome.state for outcome in outcomes] == ["done", "failed", "done"]
    assert outcomes[1].exit_code == 1
    assert "step" in outcomes[1].error


def test_nothing_starts_if_one_config_cannot_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown task"):
        train_many([BRIEF, replace(BRIEF, task="Z9")], Execution(out=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


class Assassin:
    """Kills the worker of the first run that makes progress."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.killed = False

    def begin(self, names: Sequence[str]) -> None: ...

    def end(self) -> None: ...

    def event(self, index: int, event: Event) -> None:
        owners = list(self.out.glob("*/.owner.json"))
        if index == 0 and not self.killed and isinstance(event, Begun | Written) and owners:
            os.kill(json.loads(owners[0].read_text())["process"], signal.SIGKILL)
            self.killed = True


def test_a_dead_worker_costs_its_own_run_only_and_the_same_call_goes_on(tmp_path: Path) -> None:
    configs = [replace(BRIEF, iterations=2_000), replace(BRIEF, seed=1)]
    assassin = Assassin(tmp_path)
    outcomes = train_many(configs, Execution(out=tmp_path), workers=1, observer=assassin)
    assert assassin.killed
    assert [outcome.state for outcome in outcomes] == ["interrupted", "done"]
    assert (outcomes[0].error, outcomes[0].exit_code) == ("the worker process died (signal 9)", 1)
    again = train_many(configs, Execution(out=tmp_path), workers=1)
    assert [outcome.state for outcome in again] == ["done", "done"]


def test_a_worker_that_dies_in_the_middle_of_a_line_is_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "worker"
    told = json.dumps(event_to_json(Stepped(Stage(1, 1, "", False, 0, 1))))
    worker.write_text(f"#!/bin/sh\nprintf '{told}\\n{told[:9]}'\nexit 3\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    found: list[Outcome] = []
    driver = threading.Thread(
        target=lambda: found.extend(train_many([BRIEF], Execution(out=tmp_path / "runs"))), daemon=True
    )
    driver.start()
    driver.join(timeout=60)
    assert [(outcome.state, outcome.error) for outcome in found] == [
        ("failed", "the worker process died (exit code 3)")
    ]


NOT_MARKUP = "list[int] [/x] [bold] :x:"
"""Rich would take some of it for styles and leave it out, raise at the end of one that never began, and draw a
picture for the last."""


def test_names_and_errors_are_shown_to_the_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = replace(KIND.results, label=lambda _: f"a run {NOT_MARKUP}")
    monkeypatch.setattr(type(KIND), "results", named)
    ended = [
        Outcome(prepare(BRIEF), RunState.FAILED, error=f"an error {NOT_MARKUP}, {'long ' * 30}", exit_code=1)
    ]
    monkeypatch.setattr(seeds, "execute_many", lambda *_: ended)
    seeds.train_side_by_side([prepare(BRIEF)], Execution(quiet=True), None, "")
    (line,) = capsys.readouterr().err.splitlines()
    assert f"a run {NOT_MARKUP}: failed, an error {NOT_MARKUP}, long" in line

    done = [Outcome(prepare(BRIEF), RunState.DONE, train(BRIEF, out=tmp_path))]
    where = Execution(out=Path(NOT_MARKUP))
    assert seeds.report_side_by_side(done, where, {"which": lambda _: NOT_MARKUP}, ()) == 0
    shown = capsys.readouterr().out
    assert f"in {NOT_MARKUP};" in shown
    assert shown.count(NOT_MARKUP) == 2

    view = LiveFleet(NOT_MARKUP, {})
    monkeypatch.setattr(view._live, "start", lambda: None)
    view.begin([f"a run {NOT_MARKUP}"])
    view.event(0, Ended(End.FAILED, NOT_MARKUP))
    Console(width=120).print(view.draw())
    shown = capsys.readouterr().out
    assert f"a run {NOT_MARKUP}" in shown
    assert shown.count(NOT_MARKUP) == 2


def test_workers_are_dealt_out_over_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six workers on three GPUs, of which one is not for us: three each on the two that are visible."""
    seen: list[str | None] = []

    class Started:
        stdout: ClassVar[list[str]] = []

        def __init__(self, command: list[str], env: dict[str, str], **_: object) -> None:
            seen.append(env.get("CUDA_VISIBLE_DEVICES"))

    monkeypatch.setattr("subprocess.Popen", Started)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("internalize.runtime.fleet.pool.usable_cores", lambda: 64)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    many = local_pool(Execution(device="cuda"), None, 100)
    assert many.size == 8, "64 cores are no reason for 64 runs on two GPUs"
    pool = local_pool(Execution(), 6, 100)
    for _ in range(6):
        pool._start_worker()
    assert seen == ["2", "0"] * 3
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert local_pool(Execution(device="cuda"), 6, 100).gpus == ["0", "1"]
    assert local_pool(Execution(device="cpu"), None, 100).gpus == []
