"""What the results of a run with hints mean, on networks written by hand whose answers depend on the hints."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from internalize.kinds.hints import HintsConfig
from internalize.kinds.hints import evaluation as hints_evaluation
from internalize.models.mlp import MLP
from internalize.runtime.kind import Streams

CONFIG = HintsConfig(d=3, k=3, depth=1, width=4, label_noise=0.2, bias=0.1, biased_share=1.0)
"""y = s_1 s_2 s_3 in signs, hints z_1 = s_1 and z_2 = s_1 s_2; trained on inputs that are mostly +1."""


def network(penalty: list[float], bias: float, weight: float) -> MLP:
    """y - weight · relu(penalty · (s_1, s_2, s_3, z_1, z_2) + bias): the label, but -1 where the penalty is on.

    With S the sum of the three signs, y = (S + 2) - 2 relu(S + 1) + 2 relu(S - 1), and S + 4 is never negative.
    """
    total = [1.0, 1.0, 1.0, 0.0, 0.0]
    return MLP(
        [torch.tensor([total, total, total, penalty]), torch.tensor([[1.0, -2.0, 2.0, -weight]])],
        [torch.tensor([4.0, 1.0, -1.0, bias]), torch.tensor([-2.0])],
    )


TRUSTING = network([0, 0, 1, 1, 1], -2, 4)
"""Wrong where s_3, both hints and the label are +1."""
IGNORING, IGNORING_TOO = network([0, 0, 1, 0, 0], 0, 4), network([0, 0, 1, 0, 0], 0, 5)
"""Two networks that never look at the hints and are wrong where s_3 and the label are +1: a quarter."""
PERFECT = network([0, 0, 0, 0, 0], 0, 1)


def results(model: MLP, first: MLP) -> tuple[dict[str, Any], dict[str, Any]]:
    """The summary and the evaluation row of a run that had the weights `first` after stage 1."""
    experiment, streams = CONFIG.build(torch.device("cpu"), {}), Streams(0)
    state = experiment.init(streams)
    state.model, state.first = model, first
    return experiment.finish(state, streams).summary, experiment.evaluate(state, streams)


BY_HAND = {  # with s_3 = +1 the label is +1 where s_1 = s_2: in two of the eight inputs
    "": 1 - 2 / 8 / 4,  # noise makes both hints +1 one time in four
    "subnetwork_": 1.0,  # hints of 0 never set off the penalty
    "folded_": 1 - 2 / 8,  # hints of 1 always do
    "hinted_": 1 - 1 / 8,  # the true hints are both +1 in one of the two
    "noisy_": 0.8 * 15 / 16 + 0.2 * 1 / 16,  # a flip makes a right answer wrong and a wrong one right
}


def test_each_accuracy_has_its_meaning_on_uniform_inputs() -> None:
    """On the inputs of the training the accuracy would be 1 - 0.82 · 0.9 / 4 = 0.82."""
    summary, row = results(TRUSTING, PERFECT)
    for name, accuracy in BY_HAND.items():
        assert summary[f"{name}accuracy"] == pytest.approx(accuracy, abs=0.01)
        low, high = summary[f"{name}interval"]
        assert low < summary[f"{name}accuracy"] <= high
    assert {name: row[name] for name in row if name.endswith("accuracy")} == pytest.approx(
        {f"{name}accuracy": BY_HAND[name] for name in ("", "subnetwork_", "folded_")}, abs=0.02
    )
    assert summary["succeeded"] is False  # judged by the accuracy, which is below 95 %


@pytest.mark.parametrize("exact", [True, False], ids=["all inputs", "a sample"])
@pytest.mark.parametrize(
    ("model", "first", "gap", "internalized"),
    [
        (TRUSTING, PERFECT, 0.0, True),  # h is judged, not g with noise in place of its hints
        (TRUSTING, IGNORING, -0.25, False),  # more than 95 %, but not within ε of what it should internalize
        (IGNORING, IGNORING_TOO, 0.0, False),  # the definition holds, but not 95 %
        (IGNORING, PERFECT, 0.25, False),
    ],
    ids=["internalized", "another function", "a bad one", "neither"],
)
def test_internalized_is_the_definition_and_more_than_95_percent(
    model: MLP, first: MLP, gap: float, internalized: bool, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Risks on uniform inputs; on those of the training IGNORING's would be 0.82 · 0.9 = 0.74."""
    if not exact:
        monkeypatch.setattr(hints_evaluation, "MOST_CHECKED", 2)
    summary, _ = results(model, first)
    assert summary["risk_gap_exact"] is exact
    assert summary["risk_gap"] == pytest.approx(gap, abs=0.0 if exact else 0.02)
    assert summary["clauses"] == {
        "same_class": True, "different_weights": True, "risk": gap == 0.0, "faster": True
    }  # fmt: skip
    assert summary["internalized"] is internalized
