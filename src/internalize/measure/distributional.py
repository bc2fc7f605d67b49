"""The paper's distributional internalization (appendix B) as a check.

θ' (ε, D)-internalizes P(h_θ) if the two risks under D differ by at most ε and h_θ' is faster on every input.
The loss is 0 for the right answer and 1 for every other, none included.

The gap of two risks is P(only the fast one is wrong) - P(only the slow one is wrong). On a sample each of the
two rates gets an exact (Clopper–Pearson) interval at 97.5 %, so that both, and hence the gap's interval, cover
the truth with at least 95 %. Where all inputs can be weighted by their probability the gap is computed, not
estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.errors import require
from internalize.measure.internalization import (
    Clause,
    Cost,
    DefinitionVerdict,
    Tally,
    same_class_other_weights,
)
from internalize.measure.predictor import Predictor
from internalize.statistics import Interval, clopper_pearson

if TYPE_CHECKING:
    from jaxtyping import Float64, Shaped


@dataclass(frozen=True)
class DistributionalInternalization(DefinitionVerdict):
    """The verdict for one ε and one distribution."""

    epsilon: float
    inputs: int
    exact: bool
    """Whether the risks were computed over all inputs instead of estimated from a sample."""
    fast_risk: float
    slow_risk: float
    gap: float
    """Risk of the fast one minus risk of the slow one."""
    gap_interval: Interval
    """Covers the gap with at least 95 %; a point if exact."""
    fast_cost: Cost
    slow_cost: Cost


def check_distributional(
    fast: Predictor,
    slow: Predictor,
    batches: Iterable[Shaped[Tensor, "batch ..."]],
    truth: Callable[[Shaped[Tensor, "batch ..."]], Shaped[Tensor, " batch"]],
    epsilon: float,
    probability: Callable[[Shaped[Tensor, "batch ..."]], Float64[Tensor, " batch"]] | None = None,
) -> DistributionalInternalization:
    """Whether `fast` (ε, D)-internalizes `slow`.

    batches: a sample of D, each (batch, …); or, with `probability`, all inputs, each once.
    truth: (batch, …) inputs to (batch,) right answers. probability: inputs to (batch,) float64, summing to 1.
    """
    require(epsilon > 0, "epsilon", f"must be more than 0, got {epsilon}")
    seen = Tally()
    only_fast = only_slow = both = 0.0
    for batch in batches:
        quick, thorough = fast.answer(batch), slow.answer(batch)
        right = truth(batch)
        fast_wrong, slow_wrong = ((found.output != right).cpu() for found in (quick, thorough))
        weight = one_each(batch) if probability is None else probability(batch)
        only_fast += float(weight[fast_wrong & ~slow_wrong].sum())
        only_slow += float(weight[slow_wrong & ~fast_wrong].sum())
        both += float(weight[fast_wrong & slow_wrong].sum())
        seen.add(quick, thorough)
    exact = probability is not None
    how = seen.how_many(exact)
    total = 1.0 if exact else float(seen.inputs)
    gap = (only_fast - only_slow) / total
    interval = Interval(gap, gap) if exact else gap_interval(int(only_fast), int(only_slow), seen.inputs)
    clauses = (
        *same_class_other_weights(fast, slow),
        _risk_clause(gap, interval, epsilon, exact, how),
        seen.faster(exact),
    )
    risks = (only_fast + both) / total, (only_slow + both) / total
    costs = seen.costs()
    return DistributionalInternalization(
        clauses, epsilon, seen.inputs, exact, *risks, gap, interval, costs[0], costs[1]
    )


def one_each(batch: Shaped[Tensor, "batch ..."]) -> Float64[Tensor, " batch"]:
    """The weights of a sample: every input counts once."""
    return torch.ones(len(batch), dtype=torch.float64)


def gap_interval(only_fast: int, only_slow: int, inputs: int, level: float = 0.95) -> Interval:
    """For P(only the fast one is wrong) - P(only the slow one is wrong); covers it with at least `level`."""
    each = 1 - (1 - level) / 2
    fast, slow = (clopper_pearson(count, inputs, each) for count in (only_fast, only_slow))
    return Interval(fast.low - slow.high, fast.high - slow.low)


def _risk_clause(gap: float, interval: Interval, epsilon: float, exact: bool, how: str) -> Clause:
    """Holds only if every gap that the sample leaves possible is small enough."""
    holds = -epsilon <= interval.low and interval.high <= epsilon
    refuted = interval.low > epsilon or interval.high < -epsilon
    said = f"gap of the risks {gap:+.4f}"
    if not exact:
        said += f", 95 % interval [{interval.low:+.4f}, {interval.high:+.4f}]"
    unclear = "" if holds or refuted else "; undecided, more inputs would narrow it"
    return Clause("risk", holds, f"{said} for ε = {epsilon:g} on {how}{unclear}")
