"""Positive distribution shift: losses against drawn labels, and sample complexity by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from internalize.errors import BadInput
from internalize.measure.predictor import Prediction
from internalize.measure.shift import Contexts, Target, noisy_loss, original_shift, samples_needed
from internalize.statistics import Rate


@dataclass(frozen=True)
class Constant:
    """Answers the first bit, and wrongly where the second one is set."""

    model_class: str = "bits"
    weights_digest: str = ""

    def answer(self, inputs: Tensor) -> Prediction:
        ones = torch.ones(len(inputs))
        return Prediction((inputs[:, 0] ^ inputs[:, 1]).long(), ones.long(), ones.double())


def bits(count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(2, (count, 2), generator=generator)


def test_the_target_loss_is_that_against_drawn_labels(generator: torch.Generator) -> None:
    target = Target("first bit", bits, lambda x: x[:, 0].long(), label_noise=0.2)
    trained_on = Contexts("the same", lambda step: bits(9, generator), lambda context: context)
    shift = original_shift(target, trained_on, lambda model, budget: model)
    found = shift.target_loss(Constant(), 0, 50_000, generator)
    x = bits(50_000, generator)
    noisy = x[:, 0] ^ (torch.rand(50_000, generator=generator) < 0.2)
    drawn = float((Constant().answer(x).output != noisy).float().mean())
    assert found.value == pytest.approx(drawn, abs=0.015)
    assert found.value in found.interval
    assert found.wrong.value == pytest.approx(0.5, abs=0.01)
    assert noisy_loss(0.0, 0.2) == target.best == 0.2
    assert noisy_loss(1.0, 0.2) == pytest.approx(0.8)
    assert isinstance(found.wrong, Rate)
    with pytest.raises(BadInput):
        shift.predictor(Constant(), 2)


@pytest.mark.parametrize(
    ("losses", "needed"),
    [([0.5, 0.14, 0.12, 0.1], 2), ([0.5, 0.14, 0.3, 0.1], 4), ([0.5, 0.5, 0.5, 0.16], None), ([0.1] * 4, 1)],
)
def test_samples_needed_are_those_after_which_it_stays_learned(losses: list[float], needed: float) -> None:
    curve = [(float(i), loss) for i, loss in enumerate(losses, start=1)]
    assert samples_needed(curve, best=0.1, epsilon=0.05) == needed
