"""The figures of the paper and the frame that makes them: cases, claims, verdicts, results, the report."""

from internalize.figures.cases import Grid
from internalize.figures.figure import Claim, DrawingMaterial, Figure, PositiveControl
from internalize.figures.numbers import Alike, Larger, MeanBeyond, WithField
from internalize.figures.rates import Always, MoreOften, OftenWithout, RateAbove, RateBelow, RateBetween
from internalize.figures.results import make, plan
from internalize.figures.rows import group, rate
from internalize.figures.waiting import CostsMore, GainsMore, Sooner

__all__ = [
    "Alike",
    "Always",
    "Claim",
    "CostsMore",
    "DrawingMaterial",
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
