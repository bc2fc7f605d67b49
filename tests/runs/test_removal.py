"""`runs prune --yes` deletes runs and nothing else, whatever a folder, a link or an index says."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from internalize import Run
from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.errors import BadInput
from internalize.runs.folder import Identity
from internalize.runs.index import INDEX, Store
from internalize.runs.location import MARKER
from internalize.runs.removal import HIDDEN, require_deletable

Output = pytest.CaptureFixture[str]


def failed_run(out: Path, seed: int = 0, name: str = "") -> Path:
    """As it is made today, with a marker."""
    identity = Identity("chain", {"task": "C2", "seed": seed}, {})
    run = Run.create(out, "C2", identity)
    run.begin(identity, [], dict)
    run.set_status("failed", message="no")
    (run.path / "checkpoints").mkdir()
    (run.path / "checkpoints" / "1.safetensors").touch()
    return run.path.rename(out / name) if name else run.path


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.name.startswith(INDEX)}


def prune(out: Path, *more: str, code: int = 0) -> None:
    """code: 1 where something that was to be deleted is still there."""
    assert main(["runs", "prune", "--out", str(out), "--yes", *more]) == code


@pytest.mark.parametrize("name", ["", "best"])
@pytest.mark.parametrize("marker", [True, False])
def test_a_run_goes_marked_or_old_renamed_or_not(tmp_path: Path, name: str, marker: bool) -> None:
    run = failed_run(tmp_path, name=name)
    assert json.loads((run / MARKER).read_text()) == {"format": 1, "run": Run(run).digest()}
    if not marker:
        (run / MARKER).unlink()
    prune(tmp_path)
    assert files_below(tmp_path) == set()


def test_runs_below_the_folder_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--out .` once cut two characters off nested paths, and called good runs damaged."""
    monkeypatch.chdir(tmp_path)
    make_runs(tmp_path / "ab" / "sweep", 7)
    victim = failed_run(tmp_path / "ab" / "sweep", 99)
    other = tmp_path / "sweep" / victim.name  # what the cut path would have named
    shutil.copytree(victim, other)
    for name in ("config.json", "status.json"):
        (other / name).unlink()
    paths = {entry.path: entry.state for entry in Store(Path()).entries()}
    assert all(path.startswith("ab/sweep/") for path in paths)
    assert "damaged" not in paths.values()
    prune(Path())
    assert not victim.exists()
    assert (other / MARKER).exists()


@pytest.mark.parametrize("status", ["failed", "damaged", "new"])
def test_what_only_looks_like_a_run_stays(tmp_path: Path, capsys: Output, status: str) -> None:
    identity = {"format": 1, "kind": "chain", "config": {}, "sources": {}}
    plain = {"config.json": {"model": "bert"}, "status.json": {"state": "failed"}}
    contents: dict[str, dict[str, Any]] = {
        "website": plain,
        "empty": {"config.json": {}},
        "text": {"config.json": "hello"},
        "half": {"config.json": identity, "status.json": {"state": "failed"}},
        "foreign-0123456789ab": {"config.json": identity, "status.json": {"state": "failed"}},
        "marked": {**plain, MARKER: {"format": 1, "run": "0123456789ab"}},
        "later": {**plain, MARKER: {"format": 2, "run": "0123456789ab"}},
    }
    for name, files in contents.items():
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file).write_text(json.dumps(content))
        (tmp_path / name / "thesis.tex").touch()
    before = files_below(tmp_path)
    prune(tmp_path, "--status", status)
    assert files_below(tmp_path) == before
    assert "deleted 0 of 0" in capsys.readouterr().out


def test_a_damaged_run_is_known_by_its_marker_and_name(tmp_path: Path) -> None:
    run = failed_run(tmp_path)
    (run / "config.json").write_text("{")
    prune(tmp_path, "--status", "damaged")
    assert not run.exists()


@pytest.mark.parametrize("link", ["run", "folder", "part"])
def test_nothing_is_deleted_through_a_link(tmp_path: Path, capsys: Output, link: str) -> None:
    out, far = tmp_path / "out", tmp_path / "far"
    out.mkdir()
    run = failed_run(far)
    what: list[str] = []
    if link == "run":
        (out / run.name).symlink_to(run)
    elif link == "folder":
        (out / "sweep").symlink_to(far)
    else:
        kept = failed_run(out, 1)
        shutil.rmtree(kept / "checkpoints")
        (kept / "checkpoints").symlink_to(run / "checkpoints")
        what = ["--what", "checkpoints", "--status", "failed"]
    prune(out, *what)
    assert "is reached by a link" in capsys.readouterr().out
    assert (run / "checkpoints" / "1.safetensors").exists()
    assert (run / "config.json").exists()


def test_the_folder_of_runs_itself_may_be_a_link(tmp_path: Path) -> None:
    run = failed_run(tmp_path / "real")
    (tmp_path / "out").symlink_to("real")
    prune(tmp_path / "out")
    assert not run.exists()


def test_names_that_lead_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    run = failed_run(tmp_path)
    for folder in (tmp_path / "out" / ".." / run.name, run, tmp_path / "out"):
        with pytest.raises(BadInput, match="is not below"):
            require_deletable(tmp_path / "out", folder)


@pytest.mark.parametrize("trick", ["rows", "view", "trigger"])
def test_a_received_index_is_not_believed(tmp_path: Path, trick: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    victim = failed_run(tmp_path)
    mine = failed_run(out)
    (entry,) = Store(out).entries()
    values = {**vars(entry), "path": f"../{victim.name}"}
    with sqlite3.connect(out / INDEX) as index:
        if trick == "rows":
            index.execute("UPDATE home SET folder = '1.1'")
            index.execute("UPDATE runs SET task = 'forged'")
        elif trick == "view":
            index.execute("DROP TABLE runs")
            columns = ", ".join(f"'{value}' AS {name}" for name, value in values.items())
            index.execute(f"CREATE VIEW runs AS SELECT {columns}")
        else:
            index.execute(
                "CREATE TRIGGER t AFTER DELETE ON runs BEGIN INSERT OR REPLACE INTO runs(path, stamp, state)"
                f" VALUES ('../{victim.name}', '', 'failed'); END"
            )
            index.execute("INSERT INTO runs(path, stamp, state) VALUES ('../x', '', 'failed')")
    index.close()
    assert [(found.path, found.task) for found in Store(out).entries()] == [(mine.name, "C2")]
    prune(out)
    assert victim.exists()
    assert not mine.exists()


def test_an_index_that_was_copied_with_its_folder_is_made_anew(tmp_path: Path) -> None:
    failed_run(tmp_path / "out")
    Store(tmp_path / "out").entries()
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy" / INDEX) as index:
        index.execute("UPDATE runs SET state = 'done', stamp = stamp")
    index.close()
    assert [entry.state for entry in Store(tmp_path / "copy").entries()] == ["failed"]


@pytest.mark.parametrize("what", ["runs", "checkpoints"])
def test_a_killed_prune_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run = failed_run(tmp_path)
    for name in ("a", "b"):
        (run / "checkpoints" / name).mkdir()

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        assert (
            main(["runs", "prune", "--out", str(tmp_path), "--yes", "--status", "failed", "--what", what])
            == 130
        )
    assert (run / ("config.json" if what == "runs" else "checkpoints")).exists() is False
    (left,) = tmp_path.glob(f"{HIDDEN}*")
    assert (left / MARKER).exists()
    prune(tmp_path)
    assert list(tmp_path.glob(f"{HIDDEN}*")) == []


def test_what_only_looks_half_deleted_stays(tmp_path: Path) -> None:
    for name, marker in {
        f"{HIDDEN}0123456789ab-runs-7": "",
        f"{HIDDEN}0123456789ab-runs-8": '{"format": 1, "run": "ba9876543210"}',
        f"{HIDDEN}mine": '{"format": 1, "run": "0123456789ab"}',
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").touch()
        (tmp_path / name / MARKER).write_text(marker)
    (tmp_path / f"{HIDDEN}0123456789ab-runs-9").symlink_to(tmp_path)
    before = files_below(tmp_path)
    prune(tmp_path)
    assert files_below(tmp_path) == before


def test_a_run_that_holds_another_one_stays(tmp_path: Path, capsys: Output) -> None:
    """Nobody lists the inner one, and nobody has asked for it to be deleted."""
    outer = failed_run(tmp_path)
    inner = failed_run(outer, 1)
    prune(tmp_path)
    assert inner.exists()
    assert f"left alone: {outer} holds another run" in capsys.readouterr().out
    prune(tmp_path, "--what", "checkpoints", "--status", "failed")
    assert not (outer / "checkpoints").exists()
    assert inner.exists()


@pytest.mark.parametrize("name", [".lock", ".owner.json"])
def test_a_lock_that_is_no_file_keeps_its_run_and_no_other(tmp_path: Path, capsys: Output, name: str) -> None:
    bad, good = failed_run(tmp_path), failed_run(tmp_path, 1)
    (bad / name).unlink(missing_ok=True)
    (bad / name).mkdir() if name == ".lock" else os.mkfifo(bad / name)
    prune(tmp_path, code=1)
    assert (bad.exists(), good.exists()) == (True, False)
    assert f"{bad / name} is a link, a folder or something else" in capsys.readouterr().out


@pytest.mark.parametrize("name", [".lock", ".owner.json"])
def test_no_lock_is_written_through_a_link(tmp_path: Path, capsys: Output, name: str) -> None:
    run = failed_run(tmp_path / "out")
    (run / ".owner.json").touch()
    (run / name).unlink(missing_ok=True)
    (tmp_path / "diary").write_text("dear diary")
    (run / name).symlink_to(tmp_path / "diary")
    (run / "status.json").write_text('{"state": "running"}')
    assert main(["runs", "--out", str(tmp_path / "out")]) == 0
    (run / "status.json").write_text('{"state": "failed"}')
    prune(tmp_path / "out", code=1)
    assert (tmp_path / "diary").read_text() == "dear diary"
    assert run.exists()
    assert os.path.lexists(run / name)
