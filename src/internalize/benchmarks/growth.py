"""How an iteration's cost grows with T, width, depth and batch, one at a time from a small configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from internalize.benchmarks.cases import Case
from internalize.benchmarks.engines import ours
from internalize.benchmarks.timing import seconds_each
from internalize.models.gpt2 import ModelConfig

HEAD_SIZE = 2
BASE = Case("base", ModelConfig(2, 64, 32, 256), length=16, stages=(1,))


@dataclass(frozen=True)
class Growth:
    """Milliseconds of one iteration at stage 1."""

    quantity: str
    value: int
    ms: float
    relative: float
    """To the first value of the quantity."""


def with_width(width: int) -> Case:
    return replace(BASE, model=ModelConfig(BASE.model.depth, width, width // HEAD_SIZE, 4 * width))


def growth(repeats: int, threads: int) -> list[Growth]:
    """Each quantity's values are timed in turn."""
    model = BASE.model
    series: dict[str, dict[int, Case]] = {
        "T": {T: replace(BASE, length=T) for T in (8, 16, 32, 64)},
        "width": {width: with_width(width) for width in (32, 64, 128, 256)},
        "depth": {depth: replace(BASE, model=replace(model, depth=depth)) for depth in (1, 2, 4, 8)},
        "batch": {batch: replace(BASE, batch=batch) for batch in (32, 64, 128, 256)},
    }
    rows = []
    for quantity, cases in series.items():
        turns = {str(value): partial(ours(case, threads), 1) for value, case in cases.items()}
        seconds = seconds_each(turns, repeats)
        first = next(iter(seconds.values()))
        rows += [Growth(quantity, int(v), 1e3 * s, s / first) for v, s in seconds.items()]
    return rows
