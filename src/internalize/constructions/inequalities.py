"""The inequalities of the proof, measured in the running network at every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from internalize.constructions.checking import chunk_size
from internalize.constructions.construction import Construction
from internalize.constructions.lookback import circular_positions
from internalize.constructions.threads import side_by_side
from internalize.constructions.transformer import LayerRecord

Sense = Literal["at least", "at most"]
REGISTER_TOLERANCE = 1 / 16


@dataclass(frozen=True)
class Inequality:
    """One inequality at one layer: the worst value seen, and the bound that the proof needs."""

    layer: int
    name: str
    measured: float
    sense: Sense
    bound: float

    @property
    def holds(self) -> bool:
        return self.slack >= 0

    @property
    def slack(self) -> float:
        """How far the worst value is on the good side; negative where the inequality fails."""
        distance = self.bound - self.measured
        return -distance if self.sense == "at least" else distance


def measure_inequalities(construction: Construction, symbols: Tensor) -> list[Inequality]:
    """The worst case over (count, T) inputs of every inequality, layer by layer.

    score gap        the right position wins by β·Δ/2, in the self head on every row, in the look-back head on
                     every row that is no dummy
    softmax error    ‖weights - one-hot‖₁ ≤ η on the same rows
    register error   what the heads copied is within 1/16 of the integer it should be
    position error   after layer l a position is within lη of its point on the circle
    """
    worst: dict[tuple[int, str], Inequality] = {}
    pieces = symbols.split(max(1, chunk_size(construction) // 4))
    for inequalities in side_by_side(partial(_measure, construction), pieces):
        for found in inequalities:
            key = (found.layer, found.name)
            # NaN is the worst of all: it replaces any number and is replaced by none.
            if key not in worst or math.isnan(found.slack) or found.slack < worst[key].slack:
                worst[key] = found
    return list(worst.values())


@torch.no_grad()
def _measure(construction: Construction, symbols: Tensor) -> list[Inequality]:
    records = construction.network.record(construction.tokens(symbols))
    layers = (_measure_layer(construction, symbols, i, record) for i, record in enumerate(records, start=1))
    return [inequality for layer in layers for inequality in layer]


def _measure_layer(
    construction: Construction, symbols: Tensor, layer: int, record: LayerRecord
) -> list[Inequality]:
    plan, directions = construction.plan, construction.directions
    gap, error = _attention_errors(construction, layer, record)
    before = construction.held(symbols, layer - 1).double()
    mixed = record.mixed.double()
    first, stride = plan.horizon, plan.stride(layer)
    kept = (mixed[..., directions.held] - before).abs().max()
    fetched = mixed[:, first:, directions.fetched] - before[:, first - stride : plan.positions - stride]
    circle = circular_positions(plan.positions)
    moved = (record.output[..., directions.position].double() - circle).norm(dim=-1).max()
    registers = torch.maximum(kept, fetched.abs().max())
    return [
        Inequality(layer, "score gap", gap, "at least", plan.score_gap),
        Inequality(layer, "softmax error", error, "at most", plan.eta),
        Inequality(layer, "register error", float(registers), "at most", REGISTER_TOLERANCE),
        Inequality(layer, "position error", float(moved), "at most", layer * plan.eta),
    ]


def _attention_errors(construction: Construction, layer: int, record: LayerRecord) -> tuple[float, float]:
    """The smallest score gap and the largest softmax error of both heads."""
    plan = construction.plan
    rows = torch.arange(plan.positions)
    gaps, errors = [], []
    for head, (first, stride) in enumerate([(0, 0), (plan.horizon, plan.stride(layer))]):
        target = (rows[first:] - stride)[None, :, None]
        scores = record.scores[:, head, first:].double()
        weights = record.weights[:, head, first:].double()
        index = target.expand(len(scores), -1, -1)
        rivals = scores.scatter(2, index, -torch.inf).amax(dim=2)
        gaps.append((scores.gather(2, index)[..., 0] - rivals).min())
        one_hot = torch.zeros_like(weights).scatter(2, index, 1.0)
        errors.append((weights - one_hot).abs().sum(dim=2).max())
    return float(torch.stack(gaps).min()), float(torch.stack(errors).max())
