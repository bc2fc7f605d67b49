"""Inputs of a task: drawn symbol by symbol with given probabilities, or all of them, each once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.errors import BadInput, require

BLOCK = 2**16
"""All inputs come in blocks of at most so many: few enough to stay in a processor's cache."""


@dataclass(frozen=True)
class InputDistribution:
    """i.i.d. symbols; `probabilities` (one per symbol) sum to one."""

    name: str
    probabilities: tuple[float, ...]

    @property
    def is_uniform(self) -> bool:
        return len(set(self.probabilities)) == 1

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Symbols (shape) int64, on the generator's device; consumes the generator."""
        device = generator.device
        if self.is_uniform:
            return torch.randint(len(self.probabilities), shape, generator=generator, device=device)
        steps = torch.tensor(self.probabilities, dtype=torch.float64).cumsum(0)[:-1].float().to(device)
        uniform = torch.rand(shape, generator=generator, device=device)
        return torch.searchsorted(steps, uniform, right=True)


def parse_inputs(text: str, symbols: int, field: str = "inputs") -> InputDistribution:
    """`uniform`, `binomial:p` (σ ~ Binomial(|Σ|-1, p)) or `weights:w0,w1,…` (one weight a symbol)."""
    kind, _, rest = text.partition(":")
    if kind == "uniform" and not rest:
        return InputDistribution(text, (1.0 / symbols,) * symbols)
    if kind == "binomial":
        p = _number(rest, field)
        require(0 <= p <= 1, field, f"binomial:p needs 0 ≤ p ≤ 1, got {rest!r}")
        return InputDistribution(text, tuple(_binomial(symbols - 1, i, p) for i in range(symbols)))
    if kind == "weights":
        weights = [_number(part, field) for part in rest.split(",")]
        good = len(weights) == symbols and all(w >= 0 for w in weights) and 0 < sum(weights) < math.inf
        require(good, field, f"weights needs {symbols} numbers ≥ 0, not all 0; got {rest!r}")
        return InputDistribution(text, tuple(w / sum(weights) for w in weights))
    raise BadInput(field, f"must be uniform, binomial:p or weights:w0,w1,…; got {text!r}")


def _binomial(n: int, i: int, p: float) -> float:
    """By logarithms: the coefficients of a thousand symbols do not fit a float."""
    if p in (0, 1):
        return float(i == n * p)
    log_coefficient = math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)
    return math.exp(log_coefficient + i * math.log(p) + (n - i) * math.log1p(-p))


def _number(text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(field, f"must be a number, got {text!r}") from None


def all_inputs(
    symbols: int, length: int, block: int = BLOCK, dtype: torch.dtype = torch.int64
) -> Iterator[Tensor]:
    """All |Σ|^T inputs, each once, as (at most `block`, T) pieces: the digits of 0, 1, 2, …, highest first.

    Only the last coordinates change within a piece: their patterns are made once and shared.
    """
    low = 0
    while low < length and symbols ** (low + 1) <= block:
        low += 1
    low = min(max(low, 1), length)  # of many symbols the patterns of one coordinate are cut into pieces
    patterns = _digits(torch.arange(symbols**low), symbols, low).to(dtype)
    for number in range(symbols ** (length - low)):
        whole = torch.empty(len(patterns), length, dtype=dtype)
        whole[:, length - low :] = patterns
        whole[:, : length - low] = _digits(torch.tensor([number]), symbols, length - low).to(dtype)
        yield from whole.split(block)


def all_bits(length: int) -> Iterator[Tensor]:
    """All 2^d inputs of bits, each once, in blocks of (at most 2^16, d) uint8."""
    return all_inputs(2, length, dtype=torch.uint8)


def _digits(numbers: Tensor, base: int, count: int) -> Tensor:
    """(n,) whole numbers to (n, count): their digits, highest first."""
    places = torch.tensor([base**power for power in range(count - 1, -1, -1)], dtype=torch.int64)
    return numbers[:, None] // places % base
