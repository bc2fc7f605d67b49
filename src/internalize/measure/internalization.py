"""The paper's strict definition of internalization, as a check on two predictors, clause by clause.

θ' internalizes a program P that queries h_θ if (1) θ' is of the same class as θ, (2) θ' ≠ θ, (3) h_θ' = P(h_θ)
on every input, and (4) h_θ' takes strictly less time than P(h_θ) on every input. That P has query access only
needs no check: a predictor offers nothing but answers.

Time is counted in forward passes and in floating-point operations, and has to be less by both counts: seconds
depend on the machine. The distributional version is at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from internalize.contract import Json
from internalize.errors import require
from internalize.measure.predictor import Prediction, Predictor
from internalize.statistics import Interval, clopper_pearson

if TYPE_CHECKING:
    from jaxtyping import Float64, Shaped

ClauseName = Literal["same_class", "different_weights", "agreement", "risk", "faster"]


@dataclass(frozen=True)
class Clause:
    """One clause of the definition."""

    name: ClauseName
    holds: bool
    evidence: str
    """What was seen, in a few words."""


@dataclass(frozen=True)
class Cost:
    """What an answer costs, the mean over the inputs compared."""

    forward_passes: float
    flops: float


@dataclass(frozen=True)
class DefinitionVerdict:
    """A definition, clause by clause."""

    clauses: tuple[Clause, ...]

    @property
    def holds(self) -> bool:
        """Whether no clause fails."""
        return all(clause.holds for clause in self.clauses)

    @property
    def failed(self) -> tuple[ClauseName, ...]:
        """The clauses that do not hold."""
        return tuple(clause.name for clause in self.clauses if not clause.holds)

    def to_json(self) -> dict[str, Json]:
        """Deterministic: holds no times."""
        return {"holds": self.holds, "failed": list(self.failed), **asdict(self)}


@dataclass(frozen=True)
class Internalization(DefinitionVerdict):
    """The verdict of the strict definition, and how far it can be trusted: proved if exhaustive, otherwise not
    refuted by the sample."""

    inputs: int
    """Inputs that were compared."""
    exhaustive: bool
    """Whether these were all inputs, so that the verdict is a proof."""
    disagreements: int
    disagreement_bound: float
    """With 95 % confidence the two disagree on at most this share of the sampled distribution
    (Clopper–Pearson); the share itself if exhaustive."""
    counterexample: tuple[int, ...] | None
    """The first input on which they disagree."""
    fast_cost: Cost
    slow_cost: Cost


def check_internalization(
    fast: Predictor, slow: Predictor, batches: Iterable[Shaped[Tensor, "batch ..."]], exhaustive: bool
) -> Internalization:
    """Whether `fast`, h_θ', internalizes `slow`, P(h_θ).

    batches: inputs, each (batch, …); `exhaustive` if they are all there are, each once.
    """
    seen = Tally()
    disagreements = 0
    counterexample: tuple[int, ...] | None = None
    for batch in batches:
        quick, thorough = fast.answer(batch), slow.answer(batch)
        # -1 means that no answer was given: two silent predictors do not agree on anything
        differs = (quick.output != thorough.output) | (quick.output < 0)
        if counterexample is None and bool(differs.any()):
            first = batch[int(torch.nonzero(differs)[0])].flatten()
            counterexample = tuple(int(value) for value in first.tolist())
        disagreements += int(differs.sum())
        seen.add(quick, thorough)
    bound = seen.share_bound(disagreements, exhaustive)
    how = seen.how_many(exhaustive)
    clauses = (
        *same_class_other_weights(fast, slow),
        Clause("agreement", disagreements == 0, f"{disagreements:,} differ of {how}"),
        seen.faster(exhaustive),
    )
    costs = seen.costs()
    return Internalization(clauses, seen.inputs, exhaustive, disagreements, bound, counterexample, *costs)


def same_class_other_weights(fast: Predictor, slow: Predictor) -> tuple[Clause, Clause]:
    """The first two clauses: θ' ∈ Θ and θ' ≠ θ."""
    mine, its = fast.model_class, slow.model_class
    classes = mine if mine == its else f"{mine}; against {its}"
    digests = fast.weights_digest, slow.weights_digest
    weights = f"{digests[0][:8]} and {digests[1][:8]}"
    return (
        Clause("same_class", mine == its, classes),
        Clause("different_weights", digests[0] != digests[1], weights),
    )


@dataclass
class Tally:
    """Costs of the inputs compared so far."""

    inputs: int = 0
    not_faster: int = 0
    totals: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Forward passes and FLOPs of the fast one, then of the slow one."""

    def add(self, fast: Prediction, slow: Prediction) -> None:
        slower = (fast.forward_passes >= slow.forward_passes).cpu() | (fast.flops >= slow.flops).cpu()
        self.inputs += len(slower)
        self.not_faster += int(slower.sum())
        for i, cost in enumerate((fast.forward_passes, fast.flops, slow.forward_passes, slow.flops)):
            self.totals[i] += float(cost.cpu().double().sum())

    def costs(self) -> tuple[Cost, Cost]:
        means = [total / self.inputs for total in self.totals]
        return Cost(*means[:2]), Cost(*means[2:])

    def faster(self, exhaustive: bool) -> Clause:
        """Whether the fast one takes less time on every input, by forward passes and by FLOPs."""
        fast, slow = self.costs()
        spent = (
            f"{fast.forward_passes:.4g} against {slow.forward_passes:.4g} forward passes, "
            f"{fast.flops:.4g} against {slow.flops:.4g} FLOPs on average"
        )
        return Clause(
            "faster",
            self.not_faster == 0,
            f"{self.not_faster:,} no faster of {self.how_many(exhaustive)}; {spent}",
        )

    def how_many(self, exhaustive: bool) -> str:
        if self.inputs == 0:
            raise ValueError("at least one input is needed to compare two predictors")
        return f"all {self.inputs:,} inputs" if exhaustive else f"a sample of {self.inputs:,} inputs"

    def share_bound(self, count: int, exhaustive: bool) -> float:
        """The share itself, or what it is at most with 95 % confidence."""
        self.how_many(exhaustive)
        return count / self.inputs if exhaustive else clopper_pearson(count, self.inputs, 0.9).high


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
