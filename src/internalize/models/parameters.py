"""All parameters of a module as one flat tensor: laid out, moved by AdamW, hashed.

AdamW has decoupled weight decay on every parameter, and one step is one fused operation.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from internalize.errors import require, require_count

if TYPE_CHECKING:
    from jaxtyping import Float


def flatten_parameters(module: nn.Module) -> tuple[Float[Tensor, " numel"], Float[Tensor, " numel"]]:
    """Move the module's parameters and gradients into two flat tensors (numel,), and return these.

    The parameters become views: what changes the flat tensor changes the module, and a backward pass adds
    to the flat gradient, which its owner sets to zero before.
    """
    parameters = list(module.parameters())
    flat = parameters[0].data.new_empty(sum(p.numel() for p in parameters))
    gradient = flat.new_zeros(flat.shape)
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        flat[start:end].copy_(parameter.data.flatten())
        parameter.data = flat[start:end].view(parameter.shape)
        parameter.grad = gradient[start:end].view(parameter.shape)
        start = end
    return flat, gradient


@dataclass(frozen=True)
class AdamWConfig:
    """What every kind that trains by AdamW lets one choose."""

    lr: float = 3e-4
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of the running mean and of the running square of the gradient."""
    weight_decay: float = 0.01
    """Decoupled weight decay, on every parameter that is trained."""
    reset: bool = True
    """Forget the optimizer's state at every stage end, as the paper does; no-reset keeps it."""

    def __post_init__(self) -> None:
        require(0 < self.lr < math.inf, "optimizer.lr", f"must be more than 0 and finite, got {self.lr}")
        good = all(0 <= beta < 1 for beta in self.betas)
        require(good, "optimizer.betas", f"must lie in [0, 1), got {self.betas}")
        good = 0 <= self.weight_decay < math.inf
        require(good, "optimizer.weight-decay", f"must be 0 or more and finite, got {self.weight_decay}")


class AdamW:
    """The numbers of `torch.optim.AdamW`, with a state that is two tensors and one integer."""

    def __init__(
        self,
        parameters: Float[Tensor, " numel"],
        gradient: Float[Tensor, " numel"],
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        *,
        eps: float = 1e-8,
    ) -> None:
        """parameters, gradient: (numel,), as `flatten_parameters` returns them."""
        self.parameters = parameters
        self.gradient = gradient
        self.lr = lr
        self.betas = betas
        self.weight_decay = weight_decay
        self.eps = eps
        self._mean = torch.zeros_like(parameters)
        self._square = torch.zeros_like(parameters)
        # The fused kernel reads the step from a tensor on the parameters' device.
        self._step = torch.zeros((), dtype=torch.float32, device=parameters.device)

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against the gradient."""
        self._step += 1
        torch._fused_adamw_(
            [self.parameters],
            [self.gradient],
            [self._mean],
            [self._square],
            [],
            [self._step],
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def reset(self) -> None:
        """Forget all steps, as at the beginning of a curriculum's stage."""
        self._mean.zero_()
        self._square.zero_()
        self._step.zero_()

    def tensors(self) -> dict[str, Tensor]:
        """The state's tensors, each (numel,), not copied."""
        return {"exp_avg": self._mean, "exp_avg_sq": self._square}

    def scalars(self) -> dict[str, int]:
        return {"step": int(self._step.item())}

    def load(self, tensors: dict[str, Tensor], scalars: dict[str, int]) -> None:
        """Continue from a state that `tensors` and `scalars` gave."""
        require_count("optimizer.step", scalars["step"])
        good = bool((tensors["exp_avg_sq"] >= 0).all())
        require(good, "optimizer.exp_avg_sq", "is a mean of squares, and has negative entries")
        self._mean.copy_(tensors["exp_avg"])
        self._square.copy_(tensors["exp_avg_sq"])
        self._step.fill_(scalars["step"])


def digest_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """A hash of names and tensors, in their order. Tensors may be on any device and may require gradients."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in weights:
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
