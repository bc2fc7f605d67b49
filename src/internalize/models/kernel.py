"""Which code trains and runs a model: the plain path, or the fast one of the CPU."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from internalize.models.decoder import Decoder, PlainDecoder
from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.language_model import LanguageModel
from internalize.models.step import PlainStep, Precision, Step

Kernel = Literal["plain", "fast"]


def choose_kernel(config: ModelConfig, device: torch.device) -> Kernel:
    """The faster path for this shape; elsewhere than on a CPU the plain one."""
    return rule(config) if device.type == "cpu" else "plain"


def rule(config: ModelConfig) -> Kernel:
    """Where the fast path is faster, from the table that `internalize bench --kernels` prints.

    A rule and not a timing at the start of every run: the same config must give the same bytes, however busy
    the machine is. The fast attention has its heads side by side in a vector; one or two large heads leave
    most of it empty, and only there the plain path wins.
    """
    return "plain" if config.heads <= 2 and config.head_size >= 64 else "fast"


def make_step(kernel: Kernel, precision: Precision, model: LanguageModel, gradient: Tensor) -> Step:
    """A training step of that kernel; gradient: the flat one of `flatten_parameters(model)`."""
    if kernel == "fast":
        from internalize.models.fast import FastStep

        assert isinstance(model, GPT2)  # no other network has a fast path
        return FastStep(model, gradient, precision)
    return PlainStep(model, gradient, precision)


def make_decoder(kernel: Kernel, model: LanguageModel, batch: int) -> Decoder:
    """A decoder of that kernel for at most so many sequences at once."""
    if kernel == "fast":
        from internalize.models.fast import FastDecoder

        assert isinstance(model, GPT2)
        return FastDecoder(model, batch)
    return PlainDecoder(model)
