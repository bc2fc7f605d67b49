"""All parameters of a module in one flat tensor, so that the optimizer is one operation."""

from __future__ import annotations

from torch import Tensor, nn


def flatten_parameters(module: nn.Module) -> tuple[Tensor, Tensor]:
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
