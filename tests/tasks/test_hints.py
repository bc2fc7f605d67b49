"""Inputs with hints: stages against a table written by hand, both forms, noise and bias."""

from __future__ import annotations

import pytest
import torch

from internalize.tasks.circuits import parity_circuit
from internalize.tasks.hints import HintedTask, answers, middle, neutral_number, written

# x = 1 0 1 1, support 1 … 4: prefixes z = 1 1 0 | label 1. Stage r hides the r rightmost of three hints.
BY_HAND: dict[int, list[int | None]] = {
    0: [1, 1, 0],
    1: [1, 1, None],
    2: [1, None, None],
    3: [None, None, None],
}


def draw(task: HintedTask, removed: list[int], batch: int, seed: int = 0) -> torch.Tensor:
    """(steps · batch, d + H) bits."""
    bits = task.sample(torch.tensor(removed), batch, torch.Generator().manual_seed(seed))
    return torch.cat([bits.x, bits.hints], dim=1)


@pytest.mark.parametrize("replacement", ["noise", "neutral"])
def test_stages_are_as_in_the_table(replacement: str) -> None:
    task = HintedTask(parity_circuit(4, (1, 2, 3, 4)), replacement)  # type: ignore[arg-type]
    found = draw(task, list(BY_HAND), 4_000).view(4, 4_000, 7)
    for stage, expected in BY_HAND.items():
        rows = found[stage][(found[stage][:, :4] == torch.tensor([1, 0, 1, 1])).all(1)]
        assert len(rows) > 150
        for column, value in enumerate(expected):
            hint = rows[:, 4 + column]
            if value is not None:
                assert (hint == value).all()
            elif replacement == "neutral":
                assert (hint == 0).all()
            else:
                assert 0.3 < float(hint.float().mean()) < 0.7


def test_all_inputs_are_equally_likely_and_noise_is_independent() -> None:
    """(x, hints) of the last stage: 2^3 · 2^2 values, each within five deviations of its share."""
    task = HintedTask(parity_circuit(3, (1, 2, 3)))
    found = draw(task, [2], 64_000)
    counts = torch.bincount((found * 2 ** torch.arange(5)).sum(1), minlength=32)
    assert float((counts - 2_000).abs().max()) < 5 * 2_000**0.5


def test_both_forms_are_one_under_the_map() -> None:
    """b ↦ (-1)^b: ⊕ becomes the product, the neutral 0 becomes 1, and answers are read back alike."""
    task = HintedTask(parity_circuit(6, (2, 5, 1, 4)), "neutral", 0.1)
    bits = task.sample(torch.tensor([0, 2]), 500, torch.Generator().manual_seed(0))
    binary, bipolar = (written(bits.x, form) for form in ("binary", "bipolar"))
    assert torch.equal(bipolar, 1 - 2 * binary)
    prefixes = bipolar[:, [1, 4, 0, 3]].cumprod(1)
    hints = written(bits.hints, "bipolar")
    assert torch.equal(hints[:500], prefixes[:500, :3])
    assert torch.equal(hints[500:], torch.cat([prefixes[500:, :1], torch.ones(500, 2)], dim=1))
    assert torch.equal(written(bits.label, "bipolar"), prefixes[:, -1])
    assert written(torch.tensor([0]), "bipolar").item() == neutral_number("bipolar")
    for form in ("binary", "bipolar"):
        outputs = middle(form) + 0.3 * (written(bits.label, form) - middle(form))
        assert torch.equal(answers(outputs, form), bits.label.long())


def test_labels_are_flipped_at_their_rate_and_inputs_biased_at_theirs() -> None:
    circuit = parity_circuit(5, (1, 2))
    bits = HintedTask(circuit, label_noise=0.1).sample(
        torch.tensor([0]), 40_000, torch.Generator().manual_seed(0)
    )
    assert float((bits.label != bits.noisy_label).float().mean()) == pytest.approx(0.1, abs=0.006)
    assert torch.equal(circuit.evaluate(bits.x)[1], bits.label)
    half = HintedTask(circuit, bias=0.1, biased_share=0.5)
    x = half.sample(torch.tensor([0]), 40_000, torch.Generator().manual_seed(0)).x.float()
    assert float(x.mean()) == pytest.approx(0.3, abs=0.01)
    # a share of rows, not of bits: two bits of a row are correlated
    assert float((x[:, 0] * x[:, 1]).mean()) == pytest.approx(0.5 * 0.25 + 0.5 * 0.01, abs=0.01)


def test_the_same_seed_gives_the_same_examples() -> None:
    task = HintedTask(parity_circuit(9, (3, 4, 9)), label_noise=0.2)
    assert torch.equal(draw(task, [0, 1], 50, 3), draw(task, [0, 1], 50, 3))
    assert not torch.equal(draw(task, [0, 1], 50, 3), draw(task, [0, 1], 50, 4))
