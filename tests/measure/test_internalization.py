"""The definitions on predictors whose every answer is known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from internalize.errors import BadInput
from internalize.measure.internalization import check_distributional, check_internalization, gap_interval
from internalize.measure.predictor import Prediction
from internalize.statistics import clopper_pearson
from internalize.tasks.inputs import all_inputs

T = 10


def parity(inputs: Tensor) -> Tensor:
    return inputs.sum(dim=1) % 2


@dataclass(frozen=True)
class Scripted:
    """Answers the parity, except on planted inputs; costs what it is told."""

    weights_digest: str
    passes: int
    wrong_on: tuple[tuple[int, ...], ...] = ()
    slow_on: tuple[tuple[int, ...], ...] = ()
    silent: bool = False
    model_class: str = "bits"
    flops_a_pass: float = 100.0

    def answer(self, inputs: Tensor) -> Prediction:
        output = parity(inputs)
        passes = torch.full((len(inputs),), self.passes)
        for row in self.wrong_on:
            output[(inputs == torch.tensor(row)).all(dim=1)] ^= 1
        for row in self.slow_on:
            passes[(inputs == torch.tensor(row)).all(dim=1)] = 50
        if self.silent:
            output = torch.full_like(output, -1)
        return Prediction(output, passes, passes.double() * self.flops_a_pass)


FAST, SLOW = Scripted("a", passes=2), Scripted("b", passes=11)
PLANTED = (1, 0, 0, 1, 1, 1, 0, 1, 0, 0)


def everything() -> Iterator[Tensor]:
    return all_inputs(2, T, 100)


def test_all_clauses_hold_on_all_inputs() -> None:
    found = check_internalization(FAST, SLOW, everything(), exhaustive=True)
    assert found.holds
    assert found.failed == ()
    assert found.inputs == 2**T
    assert found.disagreement_bound == 0.0
    assert (found.fast_cost.forward_passes, found.slow_cost.flops) == (2.0, 1100.0)


@pytest.mark.parametrize(
    ("fast", "slow", "failed"),
    [
        (Scripted("a", 2, wrong_on=(PLANTED,)), SLOW, ("agreement",)),
        (Scripted("a", 2, slow_on=(PLANTED,)), SLOW, ("faster",)),
        (SLOW, SLOW, ("different_weights", "faster")),  # a model against itself
        (Scripted("b", 2), SLOW, ("different_weights",)),  # the same weights asked for less
        (Scripted("a", 2, model_class="trits"), SLOW, ("same_class",)),
        (Scripted("a", 11), SLOW, ("faster",)),  # as fast is not faster
        (Scripted("a", 2, flops_a_pass=550.0), SLOW, ("faster",)),  # fewer passes, as many FLOPs
        (Scripted("a", 2, silent=True), Scripted("b", 11, silent=True), ("agreement",)),
    ],
)
def test_each_clause_fails_alone_and_is_named(fast: Scripted, slow: Scripted, failed: tuple[str, ...]) -> None:
    found = check_internalization(fast, slow, everything(), exhaustive=True)
    assert found.failed == failed
    assert not found.holds


def test_a_single_planted_disagreement_is_found_and_shown() -> None:
    fast = Scripted("a", 2, wrong_on=(PLANTED,))
    found = check_internalization(fast, SLOW, everything(), exhaustive=True)
    assert found.disagreements == 1
    assert found.counterexample == PLANTED
    assert found.disagreement_bound == 1 / 2**T


def test_a_sample_gives_a_bound_not_a_proof(generator: torch.Generator) -> None:
    sample = torch.randint(2, (300, T), generator=generator)
    found = check_internalization(FAST, SLOW, [sample], exhaustive=False)
    assert found.holds
    assert not found.exhaustive
    assert found.disagreement_bound == pytest.approx(1 - 0.05 ** (1 / 300))  # the rule of three, exactly
    with pytest.raises(ValueError, match="at least one input"):
        check_internalization(FAST, SLOW, [], exhaustive=False)


@pytest.mark.parametrize("rate", [0.002, 0.02, 0.3])
def test_the_bound_covers_the_true_rate(rate: float) -> None:
    """What the check reports, for disagreements drawn at a known rate: covered in 95 % of samples or more."""
    draws, n, generator = 2_000, 200, random.Random(1)
    bounds = [clopper_pearson(k, n, 0.9).high for k in range(n + 1)]
    counts = (sum(generator.random() < rate for _ in range(n)) for _ in range(draws))
    covered = sum(bounds[count] >= rate for count in counts)
    assert covered / draws >= 0.95 - 0.015  # three standard errors of the simulation


@pytest.mark.parametrize(("only_fast", "only_slow"), [(0.03, 0.01), (0.2, 0.2), (0.0, 0.004)])
def test_the_gap_interval_covers_the_true_gap(only_fast: float, only_slow: float) -> None:
    draws, n, generator = 600, 150, random.Random(2)
    covered = 0
    for _ in range(draws):
        thrown = [generator.random() for _ in range(n)]
        a = sum(u < only_fast for u in thrown)
        b = sum(only_fast <= u < only_fast + only_slow for u in thrown)
        covered += only_fast - only_slow in gap_interval(a, b, n)
    assert covered / draws >= 0.95 - 0.027


def biased(inputs: Tensor) -> Tensor:
    """σ = 1 with probability 0.8."""
    ones = inputs.sum(dim=1).double()
    return 0.8**ones * 0.2 ** (T - ones)


def test_exact_risks_weigh_each_input_by_its_probability() -> None:
    fast, slow = Scripted("a", 2, wrong_on=(PLANTED,)), Scripted("b", 11, wrong_on=((1,) * T,))
    found = check_distributional(fast, slow, everything(), parity, 0.11, biased)
    assert found.exact
    assert found.fast_risk == pytest.approx(0.8**5 * 0.2**5)
    assert found.slow_risk == pytest.approx(0.8**T)
    assert found.gap == pytest.approx(0.8**5 * 0.2**5 - 0.8**T)
    assert found.gap_interval.low == found.gap_interval.high == found.gap
    assert found.holds
    tighter = check_distributional(fast, slow, everything(), parity, 0.10, biased)
    assert tighter.failed == ("risk",)


def test_a_sample_decides_only_what_it_can(generator: torch.Generator) -> None:
    sample = torch.randint(2, (1_000, T), generator=generator)
    loose = check_distributional(FAST, SLOW, [sample], parity, 0.02)
    assert loose.holds
    assert (loose.fast_risk, loose.slow_risk, loose.gap) == (0.0, 0.0, 0.0)
    undecided = check_distributional(FAST, SLOW, [sample], parity, 0.001)
    assert undecided.failed == ("risk",)
    assert "undecided" in undecided.clauses[2].evidence
    refuted = check_distributional(Scripted("a", 2, silent=True), SLOW, [sample], parity, 0.02)
    assert refuted.failed == ("risk",)
    assert refuted.gap == 1.0
    assert "undecided" not in refuted.clauses[2].evidence
    both = check_distributional(SLOW, SLOW, [sample], parity, 0.02)
    assert both.failed == ("different_weights", "faster")
    with pytest.raises(BadInput, match="epsilon"):
        check_distributional(FAST, SLOW, [sample], parity, 0.0)
