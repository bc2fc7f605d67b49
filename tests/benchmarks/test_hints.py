"""The benchmark of training with hints: both sides learn, and are timed in turns."""

from __future__ import annotations

import torch

from internalize.benchmarks.hints import BATCH, compare


def test_both_sides_are_timed() -> None:
    found = compare(width=8, repeats=1)
    assert min(found.plain_ms, found.ours_ms, found.bf16_ms) > 0
    assert found.ratio == found.plain_ms / found.ours_ms
    assert BATCH == 64
    assert torch.get_num_threads() == 1
