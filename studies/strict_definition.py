"""Do trained models internalize by the paper's strict definition, or by the distributional one alone?

`figure methods` looks at accuracies, since its runs did not keep the weights of stage 1. Here twenty of its
runs are trained again with all of their stages, C_4 at T = 13 and C_7 at T = 10 by the left curriculum, and
each final model is held against the chain that it wrote itself at the end of stage 1, on 10,000 inputs.
    internalize sweep studies/strict_definition.py:RUNS --keep-stages some --out runs
    python studies/strict_definition.py runs results/methods/methods.csv > results/methods/strict.csv
    python studies/strict_definition.py results/methods/strict.csv results/methods/methods.csv \\
        --verdict results/methods/strict-definition/verdict.json
The claim, fixed before any of these comparisons: more than half of the runs at each task pass the
distributional definition with ε = 0.05 and fail the strict one. A run counts if it internalized. Beside it
stands whether a run came out again as in the table, to the last digit: the code has changed since.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from internalize.analysis.check import check, choose_inputs, find_predictor
from internalize.errors import BadInput, require
from internalize.figures.cases import HORIZONS, RECIPE, TEN_SEEDS, Grid, sweep_from, with_horizons
from internalize.figures.claims import MOSTLY, Claim, Judgement, judge
from internalize.figures.rates import RateAbove
from internalize.figures.rows import DISTRIBUTIONAL, group
from internalize.runs.folder import Run
from internalize.runs.provenance import provenance
from internalize.sweeps.recorded import table_rows

RUNS = sweep_from(
    "strict-definition",
    [Grid(RECIPE, {"method": ["left"]}, with_horizons(["C4", "C7"], HORIZONS), seeds=TEN_SEEDS)],
)
CLAIM = Claim(
    "only-distributional",
    "Trained models internalize in the distributional sense (within 5 points) and fail the strict definition.",
    RateAbove(group("internalized runs", internalized=True), "only_distributional", MOSTLY, by="task"),
)
COMPARED = ("id_accuracy", "ood_accuracy", "response_length", "operations")


def row_of(folder: Path, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Both definitions, asked of the final model and the model of stage 1."""
    fast, slow = (find_predictor(name, "cpu", "runs") for name in (str(folder), f"{folder}@1"))
    inputs = choose_inputs(fast.chain, None, None, seed=0)
    strict, loose = (check(fast, slow, inputs, epsilon) for epsilon in (None, DISTRIBUTIONAL))
    summary = Run(folder).summary()
    return {
        "run": folder.name,
        "task": recorded["task"],
        "T": recorded["horizon"],
        "seed": recorded["seed"],
        "internalized": summary["internalized"],
        "inputs": strict["inputs"],
        "disagreements": strict["disagreements"],
        "strict": strict["holds"],
        "risk": loose["fast_risk"],
        "risk_of_chain": loose["slow_risk"],
        "distributional": loose["holds"],
        "only_distributional": loose["holds"] and not strict["holds"],
        "as_recorded": all(summary[name] == recorded[name] for name in COMPARED),
    }


def record_of(judged: Judgement, runs: int, seconds: float) -> dict[str, Any]:
    """The verdict as figures write theirs, so that docs/claims.md has it."""
    return {
        "figure": RUNS.name,
        "paper": "Definitions of internalization",
        "tier": "laptop",
        "caption": "",
        "shows": "runs of `methods` held against their own chains, answer by answer",
        "judged": True,
        "notes": [],
        "differences": [],
        "claims": [judged.to_json()],
        "plan": [],
        "runs": {"planned": len(RUNS.cases), "done": runs, "missing": [], "seconds": seconds},
        "config": {},
        "provenance": provenance(torch.device("cpu")),
    }


def read_rows(runs: Path, table: Path) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """The recorded rows by their runs' names, and of each run of this study what both definitions say."""
    recorded = {row["run"]: row for row in table_rows(table)}
    rows = [] if runs.is_dir() else table_rows(runs)
    folders = [case.prepared.folder(runs) for case in RUNS.cases] if runs.is_dir() else []
    for name in (*(folder.name for folder in folders), *(row["run"] for row in rows)):
        require(name in recorded, "table", f"{table} has no run {name}: name the table of the figure methods")
    return recorded, rows or [row_of(folder, recorded[folder.name]) for folder in folders]


def main() -> None:
    words = argparse.ArgumentParser(description="Both definitions, asked of the runs of this study, as CSV.")
    words.add_argument("runs", type=Path, help="the folder of runs, or the table that was made of it")
    words.add_argument("table", type=Path, help="methods.csv, which has the same runs")
    words.add_argument("--verdict", type=Path, help="write the verdict there, instead of the table")
    given = words.parse_args()
    try:
        recorded, rows = read_rows(given.runs, given.table)
    except BadInput as problem:
        words.error(str(problem))
    (judged,) = judge([CLAIM], [{**recorded[row["run"]], **row} for row in rows])
    print(f"{judged.word}, p = {judged.p:.2g}: {judged.numbers}", file=sys.stderr)
    if given.verdict is None:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return
    given.verdict.parent.mkdir(parents=True, exist_ok=True)
    seconds = sum(recorded[row["run"]]["seconds"] for row in rows)
    given.verdict.write_text(
        json.dumps(record_of(judged, len(rows), seconds), indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
