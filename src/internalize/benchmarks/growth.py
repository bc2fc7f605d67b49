"""How the cost of an iteration grows with T, width, depth, batch and seeds, and what an evaluation costs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial

from internalize.benchmarks.cases import Case
from internalize.benchmarks.engines import ours
from internalize.benchmarks.scaling import training_workers
from internalize.benchmarks.timing import seconds_each
from internalize.kinds.chain.evaluation import evaluation_row
from internalize.models.gpt2 import ModelConfig
from internalize.runtime.streams import CPU, Streams

HEAD_SIZE = 2
BASE = Case("base", ModelConfig(2, 64, 32, 256), length=16, stages=(1,))
SEEDS = (1, 2, 4)
EVALUATED = 5_000
"""Sequences in distribution and as many out of it: the 10,000 of an evaluation."""


@dataclass(frozen=True)
class Growth:
    """Milliseconds of one iteration at stage 1; for seeds, of one iteration of every seed, side by side."""

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


def growth_with_seeds(repeats: int) -> list[Growth]:
    """More seeds than cores take turns: the cost then grows with their number."""
    with training_workers(max(SEEDS)) as workers:
        samples = [[count / workers.speed(count) for count in SEEDS] for _ in range(repeats)]
    seconds = [statistics.median(found) for found in zip(*samples, strict=True)]
    return [Growth("seeds", n, 1e3 * s, s / seconds[0]) for n, s in zip(SEEDS, seconds, strict=True)]


def evaluation_cost(repeats: int, threads: int) -> dict[str, float]:
    """Training iterations (mean over the curriculum's stages) that an evaluation takes as long as, by its kind.

    Answers of the whole chain (stage 1) and direct ones (the last stage).
    """
    experiment = BASE.config().build(CPU, {})
    state = experiment.init(Streams(0))
    stages = experiment.curriculum.stages

    def evaluate(stage: int) -> None:
        state.progress = replace(state.progress, stage=stage)
        evaluation_row(experiment, state, Streams(0), EVALUATED)

    iterate = ours(BASE, threads)
    middle = (1, (1 + stages) // 2, stages)
    turns = {"chain": partial(evaluate, 1), "direct": partial(evaluate, stages)}
    turns |= {f"stage {stage}": partial(iterate, stage) for stage in middle}
    seconds = seconds_each(turns, repeats)
    iteration = statistics.fmean(seconds[f"stage {stage}"] for stage in middle)
    return {name: seconds[name] / iteration for name in ("chain", "direct")}
