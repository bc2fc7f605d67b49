"""Numbers as residues: prime-power factors, and the way back by the Chinese remainder theorem."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def prime_powers(n: int) -> tuple[int, ...]:
    """N_1, …, N_m with product n, each a power of another prime, by ascending prime."""
    factors = []
    p = 2
    while p * p <= n:
        power = 1
        while n % p == 0:
            n //= p
            power *= p
        if power > 1:
            factors.append(power)
        p += 1
    if n > 1:
        factors.append(n)
    return tuple(factors)


def residues(values: Tensor, moduli: tuple[int, ...]) -> Tensor:
    """(…) integers to (…, moduli) residues."""
    return values[..., None] % torch.tensor(moduli, device=values.device)


@dataclass(frozen=True)
class Unembedding:
    """Reads registers as integers and looks the state up: the only table after the embedding.

    `sizes` says how many values each register can take, and `states` holds one entry for each combination,
    the last register changing fastest.
    """

    sizes: tuple[int, ...]
    states: Tensor
    """(product of sizes,) int64."""

    def decode(self, registers: Tensor) -> Tensor:
        """(batch, registers) to (batch,) states; -1 where a register is nearest to no value it can take.

        Every combination of register values stands for a state, so the nearest combination is found one
        register at a time.
        """
        nearest = registers.double().nan_to_num(nan=-1.0).round()
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=registers.device)
        inside = ((nearest >= 0) & (nearest < sizes)).all(dim=-1)
        values = torch.where(inside[..., None], nearest, 0.0).long()
        index = torch.zeros_like(values[..., 0])
        for size, value in zip(self.sizes, values.unbind(-1), strict=True):
            index = index * size + value
        return torch.where(inside, self.states.to(registers.device)[index], -1)


def chinese_remainder_decoding(moduli: tuple[int, ...]) -> Unembedding:
    """Residues modulo N_1, …, N_m back to the number modulo n.

    The moduli have no common factor, so 0 … n-1 give n different combinations of residues, which are all
    there are: going through the numbers once fills the table.
    """
    numbers = torch.arange(math.prod(moduli))
    index = torch.zeros_like(numbers)
    for size, residue in zip(moduli, residues(numbers, moduli).unbind(-1), strict=True):
        index = index * size + residue
    states = torch.empty_like(numbers)
    states[index] = numbers
    return Unembedding(moduli, states)
