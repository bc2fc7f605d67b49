"""Run folders: found, moved, renamed, changed by hand, owned by one, and started over."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from internalize import Run
from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.errors import BadInput
from internalize.runs.folder import Identity
from internalize.runs.storage import is_owned, own


@pytest.fixture
def run(tmp_path: Path) -> Run:
    make_runs(tmp_path, 1)
    (folder,) = tmp_path.iterdir()
    return Run.open(folder)


def edit(path: Path, *names: str, value: object) -> None:
    content = json.loads(path.read_text())
    place = content
    for name in names[:-1]:
        place = place[name]
    place[names[-1]] = value
    path.write_text(json.dumps(content))


def test_a_moved_and_renamed_folder_is_the_same_run(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "my best run"
    moved.parent.mkdir()
    shutil.move(run.path, moved)
    assert Run.open(moved).digest() == run.path.name[-12:]


@pytest.mark.parametrize(
    ("file", "names", "field"),
    [
        ("config.json", ("config", "horizon"), "horizon"),
        ("config.json", ("config", "optimizer", "lr"), "optimizer.lr"),
        ("provenance.json", ("identity", "config", "task"), "task"),
    ],
)
def test_a_config_changed_by_hand_is_refused_by_name(
    run: Run, file: str, names: tuple[str, ...], field: str
) -> None:
    edit(run.path / file, *names, value=13)
    with pytest.raises(BadInput, match=rf"^{field}: .*was made with .*, which is not ") as refusal:
        Run.open(run.path)
    assert refusal.value.field == field


def test_another_format_is_refused(run: Run) -> None:
    edit(run.path / "config.json", "format", value=99)
    with pytest.raises(BadInput, match="has format 99, this version reads 1"):
        Run.open(run.path)


def test_a_run_is_found_by_the_beginning_of_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_runs(Path("runs"), 3)
    folders = sorted(Path("runs").iterdir())
    for folder in folders:
        assert Run.open(folder.name[-12:-5]).path == folder
        assert Run.open(folder.name).path == folder
    twin = folders[0].name[-12:]
    shutil.copytree(folders[0], Path("runs") / "deeper" / f"copy-{twin}")
    with pytest.raises(BadInput, match=f"{twin} could be any of 2 runs: "):
        Run.open(twin)
    with pytest.raises(
        BadInput,
        match=r"0000 is not a run folder, nor a part of a name in runs; internalize runs lists them \(4\)",
    ):
        Run.open("0000")
    assert main(["runs", "show", "nowhere"]) == 2


def test_names_are_safe_on_every_system() -> None:
    name = Identity("chain", {}, {}).folder_name('C2:../a\\b*?"<>| é\n' + "x" * 300)
    assert len(name) < 100
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+=_-")
    assert not name.startswith(".")


def _hold(folder: Path, pipe: Connection) -> None:
    with own(folder):
        pipe.send("mine")
        time.sleep(60)


def test_one_owner_and_a_dead_one_is_followed(run: Run) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    holder = context.Process(target=_hold, args=(run.path, there), daemon=True)
    holder.start()
    assert here.poll(30)
    assert here.recv() == "mine"
    assert holder.pid is not None
    assert is_owned(run.path)
    with pytest.raises(BadInput, match=f"is being trained by process {holder.pid} on "), own(run.path):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert (run.path / ".owner.json").exists(), "the dead left their card"
    assert not is_owned(run.path)
    with own(run.path):
        pass
    assert not (run.path / ".owner.json").exists()


def test_starting_over_forgets_the_status_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.path / "stages").mkdir()

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with own(run.path), pytest.raises(KeyboardInterrupt):
        run.clear()
    assert run.status() == {"state": "new"}
    monkeypatch.undo()
    with own(run.path):
        run.clear()
        assert {path.name for path in run.path.iterdir()} == {".lock", ".owner.json"}


def test_a_damaged_status_is_not_taken_for_done(run: Run) -> None:
    (run.path / "status.json").write_text('{"state": "do')
    assert not run.is_done
