"""Intervals and tests between groups: once, for everybody."""

from internalize.statistics.intervals import Interval, Rate, clopper_pearson, mean_interval, wilson

__all__ = ["Interval", "Rate", "clopper_pearson", "mean_interval", "wilson"]
