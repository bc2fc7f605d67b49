"""The MLP gadget of the general construction: two transition maps become their composition."""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.constructions.adder import FLAT, wires
from internalize.constructions.directions import Directions
from internalize.constructions.weights import AffineWeights

SLOPE = 1 / (1 - 2 * FLAT)
"""A step climbs from 0 to 1 between two plateaus."""


def composition_mlp(states: int, directions: Directions) -> list[AffineWeights]:
    """Two hidden layers: the held map g and the fetched map f become g∘f, q ↦ g(f(q)), the fetched one zero.

    A map is the vector of its values, one register a state. First every register is read by |Q| - 1 steps,
    [x ≥ 1], …, [x ≥ |Q|-1], each flat where x is within 1/4 of an integer: what follows sees clean values.
    Then [f(q) = k] is a difference of two steps, g(k) a sum of steps, and
    ReLU(g(k) + |Q|·[f(q) = k] - |Q|) is g(k) where f(q) = k and 0 elsewhere, because g(k) < |Q|. Their sum
    over k is g(f(q)).
    """
    read, read_bias = _steps(states, directions)
    select, select_bias = _selection(states)
    # A position enters as ReLU(p) and ReLU(-p); both are ≥ 0, so a second ReLU leaves them alone.
    wire = wires(directions.extract(directions.position))
    carry, nothing = torch.eye(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    collect = directions.extract(directions.held).T.repeat_interleave(states, dim=1)
    return [
        AffineWeights(torch.cat([read, wire]), torch.cat([read_bias, nothing])),
        AffineWeights(torch.block_diag(select, carry), torch.cat([select_bias, nothing])),
        AffineWeights(torch.cat([collect, wire.T], dim=1), torch.zeros(directions.size, dtype=torch.float64)),
    ]


def _steps(states: int, directions: Directions) -> tuple[Tensor, Tensor]:
    """Units (block, register, step j, foot or head): ReLU(x - (j - 3/4)) and ReLU(x - (j - 1/4)).

    Twice their difference is 0 up to j - 3/4 and 1 from j - 1/4 on: the step [x ≥ j].
    """
    registers = torch.cat([directions.extract(directions.held), directions.extract(directions.fetched)])
    step = torch.arange(1, states, dtype=torch.float64)
    thresholds = torch.stack([step - 1 + FLAT, step - FLAT], dim=1)
    weight = registers.repeat_interleave(thresholds.numel(), dim=0)
    return weight, -thresholds.flatten().repeat(len(registers))


def _selection(states: int) -> tuple[Tensor, Tensor]:
    """Units (q, k): g(k) + |Q|·[f(q) = k] - |Q|, from the units of `_steps`."""
    held, fetched = 0, 1
    step = torch.tensor([SLOPE, -SLOPE], dtype=torch.float64)
    weight = torch.zeros(states, states, 2, states, states - 1, 2, dtype=torch.float64)
    bias = torch.full((states, states), -float(states), dtype=torch.float64)
    bias[:, 0] = 0.0  # [f(q) = 0] is 1 - [f(q) ≥ 1]
    everyone = torch.arange(states)
    for k in range(states):
        weight[:, k, held, k] = step
        if k >= 1:
            weight[everyone, k, fetched, everyone, k - 1] = states * step
        if k + 1 < states:
            weight[everyone, k, fetched, everyone, k] = -states * step
    return weight.flatten(2).flatten(0, 1), bias.flatten()


def composition_widths(states: int) -> tuple[int, int]:
    """Hidden units of `composition_mlp`: both O(|Q|²)."""
    return 4 * states * (states - 1) + 4, states * states + 4
