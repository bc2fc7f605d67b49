"""The figures of the paper and the frame that makes them: cases, claims, verdicts, results, the report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internalize.figures.cases import Grid
    from internalize.figures.claims import Claim, PositiveControl
    from internalize.figures.costs import CostsMore, CostsWith, GainsMore
    from internalize.figures.each import AtEach
    from internalize.figures.figure import DrawingMaterial, Figure
    from internalize.figures.numbers import Larger, MeanBeyond, WithField
    from internalize.figures.rates import (
        Alike,
        Always,
        MoreOften,
        OftenWithout,
        RateAbove,
        RateBelow,
        RateBetween,
    )
    from internalize.figures.results import make, plan
    from internalize.figures.rows import group, rate
    from internalize.figures.waiting import AsSoon, EachSooner, Sooner

__all__ = [
    "Alike",
    "Always",
    "AsSoon",
    "AtEach",
    "Claim",
    "CostsMore",
    "CostsWith",
    "DrawingMaterial",
    "EachSooner",
    "Figure",
    "GainsMore",
    "Grid",
    "Larger",
    "MeanBeyond",
    "MoreOften",
    "OftenWithout",
    "PositiveControl",
    "RateAbove",
    "RateBelow",
    "RateBetween",
    "Sooner",
    "WithField",
    "group",
    "make",
    "plan",
    "rate",
]
_PLACES = {
    "Grid": "internalize.figures.cases",
    "Claim": "internalize.figures.claims",
    "DrawingMaterial": "internalize.figures.figure",
    "Figure": "internalize.figures.figure",
    "PositiveControl": "internalize.figures.claims",
    "Alike": "internalize.figures.rates",
    "Larger": "internalize.figures.numbers",
    "MeanBeyond": "internalize.figures.numbers",
    "WithField": "internalize.figures.numbers",
    "Always": "internalize.figures.rates",
    "MoreOften": "internalize.figures.rates",
    "OftenWithout": "internalize.figures.rates",
    "RateAbove": "internalize.figures.rates",
    "RateBelow": "internalize.figures.rates",
    "RateBetween": "internalize.figures.rates",
    "make": "internalize.figures.results",
    "plan": "internalize.figures.results",
    "group": "internalize.figures.rows",
    "rate": "internalize.figures.rows",
    "AsSoon": "internalize.figures.waiting",
    "AtEach": "internalize.figures.each",
    "CostsMore": "internalize.figures.costs",
    "CostsWith": "internalize.figures.costs",
    "GainsMore": "internalize.figures.costs",
    "EachSooner": "internalize.figures.waiting",
    "Sooner": "internalize.figures.waiting",
}
"""name → module, imported when first asked for: lists answer before torch would be loaded."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'internalize.figures' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
