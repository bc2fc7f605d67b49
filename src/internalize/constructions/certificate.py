"""The certificate: sizes beside the theorem's formulas, exactness on the inputs checked, the proof's slack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from internalize.constructions.checking import Check, CheckKind, Progress, check
from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.inequalities import Inequality, measure_inequalities
from internalize.constructions.inputs import adversarial_inputs, random_inputs, spread

MEASURED_AT_RANDOM, MEASURED_NASTY = 100, 200
"""Random inputs, and at most so many adversarial ones, on which the inequalities are measured."""


@dataclass(frozen=True)
class Quantity:
    """A size of the network beside what the theorem says."""

    key: str
    name: str
    value: float
    formula: str
    """The theorem's formula in words of the paper."""
    theorem: float


@dataclass(frozen=True)
class Certificate:
    construction: Construction
    quantities: tuple[Quantity, ...]
    check: Check
    inequalities: tuple[Inequality, ...]
    inputs_measured: int

    @property
    def weight_ratio(self) -> float:
        """Largest weight over the theorem's scale: the constant C that this construction needs."""
        weight = next(quantity for quantity in self.quantities if quantity.key == "largest_weight")
        return weight.value / weight.theorem

    @property
    def proof_holds(self) -> bool:
        return all(inequality.holds for inequality in self.inequalities)

    def to_json(self) -> dict[str, Any]:
        built, result = self.construction, self.check
        counter = isinstance(built, CounterConstruction)
        return {
            "construction": "theorem 3" if counter else "general",
            "task": built.name,
            "order": built.states,
            "horizon": built.horizon,
            "initial_state": built.initial_state,
            "precision": built.precision,
            **{quantity.key: quantity.value for quantity in self.quantities},
            "theorem": {quantity.key: quantity.theorem for quantity in self.quantities},
            "largest_weight_ratio": self.weight_ratio,
            "parameters": built.shape.parameters,
            "positions": built.plan.positions,
            "beta": built.plan.beta,
            "eta": built.plan.eta,
            "gap": built.plan.gap,
            "moduli": list(built.moduli) if isinstance(built, CounterConstruction) else None,
            "exact": result.exact,
            "exhaustive": result.exhaustive,
            "inputs_checked": result.inputs_checked,
            "adversarial_inputs": result.adversarial,
            "wrong": result.wrong,
            "first_wrong": None if result.first_wrong is None else list(result.first_wrong),
            "proof_holds": self.proof_holds,
            "inputs_measured": self.inputs_measured,
            "inequalities": [_inequality_json(inequality) for inequality in self.inequalities],
        }


def certify(
    construction: Construction,
    kind: CheckKind = "auto",
    samples: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Certificate:
    """Check a construction and measure its proof."""
    result = check(construction, kind, samples, seed, progress)
    nasty = adversarial_inputs(construction.symbols, construction.horizon)
    random = random_inputs(construction.symbols, construction.horizon, MEASURED_AT_RANDOM, seed)
    measured = torch.cat([spread(nasty, MEASURED_NASTY), random])
    inequalities = tuple(measure_inequalities(construction, measured))
    return Certificate(construction, quantities(construction), result, inequalities, len(measured))


def quantities(construction: Construction) -> tuple[Quantity, ...]:
    """Every size that the theorem speaks of, measured on the network's own tensors."""
    network, T = construction.network, construction.horizon
    attention = network.blocks[0].attention
    heads, head_size, embedding = attention.query.shape
    widths = [weight.shape[0] for weight in network.blocks[0].mlp.weights[:-1]]
    if isinstance(construction, CounterConstruction):
        m, total, largest = len(construction.moduli), sum(construction.moduli), max(construction.moduli)
        registers, count, peak = "m", m, "N_max"
        width_formula, width = "≤ 4ΣN_j + 2m + 4", 4 * total + 2 * m + 4
    else:
        largest = count = construction.states
        registers, peak = "|Q|", "|Q|"
        width_formula, width = "O(|Q|²): ≤ 4|Q|² + 4", 4 * count * count + 4
    # log of at least 2: the scale is a positive number for the trivial one-state semiautomaton too.
    scale = max(float(largest), T * math.sqrt(math.log(max(2, T * largest))))
    weight = max(float(values.detach().abs().max()) for values in network.parameters())
    formula = f"C·max({peak}, T√log(T·{peak}))"
    return (
        Quantity("depth", "depth", len(network.blocks), "⌈log2(T+1)⌉", math.ceil(math.log2(T + 1))),
        Quantity("embedding", "embedding", embedding, f"2{registers} + 2", 2 * count + 2),
        Quantity("heads", "heads", heads, "2", 2),
        Quantity("head_size", "head size", head_size, f"{registers} + 2", count + 2),
        Quantity("mlp_width", "MLP width", max(widths), width_formula, width),
        Quantity("largest_weight", "largest weight", weight, formula, scale),
    )


def _inequality_json(inequality: Inequality) -> dict[str, Any]:
    numbers = {
        "measured": inequality.measured,
        "bound": inequality.bound,
        "slack": inequality.slack,
    }
    return {
        "layer": inequality.layer,
        "name": inequality.name,
        "sense": inequality.sense,
        # JSON has no NaN; a broken precision may produce some.
        **{key: value if math.isfinite(value) else None for key, value in numbers.items()},
        "holds": inequality.holds,
    }
