"""The state of a self-play experiment: the network, its optimizer, and the games it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from internalize.contract import Json
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.models.policy_value import PolicyValue

BETAS = (0.9, 0.99)


@dataclass
class Examples:
    """What the network is to give, one row a position visited in self-play."""

    features: Tensor
    """(rows, inputs) float32."""
    legal: Tensor
    """(rows, actions) bool."""
    policy: Tensor
    """(rows, actions) float32: the searched policy."""
    outcome: Tensor
    """(rows,) float32 in [0, 1], for the player to move."""

    def __len__(self) -> int:
        return len(self.outcome)

    def then(self, later: Examples) -> Examples:
        return Examples(
            *(torch.cat(pair) for pair in zip(vars(self).values(), vars(later).values(), strict=True))
        )

    def without_first(self, count: int) -> Examples:
        return Examples(*(tensor[count:].clone() for tensor in vars(self).values()))


@dataclass
class SelfPlayState:
    """Changed in place by every step."""

    network: PolicyValue
    optimizer: AdamW
    before: Tensor
    """(numel,): the weights at the beginning of the round, θ: its games are played with them."""
    examples: Examples
    counts: list[int] = field(default_factory=list)
    """Examples of each round in the window, the newest last."""
    round: int = 1
    part: int = 0
    """Parts of this round that are done: first of self-play, then of training."""
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Policy and value loss, added up over the updates of this round."""
    passes: int = 0
    """Network evaluations of this round's searches."""
    moves: int = 0
    """Moves that this round's games took."""

    @property
    def flat(self) -> Tensor:
        """(numel,): the weights now, θ'."""
        return self.optimizer.parameters

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.network.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        return {
            "weights": self.flat,
            "before": self.before,
            **{f"optimizer/{name}": tensor for name, tensor in self.optimizer.tensors().items()},
            **{f"examples/{name}": tensor for name, tensor in vars(self.examples).items()},
        }

    def kept(self) -> dict[str, Tensor]:
        """The tensors as they are now, whatever a step does: copied, but for the examples.

        Those are the bulk, and a step replaces them without changing them.
        """
        tensors = self.tensors().items()
        return {name: tensor if name.startswith("examples/") else tensor.clone() for name, tensor in tensors}

    def scalars(self) -> dict[str, Json]:
        return {
            "optimizer": dict(self.optimizer.scalars()),
            "counts": list(self.counts),
            "round": self.round,
            "part": self.part,
            "losses": list(self.losses),
            "passes": self.passes,
            "moves": self.moves,
        }


def new_state(config: SelfPlayConfig, inputs: int, actions: int, generator: torch.Generator) -> SelfPlayState:
    network = PolicyValue(inputs, actions, config.width, config.depth).initialise(generator)
    optimizer = AdamW(*flatten_parameters(network), config.lr, BETAS, config.weight_decay)
    nothing = Examples(
        torch.zeros(0, inputs),
        torch.zeros(0, actions, dtype=torch.bool),
        torch.zeros(0, actions),
        torch.zeros(0),
    )
    return SelfPlayState(network, optimizer, optimizer.parameters.clone(), nothing)


def restored_state(
    fresh: SelfPlayState, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]
) -> SelfPlayState:
    """The saved state, in place of a fresh one (or of any other) of the same config."""
    fresh.flat.copy_(tensors["weights"])
    fresh.before.copy_(tensors["before"])
    saved = {name: tensors[f"optimizer/{name}"] for name in fresh.optimizer.tensors()}
    fresh.optimizer.load(saved, scalars["optimizer"])
    fresh.examples = Examples(*(tensors[f"examples/{name}"].clone() for name in vars(fresh.examples)))
    for name in ("counts", "round", "part", "losses", "passes", "moves"):
        setattr(fresh, name, scalars[name])
    return fresh
