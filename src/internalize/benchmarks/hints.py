"""Training with hints: this engine against a plain PyTorch loop, in turns on the same machine.

`python -m internalize.benchmarks.hints [--json] [--repeats N] [--widths 512 2048]`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import nn

from internalize.benchmarks.cases import seconds_each
from internalize.display.terminal import PlainConsole, results_table
from internalize.kinds.hints.config import HintsConfig
from internalize.models.config import Precision
from internalize.runs.provenance import provenance
from internalize.runtime.kind import Streams, cpu

D, K, BATCH, LR, NOISE = 25, 12, 64, 3e-3, 0.1
"""The paper's task; what is compared is one step at each of several widths."""
STEPS = 16
"""Steps of one call, so that data made in bulk counts with its share."""


@dataclass(frozen=True)
class HintsComparison:
    """One step of SGD on a fresh batch of 64: data, forward, backward, update."""

    width: int
    plain_ms: float
    ours_ms: float
    ratio: float
    bf16_ms: float
    """Ours with products in bfloat16."""
    bf16_ratio: float


def ours(width: int, precision: Precision) -> Callable[[], None]:
    """The steps as a run does them."""
    config = HintsConfig(
        d=D, k=K, width=width, method="mixture", batch=BATCH, lr=LR, label_noise=NOISE, precision=precision
    )
    experiment, streams = config.build(cpu(), {}), Streams(0)
    state = experiment.init(streams)

    def steps() -> None:
        for _ in range(STEPS):
            state.loss_sum += state.sgd(*experiment.data(state.step, streams))
            state.step += 1

    return steps


def plain(width: int) -> Callable[[], None]:
    """What one would write first: nn.Sequential, autograd, torch.optim.SGD, a fresh batch every step."""
    draw = torch.Generator().manual_seed(0)
    model = nn.Sequential(
        nn.Linear(D + K - 1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def signs(*size: int) -> torch.Tensor:
        return 2.0 * torch.randint(2, size, generator=draw) - 1.0

    total = torch.zeros(())

    def step() -> None:
        removed = int(torch.randint(K, (), generator=draw))
        x = signs(BATCH, D)
        z = x[:, :K].cumprod(dim=1)
        hints = torch.cat([z[:, : K - 1 - removed], signs(BATCH, removed)], dim=1)
        flipped = torch.rand(BATCH, generator=draw) < NOISE
        y = torch.where(flipped, -z[:, -1], z[:, -1])
        loss = nn.functional.mse_loss(model(torch.cat([x, hints], dim=1))[:, 0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())

    def steps() -> None:
        for _ in range(STEPS):
            step()

    return steps


def compare(width: int, repeats: int) -> HintsComparison:
    """Medians over repeats, the two sides in turns."""
    turns = {"plain": plain(width), "fp32": ours(width, "fp32"), "bf16": ours(width, "bf16")}
    ms = {name: 1e3 * value / STEPS for name, value in seconds_each(turns, repeats).items()}
    ratios = {name: ms["plain"] / ms[name] for name in ms}
    return HintsComparison(width, ms["plain"], ms["fp32"], ratios["fp32"], ms["bf16"], ratios["bf16"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m internalize.benchmarks.hints", description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 512, 2048], help="units of a layer")
    parser.add_argument("--repeats", type=int, default=15, help="samples of which the median counts")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = [compare(width, arguments.repeats) for width in arguments.widths]
    if arguments.json:
        where = provenance(cpu())
        print(
            json.dumps(
                {"batch": BATCH, "widths": [asdict(row) for row in found], "provenance": where}, indent=1
            )
        )
        return
    rows = [
        [f"{r.width:,}", f"{r.plain_ms:.3f}", f"{r.ours_ms:.3f}", f"{r.ratio:.2f}", f"{r.bf16_ms:.3f}",
         f"{r.bf16_ratio:.2f}"]
        for r in found
    ]  # fmt: skip
    columns = ["width", "plain PyTorch ms", "ours ms", "ratio", "bf16 ms", "ratio"]
    title = f"one step, parity of {K} of {D} bits, two hidden layers, batch {BATCH}, one thread"
    PlainConsole().print(results_table(title, columns, rows))


if __name__ == "__main__":
    main()
