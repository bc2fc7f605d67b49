"""Input distributions: symbols drawn independently, each with given probabilities; and held-out inputs.

A share of all inputs can be kept out of training. A hash of the input tells which, so inputs are never
enumerated: whether one is held out depends on its symbols and on the salt alone. So every batch, every
measurement and every later command agree, and nothing has to be stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from internalize.errors import BadInput, require

if TYPE_CHECKING:
    import torch
    from torch import Tensor


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
        import torch

        device = generator.device
        if self.is_uniform:
            return torch.randint(len(self.probabilities), shape, generator=generator, device=device)
        steps = torch.tensor(self.probabilities, dtype=torch.float64).cumsum(0)[:-1].float().to(device)
        uniform = torch.rand(shape, generator=generator, device=device)
        return torch.searchsorted(steps, uniform, right=True)


def parse_inputs(text: str, symbols: int, field: str = "inputs") -> InputDistribution:
    """`uniform`, `binomial:p` (σ ~ Binomial(|Σ|-1, p)) or `weights:w0,w1,…` (one weight for each symbol)."""
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


def all_inputs(symbols: int, length: int, chunk: int) -> Iterator[Tensor]:
    """All |Σ|^T inputs, each once and in the order of their digits, as (at most `chunk`, T) int64 pieces.

    Within a piece the last places go through all their patterns, which are made once.
    """
    import torch

    places = 0
    while places < length and symbols ** (places + 1) <= chunk:
        places += 1
    patterns = _digits(torch.arange(symbols**places), symbols, places)
    beginnings, at_once = symbols ** (length - places), max(1, chunk // len(patterns))
    for start in range(0, beginnings, at_once):
        numbers = torch.arange(start, min(start + at_once, beginnings))
        first = _digits(numbers, symbols, length - places)
        yield torch.cat([first.repeat_interleave(len(patterns), dim=0), patterns.repeat(len(first), 1)], dim=1)


def _digits(numbers: Tensor, base: int, count: int) -> Tensor:
    """(n,) whole numbers to their (n, count) digits, the highest first."""
    import torch

    return numbers[:, None] // base ** torch.arange(count - 1, -1, -1) % base


MOST_DRAWS = 2**18
"""Inputs drawn in vain after which there is none of the wanted side to be had."""
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15
"""The constants of splitmix64 (Steele, Lea, Flood 2014), whose mixing spreads every bit over all others."""


@dataclass(frozen=True)
class Split:
    """Which inputs are held out."""

    share: float
    """About this share of all inputs is held out."""
    salt: int
    """The run's seed: runs of other seeds hold out other inputs."""

    def held_out(self, symbols: Tensor) -> Tensor:
        """(…, T) symbols to (…) whether the input is held out."""
        import torch

        mixed = _mix(torch.full(symbols.shape[:-1], _signed(self.salt), device=symbols.device))
        for t in range(symbols.shape[-1]):
            mixed = _mix(mixed + symbols[..., t] + 1)
        return (mixed >> 11 & (2**53 - 1)) < math.ceil(self.share * 2**53)


@dataclass(frozen=True)
class OneSide(InputDistribution):
    """A distribution of inputs, conditioned on being held out or on not being so."""

    split: Split
    held_out: bool

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """(…, T) symbols, each input redrawn until it is on the wanted side; consumes the generator."""
        symbols = super().sample(shape, generator).flatten(0, -2)
        wrong = (self.split.held_out(symbols) != self.held_out).nonzero()[:, 0]
        in_vain = 0
        while len(wrong):
            drawn = super().sample((self._at_once(len(wrong)), shape[-1]), generator)
            found = drawn[self.split.held_out(drawn) == self.held_out][: len(wrong)]
            symbols[wrong[: len(found)]] = found
            wrong = wrong[len(found) :]
            in_vain = 0 if len(found) else in_vain + len(drawn)
            if in_vain > MOST_DRAWS:
                side = "held out" if self.held_out else "left for training"
                raise BadInput("held-out", f"of {in_vain:,} inputs drawn, none is {side}: too few differ")
        return symbols.unflatten(0, shape[:-1])

    def _at_once(self, wanted: int) -> int:
        """A few more than are needed on average: the loop then mostly ends after one round."""
        share = self.split.share if self.held_out else 1 - self.split.share
        return min(2**18, int(min(1.2 * wanted / share, 2**18)) + 16)


def one_side(inputs: InputDistribution, split: Split | None, held_out: bool) -> InputDistribution:
    """The distribution on that side of the split; itself where nothing is held out."""
    if split is None:
        return inputs
    name = f"{inputs.name} (held out)" if held_out else inputs.name
    return OneSide(name, inputs.probabilities, split, held_out)


def require_both_sides(split: Split, horizon: int, inputs: InputDistribution, ood: InputDistribution) -> None:
    """Refuse a split that leaves nothing to train on, or nothing to measure."""
    import torch

    for distribution, held_out in ((inputs, False), (inputs, True), (ood, True)):
        one_side(distribution, split, held_out).sample((1, horizon), torch.Generator().manual_seed(0))


def possible_inputs(symbols: int, horizon: int) -> float:
    """|Σ|^T, or a bound that every number in a table can hold."""
    return float(symbols**horizon) if horizon * math.log10(max(symbols, 1)) < 300 else 1e300


def both_sides(inputs: InputDistribution) -> dict[str, InputDistribution]:
    """For a measurement: what is held out, and what could be trained on beside it (key `trained`)."""
    if not isinstance(inputs, OneSide):
        return {"": inputs}
    name = inputs.name.removesuffix(" (held out)")
    return {"": inputs, "trained": replace(inputs, name=name, held_out=False)}


def _mix(x: Tensor) -> Tensor:
    """One round of splitmix64 on int64, whose products and sums wrap around like unsigned ones."""
    x = x + _signed(_STEP)
    x = (x ^ (x >> 30 & (2**34 - 1))) * _signed(_MULTIPLIERS[0])
    x = (x ^ (x >> 27 & (2**37 - 1))) * _signed(_MULTIPLIERS[1])
    return x ^ (x >> 31 & (2**33 - 1))


def _signed(number: int) -> int:
    """The int64 of the same 64 bits."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
