"""The state of an experiment with hints: the network, what it was after stage 1, and where training stands."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from internalize.contract import Json
from internalize.models.mlp import MLP, SGD


@dataclass
class HintsState:
    """Changed in place by every step."""

    model: MLP
    """g."""
    first: MLP
    """g at the end of the first stage; as at the beginning until then."""
    sgd: SGD
    loss_sum: Tensor
    """Losses since the last row, a scalar tensor."""
    losses: int = 0
    """How many they are."""
    step: int = 0
    """Steps done."""

    def tensors(self) -> dict[str, Tensor]:
        named = {f"model.{name}": tensor for name, tensor in self.model.tensors().items()}
        named |= {f"first.{name}": tensor for name, tensor in self.first.tensors().items()}
        return {**named, "loss_sum": self.loss_sum}

    def scalars(self) -> dict[str, Json]:
        return {"losses": self.losses, "step": self.step}
