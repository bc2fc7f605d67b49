"""Positive distribution shift, generalised (paper, appendix F): learn a hard target from easier contexts.

A learner trains on contexts c ∈ C, drawn from D'_C and labelled by f*∘π, where π extracts from a context the
input x ∈ X it is about. The transport Tr_b turns the trained model into a predictor on X that may spend the
budget b. What counts is the *target loss* L^b = E_{x~D} P(Tr_b(M)(x) ≠ f*(x)) on the target distribution D,
against that of the best hypothesis in the class. The learner succeeds with m samples if L^b ≤ best + ε.

This file knows no training: `analysis/shift.py` trains the paper's three instances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor

from internalize.errors import require
from internalize.measure.predictor import Predictor
from internalize.statistics import Interval, Rate

if TYPE_CHECKING:
    from jaxtyping import Int, Shaped

M = TypeVar("M")
"""The class of models."""


@dataclass(frozen=True)
class Target:
    """(D, f*): what is to be learned."""

    name: str
    inputs: Callable[[int, torch.Generator], Shaped[Tensor, "count ..."]]
    """D: (count,) inputs x, each (…); consumes the generator."""
    label: Callable[[Shaped[Tensor, "count ..."]], Int[Tensor, " count"]]
    """The clean label, (count, …) inputs to (count,) int64."""
    label_noise: float = 0.0
    """η: f* gives another label with this probability (of two labels)."""

    @property
    def best(self) -> float:
        """L(H): the loss of the best hypothesis, the clean label itself."""
        return self.label_noise


@dataclass(frozen=True)
class Contexts:
    """(C, D'_C, π): what is trained on."""

    name: str
    """The distribution D'_C in words."""
    at: Callable[[int], Shaped[Tensor, "batch ..."]]
    """D'_C: the (batch, …) contexts that a training step, from 0, really reads."""
    extract: Callable[[Shaped[Tensor, "batch ..."]], Shaped[Tensor, "batch ..."]]
    """π: (batch, …) contexts to the (batch, …) inputs they are about."""


@dataclass(frozen=True)
class Shift(Generic[M]):
    """One instance: a target, the contexts it is learned from, and how a trained model serves it."""

    name: str
    target: Target
    contexts: Contexts
    transport: Callable[[M, int], Predictor]
    """Tr_b: a model and a budget to a predictor on X."""
    budgets: Mapping[int, str]
    """The budgets b that make sense, each with what it buys."""

    def predictor(self, model: M, budget: int) -> Predictor:
        """The model as a predictor that may spend the budget, Tr_b(M)."""
        known = ", ".join(map(str, self.budgets))
        require(budget in self.budgets, "budget", f"must be one of {known} for {self.name}, got {budget}")
        return self.transport(model, budget)

    def target_loss(self, model: M, budget: int, samples: int, generator: torch.Generator) -> TargetLoss:
        """L^b of a model, on fresh inputs of the target; consumes the generator."""
        x = self.target.inputs(samples, generator)
        found = self.predictor(model, budget).answer(x).output
        wrong = Rate(int((found.cpu() != self.target.label(x).cpu()).sum()), samples)
        return TargetLoss(wrong, self.target.label_noise)


@dataclass(frozen=True)
class TargetLoss:
    """A target loss, from the share of answers that are not the clean label.

    A flipped label turns wrong into right and right into wrong: L = η + (1-2η)·wrong. Computing it so instead
    of drawing the flips leaves the noise of drawing them out.
    """

    wrong: Rate
    label_noise: float

    @property
    def value(self) -> float:
        return noisy_loss(self.wrong.value, self.label_noise)

    @property
    def interval(self) -> Interval:
        """Wilson's, 95 %, for the same inputs' number."""
        low, high = self.wrong.interval.low, self.wrong.interval.high
        return Interval(noisy_loss(low, self.label_noise), noisy_loss(high, self.label_noise))


def noisy_loss(wrong: float, label_noise: float) -> float:
    """The loss against labels flipped with that probability, of one that errs so often on the clean label."""
    return label_noise + (1 - 2 * label_noise) * wrong


def samples_needed(curve: Sequence[tuple[float, float]], best: float, epsilon: float) -> float | None:
    """m(ε): the fewest samples from which on the (samples, mean target loss) curve stays within best + ε."""
    needed = None
    for samples, loss in sorted(curve, reverse=True):
        if loss > best + epsilon:
            break
        needed = samples
    return needed


def original_shift(target: Target, trained_on: Contexts, transport: Callable[[M, int], Predictor]) -> Shift[M]:
    """Original PDS: C = X, π = id, Tr_0 the hypothesis itself; only the inputs' distribution differs."""
    return Shift("original", target, trained_on, transport, {0: "the hypothesis itself"})


def hinted_shift(target: Target, trained_on: Contexts, transport: Callable[[M, int], Predictor]) -> Shift[M]:
    """Hinted functions: C holds hints beside x, π drops them, Tr_0 takes the subnetwork that reads x alone."""
    return Shift("hints", target, trained_on, transport, {0: "the subnetwork h(x)"})


def chain_mixture_shift(
    target: Target,
    trained_on: Contexts,
    transport: Callable[[M, int], Predictor],
    longest: int | None,
) -> Shift[M]:
    """CoT mixture: C holds answers of all lengths, announced by LEN_L; Tr_b asks for an answer of b tokens.

    longest: tokens of the full chain; None where C holds direct answers alone, which no LEN_L announces.
    """
    budgets = {2: "Tr_2: the direct answer"}
    if longest is not None:
        budgets[longest] = f"Tr_{longest}: the full chain"
    return Shift("mixture", target, trained_on, transport, budgets)
