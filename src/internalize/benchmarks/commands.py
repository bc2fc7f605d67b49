"""The command `internalize bench`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from rich.console import Console
from rich.status import Status
from rich.table import Table

from internalize.benchmarks.arguments import BenchArguments
from internalize.benchmarks.cases import (
    CASES,
    MATRIX_PRODUCT_FLOPS,
    BenchCase,
    hugging_face,
    matrix_product,
    ours,
    peak_memory,
    seconds_each,
    useful_flops,
)
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
from internalize.models.config import ModelConfig
from internalize.models.fast import FastStep
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainStep, rule
from internalize.runs.provenance import provenance


def bench_command(arguments: BenchArguments) -> None:
    """Compare, and print tables or JSON."""
    for number in arguments.configs:
        known = 0 <= number < len(CASES)
        require(known, "configs", f"must be numbers from 0 to {len(CASES) - 1}, got {number}")
    require(arguments.repeats >= 1, "repeats", f"must be at least 1, got {arguments.repeats}")
    require(arguments.threads >= 1, "threads", f"must be at least 1, got {arguments.threads}")
    torch.set_num_threads(arguments.threads)
    report = Report(arguments)
    good = arguments.scaling is None or arguments.scaling >= 1
    require(good, "scaling", f"must be at least 1 run at the same time, got {arguments.scaling}")
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
            columns = ["width", "heads", "head size", "tokens", "plain / fast", "attention"]
            rows = [
                [*(str(n) for n in (k.width, k.heads, k.head_size, k.length)), f"{k.ratio:.2f}", k.rule]
                for k in self.kernels
            ]
            tables.append(results_table("time of the plain path over the fast one", columns, rows))
        return tables


@dataclass(frozen=True)
class EngineComparison:
    """Milliseconds are sums over the stages of one iteration each."""

    name: str
    ours_ms: float
    hf_ms: float
    ratio: float
    peak_share: float
    """Useful operations per second, as a share of those of a large product of the same precision, in turn."""
    ours_rss_mb: float
    hf_rss_mb: float
    stages: list[dict[str, float]]
    """For each stage its number and ours, eager and sdpa in milliseconds."""

    def row(self) -> dict[str, object]:
        return asdict(self)


def compare(case: BenchCase, repeats: int, threads: int) -> EngineComparison:
    """Hugging Face counts with the better of eager and SDPA at every single stage."""
    engine = ours(case, threads)
    eager, sdpa = hugging_face(case, "eager"), hugging_face(case, "sdpa")
    product = matrix_product(torch.bfloat16 if case.precision == "bf16" else torch.float32)
    stages, ours_s, hf_s, peak_s = [], 0.0, 0.0, 0.0
    for stage in case.stages:
        turns: dict[str, Callable[[], None]] = {
            "ours": partial(engine, stage),
            "eager": partial(eager, stage),
            "sdpa": partial(sdpa, stage),
            "product": product,
        }
        seconds = seconds_each(turns, repeats)
        ours_s += seconds["ours"]
        hf_s += min(seconds["eager"], seconds["sdpa"])
        peak_s += seconds["product"] * useful_flops(case, stage) / MATRIX_PRODUCT_FLOPS
        stages.append({"stage": float(stage)} | {f"{k}_ms": 1e3 * v for k, v in seconds.items()})
    return EngineComparison(
        name=case.name,
        ours_ms=1e3 * ours_s,
        hf_ms=1e3 * hf_s,
        ratio=hf_s / ours_s,
        peak_share=peak_s / ours_s,
        ours_rss_mb=peak_memory(case.name, "ours", threads),
        hf_rss_mb=peak_memory(case.name, "hf", threads),
        stages=stages,
    )


VOCABULARY, BATCH = 9, 32
SHAPES = [
    (width, width // size, length)
    for width in (64, 256, 512)
    for size in (1, 2, 4, 16, 32, 64, 128)
    for length in (52,)
    if width // size >= 1 and width // size <= 128
] + [(128, 1, 52), (128, 2, 52), (512, 1, 52), (512, 2, 52), (64, 32, 202), (128, 2, 202), (32, 16, 8)]
"""(width, heads, tokens of a sequence): the paper's lengths, few large heads, then long and short ones."""


@dataclass(frozen=True)
class KernelRow:
    width: int
    heads: int
    head_size: int
    length: int
    ratio: float
    """Plain seconds over fast seconds."""
    rule: str
    """The attention that the fast path takes."""


def compare_kernels(repeats: int, threads: int) -> list[KernelRow]:
    """One training step of depth 2, half of each sequence being the answer."""
    rows = []
    for width, heads, length in SHAPES:
        config = ModelConfig(2, width, heads)
        model = GPT2(config, VOCABULARY, length)
        model.initialise(torch.Generator().manual_seed(0))
        _, gradient = flatten_parameters(model)
        tokens = torch.randint(VOCABULARY, (BATCH, length), generator=torch.Generator().manual_seed(1))
        plain, fast = PlainStep(model, gradient), FastStep(model, gradient, "fp32", threads)
        turns = {
            "plain": lambda step=plain, t=tokens, n=length: _once(step, t, n),
            "fast": lambda step=fast, t=tokens, n=length: _once(step, t, n),
        }
        seconds = seconds_each(turns, repeats)
        ratio = seconds["plain"] / seconds["fast"]
        rows.append(KernelRow(width, heads, width // heads, length, ratio, rule(config)))
    return rows


def _once(step: PlainStep | FastStep, tokens: torch.Tensor, length: int) -> None:
    step(tokens, length // 2)
