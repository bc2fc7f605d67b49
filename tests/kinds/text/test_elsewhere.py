"""Runs opened from another folder than the one they were begun in, and runs whose rows are gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from internalize.cli import main
from internalize.kinds.text.open_text import counted_tokens
from tests.kinds.text.test_commands import refuse
from tests.kinds.text.toys import parity_rows, shape_file


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Trained in a folder of its own, with relative names; whoever looks at it stands elsewhere."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "d").mkdir(parents=True)
    elsewhere.mkdir()
    parity_rows(home / "d")
    shape_file(home, "gpt2")
    monkeypatch.chdir(home)
    words = ["--data", "d/parity3.jsonl", "--eval", "id=d/parity3.jsonl", "--model", "gpt2.json"]
    more = ["--tokenizer", "words", "--iterations", "4", "--removal.per-stage", "1", "--out", "runs", "--quiet"]
    assert main(["text", *words, *more]) == 0
    (found,) = (home / "runs").glob("parity3-*")
    monkeypatch.chdir(elsewhere)
    capsys.readouterr()
    return found


def without_record(run: Path) -> None:
    """As runs were before the folder was recorded."""
    path = run / "provenance.json"
    content = json.loads(path.read_text())
    assert content.pop("folder") == str(run.parents[1])
    path.write_text(json.dumps(content))
    (run / "manifest.json").unlink()


@pytest.mark.parametrize("command", ["ask", "show", "evaluate", "matrix", "diagnose", "resume"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_is_opened_from_anywhere(
    command: str, recorded: bool, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not recorded:
        without_record(run)
    elif command == "ask":  # the run alone moves: its rows are where it was begun
        run = Path(shutil.move(run, tmp_path / "moved"))
    assert main([command, str(run), *(["x1 x0 x1"] if command == "ask" else [])]) == 0
    if command == "ask":
        assert "right" in (said := capsys.readouterr().out) or "wrong" in said


def test_another_file_of_that_name_is_not_taken_for_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_record(run)
    (tmp_path / "elsewhere" / "d").mkdir()
    parity_rows(tmp_path / "elsewhere" / "d", 3)
    other = tmp_path / "elsewhere" / "d" / "parity3.jsonl"
    other.write_text(other.read_text().replace("q1", "q2"))
    assert main(["show", str(run)]) == 0
    capsys.readouterr()
    (run.parents[1] / "d" / "parity3.jsonl").unlink()
    assert "d/parity3.jsonl has changed since" in refuse(capsys, ["show", str(run)])


def test_a_run_without_its_rows_is_still_asked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(run), "x1 x0 x1", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    shutil.rmtree(run.parents[1] / "d")
    assert main(["ask", str(run), "x1 x0 x1", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after == before | {"truth": None, "right": None}
    assert main(["ask", str(run), "x1 x0 x1"]) == 0
    assert "the truth  is not known: " in (said := capsys.readouterr().out)
    assert "needs d/parity3.jsonl, which is not there, neither here nor where it was begun" in said
    assert "inputs: has 'x7', which no training row has" in refuse(capsys, ["ask", str(run), "x7"])
    assert "inputs: has 60 tokens" in refuse(capsys, ["ask", str(run), "x1 " * 60])
    assert "stage: must be the last one" in refuse(capsys, ["ask", f"{run}@1", "x1"])
    for command in ("show", "matrix", "evaluate", "resume"):
        assert f"run: {run.name} needs d/parity3.jsonl" in refuse(capsys, [command, str(run)])
    shutil.rmtree(run / "model")
    assert f"run: {run.name} needs d/parity3.jsonl" in refuse(capsys, ["ask", str(run), "x1"])


def test_one_token_is_one_token() -> None:
    assert [counted_tokens(count) for count in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]
