"""Which path trains a model faster here, by measurement."""

from __future__ import annotations

import statistics
import time
from typing import Literal

import torch

from internalize.models.fast.step import FastStep
from internalize.models.flat import flatten_parameters
from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.step import PlainStep, Step

Kernel = Literal["plain", "fast"]
LARGEST_BATCH = 16
REPEATS = 3


def choose_kernel(
    config: ModelConfig, vocabulary: int, context: int, batch: int, device: str | torch.device
) -> Kernel:
    """The faster path for one training step; the caller keeps the answer with the run, for it is a measurement.

    Times both on a batch of at most 16 random sequences of full length whose second half is the answer.
    """
    if torch.device(device).type != "cpu":
        return "plain"
    model = GPT2(config, vocabulary, context)
    model.initialise(torch.Generator().manual_seed(0))
    _, gradient = flatten_parameters(model)
    shape = (min(batch, LARGEST_BATCH), context + 1)
    tokens = torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(0))
    paths: dict[Kernel, Step] = {"plain": PlainStep(model, gradient), "fast": FastStep(model, gradient)}
    prompt = max(1, context // 2)
    seconds: dict[Kernel, list[float]] = {"plain": [], "fast": []}
    for repeat in range(REPEATS + 1):
        for name, step in paths.items():
            start = time.perf_counter()
            step(tokens, prompt)
            if repeat > 0:  # the first call compiles and makes the buffers
                seconds[name].append(time.perf_counter() - start)
    return min(seconds, key=lambda name: statistics.median(seconds[name]))
