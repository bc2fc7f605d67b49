"""One folder that is not what a run writes becomes one row that says so; the others are listed as ever."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from internalize import Run
from internalize.benchmarks.store import make_runs
from internalize.cli import main
from internalize.runs.provenance import read_times, seconds_in_all
from internalize.runs.storage import DEEPEST, Unreadable, parse_json, read_json

DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"a":' * 150 + "1" + "}" * 150
CONTENTS = {
    "empty": "",
    "cut": '{"state": "do',
    "list": "[]",
    "number": "7",
    "null": "null",
    "deep": DEEP,
    "nested": NESTED,
    "surrogate": '{"state": "\\ud800", "kind": "\\ud800", "format": 1}',
    "latin": '{"state": "\xe4"}',
    "long": '{"state": "done", "seconds": ' + "9" * 5000 + "}",
}
WRONG_TYPES: list[tuple[str, tuple[str, ...], Any]] = [
    ("config.json", ("kind",), 3),
    ("config.json", ("config",), []),
    ("config.json", ("sources",), "x"),
    ("status.json", ("state",), ["done"]),
    ("status.json", ("state",), "finished"),
    ("status.json", ("summary",), 5),
    ("status.json", ("seconds",), "long"),
    ("status.json", ("message",), {"a": 1}),
    ("status.json", ("subject",), [1]),
    ("status.json", ("accuracy",), "high"),
]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three finished runs; the first is for damaging."""
    monkeypatch.chdir(tmp_path)
    make_runs(Path("runs"), 3)
    return Path("runs")


def victim(out: Path) -> Path:
    return min(path for path in out.iterdir() if path.is_dir())


def check_commands(out: Path, bad: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that reads many runs names the bad one with its file, and has the two others."""
    capsys.readouterr()
    assert main(["runs", "--out", str(out), "--json"]) == 0
    rows = {row["path"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[bad.name]["state"] == "damaged"
    assert file in rows[bad.name]["message"]
    assert sorted(row["state"] for row in rows.values()) == ["damaged", "done", "done"]
    assert main(["runs", "--out", str(out)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "damaged" in line and file in line]
    assert main(["runs", "export", "--out", str(out), "--csv", "-"]) == 0
    table = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert sorted(row["state"] for row in table) == ["damaged", "done", "done"]
    assert main(["runs", "compare", str(out), str(out), "--json"]) == 0
    (group, _) = json.loads(capsys.readouterr().out)["groups"]
    assert (group["runs"], len(group["damaged"])) == (2, 1)
    assert main(["runs", "prune", "--out", str(out), "--status", "damaged"]) == 0
    assert main(["runs", "show", str(bad)]) in (0, 2)


@pytest.mark.parametrize("file", ["config.json", "status.json"])
@pytest.mark.parametrize("content", CONTENTS)
def test_a_damaged_file_is_one_row(
    out: Path, file: str, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = victim(out)
    (bad / file).write_bytes(CONTENTS[content].encode("latin-1"))
    check_commands(out, bad, file, capsys)


@pytest.mark.parametrize(("file", "names", "value"), WRONG_TYPES)
def test_a_wrong_type_is_one_row(
    out: Path, file: str, names: tuple[str, ...], value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = victim(out)
    content = json.loads((bad / file).read_text())
    content[names[0]] = value
    (bad / file).write_text(json.dumps(content))
    check_commands(out, bad, file, capsys)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = victim(out)
    (bad / "status.json").unlink()
    os.mkfifo(bad / "status.json")
    check_commands(out, bad, "status.json", capsys)


@pytest.mark.parametrize("target", ["config.json", "nowhere"])
def test_a_link_that_leads_nowhere_is_one_row(
    out: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a circle, or to what is not there; and one beside the runs hides nothing either."""
    bad = victim(out)
    (bad / "config.json").unlink()
    (bad / "config.json").symlink_to(target)
    (out / "circle").symlink_to("circle")
    assert main(["runs", "--out", str(out), "--json"]) == 0
    states = {row["path"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states.pop(bad.name) == "damaged"
    assert list(states.values()) == ["done", "done"]


@pytest.mark.parametrize(
    "files", [{"config.json": 3}, {"status.json": {}}, {"../x": {"bytes": 1, "sha256": ""}}]
)
def test_a_forged_manifest_is_one_row(
    out: Path, files: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the right digest of what it says, which anybody can compute."""
    bad = victim(out)
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    (bad / "manifest.json").write_text(json.dumps({"files": files, "sha256": digest}))
    check_commands(out, bad, "manifest.json", capsys)


def test_a_name_that_is_no_text_hides_nothing(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.rename(victim(out), os.fsencode(out) + b"/strange-\xff")  # noqa: PTH104
    assert main(["runs", "--out", str(out), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["message"] for row in rows if "not UTF-8 text: rename" in (row["message"] or "")] != []
    states = {row["path"]: row["state"] for row in rows}
    assert states.pop("strange-\\udcff") == "damaged"
    assert list(states.values()) == ["done", "done"]


@pytest.mark.filterwarnings("ignore::internalize.errors.RunWarning")
def test_rows_of_wrong_types_do_not_stop_the_curves(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ['{"step": "x", "loss": 1.0}', '{"step": 1, "loss": NaN}', '{"step": 2, "loss": 0.5}', DEEP, "7"]
    (victim(out) / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert main(["runs", "show", str(victim(out))]) == 0
    assert "loss" in capsys.readouterr().out


def test_nesting_is_read_up_to_the_limit() -> None:
    good = "[" * DEEPEST + "]" * DEEPEST
    assert parse_json(good.encode()) == json.loads(good)
    with pytest.raises(Unreadable, match="deeply"):
        parse_json(f"[{good}]".encode())
    assert parse_json(b'"\\ud83d\\ude00 [[["') == "😀 [[["
    assert parse_json(b"[18446744073709551615, 0.12345678901234567890123]") == [2**64 - 1, 0.12345678901234568]
    with pytest.raises(Unreadable, match="30 digits"):
        parse_json(b"[1" + b"0" * 30 + b"]")


def test_a_run_of_many_operations_is_not_damaged(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A day of a large machine is more than 2^64 operations."""
    status = json.loads((victim(out) / "status.json").read_text())
    status["summary"]["operations"] = 10**22
    (victim(out) / "status.json").write_text(json.dumps(status))
    (victim(out) / "manifest.json").unlink(missing_ok=True)
    assert main(["runs", "--out", str(out), "--json"]) == 0
    found = {row["path"]: row for row in json.loads(capsys.readouterr().out)}[victim(out).name]
    assert (found["state"], found["summary"]["operations"]) == ("done", 1e22)
    assert main(["runs", "export", "--out", str(out), "--csv", "-"]) == 0
    assert "1e+22" in capsys.readouterr().out


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "status.json").open("wb") as file:
        file.truncate(2**40)  # takes no room
    with pytest.raises(Unreadable, match="bytes, at most"):
        read_json(tmp_path / "status.json")


@pytest.mark.filterwarnings("ignore::internalize.errors.RunWarning")
def test_a_flipped_bit_in_the_times_costs_that_row_alone(out: Path) -> None:
    """Every single bit, one after the other: what is left is a subset of the rows, or a changed number."""
    run = Run(victim(out))
    rows = [{"step": 0, "seconds": 1.5, "processor": 1.0}, {"step": 8, "seconds": 2.5, "processor": 2.0}]
    good = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    for i in range(8 * len(good)):
        damaged = bytearray(good)
        damaged[i // 8] ^= 1 << i % 8
        (run.path / "timing.jsonl").write_bytes(damaged)
        found = read_times(run)
        assert len(found) <= 2
        assert all(isinstance(row["step"] + row["seconds"], int | float) for row in found)
        seconds_in_all(run)
