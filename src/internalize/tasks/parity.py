"""A hidden parity over an ordered support, its prefix parities, and its inputs: drawn, or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from internalize.errors import require
from internalize.tasks.inputs import all_inputs

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_ENUMERATED = 24
"""The largest d for which all 2^d inputs are looked at: beyond, a sample has to do."""
BLOCK_BITS = 16
"""All inputs come in blocks of at most 2^16: few enough to stay in a processor's cache."""


@dataclass(frozen=True)
class HiddenParity:
    """y = x_{i_1} ⊕ … ⊕ x_{i_k} of x ∈ {0,1}^d, with the chain z_t = x_{i_1} ⊕ … ⊕ x_{i_t}.

    The support is ordered, since its order decides which prefixes the chain shows.
    """

    d: int
    support: tuple[int, ...]
    """i_1 … i_k: different coordinates, numbered from 1 as in the paper."""

    def __post_init__(self) -> None:
        require(self.d >= 1, "d", f"must be at least 1, got {self.d}")
        require(len(self.support) >= 1, "k", "must be at least 1, got 0")
        outside = [i for i in self.support if not 1 <= i <= self.d]
        require(not outside, "support", f"must lie in 1…{self.d}, got {outside}")
        repeated = sorted({i for i in self.support if self.support.count(i) > 1})
        require(not repeated, "support", f"must name every coordinate once, {repeated} is repeated")

    @property
    def k(self) -> int:
        return len(self.support)

    @property
    def columns(self) -> list[int]:
        """The support as columns of an array of inputs, numbered from 0."""
        return [i - 1 for i in self.support]

    def chain(self, x: Tensor) -> Tensor:
        """(batch, d) inputs to (batch, k) prefix parities z_1 … z_k, of the inputs' type."""
        return (x[:, self.columns].cumsum(1) % 2).to(x.dtype)

    def indicator(self, prefix: int) -> Tensor:
        """(d,) float64: 1 on i_1 … i_prefix, 0 elsewhere."""
        import torch

        found = torch.zeros(self.d, dtype=torch.float64)
        found[self.columns[:prefix]] = 1.0
        return found


def random_parity(d: int, k: int, generator: torch.Generator) -> HiddenParity:
    """k different coordinates of d in random order; consumes the generator."""
    import torch

    require(1 <= k <= d, "k", f"must lie in 1…d = {d}, got {k}")
    order = torch.randperm(d, generator=generator, device=generator.device)[:k]
    return HiddenParity(d, tuple(i + 1 for i in order.tolist()))


def uniform_inputs(count: int, d: int, generator: torch.Generator) -> Tensor:
    """(count, d) uint8: bits drawn uniformly, eight from each random byte; consumes the generator."""
    import torch

    shape = (count, (d + 7) // 8)
    drawn = torch.randint(256, shape, dtype=torch.uint8, generator=generator, device=generator.device)
    return torch.from_numpy(np.unpackbits(drawn.cpu().numpy(), axis=1, count=d))


def all_bits(d: int) -> Iterator[Tensor]:
    """All 2^d inputs, each once, in blocks of (at most 2^16, d) uint8; the first coordinates change fastest."""
    import torch

    for block in all_inputs(2, d, 2**BLOCK_BITS):
        yield block.to(torch.uint8).flip(1)
