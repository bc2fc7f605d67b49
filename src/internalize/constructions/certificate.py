"""The certificate: sizes beside the theorem's formulas, exactness on the inputs checked, the proof's slack.

The slack is that of the inequalities of the proof, measured in the running network at every layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from internalize.constructions.construction import Construction, circular_positions
from internalize.constructions.counter import CounterConstruction
from internalize.constructions.exactness import (
    Check,
    CheckKind,
    Progress,
    adversarial_inputs,
    check,
    chunk_size,
    random_inputs,
    side_by_side,
    spread,
)
from internalize.constructions.transformer import LayerRecord

if TYPE_CHECKING:
    from jaxtyping import Int

Sense = Literal["at least", "at most"]
REGISTER_TOLERANCE = 1 / 16


@dataclass(frozen=True)
class Inequality:
    """One inequality at one layer: the worst value seen, and the bound that the proof needs."""

    layer: int
    name: str
    measured: float
    sense: Sense
    bound: float

    @property
    def holds(self) -> bool:
        return self.slack >= 0

    @property
    def slack(self) -> float:
        """How far the worst value is on the good side; negative where the inequality fails."""
        distance = self.bound - self.measured
        return -distance if self.sense == "at least" else distance


def measure_inequalities(construction: Construction, symbols: Int[Tensor, "count T"]) -> list[Inequality]:
    """The worst case over (count, T) inputs of every inequality, layer by layer.

    score gap        the right position wins by β·Δ/2, in the self head on every row, in the look-back head on
                     every row that is no dummy
    softmax error    ‖weights - one-hot‖₁ ≤ η on the same rows
    register error   what the heads copied is within 1/16 of the integer it should be
    position error   after layer l a position is within lη of its point on the circle
    """
    worst: dict[tuple[int, str], Inequality] = {}
    pieces = symbols.split(max(1, chunk_size(construction) // 4))
    for inequalities in side_by_side(partial(_measure, construction), pieces):
        for found in inequalities:
            key = (found.layer, found.name)
            # NaN is the worst of all: it replaces any number and is replaced by none.
            if key not in worst or math.isnan(found.slack) or found.slack < worst[key].slack:
                worst[key] = found
    return list(worst.values())


@torch.no_grad()
def _measure(construction: Construction, symbols: Int[Tensor, "count T"]) -> list[Inequality]:
    records = construction.network.record(construction.tokens(symbols))
    layers = (_measure_layer(construction, symbols, i, record) for i, record in enumerate(records, start=1))
    return [inequality for layer in layers for inequality in layer]


def _measure_layer(
    construction: Construction, symbols: Int[Tensor, "count T"], layer: int, record: LayerRecord
) -> list[Inequality]:
    plan, directions = construction.plan, construction.directions
    gap, error = _attention_errors(construction, layer, record)
    before = construction.held(symbols, layer - 1).double()
    mixed = record.mixed.double()
    first, stride = plan.horizon, plan.stride(layer)
    kept = (mixed[..., directions.held] - before).abs().max()
    fetched = mixed[:, first:, directions.fetched] - before[:, first - stride : plan.positions - stride]
    circle = circular_positions(plan.positions)
    moved = (record.output[..., directions.position].double() - circle).norm(dim=-1).max()
    registers = torch.maximum(kept, fetched.abs().max())
    return [
        Inequality(layer, "score gap", gap, "at least", plan.score_gap),
        Inequality(layer, "softmax error", error, "at most", plan.eta),
        Inequality(layer, "register error", float(registers), "at most", REGISTER_TOLERANCE),
        Inequality(layer, "position error", float(moved), "at most", layer * plan.eta),
    ]


def _attention_errors(construction: Construction, layer: int, record: LayerRecord) -> tuple[float, float]:
    """The smallest score gap and the largest softmax error of both heads."""
    plan = construction.plan
    rows = torch.arange(plan.positions)
    gaps, errors = [], []
    for head, (first, stride) in enumerate([(0, 0), (plan.horizon, plan.stride(layer))]):
        target = (rows[first:] - stride)[None, :, None]
        scores = record.scores[:, head, first:].double()
        weights = record.weights[:, head, first:].double()
        index = target.expand(len(scores), -1, -1)
        rivals = scores.scatter(2, index, -torch.inf).amax(dim=2)
        gaps.append((scores.gather(2, index)[..., 0] - rivals).min())
        one_hot = torch.zeros_like(weights).scatter(2, index, 1.0)
        errors.append((weights - one_hot).abs().sum(dim=2).max())
    return float(torch.stack(gaps).min()), float(torch.stack(errors).max())


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
