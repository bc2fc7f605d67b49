"""Runs made by an earlier revision are still read, asked and gone on with, by the command line alone.

The folders of `golden/runs` were made on the command line (each one's provenance.json says by which words) and
are never made anew. Two of them were stopped by SIGTERM in the midst of a stage; `golden/runs/expected.json`
holds what became of the same two without a break, on the machine that made them.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main

MADE = Path(__file__).parent / "golden" / "runs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((MADE / "expected.json").read_text())
FOLDERS = sorted(path.name for path in MADE.iterdir() if path.is_dir())
INTERRUPTED = sorted(EXPECTED)
DONE = [name for name in FOLDERS if name not in INTERRUPTED]
CHAINS = [name for name in DONE if name.startswith(("C2-", "turnstile-"))]
ACCURACY = {"chain": "id_accuracy", "hints": "accuracy", "selfplay": "raw_optimal_rate", "parity": None}
"""kind → the entry of its results that a list of runs shows."""
COUNTS = ("iterations", "steps", "samples", "stage", "stages", "parameters", "flops", "response_length")
"""Results that do not depend on a machine's last bits."""

# a run that goes on under another torch or processor says so, which is no mistake here
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders, in a place where the user's files of those days are gone."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(MADE, tmp_path / "runs", ignore=shutil.ignore_patterns("__pycache__"))
    return Path("runs")


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """What a command that succeeds prints."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def read(name: str, file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MADE / name / file).read_text())
    return found


def recorded_accuracy(name: str) -> float | None:
    entry = ACCURACY[read(name, "config.json")["kind"]]
    return None if entry is None else read(name, "status.json")["summary"][entry]


def test_the_folders_are_of_every_kind() -> None:
    """Else the other tests would pass on nothing."""
    assert {read(name, "config.json")["kind"] for name in DONE} == set(ACCURACY)
    assert {read(name, "config.json")["kind"] for name in INTERRUPTED} == {"chain", "hints"}
    assert len(CHAINS) == 2
    assert all(read(name, "status.json")["state"] == "interrupted" for name in INTERRUPTED)


def test_they_are_listed_with_their_numbers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {row["path"]: row for row in json.loads(said(capsys, "runs", "--out", runs, "--json"))}
    assert sorted(listed) == FOLDERS
    for name, row in listed.items():
        made, status = read(name, "config.json"), read(name, "status.json")
        assert (row["kind"], row["state"]) == (made["kind"], status["state"])
        assert (row["config"], row["summary"]) == (made["config"], status.get("summary", {}))
        assert name.endswith(f"-{row['hash']}")  # the hash of what is read is the one that named the folder
    for name in DONE:
        assert listed[name]["accuracy"] == recorded_accuracy(name)
    assert {listed[name]["ood_accuracy"] for name in CHAINS} == {1.0}
    assert 0.4 < listed[next(name for name in DONE if name.startswith("selfplay"))]["accuracy"] < 0.45


def test_the_list_for_people_says_the_same(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading, *lines, remark, total = said(capsys, "runs", "--out", runs).splitlines()
    assert heading.split() == [
        "run",
        "task",
        "T",
        "method",
        "seed",
        "state",
        "ID",
        "OOD",
        "tokens",
        "views",
        "cost",
        "took",
    ]
    assert "not finished" in remark
    assert total == f"{len(FOLDERS)} runs in runs"
    assert [line.split()[0] for line in lines] == FOLDERS
    for line in lines:
        accuracy = None if line.split()[0] in INTERRUPTED else recorded_accuracy(line.split()[0])
        assert accuracy is None or f"{100 * accuracy:.1f} %" in line
    assert said(capsys, "runs", "--out", runs, "--status", "interrupted").endswith("2 runs in runs\n")


@pytest.mark.parametrize("name", FOLDERS)
def test_each_is_shown(name: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(said(capsys, "runs", "show", runs / name, "--json"))
    assert shown["identity"] == read(name, "config.json")
    assert shown["status"] == read(name, "status.json")
    assert shown["owned"] is False
    assert shown["provenance"]["revision"] == "7f40bf9"
    rows = [json.loads(line) for line in (MADE / name / "metrics.jsonl").read_text().splitlines()]
    assert shown["metrics"] == rows
    text = said(capsys, "runs", "show", shown["hash"][:8])  # found by the beginning of its hash, too
    assert text.startswith(f"{name}\n{shown['status']['state']}")


def test_they_are_exported(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "runs", "export", "--out", runs, "--csv", "table.csv")
    with Path("table.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert sorted(rows) == FOLDERS
    for name in DONE:
        summary = read(name, "status.json")["summary"]
        numbers = {key: value for key, value in summary.items() if type(value) in (int, float)}
        assert {key: float(rows[name][f"summary.{key}"]) for key in numbers} == numbers


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_asked_again(name: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They had learned their task for good, so fresh inputs are answered rightly if the weights are read so."""
    found = json.loads(
        said(capsys, "evaluate", runs / name, "--trust", "--samples", "200", "--device", "cpu", "--json")
    )
    assert [part["accuracy"] for part in found["distributions"]] == [1.0, 1.0]
    assert found["response_length"] == read(name, "status.json")["summary"]["response_length"]
    first = said(capsys, "evaluate", runs / name, "--trust", "--stage", "1", "--inputs", "uniform", "--json")
    horizon = read(name, "config.json")["config"]["horizon"]
    assert json.loads(first)["response_length"] == pytest.approx(horizon + 1, abs=0.2)  # all states, and EOS
    examples = json.loads(said(capsys, "show", runs / name, "--trust", "--examples", "3", "--json"))
    assert [example["right"] for example in examples] == [True] * 3
    assert name in said(capsys, "show", runs / name, "--trust", "--examples", "2")


@pytest.mark.parametrize("name", DONE)
def test_a_finished_run_stays_as_it_is(name: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To go on with it is to be told its results."""
    if name.startswith("selfplay"):
        pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    result = json.loads(said(capsys, "resume", runs / name, "--trust", "--quiet", "--json"))
    summary = read(name, "status.json")["summary"]
    assert {key: result[key] for key in summary} == summary
    for path in (MADE / name).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert (runs / name / path.relative_to(MADE / name)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupted_run_goes_on_to_its_end(
    name: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (runs / name / "metrics.jsonl").read_text()
    result = json.loads(said(capsys, "resume", runs / name, "--trust", "--device", "cpu", "--quiet", "--json"))
    shown = json.loads(said(capsys, "runs", "show", runs / name, "--json"))
    assert shown["status"]["state"] == "done"
    assert (runs / name / "metrics.jsonl").read_text().startswith(before)  # it went on, it did not begin anew
    expected = EXPECTED[name]["summary"]
    assert set(shown["status"]["summary"]) >= set(expected)  # later versions may say more
    counts = {key: expected[key] for key in COUNTS if key in expected}
    assert len(counts) >= 4
    assert {key: result[key] for key in counts} == counts
    assert shown["stages"] == list(range(1, expected["stages"] + 1))
