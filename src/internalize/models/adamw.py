"""AdamW over one flat tensor: decoupled weight decay on every parameter, one fused operation a step."""

from __future__ import annotations

import torch
from torch import Tensor


class AdamW:
    """The numbers of `torch.optim.AdamW`, with a state that is two tensors and one integer."""

    def __init__(
        self,
        parameters: Tensor,
        gradient: Tensor,
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
        self._mean.copy_(tensors["exp_avg"])
        self._square.copy_(tensors["exp_avg_sq"])
        self._step.fill_(scalars["step"])
