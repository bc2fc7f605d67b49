"""Inputs that are kept out of training: a share of all inputs, told by a hash of each and never enumerated.

Whether an input is held out depends on its symbols and on the salt alone. So every batch, every measurement and
every later command agree, and nothing has to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from internalize.errors import BadInput
from internalize.tasks.inputs import InputDistribution

MOST_DRAWS = 2**18
"""Inputs drawn in vain after which there is none of the wanted side to be had."""
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15
"""The constants of splitmix64 (Steele, Lea, Flood 2014), whose mixing spreads every bit over all others."""


@dataclass(frozen=True)
class Split:
    """Which inputs are held out."""

    share: float
    """Of all inputs, about this share."""
    salt: int
    """The run's seed: runs of other seeds hold out other inputs."""

    def held_out(self, symbols: Tensor) -> Tensor:
        """(…, T) symbols to (…) whether the input is held out."""
        mixed = _mix(torch.full(symbols.shape[:-1], _signed(self.salt), device=symbols.device))
        for t in range(symbols.shape[-1]):
            mixed = _mix(mixed + symbols[..., t] + 1)
        return (mixed >> 11 & (2**53 - 1)).double() / 2.0**53 < self.share


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
        return min(2**18, int(1.2 * wanted / share) + 16)


def one_side(inputs: InputDistribution, split: Split | None, held_out: bool) -> InputDistribution:
    """The distribution on that side of the split; itself where nothing is held out."""
    if split is None:
        return inputs
    name = f"{inputs.name} (held out)" if held_out else inputs.name
    return OneSide(name, inputs.probabilities, split, held_out)


def require_both_sides(split: Split, horizon: int, inputs: InputDistribution, ood: InputDistribution) -> None:
    """Refuse a split that leaves nothing to train on, or nothing to measure."""
    for distribution, held_out in ((inputs, False), (inputs, True), (ood, True)):
        one_side(distribution, split, held_out).sample((1, horizon), torch.Generator().manual_seed(0))


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
