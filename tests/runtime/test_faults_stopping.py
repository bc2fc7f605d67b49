"""Stopping and going on: signals at any moment, other circumstances, mistakes in somebody's code."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from internalize import Execution, Run, train
from internalize.cli import main
from internalize.errors import Interrupted, RunWarning
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import resume
from internalize.runs.checkpoint import checkpoints, load_newest
from internalize.runtime import execution
from tests.runtime.faults import CONFIG, WORDS, Watcher, interrupted_at, results, send


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("calm")
    train(CONFIG, out=out)
    return results(out)


def test_signals_at_any_step_change_no_byte(tmp_path: Path, calm: dict[str, bytes]) -> None:
    """An adaptive schedule, and rows that average over iterations before and after the break."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for step, number in ((1, 15), (8, 2), (24, 15), (25, 2), (41, 15), (66, 15)):
        watcher = Watcher(step, send(number))
        with pytest.raises(Interrupted, match="go on with: internalize resume ") as stop:
            train(CONFIG, Execution(out=tmp_path), [watcher])
        assert stop.value.exit_code == 128 + number
        (folder,) = tmp_path.iterdir()
        assert Run.open(folder).status()["state"] == "interrupted"
        assert int(checkpoints(folder / "checkpoints")[0].stem) == step
        assert watcher.first is not None
        assert watcher.first < step
    train(CONFIG, out=tmp_path)
    assert results(tmp_path) == calm
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("work", ["init", "evaluate", "finish"])
def test_a_signal_cuts_measuring_short(
    work: str, tmp_path: Path, calm: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = getattr(ChainExperiment, work)
    finished: list[str] = []

    def slow(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        finished.append("not cut short")
        return inner(*arguments)

    monkeypatch.setattr(ChainExperiment, work, slow)
    with pytest.raises(Interrupted):
        train(CONFIG, out=tmp_path)
    assert finished == []
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    if work == "evaluate":
        saved = load_newest(folder / "checkpoints", Run.open(folder).digest())
        assert saved is not None
        assert not saved.measured
        assert saved.step > 0, "the training up to here was saved"
    resume(Run.open(folder), Execution())
    assert results(tmp_path) == calm


def test_a_signal_that_a_library_loses_cuts_measuring_short_all_the_same(
    tmp_path: Path, calm: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a callback nothing can be raised; numba, whose compilation has one, then fails by itself."""

    def losing(*_: Any) -> Any:
        with suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(ChainExperiment, "evaluate", losing)
    with pytest.raises(Interrupted):
        train(CONFIG, out=tmp_path)
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    resume(Run.open(folder), Execution())
    assert results(tmp_path) == calm


def test_exit_codes_and_the_line_that_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = ChainExperiment.advance
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):

        def stopping(*arguments: Any, number: int = number) -> Any:
            os.kill(os.getpid(), number)
            return inner(*arguments)

        monkeypatch.setattr(ChainExperiment, "advance", stopping)
        assert main([*WORDS, "--out", str(tmp_path)]) == code
        (folder,) = tmp_path.iterdir()
        assert capsys.readouterr().err == f"internalize: interrupted; go on with: internalize resume {folder}\n"
    monkeypatch.undo()
    assert main(["resume", str(folder), "--horizon", "5", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("internalize: horizon: cannot change on resume")
    assert main(["resume", str(folder), "--horizon", "3", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["iterations"] == 90


def test_a_second_ctrl_c_quits_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = ChainExperiment.advance

    def twice(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return inner(*arguments)

    monkeypatch.setattr(ChainExperiment, "advance", twice)
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, out=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert Run.open(folder).status()["state"] == "interrupted"
    assert [int(path.stem) for path in checkpoints(folder / "checkpoints")] == [0]


def test_no_handlers_off_the_main_thread(tmp_path: Path, calm: dict[str, bytes]) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []
    watcher = Watcher(5, lambda: seen.append(signal.getsignal(signal.SIGINT)))
    thread = threading.Thread(target=train, args=(CONFIG, Execution(out=tmp_path), [watcher]))
    thread.start()
    thread.join()
    assert seen == [before]
    assert results(tmp_path) == calm


def test_circumstances_are_kept_or_their_change_is_said_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "usable_cores", lambda: 2)  # fewer would be warned of, which is another test
    run = interrupted_at(3, tmp_path, threads=2)
    seen: list[int] = []
    counter = Watcher(5, lambda: seen.append(torch.get_num_threads()))
    with pytest.raises(Interrupted):
        resume(run, Execution(), [counter, Watcher(5, send(signal.SIGTERM))])
    assert seen == [2], "as many threads as before"
    assert torch.get_num_threads() == 1
    made = json.loads((run.path / "provenance.json").read_text())
    (run.path / "provenance.json").write_text(json.dumps({**made, "internalize": "0.0.7"}))
    with pytest.warns(
        RunWarning, match=r"begun with internalize 0\.0\.7 \(now .*\), threads 2 \(now 1\): it goes on"
    ):
        resume(run, Execution(threads=1))
    assert run.is_done
    (resumed,) = run.provenance()["resumed"]
    assert resumed["threads"] == 1


def test_an_observer_that_fails_is_named_once_and_left_out(tmp_path: Path, calm: dict[str, bytes]) -> None:
    def fail() -> None:
        raise RuntimeError("no network")

    failing, other = Watcher(5, fail), Watcher(50, lambda: seen.append(50))
    seen: list[int] = []
    with pytest.warns(
        RunWarning, match="Watcher failed and is left out from here on: RuntimeError: no network"
    ) as all_:
        train(CONFIG, Execution(out=tmp_path), [failing, other])
    assert len(all_) == 1
    assert seen == [50]
    assert results(tmp_path) == calm


def test_a_mistake_in_somebodys_code_leaves_a_run_that_goes_on(
    tmp_path: Path, calm: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(ChainExperiment, "evaluate", broken)
    with pytest.raises(ZeroDivisionError):
        train(CONFIG, out=tmp_path)
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    about = {"subject": "C2", "unit": "iterations"}
    assert Run.open(folder).status() == {"state": "interrupted", "message": "ZeroDivisionError: oops", **about}
    train(CONFIG, out=tmp_path)
    assert results(tmp_path) == calm
