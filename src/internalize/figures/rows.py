"""Rows of finished runs, and groups among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from internalize.statistics import Rate

FigureRow = Mapping[str, Any]
"""A finished run: its config's fields by dotted names, its results, and what a figure derives from them."""


@dataclass(frozen=True)
class Group:
    """The rows whose fields have the given values; a tuple of values means any of them."""

    label: str
    where: tuple[tuple[str, Any], ...] = ()

    def of(self, rows: Iterable[FigureRow]) -> list[FigureRow]:
        return [row for row in rows if all(_fits(row.get(field), wanted) for field, wanted in self.where)]

    def planned(self, cases: Iterable[FigureRow]) -> list[FigureRow]:
        """The cases that may come to belong here: of fields that only a finished run has, any value may."""
        return [
            case
            for case in cases
            if all(_fits(case[field], wanted) for field, wanted in self.where if field in case)
        ]


def group(label: str, **where: Any) -> Group:
    """A group by its fields; two underscores stand for the dot: model__heads=32."""
    return Group(label, tuple((field.replace("__", "."), wanted) for field, wanted in where.items()))


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, tuple) else bool(value == wanted)


def rate(rows: Sequence[FigureRow], outcome: str) -> Rate:
    """How many of the rows have the outcome. Rows without it do not count as trials."""
    known = [bool(row[outcome]) for row in rows if row.get(outcome) is not None]
    return Rate(sum(known), len(known))


def counted(of: Rate) -> str:
    """`13 of 15`."""
    return f"{of.successes} of {of.trials}"


WORDS = {
    "succeeded": "success ID",
    "ood_succeeded": "success OOD",
    "ood_failed": "failure OOD",
    "ood_gap_trend": "trend of OOD minus ID accuracy",
    "ood_gap_change": "change of OOD minus ID accuracy",
    "both_succeeded": "success in both ways",
    "chain_succeeded": "success ID with the chain",
    "chain_ood_succeeded": "success OOD with the chain",
    "in_the_middle": "accuracy in the middle",
    "model.heads": "heads",
    "model.depth": "depth",
    "model.width": "width",
}


def in_words(name: str) -> str:
    """A column's name for people."""
    return WORDS.get(name, name.replace("_", " "))
