"""Hidden parities: the chain against plain Python, all inputs each once, and what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.errors import BadInput
from internalize.tasks.parity import BLOCK_BITS, HiddenParity, all_bits, random_parity, uniform_inputs


@given(st.permutations(range(1, 8)), st.integers(1, 7), st.lists(st.integers(0, 1), min_size=7, max_size=7))
def test_the_chain_is_the_running_parity(order: list[int], k: int, bits: list[int]) -> None:
    parity = HiddenParity(7, tuple(order[:k]))
    running, wanted = 0, []
    for i in order[:k]:
        running ^= bits[i - 1]
        wanted.append(running)
    x = torch.tensor([bits], dtype=torch.uint8)
    assert parity.chain(x).tolist() == [wanted]
    assert parity.chain(x).dtype == torch.uint8


def test_the_indicator_marks_a_prefix_of_the_support() -> None:
    parity = HiddenParity(5, (4, 1, 3))
    assert parity.indicator(2).tolist() == [1, 0, 0, 1, 0]
    assert parity.indicator(0).tolist() == [0] * 5


@pytest.mark.parametrize("d", [1, 3, BLOCK_BITS + 2])
def test_all_inputs_are_each_input_once(d: int) -> None:
    blocks = list(all_bits(d))
    assert all(len(block) <= 2**BLOCK_BITS for block in blocks)
    x = torch.cat(blocks)
    codes = (x.long() << torch.arange(d)).sum(1)
    assert sorted(codes.tolist()) == list(range(2**d))
    if d == 3:
        assert sorted(map(tuple, x.tolist())) == sorted(itertools.product((0, 1), repeat=3))


def test_uniform_inputs_are_fair_bits_that_do_not_move_together() -> None:
    x = uniform_inputs(40_000, 11, torch.Generator().manual_seed(0)).double()
    assert x.shape == (40_000, 11)
    assert set(x.unique().tolist()) == {0.0, 1.0}
    covariance = torch.cov(x.T)
    assert float((covariance - 0.25 * torch.eye(11)).abs().max()) < 0.01


def test_a_random_support_is_a_function_of_the_generator() -> None:
    drawn = [random_parity(20, 9, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0].support)) == 9


@pytest.mark.parametrize(
    ("d", "support", "field"),
    [(4, (1, 1), "support"), (4, (0, 1), "support"), (4, (5,), "support"), (0, (1,), "d"), (4, (), "k")],
)
def test_impossible_supports_are_refused(d: int, support: tuple[int, ...], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        HiddenParity(d, support)
    assert refused.value.field == field


@pytest.mark.parametrize("k", [0, 5, -1])
def test_a_support_has_between_one_and_d_coordinates(k: int) -> None:
    with pytest.raises(BadInput, match="k: must lie in"):
        random_parity(4, k, torch.Generator())
