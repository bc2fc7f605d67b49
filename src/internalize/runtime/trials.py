"""How long something takes, by doing a little of it. Each kind estimates its runs in a file `estimate.py`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter

PATIENCE = 0.5
"""Seconds that timing one thing may take, beyond its first three calls."""


def seconds_of(function: Callable[[], object]) -> float:
    """Of one call."""
    start = perf_counter()
    function()
    return perf_counter() - start


def median_seconds(function: Callable[[], object]) -> float:
    """Of some calls, after one to warm up."""
    function()
    times: list[float] = []
    while len(times) < 2 or (len(times) < 20 and sum(times) < PATIENCE):
        times.append(seconds_of(function))
    return statistics.median(times)
