"""Profiles against enumeration, and the hints of a mixture model that was really trained."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
import torch

from internalize import Run
from internalize.analysis.audit import answers_to, audit, hints
from internalize.analysis.open_run import OpenChain, open_chain
from internalize.analysis.profile import biased, profile
from internalize.curricula import Shown
from internalize.errors import BadInput
from internalize.measure.predictor import TransformerPredictor
from internalize.tasks import parse_inputs
from internalize.tasks.inputs import OneSide, Split, one_side


@pytest.mark.parametrize("name", ["uniform", "binomial:0.8", "weights:1,3"])
def test_shares_of_final_states_by_enumeration(chain: OpenChain, name: str) -> None:
    inputs = parse_inputs(name, 2)
    expected = Counter[int]()
    for symbols in product(range(2), repeat=4):
        weight = torch.tensor([inputs.probabilities[s] for s in symbols]).double().prod().item()
        expected[sum(symbols) % 2] += weight  # type: ignore[assignment]
    assert chain.final_shares(inputs).tolist() == pytest.approx([expected[0], expected[1]])


def test_shares_among_inputs_that_are_held_out(chain: OpenChain) -> None:
    """Where few inputs are likely, those held out may end elsewhere than most do: chance is theirs."""
    inputs = one_side(parse_inputs("binomial:0.9", 2), Split(0.3, 3), True)
    assert isinstance(inputs, OneSide)
    weights = torch.zeros(2, dtype=torch.float64)
    for symbols in map(torch.tensor, product(range(2), repeat=4)):
        probability = torch.tensor(inputs.probabilities)[symbols].double().prod()
        weights[symbols.sum() % 2] += probability * inputs.split.held_out(symbols[None])[0]
    expected = (weights / weights.sum()).tolist()
    assert chain.final_shares(inputs).tolist() == pytest.approx(expected, abs=0.015)
    assert chain.draw(inputs, 100, 0, "test").chance == pytest.approx(max(expected), abs=0.015)
    assert abs(max(expected) - chain.final_shares(parse_inputs("binomial:0.9", 2)).max()) > 0.05


def test_a_profile_asks_what_it_says(chain: OpenChain) -> None:
    """Stage 2's weights, which were told q_2 … q_4: right on their own format wherever the inputs go."""
    found = profile(chain, stage=2, samples=200, points=3)
    assert [p.x for p in found.binomial] == [0.0, 0.5, 1.0]
    assert [p.chance for p in found.binomial] == [1.0, 0.5, 1.0]
    assert list(found.bias) == ["0"]  # of two symbols one tells all
    for p in (*found.binomial, *found.bias["0"]):
        inputs = parse_inputs(p.inputs, 2)
        examples = chain.draw(inputs, 200, 0, "profile")
        right = chain.predictor(stage=2).answer(examples.symbols).output == examples.states[:, -1]
        assert (p.right.successes, p.right.trials) == (int(right.sum()), 200)
    shares = {(s.inputs, s.state): s.frequency for s in found.states}
    assert shares["ood", "0"] == pytest.approx((1 + 0.6**4) / 2)  # E[(-1)^σ] = 1 - 2p, to the fourth
    assert [s.state for s in found.states if s.inputs == "ood"] == ["1", "0"]  # the rarer first
    assert all(s.right is not None and s.right.trials == 100 for s in found.states)


def test_bias_keeps_the_other_symbols_even() -> None:
    assert biased(1, 0.4, 4).probabilities == pytest.approx((0.2, 0.4, 0.2, 0.2))
    assert biased(0, 1.0, 3).probabilities == (1.0, 0.0, 0.0)


def test_right_hints_show_both_modes(mixture: OpenChain) -> None:
    found = {(f.inputs, f.hint): f for f in audit(mixture, samples=300) if f.kind == "right"}
    assert len(found) == 2 * 3
    for name in ("id", "ood"):
        direct, full = found[name, "LEN_2"], found[name, "LEN_4"]
        assert direct.right.value > 0.95
        assert full.right.value > 0.95
        assert (direct.commonest, full.commonest) == ("2 (100%)", "4 (100%)")
        assert direct.obeyed.value > 0.95
        assert full.exact.value > 0.9
    examples = mixture.draw(mixture.experiment.inputs, 300, 0, "audit")
    for budget in (2, 3, 4):
        output = mixture.predictor(budget=budget).answer(examples.symbols).output
        expected = int((output == examples.states[:, -1]).sum())
        assert found["id", f"LEN_{budget}"].right.successes == expected


def test_every_kind_of_hint_is_put_as_it_says(mixture: OpenChain) -> None:
    renderer = mixture.experiment.renderer
    formats: dict[int, Shown] = {len(f): f for f in mixture.experiment.curriculum.formats(1)}
    asked = list(hints(renderer, formats))
    assert [a.kind for a in asked] == ["right"] * 3 + ["wrong"] * 3 + ["absent"] * 2 + ["contradictory"] * 2
    names = renderer.vocabulary.tokens()
    assert [" ".join(names[t] for t in a.tokens) for a in asked if a.kind == "contradictory"] == [
        "LEN_4 LEN_2",
        "LEN_2 LEN_4",
    ]
    examples = mixture.draw(mixture.experiment.inputs, 50, 0, "audit")
    model, first, eos = mixture.model(), renderer.vocabulary.first_state, renderer.vocabulary.eos
    for prompted in asked:
        written = answers_to(mixture.predictor(), prompted, examples)
        for i, t in enumerate(prompted.begun):
            assert torch.equal(written[:, i], examples.states[:, t] + first)
        ended = (written == eos).any(dim=1)
        assert (written[ended, -1] == eos).all()
    begun = {a.hint: a.begun for a in asked if a.kind == "wrong"}
    assert begun["LEN_2, then q1"] == (1,)
    assert begun["LEN_4, then q3"] == (3,)
    # after q_3 was said under LEN_2, the model should stop at once: hint and text agree on the length
    obedient = TransformerPredictor(model, renderer, 2).answer(examples.symbols)
    assert (obedient.forward_passes == 2).double().mean() > 0.95


def test_only_mixtures_have_hints(internalized: Run) -> None:
    with pytest.raises(BadInput, match="no length tokens"):
        audit(open_chain(internalized.path, "cpu"), 10)
