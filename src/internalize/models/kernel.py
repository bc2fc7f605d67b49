"""Which code trains and runs a model: the plain path, or the fast one of the CPU."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from internalize.models.decoder import Decoder, PlainDecoder
from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.step import PlainStep, Precision, Step

Kernel = Literal["plain", "fast"]


def choose_kernel(
    config: ModelConfig, vocabulary: int, context: int, batch: int, device: torch.device
) -> Kernel:
    """The faster path for this shape on this machine, by measurement; elsewhere than on a CPU the plain one."""
    if device.type != "cpu":
        return "plain"
    from internalize.models.fast import choose_kernel as measure

    return measure(config, vocabulary, context, batch, device)


def make_step(kernel: Kernel, precision: Precision, model: GPT2, gradient: Tensor) -> Step:
    """A training step of that kernel; gradient: the flat one of `flatten_parameters(model)`."""
    if kernel == "fast":
        from internalize.models.fast import FastStep

        return FastStep(model, gradient, precision)
    return PlainStep(model, gradient, precision)


def make_decoder(kernel: Kernel, model: GPT2, batch: int) -> Decoder:
    """A decoder of that kernel for at most so many sequences at once."""
    if kernel == "fast":
        from internalize.models.fast import FastDecoder

        return FastDecoder(model, batch)
    return PlainDecoder(model)


def default_kernel(model: GPT2) -> Kernel:
    """For whoever only runs a model: the fast path where it exists."""
    return "fast" if next(model.parameters()).device.type == "cpu" else "plain"
