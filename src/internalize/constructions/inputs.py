"""Inputs to check a construction on where there are too many for all of them: nasty ones and random ones."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_PLACES = 500
"""A single symbol is tried at all places of sequences up to this length."""


def adversarial_inputs(symbols: int, horizon: int) -> Tensor:
    """(count, T): all alike, alternating, and a single symbol other than 0 at every place (of many: some).

    Residues are extreme or carry on at every step, and one symbol alone must arrive from wherever it stands.
    """
    top = symbols - 1
    constant = [torch.full((1, horizon), value) for value in (0, 1 % symbols, symbols // 2, top)]
    odd = torch.arange(horizon) % 2
    alternating = [torch.stack([odd * top, (1 - odd) * top, odd * top + (1 - odd) * (1 % symbols)])]
    places = spread(torch.arange(horizon), MOST_PLACES)
    single = torch.zeros(len(places), horizon, dtype=torch.int64)
    single[torch.arange(len(places)), places] = 1
    return torch.cat([*constant, *alternating, single * (1 % symbols), single * top]).unique(dim=0)


def spread(rows: Tensor, most: int) -> Tensor:
    """At most so many of the rows, evenly spread, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most).round().long()]


def random_inputs(symbols: int, horizon: int, count: int, seed: int) -> Tensor:
    """(count, T) uniform symbols; the same seed gives the same inputs."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(symbols, (count, horizon), generator=generator)
