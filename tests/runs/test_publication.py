"""What is shown is not obeyed, what is exported is no formula, and what is private is named before it goes."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest

from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.display.terminal import plain
from internalize.runs.checkpoint import save_tensors
from internalize.runs.storage import write_json
from internalize.runs.table import Table
from internalize.runtime.loop import listening


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_runs(Path("runs"), 1)
    (folder,) = Path("runs").iterdir()
    return folder


def test_escapes_are_shown_and_not_obeyed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    status = json.loads((run / "status.json").read_text())
    write_json(run / "status.json", {**status, "subject": evil, "message": evil})
    moved = run.rename(run.parent / "a\x1b[31m\nb")
    task = {"name": evil, "states": [evil, "b"], "symbols": ["0", evil], "transitions": [[0, 1], [0, 1]]}
    write_json(Path("task.json"), task)
    compare = ["runs", "compare", str(moved), str(moved)]
    lines = [["runs"], ["runs", "show", str(moved)], compare, [*compare, "--markdown"], ["tasks", "task.json"]]
    for words in lines:
        assert main(words) == 0
        out = capsys.readouterr().out
        assert not set(evil) & set(out) & set("\x1b\x07\u202e\x9b")
        assert "\\x1b" in out
    assert plain("zwölf → ●\n日本") == "zwölf → ●\n日本"


def test_a_cell_is_no_formula() -> None:
    row = {"=name": "=cmd|' /C calc'!A0", "a": "@x", "b": "+1+2", "c": "-1.5", "d": -2, "e": "–"}
    (found,) = csv.DictReader(Table([row]).to_csv().splitlines())
    assert found == {
        "'=name": "'=cmd|' /C calc'!A0",
        "a": "'@x",
        "b": "'+1+2",
        "c": "-1.5",
        "d": "-2",
        "e": "–",
    }


def test_what_is_private_is_named_and_nothing_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["runs", "export", "--public", "--csv", "table.csv"]
    assert main(words) == 0
    assert Path("table.csv").exists()
    Path("table.csv").unlink()
    made = json.loads((run / "provenance.json").read_text())
    write_json(run / "provenance.json", {**made, "command": "train /home/ada/secret-project/task.py"})
    (run / "notes.txt").write_text("API_KEY = abcdefgh12345678, mail ada@example.org")
    (run / "sources").mkdir()
    (run / "sources" / "task.py").write_text("x = 1")
    (run / "link").symlink_to("/etc/passwd")
    (run / "stages").mkdir(exist_ok=True)
    (run / "stages" / "diary.docx").write_bytes(b"")
    save_tensors(run / "stages" / "0001.safetensors", {}, {"data": "/data/lovelace/rows.jsonl"})
    capsys.readouterr()
    assert main(words) == 1
    out = capsys.readouterr().out
    for word in (
        "/home/ada",
        "key or a password",
        "ada@example.org",
        "your own file",
        "/etc/passwd",
        "notes.txt: not a file",
        "diary.docx: not a file",
        "0001.safetensors: a path of this machine: /data/lovelace/rows.jsonl",
    ):
        assert word in out
    assert "abcdefgh12345678" not in out
    assert not Path("table.csv").exists()


@pytest.mark.parametrize(
    ("inherited", "heard"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, None)], ids=["shell", "nohup"]
)
def test_a_closed_terminal_is_a_wish_to_stop(inherited: signal.Handlers, heard: int | None) -> None:
    """Unless the process was started by nohup, as the one that runs this test may be: then it is ignored."""
    before = signal.signal(signal.SIGHUP, inherited)
    try:
        with listening(aloud=False) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.signal == heard
        assert signal.getsignal(signal.SIGHUP) == inherited, "as it was found"
    finally:
        signal.signal(signal.SIGHUP, before)
