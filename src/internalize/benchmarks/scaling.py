"""Seeds side by side: how much faster two processes train than one, beside two processes of a plain product.

Cores share memory, power and caches, so two processes never reach twice the speed of one; what a plain
matrix product reaches in the same minutes is the fair bar.

python -m internalize.benchmarks.scaling train    (a worker: reads seconds, prints repetitions a second)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

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
        """Of what the product reaches."""
        return self.train / self.product


class Worker:
    """A process that repeats one thing for as long as it is told."""

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
        """Repetitions a second."""
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Workers:
    """Processes of one kind, which can be let run together."""

    def __init__(self, kind: str, processes: int) -> None:
        self.workers = [Worker(kind) for _ in range(processes)]

    def speed(self, processes: int) -> float:
        """Repetitions a second of the first so many, all together."""
        running = self.workers[:processes]
        for worker in running:
            worker.ask(SECONDS)
        return sum(worker.answer() for worker in running)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def training_workers(processes: int) -> closing[Workers]:
    """Processes that train the smallest configuration; closed at the end of the block."""
    return closing(Workers("train", processes))


def scaling(processes: int) -> Scaling:
    """Alone and together, training and products, in turns."""
    gains: dict[str, list[float]] = {"train": [], "product": []}
    with training_workers(processes) as train, closing(Workers("product", processes)) as product:
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
    from internalize.benchmarks.cases import CASES
    from internalize.benchmarks.engines import ours

    iterate = ours(CASES[0], threads=1)
    return lambda: iterate(13)


def _product() -> Callable[[], None]:
    import torch

    from internalize.benchmarks.timing import matrix_product

    return matrix_product(torch.float32)


if __name__ == "__main__":
    main(*sys.argv[1:])
