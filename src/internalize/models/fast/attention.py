"""Fused attention over buffers: the kernels' long argument lists live here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from internalize.models.fast.buffers import Buffer
from internalize.models.fast.plan import Level
from internalize.models.gpt2 import ROTARY_BASE, ModelConfig
from internalize.models.kernels.attention import backward_kernel, forward_kernel, head_groups, scratch_floats


@dataclass
class Products:
    """Where a layer's queries, keys and values lie, and the same places in their gradients (float32)."""

    q: Buffer
    kv: Buffer
    k_column: int
    v_column: int
    query_row: Any
    key_row: Any
    q_back: Any = None
    kv_back: Any = None


@dataclass
class Attended:
    """What attention writes: mixed values (rows, width), and for each query and head two numbers."""

    out: Buffer
    shift: Buffer
    inverse: Buffer


class FusedAttention:
    """Attention of one model shape with its own scratch memory, hence for one thread."""

    def __init__(self, config: ModelConfig, context: int, half: bool) -> None:
        rotary = config.positions == "rotary"
        self.size = config.head_size
        self.groups = head_groups(config.heads)
        self.forward_kernels: list[Callable[..., None]] = []
        self.backward_kernels: list[Callable[..., None]] = []
        for _, lanes, _ in self.groups:
            self.forward_kernels.append(forward_kernel(lanes, self.size, rotary, half))
            self.backward_kernels.append(backward_kernel(lanes, self.size, rotary, half))
        self.angles = rotary_angles(context, self.size) if rotary else np.zeros((1, 1), np.float32)
        self.scratch = np.zeros(0, np.float32)

    def forward(self, source: Products, bias: Any, level: Level, to: Attended) -> None:
        """bias: (3 width,) of the product that made queries, keys and values."""
        arguments = self._arguments(source, bias, level, to)
        for (head, _, count), kernel in zip(self.groups, self.forward_kernels, strict=True):
            kernel(head, count, *arguments)

    def backward(
        self, source: Products, bias: Any, level: Level, saved: Attended, out_back: Any, bias_back: Any
    ) -> None:
        """Adds to the gradients in `source` and to bias_back."""
        arguments = self._arguments(source, bias, level, saved)
        for (head, _, count), kernel in zip(self.groups, self.backward_kernels, strict=True):
            kernel(head, count, *arguments, out_back, source.q_back, source.kv_back, bias_back)

    def _arguments(self, source: Products, bias: Any, level: Level, to: Attended) -> tuple[Any, ...]:
        need = scratch_floats(source.key_row.shape[1], self.size)
        if self.scratch.size < need:
            self.scratch = np.zeros(need, np.float32)
        return (
            source.q.array,
            source.kv.array,
            source.k_column,
            source.v_column,
            bias,
            self.angles,
            source.query_row,
            source.key_row,
            level.first,
            level.row,
            to.out.array,
            to.shift.array,
            to.inverse.array,
            self.scratch,
        )


def rotary_angles(positions: int, size: int) -> Any:
    """(positions, size): the cosines of the half's angles, then the sines; float32 as in the plain path."""
    half = size // 2
    frequency = np.float32(ROTARY_BASE) ** (-np.arange(half, dtype=np.float32) / np.float32(half))
    angle = np.arange(positions, dtype=np.float32)[:, None] * frequency
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
