"""What can go wrong around a run: NaN, a full disk, damaged folders, a second process."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import resource
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from internalize import Execution, OptimizerConfig, Run, train
from internalize.cli import main
from internalize.errors import BadInput, RunFailed
from internalize.kinds.entrance import resume
from internalize.runs import storage as atomic
from internalize.runs.checkpoint import checkpoints, load_newest, load_tensors, save_tensors
from internalize.runtime import loop
from tests.runs.test_checkpoint import Bomb
from tests.runtime.faults import CONFIG, WORDS, Watcher, interrupted_at, results


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("calm")
    train(CONFIG, out=out)
    return results(out)


@pytest.mark.parametrize("log_every", [7, 1000])
def test_a_loss_that_is_no_number_fails_with_the_last_good_checkpoint(
    log_every: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With rows far apart it is the checkpoint that must notice."""
    config = replace(CONFIG, optimizer=OptimizerConfig(lr=1e37), log_every=log_every)
    often = Execution(out=tmp_path, checkpoint_minutes=1e-6)
    with pytest.raises(RunFailed, match=r"(nan|inf|not finite) at step \d+"):
        train(config, often)
    (folder,) = tmp_path.iterdir()
    run = Run.open(folder)
    assert run.status()["state"] == "failed"
    tensors, _ = load_tensors(checkpoints(folder / "checkpoints")[0])
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    assert "NaN" not in (folder / "metrics.jsonl").read_text()
    with pytest.raises(RunFailed, match=r"has failed before: .* at step .* --fresh"):
        train(config, often)
    assert main(["resume", str(folder), "--quiet"]) == 1
    line = capsys.readouterr().err
    assert line.startswith("internalize: the run failed: ")
    assert line.count("\n") == 1
    with pytest.raises(RunFailed, match=r"^[^ ]+ is"):  # started over, it fails anew, not by its old status
        train(config, replace(often, fresh=True))


def _limited(out: Path, limit: int) -> None:
    """Train in a process that may write no file beyond some bytes, from the second stage on."""
    save = Run.save_stage

    def save_and_limit(run: Run, stage: int, weights: Any) -> None:
        save(run, stage, weights)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    Run.save_stage = save_and_limit  # type: ignore[method-assign,assignment]
    sys.stderr = out.with_name("errors").open("w")
    code = main([*WORDS, "--out", str(out)])
    sys.stderr.flush()
    os._exit(code)


@pytest.mark.parametrize("limit", [2_000, 20_000])
def test_a_disk_that_fills_up(limit: int, tmp_path: Path) -> None:
    """2,000 bytes: metrics no longer fit. 20,000: they do, the checkpoint does not."""
    out = tmp_path / "runs"
    child = multiprocessing.get_context("fork").Process(target=_limited, args=(out, limit))
    child.start()
    child.join()
    assert child.exitcode == 1
    (folder,) = out.iterdir()
    line = (tmp_path / "errors").read_text()
    assert line.startswith("internalize: the run failed: a file would be larger than allowed here")
    assert line.endswith(f"internalize resume {folder}\n")
    assert line.count("\n") == 1
    run = Run.open(folder)
    assert run.status()["state"] == "interrupted"
    saved = load_newest(folder / "checkpoints", run.digest())
    assert saved is not None
    assert saved.step in (0, 30)
    assert not list(folder.rglob("*.tmp"))
    assert main([*WORDS, "--out", str(out)]) == 0
    assert main([*WORDS, "--out", str(tmp_path / "calm")]) == 0
    assert results(out) == results(tmp_path / "calm")


def test_a_disk_with_room_for_nothing(
    tmp_path: Path, calm: dict[str, bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the status can be written: the run says that it runs, and the lock tells otherwise."""

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    watcher = Watcher(50, lambda: monkeypatch.setattr(atomic, "write", full))
    with pytest.raises(RunFailed, match="the disk is full"):
        train(CONFIG, Execution(out=tmp_path), [watcher])
    assert watcher.ended == "interrupted"
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    assert Run.open(folder).status()["state"] == "running"
    assert main(["runs", "--out", str(tmp_path), "--status", "interrupted", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    for index in tmp_path.glob(".index*"):
        index.unlink()
    train(CONFIG, out=tmp_path)
    assert results(tmp_path) == calm


def test_a_checkpoint_that_a_kill_has_left_over_goes(
    tmp_path: Path, calm: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing is left to train, and so no further one is written."""

    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Run, "save_model", fail)
    with pytest.raises(RunFailed, match="the disk is full"):
        train(CONFIG, out=tmp_path)
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    kept = checkpoints(folder / "checkpoints")
    shutil.copy(kept[1], kept[1].with_name("000000000001.safetensors"))
    train(CONFIG, out=tmp_path)
    assert checkpoints(folder / "checkpoints") == kept
    assert results(tmp_path) == calm


def damage_nothing(folder: Path) -> None: ...


def cut_metrics(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-10])


def garble_metrics(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"loss", b"boss"))


def lose_journals(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()
    (folder / "timing.jsonl").write_bytes(b'{"step": 0, "sec')


def move_out(folder: Path) -> None:
    folder.rename(folder.with_name("another name"))


def plant_pickles(folder: Path) -> None:
    for name in ("checkpoints/1.pt", "stages/0001.pkl", "pytorch_model.bin", "model.pt", "status.pkl"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps(Bomb(folder.parent.with_name("exploded"))))


@pytest.mark.parametrize(
    "damage", [damage_nothing, cut_metrics, garble_metrics, lose_journals, move_out, plant_pickles]
)
def test_what_happens_to_a_folder_between_two_sittings(
    damage: Callable[[Path], None], tmp_path: Path, calm: dict[str, bytes]
) -> None:
    out = tmp_path / "runs"
    run = interrupted_at(45, out)
    damage(run.path)
    (folder,) = out.iterdir()
    watcher = Watcher(0, lambda: None)
    resume(Run.open(folder), Execution(), [watcher])
    assert watcher.first == 45, "nothing was trained twice"
    for path in folder.rglob("*.pkl"):
        path.unlink()
    assert results(out) == calm
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["checkpoints", "model", "metrics.jsonl"])
def test_nothing_outside_is_written_by_going_on(name: str, tmp_path: Path) -> None:
    """A folder from somebody else may hold links in place of what a training writes, and deletes."""
    run, outside = interrupted_at(45, tmp_path / "runs"), tmp_path / "outside"
    if (run.path / name).exists():
        (run.path / name).rename(outside)
    else:
        outside.mkdir()
    (run.path / name).symlink_to(outside)
    before = {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()}
    with pytest.raises(BadInput, match=f"{name} is a link, and a training writes there"):
        resume(Run.open(run.path), Execution())
    assert {path: path.read_bytes() for path in (outside, *outside.rglob("*")) if path.is_file()} == before


def test_a_checkpoint_of_something_else_is_one_line(tmp_path: Path) -> None:
    """Whole, with its checksum, and with the run's own identity: but not the state of such a run."""
    run = interrupted_at(45, tmp_path / "runs")
    for path in checkpoints(run.path / "checkpoints"):
        tensors, scalars = load_tensors(path)
        save_tensors(path, tensors, {**scalars, "state": {"progress": "x"}})
    with pytest.raises(RunFailed, match=r"000045\.safetensors does not hold the state of .*: progress: "):
        resume(Run.open(run.path), Execution())


def _compete(out: Path) -> None:
    """Train, but not before both have started, and for longer than anybody waits for a lock."""
    checkpoint = loop.Books.checkpoint

    def slow(*arguments: Any, **named: Any) -> None:
        checkpoint(*arguments, **named)
        threading.Event().wait(0.5)

    loop.Books.checkpoint = slow  # type: ignore[method-assign]
    sys.stderr = out.with_name(f"errors-{os.getpid()}").open("w")
    code = main([*WORDS, "--out", str(out)])
    sys.stderr.flush()
    os._exit(code)


def test_two_processes_and_one_trains(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_compete, args=(out,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert sorted(process.exitcode or 0 for process in both) == [0, 2]
    loser = next(process for process in both if process.exitcode == 2)
    winner = next(process for process in both if process.exitcode == 0)
    (folder,) = out.iterdir()
    line = (tmp_path / f"errors-{loser.pid}").read_text()
    assert line.startswith(f"internalize: run: {folder} is being trained by process {winner.pid} on ")
    assert results(out)


def test_a_folder_renamed_under_a_run_is_one_line(tmp_path: Path) -> None:
    out, away = tmp_path / "runs", tmp_path / "away"

    def rename() -> None:
        (folder,) = out.iterdir()
        folder.rename(away)

    with pytest.raises(RunFailed, match="was removed or renamed while the run was going on"):
        train(CONFIG, Execution(out=out), [Watcher(30, rename)])
    assert list(out.iterdir()) == []
