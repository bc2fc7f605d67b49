"""How far the theorem's constants can be relaxed: success over many seeds, with intervals.

Every run here is the experiment of `internalize parity`, carried out in memory; success is a fact about its
final weights (`verdict.direct_by_weights`), which holds for all 2^d inputs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from internalize.kinds.parity.baseline import WANDERING, train_directly
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.evaluation import chain_by_weights, direct_by_weights
from internalize.kinds.parity.state import ParityState
from internalize.runs.table import Table
from internalize.runtime.streams import Streams
from internalize.statistics import wilson
from internalize.tasks.parity import HiddenParity

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Grid:
    """A diagram's points: each is a config, and what it is called along the axes."""

    name: str
    points: tuple[tuple[dict[str, float], ParityConfig], ...]


def run_in_memory(config: ParityConfig) -> tuple[HiddenParity, ParityState, Streams]:
    """Carry the experiment out to its last phase, without a folder."""
    experiment = config.build(torch.device("cpu"), {})
    streams = Streams(config.seed)
    state = experiment.init(streams)
    while not experiment.done(state):
        state, _ = experiment.advance(state, streams)
    return experiment.parity(streams), state, streams


def success_table(grid: Grid, seeds: int, progress: Progress) -> Table:
    """One row a point: how often the direct answer and the chain were exact, with Wilson intervals (95 %)."""
    rows = []
    for axes, config in grid.points:
        exact, chain, stalled_loss = 0, 0, []
        for seed in range(seeds):
            parity, state, _ = run_in_memory(replace(config, seed=seed, watch=False, contrast=False))
            exact += direct_by_weights(parity, state.W)
            chain += chain_by_weights(parity, state.W_chain)
            stalled_loss += [state.loss] if state.stalled else []
        interval = wilson(exact, seeds)
        row: dict[str, float | int | str | None] = {
            "diagram": grid.name,
            "d": config.d,
            "k": config.k,
            "B": config.examples,
            "eta": config.eta,
            "T": config.most_steps,
            **axes,
            "seeds": seeds,
            "exact": exact,
            "low": interval.low,
            "high": interval.high,
            "chain_exact": chain,
        }
        if not config.rounds:
            row |= {"stalled": len(stalled_loss), "stalled_loss": _mean(stalled_loss)}
        rows.append(row)
        progress(f"{grid.name} {axes}: {exact} of {seeds}")
    return Table(rows)


def contrast_table(sizes: Iterable[tuple[int, int]], seeds: int, progress: Progress) -> Table:
    """The curriculum and direct training side by side, for every (d, k)."""
    rows = []
    for d, k in sizes:
        config = ParityConfig(d=d, k=k, watch=False, contrast=False)
        exact, direct, wandering, accuracies = 0, 0, 0, []
        for seed in range(seeds):
            parity, state, streams = run_in_memory(replace(config, seed=seed))
            exact += direct_by_weights(parity, state.W)
            contrast = train_directly(config, parity, config.most_steps, streams)
            direct += contrast.exact
            accuracies.append(contrast.accuracy)
            wandering += train_directly(config, parity, config.most_steps, streams, WANDERING).exact
        ours, theirs = wilson(exact, seeds), wilson(direct, seeds)
        rows.append(
            {
                "d": d,
                "k": k,
                "examples": k * config.examples,
                "steps": k * config.most_steps,
                "seeds": seeds,
                "curriculum_exact": exact,
                "curriculum_low": ours.low,
                "curriculum_high": ours.high,
                "direct_exact": direct,
                "direct_low": theirs.low,
                "direct_high": theirs.high,
                "direct_mean_accuracy": _mean(accuracies),
                "direct_best_accuracy": max(accuracies),
                "wandering_exact": wandering,
            }
        )
        progress(f"contrast d={d} k={k}: curriculum {exact}, direct {direct} of {seeds}")
    return Table(rows)


# The diagrams --------------------------------------------------------------------------------------------

BATCHES = (1 / 512, 1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 4, 1.0, 4.0)
SCALED_SIZES = ((8, 3), (12, 5), (16, 7), (20, 9))
STEP_SIZES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0)
LENGTHS = (1.0, 2.0, 4.0, 8.0, 20.0, 40.0)
THRESHOLDS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
THRESHOLD_STEP_SIZES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
THRESHOLD_BATCHES = (128, 256, 512, 1024, 2048, 4096, 16384)


def theorem_grids(d: int, k: int) -> list[Grid]:
    """B/d³ for several d; B/d³ against η·d, and T/d against η·d, for this d and k."""

    def point(d: int, k: int, batch: float = 4.0, eta: float = 1.0, length: float = 20.0) -> ParityConfig:
        steps = max(1, round(length * d))
        return ParityConfig(d=d, k=k, batch=max(1, round(batch * d**3)), step_size=eta / d, steps=steps)

    lines = [({"B/d³": b}, point(n, m, batch=b)) for n, m in SCALED_SIZES for b in BATCHES]
    wide = [({"η·d": e, "B/d³": b}, point(d, k, batch=b, eta=e)) for e in STEP_SIZES for b in BATCHES]
    long = [({"η·d": e, "T/d": t}, point(d, k, eta=e, length=t)) for e in STEP_SIZES for t in LENGTHS]
    return [Grid("batch", tuple(lines)), Grid("batch-step", tuple(wide)), Grid("length-step", tuple(long))]


def threshold_grids(d: int, k: int) -> list[Grid]:
    """The threshold against η at the paper's B, and against B at the paper's η."""
    point = partial(ParityConfig, d=d, k=k, regime="threshold")
    steps: Sequence[tuple[dict[str, float], ParityConfig]] = [
        ({"η": e, "threshold": t}, point(step_size=e, threshold=t))
        for e in THRESHOLD_STEP_SIZES
        for t in THRESHOLDS
    ]
    batches: Sequence[tuple[dict[str, float], ParityConfig]] = [
        ({"batch": b, "threshold": t}, point(batch=b, threshold=t))
        for b in THRESHOLD_BATCHES
        for t in THRESHOLDS
    ]
    return [Grid("threshold-step", tuple(steps)), Grid("threshold-batch", tuple(batches))]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
