"""All parameters of a module as one flat tensor: laid out, moved by AdamW or Muon, hashed.

AdamW has decoupled weight decay on every parameter, and one step is one fused operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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
        self._moved = [slice(None)]
        """Which parameters this moves."""

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against the gradient."""
        self._step += 1
        torch._fused_adamw_(
            [self.parameters[part] for part in self._moved],
            [self.gradient[part] for part in self._moved],
            [self._mean[part] for part in self._moved],
            [self._square[part] for part in self._moved],
            [],
            [self._step] * len(self._moved),
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


class Muon(AdamW):
    """Matrices are moved by `torch.optim.Muon`, everything else by AdamW.

    Muon makes all singular values of a matrix's step equal. Its steps are scaled to be as large as AdamW's
    would be, so that one learning rate serves both.
    """

    def __init__(
        self,
        parameters: Float[Tensor, " numel"],
        gradient: Float[Tensor, " numel"],
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        matrices: Sequence[nn.Parameter],
    ) -> None:
        """matrices: those of the flattened module that Muon moves, in their order there."""
        super().__init__(parameters, gradient, lr, betas, weight_decay)
        self._momentum = torch.zeros_like(parameters)
        self._muon = torch.optim.Muon(matrices, lr, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
        self._moved, end = [], 0
        for matrix in matrices:
            start = int(matrix.storage_offset())
            self._moved.append(slice(end, start))
            end = start + matrix.numel()
            # so that the state stays one flat tensor, which is saved, taken back and reset like the others
            self._muon.state[matrix]["momentum_buffer"] = self._momentum[start:end].view(matrix.shape)
        self._moved.append(slice(end, len(parameters)))

    @torch.no_grad()
    def step(self) -> None:
        super().step()
        self._muon.param_groups[0]["lr"] = self.lr
        self._muon.step()

    def reset(self) -> None:
        super().reset()
        self._momentum.zero_()

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"momentum": self._momentum}

    def load(self, tensors: dict[str, Tensor], scalars: dict[str, int]) -> None:
        super().load(tensors, scalars)
        self._momentum.copy_(tensors["momentum"])


def digest_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """A hash of names and tensors, in their order. Tensors may be on any device and may require gradients."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in weights:
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
