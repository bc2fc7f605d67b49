"""The examples of one phase, laid out for gradient descent on rows of W."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from internalize.tasks.parity import HiddenParity, uniform_inputs

GRAM_BLOCK = 65_536
"""Examples whose products are added up at once, so that large batches need little memory."""


@dataclass(frozen=True)
class PhaseBatch:
    """What a phase trains on. Row r of the training is row d+r of W, in the paper's numbering."""

    contents: NDArray[np.uint8]
    """(columns, B): a_1 … as far as the widest trained row reads, one column of W a line."""
    targets: NDArray[np.uint8]
    """(rows, B): what each trained row should answer."""
    widths: NDArray[np.int64]
    """(rows,): how many columns each row reads; d for row d, one more for each row after it."""

    @property
    def size(self) -> int:
        """B."""
        return self.contents.shape[1]

    @property
    def rows(self) -> int:
        return self.targets.shape[0]

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """(columns, columns): Σ_b a aᵀ. Sums of bits, so exact whatever the order of adding."""
        total = np.zeros((len(self.contents),) * 2)
        for start in range(0, self.size, GRAM_BLOCK):
            part = self.contents[:, start : start + GRAM_BLOCK].astype(np.float64)
            total += part @ part.T
        return total


def row_d_batch(parity: HiddenParity, prefix: int, size: int, generator: torch.Generator) -> PhaseBatch:
    """Fresh examples for row d alone, which reads x alone, against z_prefix; consumes the generator."""
    x = _columns(parity, size, generator)
    z = np.bitwise_xor.reduce(x[parity.columns[:prefix]], axis=0, keepdims=True)
    return PhaseBatch(x, z, np.array([parity.d]))


def phase_batch(parity: HiddenParity, phase: int, size: int, generator: torch.Generator) -> PhaseBatch:
    """A fresh batch; consumes the generator.

    Phase 1 trains rows d … d+k-1 on (x, z_1, …), row d+l-1 against z_l. Phase t > 1 trains row d alone, on z_t.
    """
    if phase > 1:
        return row_d_batch(parity, phase, size, generator)
    x = _columns(parity, size, generator)
    z = np.bitwise_xor.accumulate(x[parity.columns], axis=0)
    return PhaseBatch(np.concatenate([x, z[:-1]]), z, np.arange(parity.d, parity.d + parity.k))


def _columns(parity: HiddenParity, size: int, generator: torch.Generator) -> NDArray[np.uint8]:
    """(d, size): inputs, one coordinate a line."""
    return np.ascontiguousarray(uniform_inputs(size, parity.d, generator).numpy().T)
