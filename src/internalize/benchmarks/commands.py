"""The command `internalize bench`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
from rich.console import Console
from rich.table import Table

from internalize.errors import require


@dataclass(frozen=True)
class BenchArguments:
    """Time this engine's whole training iteration against Hugging Face GPT-2 with AdamW, interleaved."""

    repeats: int = 5
    """Samples of which the median counts."""
    threads: int = 1
    """Threads of both sides."""
    configs: tuple[int, ...] = (0, 1, 2, 3)
    """Which configurations, by their number in the table."""
    growth: bool = False
    """Also show how the cost grows with T, width, depth and batch."""
    json: bool = False
    """Print JSON instead of tables."""


def bench_command(arguments: BenchArguments) -> None:
    """Compare, and print a table or JSON."""
    from internalize.benchmarks.cases import CASES
    from internalize.benchmarks.compare import Comparison, compare
    from internalize.benchmarks.growth import growth

    for number in arguments.configs:
        known = 0 <= number < len(CASES)
        require(known, "configs", f"must be numbers from 0 to {len(CASES) - 1}, got {number}")
    torch.set_num_threads(arguments.threads)
    console = Console(stderr=arguments.json)
    results: list[Comparison] = []
    for number in arguments.configs:
        with console.status(f"timing {CASES[number].name}"):
            results.append(compare(CASES[number], arguments.repeats, arguments.threads))
    rows = growth(arguments.repeats, arguments.threads) if arguments.growth else []
    if arguments.json:
        report = {
            "threads": arguments.threads,
            "repeats": arguments.repeats,
            "configs": [result.row() for result in results],
            "growth": [asdict(row) for row in rows],
        }
        print(json.dumps(report, indent=1))
        return
    table = Table("configuration", "ours ms", "HF ms", "ratio", "of peak", "ours MB", "HF MB")
    table.title = f"one iteration at each of stages 1, 7, 13, 19, 25 (sum), threads: {arguments.threads}"
    for r in results:
        times = f"{r.ours_ms:.1f}", f"{r.hf_ms:.1f}", f"{r.ratio:.2f}", f"{r.peak_share:.0%}"
        table.add_row(r.name, *times, f"{r.ours_rss_mb:.0f}", f"{r.hf_rss_mb:.0f}")
    console.print(table)
    if rows:
        grown = Table("quantity", "value", "ms", "relative", title="growth of the cost, one at a time")
        for row in rows:
            grown.add_row(row.quantity, str(row.value), f"{row.ms:.2f}", f"{row.relative:.2f}")
        console.print(grown)
