"""The plain path against the fast one, over shapes: where the rule of `models/kernel.py` comes from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from internalize.benchmarks.timing import seconds_each
from internalize.models.fast import FastStep
from internalize.models.flat import flatten_parameters
from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.kernel import rule
from internalize.models.step import PlainStep

VOCABULARY, BATCH = 9, 32
SHAPES = [
    (width, width // size, length)
    for width in (64, 256, 512)
    for size in (1, 2, 4, 16, 32, 64, 128)
    for length in (52,)
    if width // size >= 1 and width // size <= 128
] + [(64, 32, 202), (128, 2, 202), (32, 16, 8)]
"""(width, heads, tokens of a sequence): the paper's lengths, then a long and a short one."""


@dataclass(frozen=True)
class KernelRow:
    width: int
    heads: int
    head_size: int
    length: int
    ratio: float
    """Plain seconds over fast seconds."""
    rule: str
    """What `auto` takes."""


def compare_kernels(repeats: int, threads: int) -> list[KernelRow]:
    """One training step of depth 2, half of each sequence being the answer."""
    rows = []
    for width, heads, length in SHAPES:
        config = ModelConfig(2, width, heads)
        model = GPT2(config, VOCABULARY, length)
        model.initialise(torch.Generator().manual_seed(0))
        _, gradient = flatten_parameters(model)
        tokens = torch.randint(VOCABULARY, (BATCH, length), generator=torch.Generator().manual_seed(1))
        plain, fast = PlainStep(model, gradient), FastStep(model, gradient, "fp32", threads)
        turns = {
            "plain": lambda step=plain, t=tokens, n=length: _once(step, t, n),
            "fast": lambda step=fast, t=tokens, n=length: _once(step, t, n),
        }
        seconds = seconds_each(turns, repeats)
        ratio = seconds["plain"] / seconds["fast"]
        rows.append(KernelRow(width, heads, width // heads, length, ratio, rule(config)))
    return rows


def _once(step: PlainStep | FastStep, tokens: torch.Tensor, length: int) -> None:
    step(tokens, length // 2)
