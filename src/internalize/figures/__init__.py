"""One file a figure of the paper: its cases at three tiers, its drawing, its claims."""

from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import GainsMore, MeanBelowZero, MoreOften, OftenWithout
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid
from internalize.figures.making import make
from internalize.figures.rate_tests import Always, OnItsSide, RateAbove, RateBelow, RateBetween
from internalize.figures.rows import group, rate
from internalize.figures.trend_tests import WithField

__all__ = [
    "Always",
    "Claim",
    "Figure",
    "GainsMore",
    "Grid",
    "Material",
    "MeanBelowZero",
    "MoreOften",
    "OftenWithout",
    "OnItsSide",
    "RateAbove",
    "RateBelow",
    "RateBetween",
    "WithField",
    "group",
    "make",
    "rate",
]
