"""Why training without rounding stalls: the leftover of one phase, taken apart in the next.

A phase ends with row d at w* + ε: the prefix, and a leftover ε that the threshold allows. At the beginning of
the next phase an example with x_{i_t} = 1 is pulled to the left if ⟨ε, x⟩ ≤ 0, and to the right otherwise. The
leftover of a population phase is ε ∝ e_{i_{t-1}} - 1/d: positive exactly where x_{i_{t-1}} = 1. Then the pulls
follow the old coordinate and cancel on the new one, and they are those of a regression whose solution is

    w = w* + e_{i_{t-1}} - 1/(d+1),    loss ½ (½ - d / (4 (d+1))),

where no example changes its side: a local minimum, in which the last coordinate has been unlearned. Here the
leftover's direction and size and the next phase's step size are varied one at a time, to see which decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from internalize.kinds.parity.config import PAPER_BATCH, PAPER_STEP_SIZE, PATIENCE
from internalize.kinds.parity.data import row_d_batch
from internalize.kinds.parity.descent import descend
from internalize.runs.table import Table
from internalize.runtime.streams import Streams
from internalize.statistics import wilson
from internalize.tasks.parity import HiddenParity, random_parity, uniform_inputs

DIRECTIONS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
"""Thresholds at which phase 1 is ended, for the direction of its leftover."""
SIZES = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
"""Losses that the leftover is scaled to."""
STEP_SIZES = (1e-4, 1e-3, 1e-2)
REACHED = 1e-4
"""Phase 2 has succeeded once its loss is below this; a stall is a thousand times as high."""
PROBES = 20_000
"""Fresh inputs on which the sides are counted."""


@dataclass(frozen=True)
class Leftover:
    """Row d at the end of phase 1."""

    parity: HiddenParity
    prefix: NDArray[np.float64]
    """(d,): w*, -1 at i_1."""
    rest: NDArray[np.float64]
    """(d,): ε."""
    loss: float


def predicted_loss(d: int) -> float:
    """The loss of the local minimum, in the population."""
    return 0.5 * (0.5 - d / (4 * (d + 1)))


def leftover(d: int, k: int, threshold: float, batch: int, streams: Streams) -> Leftover:
    """Phase 1 of row d, ended at the threshold; consumes streams("support") and streams("stall", 1)."""
    parity = random_parity(d, k, streams("support"))
    examples = row_d_batch(parity, 1, batch, streams("stall", 1))
    patience = round(PATIENCE / PAPER_STEP_SIZE)
    ended = descend(examples, np.zeros((1, d)), patience, PAPER_STEP_SIZE, threshold)
    prefix = -parity.indicator(1).numpy()
    return Leftover(parity, prefix, ended.weights[0] - prefix, ended.loss)


def second_phase(
    start: Leftover, scale: float, eta: float, batch: int, streams: Streams
) -> tuple[bool, float, float]:
    """(reached, loss, weight left on i_1) of phase 2 from w* + scale·ε; consumes streams("stall", 2)."""
    examples = row_d_batch(start.parity, 2, batch, streams("stall", 2))
    row = (start.prefix + scale * start.rest)[None]
    ended = descend(examples, row, round(PATIENCE / eta), eta, REACHED)
    return ended.below, ended.loss, float(ended.weights[0, start.parity.columns[0]])


def sides(start: Leftover, streams: Streams) -> tuple[float, float]:
    """Of inputs with x_{i_2} = 1: the share that is pulled right where z_1 = 0, and where z_1 = 1.

    (0, 1) is the fatal pattern; equal shares mean that the pulls do not follow the prefix. Consumes
    streams("stall sides").
    """
    x = uniform_inputs(PROBES, start.parity.d, streams("stall sides")).to(torch.float64).numpy()
    first, second = (x[:, i] == 1 for i in start.parity.columns[:2])
    right = x @ start.rest > 0
    return float(right[second & ~first].mean()), float(right[second & first].mean())


def stall_table(d: int, k: int, seeds: int, progress: Callable[[str], None]) -> Table:
    """Success of phase 2, with one thing varied at a time; one row a setting, Wilson intervals (95 %)."""
    rows = []
    for threshold in DIRECTIONS:
        starts = [leftover(d, k, threshold, PAPER_BATCH, Streams(seed)) for seed in range(seeds)]
        pulled = np.mean([sides(start, Streams(seed)) for seed, start in enumerate(starts)], axis=0)
        plans = [("size", size, PAPER_STEP_SIZE, PAPER_BATCH) for size in SIZES]
        if threshold == DIRECTIONS[0]:
            plans += [("step", size, eta, PAPER_BATCH) for eta in STEP_SIZES for size in SIZES]
            plans += [("batch", size, PAPER_STEP_SIZE, 16 * PAPER_BATCH) for size in SIZES]
        found: dict[tuple[float, float, int], list[tuple[bool, float, float]]] = {}
        for varied, size, eta, batch in plans:
            setting = size, eta, batch  # one may stand in several rows: the paper's η among the others
            if setting not in found:
                found[setting] = [
                    second_phase(start, float(np.sqrt(size / start.loss)), eta, batch, Streams(seed))
                    for seed, start in enumerate(starts)
                ]
            rows.append(_row(varied, threshold, *setting, pulled.tolist(), found[setting]))
            reached = rows[-1]["reached"]
            progress(f"stall {varied}: direction {threshold:g}, size {size:g}, η {eta:g}: {reached}")
    return Table(rows)


def _row(
    varied: str,
    threshold: float,
    size: float,
    eta: float,
    batch: int,
    pulled: Sequence[float],
    found: Sequence[tuple[bool, float, float]],
) -> dict[str, float | int | str | None]:
    stalled = [(loss, weight) for reached, loss, weight in found if not reached]
    reached = len(found) - len(stalled)
    interval = wilson(reached, len(found))
    return {
        "varied": varied,
        "direction_from_threshold": threshold,
        "leftover_loss": size,
        "eta": eta,
        "B": batch,
        "right_where_z1_is_0": pulled[0],
        "right_where_z1_is_1": pulled[1],
        "seeds": len(found),
        "reached": reached,
        "low": interval.low,
        "high": interval.high,
        "stalled_loss": float(np.mean([loss for loss, _ in stalled])) if stalled else None,
        "stalled_weight_on_i1": float(np.mean([weight for _, weight in stalled])) if stalled else None,
    }
