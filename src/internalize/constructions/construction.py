"""What every hand-written transformer has in common: tokens in, a state out, and what it should hold inside."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from internalize.constructions.transformer import (
    AffineWeights,
    Directions,
    HeadWeights,
    Shape,
    SoftmaxTransformer,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Float64, Int


@dataclass(frozen=True)
class Unembedding:
    """Reads registers as integers and looks the state up: the only table after the embedding.

    `sizes` says how many values each register can take, and `states` holds one entry for each combination,
    the last register changing fastest.
    """

    sizes: tuple[int, ...]
    states: Int[Tensor, " combinations"]
    """The state of each combination."""

    def decode(self, registers: Float[Tensor, "batch registers"]) -> Int[Tensor, " batch"]:
        """(batch, registers) to (batch,) states; -1 where a register is nearest to no value it can take.

        Every combination of register values stands for a state, so the nearest combination is found one
        register at a time.
        """
        nearest = registers.double().nan_to_num(nan=-1.0).round()
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=registers.device)
        inside = ((nearest >= 0) & (nearest < sizes)).all(dim=-1)
        values = torch.where(inside[..., None], nearest, 0.0).long()
        index = torch.zeros_like(values[..., 0])
        for size, value in zip(self.sizes, values.unbind(-1), strict=True):
            index = index * size + value
        return torch.where(inside, self.states.to(registers.device)[index], -1)


Precision = Literal["float64", "float32", "float16", "bfloat16"]

DTYPES: dict[str, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True, eq=False)
class Construction(ABC):
    """A transformer with its weights written, and its unembedding."""

    name: str
    symbols: int
    """|Σ|: inputs are (batch, T) integers below it."""
    states: int
    initial_state: int
    plan: AttentionPlan
    directions: Directions
    network: SoftmaxTransformer
    unembedding: Unembedding
    precision: Precision

    @property
    def horizon(self) -> int:
        return self.plan.horizon

    @property
    def shape(self) -> Shape:
        return self.network.shape

    @abstractmethod
    def tokens(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch 2*T+1"]:
        """(batch, T) symbols to the (batch, M) tokens that the network reads."""

    @abstractmethod
    def trace(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch T+1"]:
        """(batch, T) symbols to the true states (batch, T+1), q_0 … q_T, computed without the network."""

    @abstractmethod
    def held(self, symbols: Int[Tensor, "batch T"], layers: int) -> Int[Tensor, "batch 2*T+1 registers"]:
        """(batch, T) symbols to (batch, M, registers): what each position should hold after that many layers.

        Integers, computed without the network.
        """

    @abstractmethod
    def register_names(self) -> tuple[str, ...]:
        """One readable name for each register."""

    @property
    @abstractmethod
    def reads_state_last(self) -> bool:
        """Whether q_0 stands behind the symbols, as in the paper's prompts, or in front of them."""

    def final_states(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, " batch"]:
        """(batch, T) symbols to the right answers (batch,)."""
        return self.trace(symbols)[:, -1]

    def position_names(self) -> tuple[str, ...]:
        """The T+1 positions after the dummies, in the order in which they are read."""
        names = tuple(f"σ{i}" for i in range(1, self.horizon + 1))
        return (*names, "q0") if self.reads_state_last else ("q0", *names)

    @torch.no_grad()
    def answer(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, " batch"]:
        """(batch, T) symbols to the network's answers (batch,); -1 where it wrote no state."""
        return self.unembedding.decode(self.network(self.tokens(symbols))[:, self.read_out])

    @property
    def read_out(self) -> slice:
        """The registers that the unembedding reads."""
        return slice(self.directions.held.start, self.directions.held.start + len(self.unembedding.sizes))


def build_network(
    shape: Shape,
    registers: Int[Tensor, "tokens registers"],
    directions: Directions,
    plan: AttentionPlan,
    mlp: Sequence[AffineWeights],
) -> SoftmaxTransformer:
    """Write all weights, in float64: tables, then for every layer the two heads and the same MLP.

    registers: (tokens, registers), what each token holds at first.
    """
    with torch.device("cpu"):
        network = SoftmaxTransformer(shape).double()
    with torch.no_grad():
        network.tokens[:, directions.held] = registers.double()
        network.positions[:, directions.position] = circular_positions(plan.positions)
        for i, layer in enumerate(network.blocks):
            stride = plan.stride(i + 1)
            layer.attention.load([self_head(directions, plan), look_back_head(directions, plan, stride)])
            layer.mlp.load(mlp)
    return network


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
