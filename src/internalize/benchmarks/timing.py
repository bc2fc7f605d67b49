"""Interleaved timing: what is compared runs in turn, so that a busy machine slows all of it alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

PEAK_SIZE = 2048
SHORTEST = 0.05
"""Seconds of a sample; faster functions are called several times for it."""


def seconds_each(functions: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of a call for each function, called in turn; the first round warms up."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, round(SHORTEST / (time.perf_counter() - start)))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            samples[name].append((time.perf_counter() - start) / calls[name])
    return {name: statistics.median(values) for name, values in samples.items()}


def matrix_product(dtype: torch.dtype) -> Callable[[], None]:
    """A large product, which shows what the machine can do with torch's threads."""
    a, b = (torch.randn(PEAK_SIZE, PEAK_SIZE).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def run() -> None:
        torch.mm(a, b, out=out)

    return run


MATRIX_PRODUCT_FLOPS = 2.0 * PEAK_SIZE**3
