"""Attention gadgets: circular positions, a head that stays where it is and a head that looks back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.constructions.weights import Directions, HeadWeights

if TYPE_CHECKING:
    from jaxtyping import Float64


@dataclass(frozen=True)
class AttentionPlan:
    """How sharp attention has to be for T symbols and registers that hold values below `largest`.

    A wrong position loses by at least gap = Δ_M in the dot product of clean positions. Allow every softmax
    an error of η in 1-norm. It moves a register by at most η·largest, which shall be ≤ 1/16, and a position
    by η in each layer, after L layers at most Lη ≤ gap/12. Two positions off by that much change a difference
    of dot products by at most gap/2, so half the gap always survives, and with β the scores are apart by
    β·gap/2 = log(2M/η): the softmax error is then at most 2M·exp(-β·gap/2) = η, and the circle closes.
    """

    horizon: int
    largest: int
    beta: float
    """Scale of the scores; the theorem's unless another was asked for."""

    @property
    def positions(self) -> int:
        """M: T dummies, T symbols and the initial state."""
        return 2 * self.horizon + 1

    @property
    def depth(self) -> int:
        """L = ⌈log2(T+1)⌉: windows double, and the last one must hold T + 1 tokens."""
        return self.horizon.bit_length()

    @property
    def gap(self) -> float:
        # 1 - cos x = 2 sin²(x/2), which keeps its digits where x is small.
        return 2 * math.sin(math.pi / self.positions) ** 2

    @property
    def eta(self) -> float:
        return min(1 / (16 * self.largest), self.gap / (12 * self.depth), 1 / 16)

    @property
    def score_gap(self) -> float:
        """By how much the right position must win: β·gap/2."""
        return self.beta * self.gap / 2

    def stride(self, layer: int) -> int:
        """How far layer 1, 2, … looks back: 1, 2, 4, …, never more than T."""
        return 2 ** (layer - 1)


def attention_plan(horizon: int, largest: int, beta: float | None = None) -> AttentionPlan:
    """The theorem's plan, or the same with another β."""
    plan = AttentionPlan(horizon, largest, 0.0)
    theorem = 2 / plan.gap * math.log(2 * plan.positions / plan.eta)
    return AttentionPlan(horizon, largest, theorem if beta is None else beta)


def circular_positions(count: int) -> Float64[Tensor, "{count} 2"]:
    """(count, 2): position i = 1 … count as the point at angle 2πi/count.

    All points have length one, so a dot product is largest with the point itself, and neighbours, the
    closest rivals, stay behind by Δ = 1 - cos(2π/count). Looking back by s is turning by -s steps: linear.
    """
    angle = 2 * math.pi * torch.arange(1, count + 1, dtype=torch.float64) / count
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def rotation_back(steps: int, count: int) -> Float64[Tensor, "2 2"]:
    """(2, 2): turns the point of position i into that of position i - steps."""
    angle = 2 * math.pi * steps / count
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)


def self_head(directions: Directions, plan: AttentionPlan) -> HeadWeights:
    """Attends to its own position and keeps the held registers and the position.

    The score β·⟨p_i, p_j⟩ is largest for j = i. There is no residual stream: without this head a position
    would forget what it holds and where it is.
    """
    held, position = directions.extract(directions.held), directions.extract(directions.position)
    where = _pad_above(math.sqrt(plan.beta) * position, directions.registers)
    value = torch.cat([held, position])
    return HeadWeights(query=where, key=where, value=value, output=value.T.contiguous())


def look_back_head(directions: Directions, plan: AttentionPlan, stride: int) -> HeadWeights:
    """Attends `stride` positions back and puts what is held there into the fetched registers.

    The query is the own position turned back, so the score β·⟨p_{i-stride}, p_j⟩ is largest for
    j = i - stride. A dummy so far in front that nothing lies `stride` back sees only dummies, which all hold
    the same: whatever mixture it fetches is that value again.
    """
    held, position = directions.extract(directions.held), directions.extract(directions.position)
    fetched = directions.extract(directions.fetched)
    scale, pad = math.sqrt(plan.beta), directions.registers
    turned = rotation_back(stride, plan.positions) @ position
    nothing = torch.zeros_like(position)
    return HeadWeights(
        query=_pad_above(scale * turned, pad),
        key=_pad_above(scale * position, pad),
        value=torch.cat([held, nothing]),
        output=torch.cat([fetched, nothing]).T.contiguous(),
    )


def _pad_above(rows: Float64[Tensor, "rows size"], count: int) -> Float64[Tensor, "rows+{count} size"]:
    """Rows of zeros on top: heads have one row for each register and two rows for the position."""
    return torch.cat([rows.new_zeros(count, rows.shape[1]), rows])
