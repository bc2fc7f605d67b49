"""Input distributions: exact probabilities, and frequencies of many draws."""

from __future__ import annotations

import itertools
from math import comb

import pytest
import torch

from internalize.errors import BadInput
from internalize.tasks import parse_inputs
from internalize.tasks.inputs import all_inputs


@pytest.mark.parametrize(
    ("text", "symbols", "expected"),
    [
        ("uniform", 4, (0.25, 0.25, 0.25, 0.25)),
        ("binomial:0.8", 2, (0.2, 0.8)),  # on C2: Bernoulli
        ("binomial:0.8", 3, (0.04, 0.32, 0.64)),
        ("binomial:0.5", 4, (0.125, 0.375, 0.375, 0.125)),
        ("binomial:0", 3, (1.0, 0.0, 0.0)),
        ("binomial:1", 3, (0.0, 0.0, 1.0)),
        ("binomial:0.3", 1, (1.0,)),
        ("weights:1,0,3", 3, (0.25, 0.0, 0.75)),
        ("weights:2", 1, (1.0,)),
    ],
)
def test_probabilities_are_exact(text: str, symbols: int, expected: tuple[float, ...]) -> None:
    inputs = parse_inputs(text, symbols)
    assert inputs.name == text
    assert inputs.probabilities == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("symbols", [17, 720, 3_000])
def test_binomial_of_many_symbols(symbols: int) -> None:
    """Also where binomial coefficients no longer fit a float."""
    found = parse_inputs("binomial:0.8", symbols).probabilities
    assert sum(found) == pytest.approx(1.0, abs=1e-9)
    assert sum(i * p for i, p in enumerate(found)) == pytest.approx(0.8 * (symbols - 1), rel=1e-9)
    if symbols == 17:
        assert found == pytest.approx([comb(16, i) * 0.8**i * 0.2 ** (16 - i) for i in range(17)], rel=1e-12)


@pytest.mark.parametrize("text", ["uniform", "binomial:0.8", "weights:1,0,3", "weights:1,2,0"])
def test_frequencies_follow_the_probabilities(text: str, generator: torch.Generator) -> None:
    inputs = parse_inputs(text, 3)
    draws = inputs.sample((300, 100, 4), generator)
    assert draws.shape == (300, 100, 4)
    assert draws.dtype == torch.int64
    counts = torch.bincount(draws.flatten(), minlength=3).tolist()
    for count, p in zip(counts, inputs.probabilities, strict=True):
        spread = (p * (1 - p) / draws.numel()) ** 0.5
        assert abs(count / draws.numel() - p) <= 4 * spread  # exactly 0 where a symbol has probability 0
    # neighbours are independent: pairs come as often as the product says
    pairs = torch.bincount((3 * draws[..., 0] + draws[..., 1]).flatten(), minlength=9) / (300 * 100)
    both = torch.tensor([p * q for p in inputs.probabilities for q in inputs.probabilities])
    assert (pairs - both).abs().max() < 0.015


def test_a_symbol_of_probability_zero_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the uniform number is exactly 0, as it is once in 2^24 draws."""
    monkeypatch.setattr(torch, "rand", lambda shape, **more: torch.zeros(shape))
    assert parse_inputs("weights:0,0,1", 3).sample((2,), torch.Generator()).tolist() == [2, 2]
    assert parse_inputs("weights:0,1,1", 3).sample((2,), torch.Generator()).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be uniform, binomial:p or weights:w0,w1,…; got ''"),
        ("gauss", "got 'gauss'"),
        ("uniform:3", "got 'uniform:3'"),
        ("binomial", "must be a number, got ''"),
        ("binomial:a", "must be a number, got 'a'"),
        ("binomial:1.5", "needs 0 ≤ p ≤ 1, got '1.5'"),
        ("binomial:nan", "needs 0 ≤ p ≤ 1, got 'nan'"),
        ("weights:1,2", "weights needs 3 numbers ≥ 0, not all 0; got '1,2'"),
        ("weights:1,-1,1", "got '1,-1,1'"),
        ("weights:0,0,0", "not all 0"),
        ("weights:1,inf,1", "got '1,inf,1'"),
        ("weights:1e308,1e308,1e308", "weights needs"),
        ("weights:1,,1", "must be a number, got ''"),
    ],
)
def test_bad_distributions_are_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput) as problem:
        parse_inputs(text, 3, "ood-inputs")
    assert problem.value.field == "ood-inputs"
    assert words in problem.value.message


@pytest.mark.parametrize(
    ("symbols", "length", "block"), [(2, 6, 64), (3, 5, 100), (12, 3, 7), (1, 4, 10), (5, 1, 2)]
)
def test_all_inputs_are_those_of_nested_loops(symbols: int, length: int, block: int) -> None:
    pieces = list(all_inputs(symbols, length, block))
    assert all(len(piece) <= block for piece in pieces)
    assert torch.cat(pieces).tolist() == [list(row) for row in itertools.product(range(symbols), repeat=length)]
