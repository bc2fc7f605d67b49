"""One hash of a model's weights, by which predictors tell whether two of them are the same θ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor


def digest_of(weights: Iterable[tuple[str, Tensor]]) -> str:
    """Of names and tensors, in their order, wherever they are and also where gradients are asked for."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in weights:
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
