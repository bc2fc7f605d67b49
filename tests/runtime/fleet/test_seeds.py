"""`--seeds N` of every kind: what single runs say, and the rates over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.statistics import Rate

TRAIN = (
    "train --task C2 --horizon 3 --method left --iterations 30 --model.depth 1 --model.width 8 --model.heads 2"
)
KINDS = {
    "chain": (TRAIN, ("succeeded", "ood_succeeded", "internalized")),
    "parity": ("parity --d 8 --k 3 --seed 3", ("support_recovered", "exact", "internalized")),
}


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json", "--quiet"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("run", "seconds")}


@pytest.mark.parametrize("kind", ["chain", pytest.param("parity", marks=pytest.mark.slow)])
def test_several_seeds_are_several_runs(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, rates = KINDS[kind]
    words = command.split()
    first = int(words[words.index("--seed") + 1]) if "--seed" in words else 0
    together = said([*words, "--seeds", "2", "--page", "--out", str(tmp_path / "together")], capsys)
    for i, result in enumerate(together["runs"]):
        assert (Path(result["run"]) / "live.html").is_file()
        alone = said([*words, "--seed", str(first + i), "--out", str(tmp_path / "alone")], capsys)
        assert timeless(result) == timeless(alone)
        assert Path(result["run"]).name == Path(alone["run"]).name
    for name in rates:
        rate = Rate(sum(result[name] for result in together["runs"]), 2)
        interval = [rate.interval.low, rate.interval.high]
        assert together[name] == {"count": rate.successes, "of": 2, "interval": interval}
    assert together["failed"] == []


@pytest.mark.slow
def test_drawings_of_several_seeds_lie_apart(tmp_path: Path) -> None:
    words = ["parity", "--d", "8", "--k", "2", "--seeds", "2", "--quiet", "--out", str(tmp_path / "runs")]
    assert main([*words, "--drawings", str(tmp_path / "drawn")]) == 0
    drawn = {path.parent.name for path in (tmp_path / "drawn").glob("*/attention.png")}
    assert drawn == {path.parent.name for path in (tmp_path / "runs").glob("*/config.json")}
    assert len(drawn) == 2


def test_the_list_of_runs_knows_what_each_kind_learns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hints = "hints --d 6 --k 2 --width 8 --steps 20"
    out = ["--out", str(tmp_path)]
    accuracies = {
        "C2": said([*TRAIN.split(), *out], capsys)["id_accuracy"],
        "parity": said([*hints.split(), *out], capsys)["accuracy"],
    }
    assert main(["runs", "--json", *out]) == 0
    assert {entry["task"]: entry["accuracy"] for entry in json.loads(capsys.readouterr().out)} == accuracies
