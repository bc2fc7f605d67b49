"""Entries of rows and summaries that are not what their names say: one line that names them, never a number."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from internalize import Run
from internalize.cli import main
from internalize.contract import Row
from internalize.errors import BadInput
from internalize.runs.measurements import MeasuredRow, require_measurements
from internalize.runs.storage import Unreadable
from tests.hostile.laboratory import CHAIN, GOLDEN, HINTS, SELFPLAY

GOOD: Row = {"event": "evaluation", "iteration": 3, "stage": 1, "id_accuracy": 0.5, "id_interval": [0.4, 0.6]}
WRONG: list[tuple[str, Any]] = [
    ("iteration", "3"), ("iteration", True), ("iteration", -1), ("iteration", 1.5), ("stage", None),
    ("stage", {}), ("id_accuracy", "x"), ("id_accuracy", 1.5), ("id_accuracy", []), ("id_accuracy", True),
    ("id_interval", 3), ("id_interval", [1]), ("id_interval", [0, "x"]), ("loss", "x"), ("worst_loss", []),
    ("operations", "many"), ("event", 3), ("id_response_length", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_entry_is_what_its_name_says(name: str, value: Any) -> None:
    assert require_measurements(dict(GOOD)) == GOOD
    with pytest.raises(Unreadable, match=f"has {name} = .*, which must be "):
        require_measurements(GOOD | {name: value})


def test_who_asks_for_an_entry_that_is_lost_learns_which_file_lacks_it() -> None:
    row = MeasuredRow(GOOD, Path("run/metrics.jsonl"))
    assert row == GOOD
    assert row.get("loss") is None
    with pytest.raises(BadInput, match=r"run/metrics\.jsonl has a row of evaluation without loss"):
        row["loss"]


def test_other_kinds_measure_what_they_like() -> None:
    row: Row = {"event": "evaluation", "step": 1, "heights": [1, "x"], "clauses": {}, "loss_by_place": [1.0]}
    assert require_measurements(row) == row


def test_older_runs_of_every_kind_stay_readable() -> None:
    runs = [Run(config.parent) for config in GOLDEN.glob("*/config.json")]
    assert {run.identity().kind for run in runs} >= {"chain", "hints", "parity", "selfplay"}
    for run in runs:
        assert len(run.metrics("train")) + len(run.metrics("evaluation")) == len(run.metrics()) > 0


COMMANDS = [
    (CHAIN, "explore", "evaluation", "iteration"), (CHAIN, "diagnose --samples 8", "train", "stage"),
    (HINTS, "hints draw", "evaluation", "samples"), (SELFPLAY, "selfplay draw", "evaluation", "raw_accuracy"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "command", "event", "name"), COMMANDS)
def test_who_computes_with_rows_names_the_bad_one(
    run: str, command: str, event: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(GOLDEN / Path(run).name, tmp_path / Path(run).name)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for change in ("lost", "list"):
        bad = [dict(row) for row in rows]
        for row in bad:
            if row["event"] == event:
                row.pop(name) if change == "lost" else row.update({name: []})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bad))
        assert main([*command.split(), str(folder)]) == 2
        said = capsys.readouterr().err
        assert re.fullmatch(rf"internalize: run: .*/metrics\.jsonl has .*\b{name}\b.*\n", said), said
    assert main(["runs", "verify", str(folder)]) == 1
    assert "metrics.jsonl" in capsys.readouterr().out


def test_a_summary_that_makes_no_sense_is_damage(tmp_path: Path) -> None:
    run = Run(shutil.copytree(GOLDEN / Path(CHAIN).name, tmp_path / "run"))
    status = json.loads((run.path / "status.json").read_text())
    for name, value in (("id_accuracy", 10**18), ("stage", "x"), ("id_interval", {})):
        changed = status | {"summary": status["summary"] | {name: value}}
        (run.path / "status.json").write_text(json.dumps(changed))
        assert run.status()["state"] == "damaged"
        assert name in run.status()["message"]


@pytest.mark.filterwarnings("ignore:.*has lines that cannot be read")
def test_a_page_is_not_spoilt_by_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NaN is no JSON: with it in the data of a page, the browser would show nothing at all."""
    folder = shutil.copytree(GOLDEN / Path(CHAIN).name, tmp_path / "runs" / "bad")
    shutil.copytree(GOLDEN / Path(HINTS).name, tmp_path / "runs" / "good")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"event": "evaluation", "iteration": NaN, "stage": 1, "id_accuracy": Infinity}\n')
    status = json.loads((folder / "status.json").read_text())
    status["summary"]["views_per_input"] = float("nan")
    (folder / "status.json").write_text(json.dumps(status))
    out = ["--out", str(tmp_path / "runs")]
    assert main(["runs", "page", *out]) == 0
    assert main(["runs", "--json", *out]) == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    page = (tmp_path / "runs" / "index.html").read_text(encoding="utf-8")
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    rows = json.loads(data[1], parse_constant=refuse)["runs"]
    assert {row["run"]: row["state"] for row in rows} == {"bad": "damaged", "good": "done"}
    assert "holds NaN" in next(row["message"] for row in rows if row["run"] == "bad")
    listed = capsys.readouterr().out.splitlines()[-1]
    assert len(json.loads(listed, parse_constant=refuse)) == 2
    with pytest.raises(BadInput, match="is not finished"):
        Run(folder).summary()
