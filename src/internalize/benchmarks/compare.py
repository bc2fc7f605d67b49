"""One configuration, this engine against Hugging Face, over the stages of the left curriculum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch

from internalize.benchmarks.cases import Case, useful_flops
from internalize.benchmarks.engines import hugging_face, ours
from internalize.benchmarks.memory import peak_memory
from internalize.benchmarks.timing import MATRIX_PRODUCT_FLOPS, matrix_product, seconds_each


@dataclass(frozen=True)
class Comparison:
    """Milliseconds are sums over the stages of one iteration each."""

    name: str
    ours_ms: float
    hf_ms: float
    ratio: float
    peak_share: float
    """Useful operations a second, over those of a large product of the same precision in the same run."""
    ours_rss_mb: float
    hf_rss_mb: float
    stages: list[dict[str, float]]
    """For each stage its number and ours, eager and sdpa in milliseconds."""

    def row(self) -> dict[str, object]:
        return asdict(self)


def compare(case: Case, repeats: int, threads: int) -> Comparison:
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
    return Comparison(
        name=case.name,
        ours_ms=1e3 * ours_s,
        hf_ms=1e3 * hf_s,
        ratio=hf_s / ours_s,
        peak_share=peak_s / ours_s,
        ours_rss_mb=peak_memory(case.name, "ours", threads),
        hf_rss_mb=peak_memory(case.name, "hf", threads),
        stages=stages,
    )
