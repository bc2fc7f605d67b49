"""Finished runs with hints side by side: their curves, their ends, and where they are from."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, get_args

from internalize.configs.codec import changed_fields
from internalize.errors import require
from internalize.kinds.hints.config import Method
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS, Rate

MEASURED = ("accuracy", "subnetwork_accuracy", "folded_accuracy")
METHODS: tuple[Method, ...] = get_args(Method)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """By method and seed; refused unless method and seed are all in which they differ."""
    require(len(runs) >= 1, "runs", "must be at least one run")
    for run in runs:
        kind = run.identity().kind
        require(kind == "hints", "runs", f"{run.path} is a run of the kind {kind}, not hints")
        run.summary()  # refuses one that is not finished
        other = changed_fields(runs[0].identity().config, run.identity().config)
        other = [name for name in other if name not in ("method", "seed")]
        require(not other, "runs", f"{run.path} and {runs[0].path} differ in {', '.join(other)} too")
    return sorted(runs, key=lambda run: (METHODS.index(_of(run, "method")), _of(run, "seed")))


def _of(run: Run, field: str) -> Any:
    return run.identity().config[field]


def curve_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a measurement: method, seed, step, samples and the accuracies without hints."""
    return [
        {"method": _of(run, "method"), "seed": _of(run, "seed"), "step": row["step"], "samples": row["samples"]}
        | {name: row[name] for name in MEASURED}
        for run in runs
        for row in run.metrics("evaluation")
    ]


def end_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run: its final accuracies and what the definition says."""
    rows = []
    for run in runs:
        summary = run.summary()
        rows.append(
            {"method": _of(run, "method"), "seed": _of(run, "seed"), "steps": summary["steps"]}
            | {name: summary[name] for name in (*MEASURED, "hinted_accuracy", "noisy_accuracy")}
            | {"risk_gap": summary["risk_gap"], "internalized": summary["internalized"]}
            | {"seconds": run.status()["seconds"]}
        )
    return rows


def curves(
    rows: Sequence[dict[str, Any]], value: str = "accuracy"
) -> dict[str, list[list[tuple[float, float]]]]:
    """Rows with method, seed, samples and the value → method → for every seed its points."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        found.setdefault(row["method"], {}).setdefault(row["seed"], []).append((row["samples"], row[value]))
    return {method: list(seeds.values()) for method, seeds in found.items()}


def method_rows(ends: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a method: mean, least and most accuracy, and how many runs succeeded."""
    rows = []
    for method in dict.fromkeys(row["method"] for row in ends):
        own = [row for row in ends if row["method"] == method]
        row: dict[str, Any] = {"method": method, "runs": len(own)}
        for name in MEASURED:
            values = [run[name] for run in own]
            row |= {f"{name}_mean": fmean(values), f"{name}_least": min(values), f"{name}_most": max(values)}
        succeeded = Rate(sum(run["accuracy"] > SUCCESS for run in own), len(own))
        row |= {"succeeded": succeeded.successes, "succeeded_low": succeeded.interval.low}
        row |= {"succeeded_high": succeeded.interval.high, "internalized": sum(r["internalized"] for r in own)}
        row["seconds_mean"] = fmean(run["seconds"] for run in own)
        rows.append(row)
    return rows
