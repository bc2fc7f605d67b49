"""A small network with two heads: a distribution over moves, and a value in [0, 1]."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class PolicyValue(nn.Module):
    """A ReLU MLP: (batch, inputs) → move logits (batch, moves) and value logits (batch,).

    The value is the sigmoid of its logit: the outcome expected for the player to move, from 0, lost, to 1, won.
    """

    def __init__(self, inputs: int, moves: int, width: int, depth: int) -> None:
        """depth: hidden layers, each of `width` units."""
        super().__init__()
        sizes = [inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.policy = nn.Linear(width, moves)
        self.value = nn.Linear(width, 1)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> PolicyValue:
        """He's initialisation of the hidden layers; both heads begin at zero, so that no move is preferred."""
        for layer in self.hidden:
            weight = layer.weight
            assert isinstance(weight, Tensor)
            weight.copy_(torch.randn(weight.shape, generator=generator) * (2 / weight.shape[1]) ** 0.5)
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or not name.startswith("hidden"):
                parameter.zero_()
        return self

    def forward(
        self, x: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch moves"], Float[Tensor, " batch"]]:
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.policy(x), self.value(x)[:, 0]

    @property
    def flops(self) -> float:
        """Operations of one forward pass: one multiplication and one addition for each weight."""
        return 2.0 * sum(p.numel() for name, p in self.named_parameters() if name.endswith("weight"))


def masked_loss(
    logits: Float[Tensor, "batch moves"],
    value_logits: Float[Tensor, " batch"],
    legal: Bool[Tensor, "batch moves"],
    policy: Float[Tensor, "batch moves"],
    outcome: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Cross-entropy against the policy over legal moves, and of the value against the outcome: two scalars.

    logits, legal (bool), policy: (batch, moves); value_logits, outcome in [0, 1]: (batch,).
    """
    log_policy = torch.log_softmax(logits.masked_fill(~legal, float("-inf")), dim=1)
    policy_loss = -(policy * log_policy.masked_fill(~legal, 0.0)).sum(1).mean()
    value_loss = nn.functional.binary_cross_entropy_with_logits(value_logits, outcome)
    return policy_loss, value_loss
