"""Sweeps on this machine: each run once, whatever happens to whom; the bytes of a serial sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.contract import Begun, Event
from internalize.kinds.entrance import run_folder
from internalize.runs.storage import is_owned, own
from internalize.sweeps import collect, run_sweep, sweep_of
from internalize.sweeps.run import standing
from tests.sweeps.tiny import BASE, all_bytes, one_after_the_other, steps_timed, tiny_sweep, write_sweep


def test_bad_runs_among_good_ones_are_tried_again_listed_and_left_out(tmp_path: Path) -> None:
    """A loss that is no number, and a worker that dies once."""
    sweep = sweep_of("mixed", "chain", BASE, grid={"optimizer.lr": [1e-3, 1e30]}, seeds=2)
    assassin = Assassin(tmp_path / "together")
    outcome = run_sweep(sweep, out=tmp_path / "together", workers=2, observer=assassin)
    assert assassin.killed
    assert [ended.state for ended in outcome.outcomes] == ["done", "done", "failed", "failed"]
    assert [ended.attempts for ended in outcome.outcomes] == [2, 1, 2, 2]
    assert "nan" in outcome.failed[0].error
    assert outcome.exit_code == 1
    good = sweep_of("good", "chain", BASE, grid={"optimizer.lr": [1e-3]}, seeds=2)
    expected = one_after_the_other(good, tmp_path / "apart")
    assert {run.path.name: expected[run.path.name] for run in map(_run, outcome.done)} == expected

    before = _changed(tmp_path / "together")
    again = run_sweep(sweep, out=tmp_path / "together")
    assert [ended.state for ended in again.outcomes] == ["done", "done", "failed", "failed"]
    assert [ended.attempts for ended in again.outcomes] == [0] * 4
    assert "nan" in again.failed[0].error
    assert _changed(tmp_path / "together") == before
    collected = collect(sweep, tmp_path / "together")
    assert [row["seed"] for row in collected.rows] == [0, 1]
    assert [case.fields["seed"] for case, _ in collected.missing] == [0, 1]
    assert all("nan" in reason for _, reason in collected.missing)


class Assassin:
    """Kills the first worker that trains the first run."""

    def __init__(self, out: Path) -> None:
        self.out, self.killed = out, False

    def begin(self, names: Sequence[str]) -> None:
        assert names[0] == "optimizer.lr=0.001 seed=0"

    def end(self) -> None: ...

    def event(self, index: int, event: Event) -> None:
        if index == 0 and not self.killed and isinstance(event, Begun):
            owner = json.loads((Path(event.run) / ".owner.json").read_text())
            os.kill(owner["process"], signal.SIGKILL)
            self.killed = True


def _run(outcome: Any) -> Any:
    assert outcome.run is not None
    return outcome.run


def _changed(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name != ".lock"}


# As a user would, from terminals ---------------------------------------------------------------------------


def start(file: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    words = ["sweep", str(file), "--out", str(out), "--no-estimate", *more]
    command = [sys.executable, "-m", "internalize.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_sweeps_of_one_file_at_once_do_each_run_once(tmp_path: Path) -> None:
    file, out = write_sweep(tmp_path / "s.json", seeds=2, iterations=90), tmp_path / "runs"
    two = [start(file, out, "--workers", "2", "--json", "--quiet") for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert [answer["done"] for answer in answers] == [4, 4]
    expected = one_after_the_other(tiny_sweep(seeds=2, iterations=90), tmp_path / "apart")
    assert all_bytes(out) == expected
    assert steps_timed(out) == steps_timed(tmp_path / "apart")


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_sweep_that_was_stopped_goes_on(number: int, tmp_path: Path) -> None:
    """Ctrl-C ends in checkpoints; a driver that is killed takes its workers along, with checkpoints too."""
    fields = {"iterations": 1_200, "log_every": 100}
    file, out = write_sweep(tmp_path / "s.json", seeds=1, **fields), tmp_path / "runs"
    process = start(file, out, "--workers", "2")
    _wait(lambda: len(list(out.glob("*/stages/0001.safetensors"))) == 2)
    os.kill(process.pid, number)
    error = process.communicate(timeout=300)[1]
    _wait(lambda: not any(is_owned(run) for run in out.iterdir()))
    states = [json.loads((run / "status.json").read_text())["state"] for run in out.iterdir()]
    assert "interrupted" in states
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "the same command goes on" in error
        assert "Traceback" not in error
    assert main(["sweep", str(file), "--out", str(out), "--no-estimate", "--quiet"]) == 0
    assert all_bytes(out) == one_after_the_other(tiny_sweep(seeds=1, **fields), tmp_path / "apart")


def _wait(happened: Any, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_trivial_run_costs_little_beyond_its_training(tmp_path: Path) -> None:
    trivial = {"horizon": 2, "iterations": 2, "evaluation": {"samples": 1, "final_samples": 1}}
    sweep = sweep_of("trivial", "chain", {**BASE, **trivial}, seeds=200)
    start = time.perf_counter()
    outcome = run_sweep(sweep, out=tmp_path, workers=2)
    spent = 2 * (time.perf_counter() - start)
    training = sum(_run(ended).status()["seconds"] for ended in outcome.done)
    assert len(outcome.done) == 200
    assert (spent - training) / 200 < 0.3


def test_a_sweep_looks_into_its_own_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's `a` may mean runs/a; a folder of runs `a` is no other."""
    monkeypatch.chdir(tmp_path)
    sweep = tiny_sweep(seeds=1)
    one_after_the_other(sweep, Path("runs/a"))
    assert standing(sweep, Path("runs/a")).counts() == {"done": 2, "failed before": 0, "to do": 0}
    assert standing(sweep, Path("a")).counts() == {"done": 0, "failed before": 0, "to do": 2}


@pytest.mark.slow
def test_a_run_that_was_given_up_is_left_until_somebody_wants_it_tried_again(tmp_path: Path) -> None:
    """A file where a folder should be: an error as any mistake in somebody's code is."""
    sweep, out = tiny_sweep(seeds=1), tmp_path / "runs"
    broken = run_folder(sweep.cases[0].config, out)
    broken.mkdir(parents=True)
    (broken / "stages").touch()
    first = run_sweep(sweep, out=out, workers=2)
    assert [(ended.state, ended.attempts) for ended in first.outcomes] == [("failed", 2), ("done", 1)]
    status = json.loads((broken / "status.json").read_text())
    assert (status["state"], status["message"]) == ("failed", first.failed[0].error)
    assert "File exists" in status["message"]

    (broken / "stages").unlink()
    before = _changed(out)
    plain = run_sweep(sweep, out=out)
    assert [(ended.state, ended.attempts) for ended in plain.outcomes] == [("failed", 0), ("done", 0)]
    assert _changed(out) == before
    assert [reason for _, reason in collect(sweep, out).missing] == [f"failed: {status['message']}"]

    again = run_sweep(sweep, out=out, retry_failed=True)
    assert [(ended.state, ended.attempts) for ended in again.outcomes] == [("done", 1), ("done", 0)]
    assert all_bytes(out) == one_after_the_other(sweep, tmp_path / "apart")


@pytest.mark.slow
def test_a_run_that_was_given_up_is_resumed_once_its_cause_is_mended(tmp_path: Path) -> None:
    sweep, out = tiny_sweep(seeds=1), tmp_path / "runs"
    broken = run_folder(sweep.cases[0].config, out)
    broken.mkdir(parents=True)
    (broken / "stages").touch()
    assert run_sweep(sweep, out=out, workers=1, retries=0).exit_code == 1
    (broken / "stages").unlink()
    assert main(["resume", str(broken), "--quiet"]) == 0
    assert all_bytes(out) == one_after_the_other(sweep, tmp_path / "apart")


@pytest.mark.slow
def test_sigterm_with_no_run_in_hand(tmp_path: Path) -> None:
    """All runs are in the hands of somebody else; here it is this test."""
    file, out = write_sweep(tmp_path / "s.json", seeds=1), tmp_path / "runs"
    with ExitStack() as holding:
        for case in tiny_sweep(seeds=1).cases:
            folder = run_folder(case.config, out)
            folder.mkdir(parents=True)
            holding.enter_context(own(folder))
        process = start(file, out, "--workers", "2")
        assert process.stderr is not None
        for _ in range(2):
            while "elsewhere" not in (line := process.stderr.readline()):
                assert line, "it ended"
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=300)[1]
    assert process.returncode == 143
    assert "the same command goes on" in error


def test_no_worker_outlives_a_driver_that_is_killed_as_they_start(tmp_path: Path) -> None:
    """Its end may reach a worker before the worker has looked at its first job."""
    file = write_sweep(tmp_path / "s.json", seeds=1, iterations=10_000_000)
    moments = [0.0, 0.2, 0.5]
    drivers = [start(file, tmp_path / f"runs {moment}", "--workers", "1") for moment in moments]
    workers: set[int] = set()
    try:
        for driver, moment in zip(drivers, moments, strict=True):
            while not _workers_of(driver.pid):
                assert driver.poll() is None, "it ended"
                time.sleep(0.01)
            time.sleep(moment)
            workers |= _workers_of(driver.pid)
            driver.kill()
            driver.wait()
        assert len(workers) == len(moments)
        _wait(lambda: not any(map(_lives, workers)))
    finally:
        for worker in filter(_lives, workers):
            os.kill(worker, signal.SIGKILL)
        for driver in drivers:
            driver.kill()
            driver.communicate()


def _workers_of(parent: int) -> set[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(child) for child in children if b"internalize.runtime.fleet.pool" in _command(int(child))}


def _lives(process: int) -> bool:
    """A zombie has an empty command line."""
    return b"internalize.runtime.fleet.pool" in _command(process)


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
