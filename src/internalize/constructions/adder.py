"""MLP gadgets of the counter: the modular adder and the wire that passes a coordinate on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from internalize.constructions.directions import Directions
from internalize.constructions.weights import AffineWeights

FLAT = 0.25
"""Half-width of the adder's plateaus. The proof asks for 1/8; with 1/4 the slopes are powers of two times an
integer, so that no precision has to round a weight."""


def modular_adder(modulus: int) -> tuple[Tensor, Tensor, Tensor, float]:
    """u + v ↦ (u + v) mod N on every s ± 1/4, s = 0 … 2N-2, with 4N-4 hidden units.

    Between two plateaus, from a = s - 3/4 to b = s - 1/4, the value climbs by one, or falls by N - 1 where
    s = N. A change by J there is 2J·(ReLU(x - a) - ReLU(x - b)) on top of what is left of it, or just as
    well -2J·(ReLU(b - x) - ReLU(a - x)) on top of what is right of it. We start in the middle, at x = N - 1
    with value N - 1, and go left and right from there: units far away are then switched off, numbers stay
    small, and little is lost to cancellation.

    Returns direction (units,) ±1, threshold (units,), coefficient (units,) and the constant: the value is
    constant + Σ coefficient·ReLU(direction·(x - threshold)).
    """
    left = torch.arange(1, modulus, dtype=torch.float64)
    right = torch.arange(modulus, 2 * modulus - 1, dtype=torch.float64)
    jump = torch.where(right == modulus, 1.0 - modulus, 1.0).double()
    one = torch.ones_like(left)
    low, high = 1 - FLAT, FLAT
    slope = 1 / (low - high)
    direction = torch.cat([-one, -one, one, one])
    threshold = torch.cat([left - low, left - high, right - low, right - high])
    coefficient = torch.cat([slope * one, -slope * one, slope * jump, -slope * jump])
    return direction, threshold, coefficient, float(modulus - 1)


def adder_mlp(moduli: Sequence[int], directions: Directions) -> list[AffineWeights]:
    """One hidden layer: the held registers become (held + fetched) mod N_j, the fetched ones zero.

    All adders stand side by side, and the position passes on a wire. Whatever error up to 1/8 a sum had is
    gone after this, so residues start every layer exact.
    """
    into, biases, out = [], [], []
    constants = torch.zeros(directions.size, dtype=torch.float64)
    held, fetched = directions.extract(directions.held), directions.extract(directions.fetched)
    for j, modulus in enumerate(moduli):
        direction, threshold, coefficient, constant = modular_adder(modulus)
        into.append(direction[:, None] * (held[j] + fetched[j]))
        biases.append(-direction * threshold)
        out.append(coefficient[:, None] * held[j])
        constants[directions.held.start + j] = constant
    wire = wires(directions.extract(directions.position))
    into.append(wire)
    biases.append(torch.zeros(len(wire), dtype=torch.float64))
    out.append(wire)
    return [
        AffineWeights(torch.cat(into), torch.cat(biases)),
        AffineWeights(torch.cat(out).T.contiguous(), constants),
    ]


def wires(rows: Tensor) -> Tensor:
    """(wires, size) to (2·wires, size): x = ReLU(x) - ReLU(-x), so two units carry any number through.

    The same matrix, transposed, puts the two halves together again.
    """
    return torch.cat([rows, -rows])


def adder_width(moduli: Sequence[int]) -> int:
    """Hidden units of `adder_mlp`: four for each modulus less one, four for the position."""
    return sum(4 * modulus - 4 for modulus in moduli) + 4
