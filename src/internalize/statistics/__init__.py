"""Intervals, tests between groups, trends, times until something happens: once, for everybody."""

from internalize.statistics.groups import (
    binomial,
    difference_of_means,
    fisher,
    holm,
    mean_against_zero,
    rates_differ_less,
    rates_differ_more,
    stratified_difference,
)
from internalize.statistics.intervals import (
    SUCCESS,
    Interval,
    Rate,
    bootstrap,
    clopper_pearson,
    difference_within_strata,
    mean_interval,
    newcombe,
    rates_of,
    wilson,
)
from internalize.statistics.survival import LogRank, Waiting, kaplan_meier, log_rank, restricted_mean
from internalize.statistics.trends import Trend, effect_of, spearman_trend, ways_to_deal

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
    "difference_within_strata",
    "effect_of",
    "fisher",
    "holm",
    "kaplan_meier",
    "log_rank",
    "mean_against_zero",
    "mean_interval",
    "newcombe",
    "rates_differ_less",
    "rates_differ_more",
    "rates_of",
    "restricted_mean",
    "spearman_trend",
    "stratified_difference",
    "ways_to_deal",
    "wilson",
]
