"""The command `internalize bench`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
from rich.console import Console
from rich.status import Status
from rich.table import Table

from internalize.benchmarks.cases import CASES
from internalize.benchmarks.compare import EngineComparison, KernelRow, compare, compare_kernels
from internalize.benchmarks.scaling import (
    EVALUATED,
    Growth,
    Scaling,
    evaluation_cost,
    growth,
    growth_with_seeds,
    scaling,
)
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.runs.provenance import provenance


@dataclass(frozen=True)
class BenchArguments:
    """Time this engine's whole training iteration against Hugging Face GPT-2 with AdamW, interleaved."""

    repeats: int = 5
    """Samples of which the median counts."""
    threads: int = 1
    """Number of threads of both sides."""
    configs: tuple[int, ...] = (0, 1, 2, 3)
    """Which configurations, by their number in the table."""
    growth: bool = False
    """Also show how the cost grows with T, width, depth, batch and seeds, and what an evaluation costs."""
    kernels: bool = False
    """Also compare the plain path with the fast one over many shapes."""
    scaling: int | None = None
    """Also measure how much faster this many processes train than one, beside plain products."""
    json: bool = False
    """Print JSON instead of tables."""


def bench_command(arguments: BenchArguments) -> None:
    """Compare, and print tables or JSON."""
    for number in arguments.configs:
        known = 0 <= number < len(CASES)
        require(known, "configs", f"must be numbers from 0 to {len(CASES) - 1}, got {number}")
    require(arguments.repeats >= 1, "repeats", f"must be at least 1, got {arguments.repeats}")
    require(arguments.threads >= 1, "threads", f"must be at least 1, got {arguments.threads}")
    torch.set_num_threads(arguments.threads)
    report = Report(arguments)
    for number in arguments.configs:
        with report.timing(CASES[number].name):
            report.configs.append(compare(CASES[number], arguments.repeats, arguments.threads))
    if arguments.growth:
        with report.timing("growth"):
            report.growth = growth(arguments.repeats, arguments.threads)
            report.growth += growth_with_seeds(arguments.repeats)
            report.evaluation = evaluation_cost(arguments.repeats, arguments.threads)
    if arguments.kernels:
        with report.timing("kernels"):
            report.kernels = compare_kernels(arguments.repeats, arguments.threads)
    if arguments.scaling is not None:
        with report.timing("seeds side by side"):
            report.scaling = scaling(arguments.scaling)
    report.print()


class Report:
    """What was measured, as tables or as one JSON object."""

    def __init__(self, arguments: BenchArguments) -> None:
        self.arguments = arguments
        self.console = Console(stderr=arguments.json, highlight=False)
        self.configs: list[EngineComparison] = []
        self.growth: list[Growth] = []
        self.evaluation: dict[str, float] = {}
        self.kernels: list[KernelRow] = []
        self.scaling: Scaling | None = None

    def timing(self, name: str) -> Status:
        return self.console.status(f"timing {name}")

    def print(self) -> None:
        if self.arguments.json:
            print(json.dumps(self.to_json(), indent=1))
            return
        for table in self.tables():
            self.console.print(table)
        for kind, iterations in self.evaluation.items():
            self.console.print(
                f"an evaluation on {2 * EVALUATED:,} sequences ({kind} answers) takes as long as "
                f"{iterations:.0f} training iterations"
            )
        if self.scaling is not None:
            s = self.scaling
            self.console.print(
                f"{s.processes} seeds side by side train {s.train:.2f} times as fast as one, "
                f"{s.share:.2f} of what {s.processes} processes of a plain product reach ({s.product:.2f})"
            )

    def to_json(self) -> dict[str, object]:
        arguments, s = self.arguments, self.scaling
        return {
            "threads": arguments.threads,
            "repeats": arguments.repeats,
            "configs": [result.row() for result in self.configs],
            "growth": [asdict(row) for row in self.growth],
            "evaluation_in_iterations": self.evaluation,
            "kernels": [asdict(row) for row in self.kernels],
            "scaling": None if s is None else {**asdict(s), "share": s.share},
            "provenance": provenance(torch.device("cpu")),
        }

    def tables(self) -> list[Table]:
        tables = []
        if self.configs:
            title = f"one iteration at each of stages 1, 7, 13, 19, 25 (sum), threads: {self.arguments.threads}"
            columns = ["configuration", "ours ms", "HF ms", "ratio", "of peak", "ours MB", "HF MB"]
            rows = [
                [r.name, f"{r.ours_ms:.1f}", f"{r.hf_ms:.1f}", f"{r.ratio:.2f}", f"{r.peak_share:.0%}",
                 f"{r.ours_rss_mb:.0f}", f"{r.hf_rss_mb:.0f}"]
                for r in self.configs
            ]  # fmt: skip
            tables.append(results_table(title, columns, rows))
        if self.growth:
            rows = [[g.quantity, str(g.value), f"{g.ms:.2f}", f"{g.relative:.2f}"] for g in self.growth]
            title = "growth of one iteration's cost, one quantity at a time"
            tables.append(results_table(title, ["quantity", "value", "ms", "relative"], rows))
        if self.kernels:
            columns = ["width", "heads", "head size", "tokens", "plain / fast", "auto takes"]
            rows = [
                [*(str(n) for n in (k.width, k.heads, k.head_size, k.length)), f"{k.ratio:.2f}", k.rule]
                for k in self.kernels
            ]
            tables.append(results_table("time of the plain path over the fast one", columns, rows))
        return tables
