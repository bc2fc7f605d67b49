"""Input distributions: symbols drawn independently, each with given probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.errors import BadInput, require


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
