"""Sweeps of the other kinds of experiment, carried out and collected as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from internalize.cli import main
from internalize.sweeps import read_sweep
from tests.sweeps.tiny import all_bytes, one_after_the_other

SWEEPS: dict[str, dict[str, Any]] = {
    "hints": {
        "base": {"d": 5, "k": 3, "width": 8, "steps": 30, "batch": 8, "lr": 0.05},
        "cases": [{}, {"method": "direct"}],
    },
    "parity": {
        "base": {"k": 2, "watch": False},
        "grid": {"d": [4, 8], "regime": ["theorem"]},
    },
    "selfplay": {
        "base": {"rounds": 1, "games": 4, "updates": 2, "batch": 4, "width": 8, "depth": 1,
                 "measured": 20, "matches": 2},
        "zip": {"simulations": [2, 4], "temperature": [1.0, 0.5]},
    },
}  # fmt: skip
VARIED = {"hints": ["method"], "parity": ["d"], "selfplay": ["simulations", "temperature"]}


@pytest.mark.parametrize(
    "kind", ["hints", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("parity", "selfplay"))]
)
def test_a_sweep_of_any_kind_is_carried_out_and_collected(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "selfplay":
        pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    file, out = tmp_path / "s.json", tmp_path / "runs"
    file.write_text(json.dumps({"kind": kind, **SWEEPS[kind], "seeds": [3, 5]}))
    assert main(["sweep", str(file), "--out", str(out), "--workers", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert f"4 runs of {kind}: 4 to do" in said.err
    assert "workers of this machine" in said.err
    assert json.loads(said.out)["done"] == 4

    sweep = read_sweep(file)
    expected = one_after_the_other(sweep, tmp_path / "apart")
    assert all_bytes(out) == expected
    assert main(["collect", str(file), "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["run"] for row in found["rows"]] == list(expected)
    assert [row["seed"] for row in found["rows"]] == [3, 5, 3, 5]
    assert [(list(group["fields"]), group["finished"]) for group in found["groups"]] == [(VARIED[kind], 2)] * 2
    assert found["missing"] == []
    for group in found["groups"]:
        rows = [
            row for row in found["rows"] if all(row[name] == group["fields"][name] for name in VARIED[kind])
        ]
        rate = group["rates"]["internalized"]
        assert (rate["count"], rate["of"]) == (sum(row["internalized"] for row in rows), 2)
