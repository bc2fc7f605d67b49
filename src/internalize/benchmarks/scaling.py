"""Seeds side by side: how much faster two processes train than one, beside two processes of a plain product.

Cores share memory, power and caches, so two processes never reach twice the speed of one; what a plain
matrix product reaches in the same minutes is the fair bar.

python -m internalize.benchmarks.scaling train    (a worker: reads seconds, prints repetitions per second)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from internalize.benchmarks.cases import BenchCase, ours, seconds_each
from internalize.kinds.chain.evaluation import evaluation_row
from internalize.models.config import ModelConfig
from internalize.runtime.kind import Streams, cpu

HEAD_SIZE = 2
BASE = BenchCase("base", ModelConfig(2, 64, 32, 256), length=16, stages=(1,))
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
    """Cost relative to that of the quantity's first value."""


def with_width(width: int) -> BenchCase:
    return replace(BASE, model=ModelConfig(BASE.model.depth, width, width // HEAD_SIZE, 4 * width))


def growth(repeats: int, threads: int) -> list[Growth]:
    """Each quantity's values are timed in turn."""
    model = BASE.model
    series: dict[str, dict[int, BenchCase]] = {
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
    experiment = BASE.config().build(cpu(), {})
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


ROUNDS = 5
SECONDS = 2.0


@dataclass(frozen=True)
class Scaling:
    """Speed of all processes together, relative to one process alone."""

    processes: int
    train: float
    product: float

    @property
    def share(self) -> float:
        """The share of what the product reaches."""
        return self.train / self.product


class Repeater:
    """A process that repeats one thing for as many seconds as it reads."""

    def __init__(self, kind: str) -> None:
        command = [sys.executable, "-m", __name__, kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask(0.5)
        self.answer()

    def ask(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def answer(self) -> float:
        """Repetitions per second."""
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Repeaters:
    """Processes of one kind, which can be let run together."""

    def __init__(self, kind: str, processes: int) -> None:
        self.workers = [Repeater(kind) for _ in range(processes)]

    def speed(self, processes: int) -> float:
        """Repetitions per second of the first `processes` of them, all together."""
        running = self.workers[:processes]
        for worker in running:
            worker.ask(SECONDS)
        return sum(worker.answer() for worker in running)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def training_workers(processes: int) -> closing[Repeaters]:
    """Processes that train the smallest configuration; closed at the end of the block."""
    return closing(Repeaters("train", processes))


def scaling(processes: int) -> Scaling:
    """Alone and together, training and products, in turns."""
    gains: dict[str, list[float]] = {"train": [], "product": []}
    with training_workers(processes) as train, closing(Repeaters("product", processes)) as product:
        for _ in range(ROUNDS):
            for kind, workers in (("train", train), ("product", product)):
                alone = workers.speed(1)
                gains[kind].append(workers.speed(processes) / alone)
    medians = {kind: statistics.median(found) for kind, found in gains.items()}
    return Scaling(processes, medians["train"], medians["product"])


def main(kind: str) -> None:
    import torch

    torch.set_num_threads(1)
    repeat = _training() if kind == "train" else _product()
    for line in sys.stdin:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < float(line):
            repeat()
            count += 1
        print(count / (time.perf_counter() - start), flush=True)


def _training() -> Callable[[], None]:
    from internalize.benchmarks.cases import CASES, ours

    iterate = ours(CASES[0], threads=1)
    return lambda: iterate(13)


def _product() -> Callable[[], None]:
    import torch

    from internalize.benchmarks.cases import matrix_product

    return matrix_product(torch.float32)


if __name__ == "__main__":
    main(*sys.argv[1:])
