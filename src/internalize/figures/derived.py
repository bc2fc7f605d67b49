"""Columns that figures need beside a run's own fields and results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from internalize.constructions.general import kind_of_order
from internalize.figures.rows import FigureRow
from internalize.statistics import SUCCESS

ABOVE_CHANCE = 0.1
"""A run within this of chance has learned nothing to speak of."""


def chain_columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """order and its kind, MLP width, chance; of finished runs: failure OOD, accuracy in the middle."""
    columns: dict[str, Any] = {"mlp_width": row["model.mlp"] or 4 * row["model.width"]}
    counter = re.fullmatch(r"C(\d+)", row["task"])
    columns["order"] = int(counter[1]) if counter else None
    columns["order_kind"] = kind_of_order(columns["order"]) if counter else "not a counter"
    if "id_accuracy" not in row:
        return columns
    columns["chance"] = _chance(row["task"])
    columns["ood_failed"] = not row["ood_succeeded"]
    columns["in_the_middle"] = columns["chance"] + ABOVE_CHANCE < row["id_accuracy"] <= SUCCESS
    if "chain_id_accuracy" in row:
        columns["chain_succeeded"] = row["chain_id_accuracy"] > SUCCESS
        columns["chain_ood_succeeded"] = row["chain_ood_accuracy"] > SUCCESS
        columns["both_succeeded"] = bool(row["succeeded"]) and columns["chain_succeeded"]
    return columns


def _chance(task: str) -> float:
    """One of the states, as good as guessing after many uniform symbols of a group."""
    from internalize.tasks.names import find_task

    return 1 / find_task(task, "task", {})[0].states


def no_columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """For kinds of experiment whose own fields and results suffice."""
    return {}
