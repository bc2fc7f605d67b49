"""Intervals and tests between groups: once, for everybody."""

from internalize.statistics.corrections import holm
from internalize.statistics.groups import binomial, difference_of_means, fisher, mean_against_zero
from internalize.statistics.intervals import SUCCESS, Interval, Rate, clopper_pearson, mean_interval, wilson
from internalize.statistics.trends import Trend, spearman_trend

__all__ = [
    "SUCCESS",
    "Interval",
    "Rate",
    "Trend",
    "binomial",
    "clopper_pearson",
    "difference_of_means",
    "fisher",
    "holm",
    "mean_against_zero",
    "mean_interval",
    "spearman_trend",
    "wilson",
]
