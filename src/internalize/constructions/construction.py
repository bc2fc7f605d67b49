"""What every hand-written transformer has in common: tokens in, a state out, and what it should hold inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from internalize.constructions.lookback import AttentionPlan, circular_positions, look_back_head, self_head
from internalize.constructions.transformer import SoftmaxTransformer
from internalize.constructions.weights import AffineWeights, Directions, Shape

if TYPE_CHECKING:
    from jaxtyping import Float, Int


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
