"""Intervals, tests between groups, trends, times until something happens: once, for everybody."""

from internalize.statistics.groups import (
    binomial,
    difference_of_means,
    equivalence,
    fisher,
    holm,
    mean_against_zero,
    stratified_difference,
)
from internalize.statistics.intervals import (
    SUCCESS,
    Interval,
    Rate,
    bootstrap,
    clopper_pearson,
    mean_interval,
    newcombe,
    wilson,
)
from internalize.statistics.survival import LogRank, Waiting, kaplan_meier, log_rank, restricted_mean
from internalize.statistics.trends import Trend, indicator_effect, spearman_trend

__all__ = [
    "SUCCESS",
    "Interval",
    "LogRank",
    "Rate",
    "Trend",
    "Waiting",
    "binomial",
    "bootstrap",
    "clopper_pearson",
    "difference_of_means",
    "equivalence",
    "fisher",
    "holm",
    "indicator_effect",
    "kaplan_meier",
    "log_rank",
    "mean_against_zero",
    "mean_interval",
    "newcombe",
    "restricted_mean",
    "spearman_trend",
    "stratified_difference",
    "wilson",
]
