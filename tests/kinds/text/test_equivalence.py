"""The script that draws the curves of both kinds, and that runs of text have what it needs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

from internalize import Execution, train
from internalize.kinds.text.rendering import RemovalConfig
from tests.kinds.text.test_material import config_of

ROOT = Path(__file__).parents[3]


def write_table(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(run: str, where: tuple[str, str], ends: list[int | None] | None, trained: int) -> dict[str, object]:
    said = "" if ends is None else json.dumps(ends)
    return {"run": run, where[0]: where[1], "iterations": 900, "result.iterations": trained, "stages": 3,
            "iterations_to_stages": said}  # fmt: skip


def call(*tables: Path) -> tuple[int, str, str]:
    words = [sys.executable, str(ROOT / "studies/text/equivalence.py"), *map(str, tables)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_both_kinds_are_told_and_drawn(tmp_path: Path) -> None:
    chains, text = ("task", "C3"), ("data", "data/C3/train.jsonl")
    first = write_table(
        tmp_path / "chain.csv", [row("a", chains, [10, 30, 70], 70), row("b", chains, [20, 40, 90], 90)]
    )
    second = write_table(
        tmp_path / "text.csv", [row("c", text, [12, 33, None], 900), row("d", text, [14, 31, 80], 80)]
    )
    code, out, _ = call(first, second)
    assert code == 0
    assert out.splitlines()[2:] == [
        "| C3 | 1 | 15 [10–20] | 13 [12–14] |",
        "| C3 | 2 | 35 [30–40] | 32 [31–33] |",
        "| C3 | 3 | 80 [70–90] | 80 [80–80] (1 of 2) |",
    ]
    assert {path.suffix for path in tmp_path.glob("equivalence.*")} == {".png", ".svg"}
    old = write_table(tmp_path / "old.csv", [row("e", text, None, 80)])
    code, out, err = call(first, old)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "iterations_to_stages: is not in every row of" in err
    other = write_table(tmp_path / "other.csv", [row("f", ("task", "S3"), [1, 2, 3], 3)])
    code, _, err = call(first, other)
    assert (code, err) == (2, "equivalence: tables: must be of the same tasks, got ['C3'] and ['S3']\n")


def test_a_run_of_text_says_when_its_stages_were_passed(tmp_path: Path) -> None:
    config = config_of(tmp_path, removal=RemovalConfig(per_stage=1))
    summary = train(config, Execution(out=tmp_path / "out", quiet=True)).summary()
    ends = summary["iterations_to_stages"]
    assert isinstance(ends, list)
    assert (len(ends), ends[-1]) == (summary["stages"], summary["iterations"])
