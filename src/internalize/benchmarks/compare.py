"""This engine against Hugging Face, over stages of the left curriculum; and the plain path against the fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch

from internalize.benchmarks.cases import BenchCase, hugging_face, ours, useful_flops
from internalize.benchmarks.resources import MATRIX_PRODUCT_FLOPS, matrix_product, peak_memory, seconds_each
from internalize.models.fast import FastStep
from internalize.models.gpt2 import GPT2, ModelConfig
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainStep, rule


@dataclass(frozen=True)
class EngineComparison:
    """Milliseconds are sums over the stages of one iteration each."""

    name: str
    ours_ms: float
    hf_ms: float
    ratio: float
    peak_share: float
    """Useful operations per second, as a share of those of a large product of the same precision, in turn."""
    ours_rss_mb: float
    hf_rss_mb: float
    stages: list[dict[str, float]]
    """For each stage its number and ours, eager and sdpa in milliseconds."""

    def row(self) -> dict[str, object]:
        return asdict(self)


def compare(case: BenchCase, repeats: int, threads: int) -> EngineComparison:
    """Hugging Face counts with the better of eager and SDPA at every single stage."""
    engine = ours(case, threads)
    eager, sdpa = hugging_face(case, "eager"), hugging_face(case, "sdpa")
    product = matrix_product(torch.bfloat16 if case.precision == "bf16" else torch.float32)
    stages, ours_s, hf_s, peak_s = [], 0.0, 0.0, 0.0
    for stage in case.stages:
        turns: dict[str, Callable[[], None]] = {
            "ours": partial(engine, stage),
            "eager": partial(eager, stage),
            "sdpa": partial(sdpa, stage),
            "product": product,
        }
        seconds = seconds_each(turns, repeats)
        ours_s += seconds["ours"]
        hf_s += min(seconds["eager"], seconds["sdpa"])
        peak_s += seconds["product"] * useful_flops(case, stage) / MATRIX_PRODUCT_FLOPS
        stages.append({"stage": float(stage)} | {f"{k}_ms": 1e3 * v for k, v in seconds.items()})
    return EngineComparison(
        name=case.name,
        ours_ms=1e3 * ours_s,
        hf_ms=1e3 * hf_s,
        ratio=hf_s / ours_s,
        peak_share=peak_s / ours_s,
        ours_rss_mb=peak_memory(case.name, "ours", threads),
        hf_rss_mb=peak_memory(case.name, "hf", threads),
        stages=stages,
    )


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
    """The kernel that `auto` takes."""


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
