"""Which code computes a training step: the plain path, or the fast one of the CPU."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.step import PlainStep, Step

Kernel = Literal["plain", "fast"]


def choose_kernel(
    config: ModelConfig, vocabulary: int, context: int, batch: int, device: torch.device
) -> Kernel:
    """The faster kernel for this shape on this machine."""
    return "plain"


def make_step(kernel: str, model: GPT2, gradient: Tensor) -> Step:
    """A training step of that kernel; gradient: the flat one of `flatten_parameters(model)`."""
    return PlainStep(model, gradient)
