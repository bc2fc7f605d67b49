"""Rows of runs that never ran: every figure with the outcome that the paper claims, or with another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internalize.configs.codec import to_json
from internalize.figures.figure import Figure
from internalize.figures.grids import Tier, shapes_of
from internalize.runs.exporting import flat

Row = dict[str, Any]
SEEDS = 15


def plant(figure: Figure, tier: Tier, outcome: Callable[[Row], Row], seeds: int = SEEDS) -> list[Row]:
    """Every case of the tier, for so many seeds, with the results that the function gives to it."""
    cases = [flat(to_json(config), lists_as_text=False) for config in shapes_of(figure.tiers[tier])]
    rows = []
    for case in cases:
        for seed in range(seeds):
            row = {"run": "never", **case, "seed": seed, **figure.columns(case, cases)}
            row |= outcome(row)
            rows.append({**row, **figure.columns(row, cases)})
    return rows


def share(row: Row, of_seeds: float) -> bool:
    """True for this share of the seeds, the lowest ones."""
    return bool(row["seed"] < round(of_seeds * SEEDS))


def chain(row: Row, succeeds: float, ood: float | None = None, chance: float = 0.4) -> Row:
    """The results of a run of which a share of seeds succeeds ID, and another OOD."""
    good, good_ood = share(row, succeeds), share(row, succeeds if ood is None else ood)
    return {
        "id_accuracy": 1.0 if good else chance,
        "ood_accuracy": 1.0 if good_ood else chance,
        "succeeded": good,
        "ood_succeeded": good_ood,
        "internalized": good and row.get("method") != "cot",
        "response_length": float(row["horizon"] + 1) if row.get("method") == "cot" else 2.0,
        "seconds": 1.0,
    }


def _methods(row: Row) -> Row:
    return {
        "cot": chain(row, 1.0, chance=1 / 40), "e2e": chain(row, 0.0, chance=1 / 40),
        "left": chain(row, 0.7, ood=0.2, chance=1 / 40), "inductive": chain(row, 0.7, ood=0.2, chance=1 / 40),
    }[row["method"]]  # fmt: skip


def _orders(row: Row) -> Row:
    base = {"prime": 0.0, "prime power": 0.2, "other composite": 0.4}[row["order_kind"]]
    return chain(row, base + (row["wide"] and row["order_kind"] != "prime") * 0.4)


def _scatter(row: Row) -> Row:
    depth = row["model.depth"]
    if row["task"] == "C2" and row["method"] == "inductive":
        return {**chain(row, 0.8, ood=0.1 * depth), "ood_accuracy": 0.6 + 0.08 * depth}
    return chain(row, 0.8 if row["method"] == "inductive" or depth > 1 else 0.1, ood=0.0)


def _mixture(row: Row) -> Row:
    if row["method"] == "left":
        return chain(row, 0.7, ood=0.1)
    return {**chain(row, 0.8, ood=0.2), "chain_id_accuracy": 1.0, "chain_ood_accuracy": 1.0}


def _left_vs_right(row: Row) -> Row:
    mended = row["model.positions"] != "absolute"
    return chain(row, {"left": 0.33, "inductive": 0.4, "right": 0.4 * mended}[row["method"]])


def _parity(row: Row) -> Row:
    names = ("one_a_phase", "support_recovered", "chain_exact", "exact", "internalized")
    return {**dict.fromkeys(names, True), "direct_training_exact": False}


AS_CLAIMED: dict[str, Callable[[Row], Row]] = {
    "ood-degradation": lambda row: {
        **chain(row, 0.7),
        "ood_gap_trend": -0.8 + 0.01 * row["seed"],
        "ood_gap_change": -0.2,
    },
    "methods": _methods,
    "orders": _orders,
    "isoparameter": lambda row: chain(row, {"shallowest": 0.7, "between": 0.3, "deepest": 0.0}[row["place"]]),
    "scatter": _scatter,
    "mlp-hints": lambda row: {"succeeded": row["method"] != "direct"},
    "mixture": _mixture,
    "attention-parity": _parity,
    "heads": lambda row: chain(row, min(1.0, 0.12 * row["model.heads"].bit_length())),
    "left-vs-right": _left_vs_right,
    "parity-watch": _parity,
}
"""What the paper says comes out, at the paper's own cases."""
