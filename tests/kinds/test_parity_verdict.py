"""The verdict on a layer's weights: planted ones, all inputs, a sample, and the proof by the weights."""

from __future__ import annotations

import torch
from torch import Tensor

from internalize.kinds.parity.evaluation import LayerPredictor, chain_by_weights, direct_by_weights, judge
from internalize.models.linear_attention import initial_weights, simplified_form
from internalize.tasks.parity import HiddenParity, all_bits, random_parity


def solved(parity: HiddenParity) -> tuple[Tensor, Tensor]:
    """W^(k) and W^(1) as the theorem wants them."""
    direct, chain = initial_weights(parity.d, parity.k), initial_weights(parity.d, parity.k)
    direct[parity.d - 1, parity.columns] = -1.0
    for row, column in enumerate(parity.columns):
        chain[parity.d - 1 + row, column] = -1.0
    return direct, chain


def test_the_predictor_is_the_layer_applied_and_appended() -> None:
    parity = HiddenParity(6, (3, 1, 6, 2))
    draw = torch.Generator().manual_seed(0)
    W = torch.randn(10, 10, dtype=torch.float64, generator=draw)
    x = torch.cat(list(all_bits(6)))
    outputs, bits = LayerPredictor(W, 6, 4).outputs(x)
    content = x.double()
    for step in range(4):
        out = simplified_form(W, content)[:, -1]
        assert torch.allclose(outputs[:, step], out, atol=1e-12)
        content = torch.cat([content, (out > 0.5).double()[:, None]], dim=1)
    assert torch.equal(bits, content[:, 6:])
    prediction = LayerPredictor(W, 6, parity.k).answer(x)
    assert torch.equal(prediction.output, content[:, -1].long())
    assert set(prediction.forward_passes.tolist()) == {4}


def test_a_solved_layer_is_exact_and_internalizes() -> None:
    parity = HiddenParity(10, (3, 9, 1, 5))
    verdict = judge(parity, *solved(parity), torch.Generator())
    assert verdict.exact
    assert verdict.chain_exact
    assert verdict.support_recovered
    assert (verdict.inputs_checked, verdict.exhaustive, verdict.direct_deviation) == (1024, True, 0.0)
    assert verdict.internalization.holds
    assert verdict.internalization.disagreements == 0


def test_a_planted_wrong_weight_is_found_among_all_inputs() -> None:
    """Weights wrong by little and for one input only: just above ½ when three certain bits are set."""
    parity = HiddenParity(17, (3, 9, 1, 5))
    direct, chain = solved(parity)
    direct[16, [6, 12, 15]] = 0.17  # 3 · 0.17 > ½: wrong where all three are 1, an eighth of the inputs
    verdict = judge(parity, direct, chain, torch.Generator())
    assert verdict.direct_wrong == 2**14
    assert not verdict.exact
    assert not verdict.direct_by_weights
    assert [clause.name for clause in verdict.internalization.clauses if not clause.holds] == ["agreement"]
    assert verdict.internalization.disagreements == 2**14
    chain[19, 16] += 1  # one more coordinate in the last token of the chain
    assert judge(parity, solved(parity)[0], chain, torch.Generator()).chain_wrong == 2**16


def test_the_weights_prove_what_enumeration_finds() -> None:
    draw = torch.Generator().manual_seed(0)
    parity = HiddenParity(7, (2, 7, 4))
    agreed = {True: 0, False: 0}
    for _ in range(60):
        direct, chain = solved(parity)
        noise = 0.35 * torch.rand((), generator=draw)
        direct += noise * torch.randn(10, 10, dtype=torch.float64, generator=draw)
        direct += 2 * torch.randint(-1, 2, (10, 10), generator=draw)
        verdict = judge(parity, direct, chain, torch.Generator())
        assert direct_by_weights(parity, direct) == (verdict.direct_wrong == 0)
        agreed[verdict.direct_wrong == 0] += 1
    assert min(agreed.values()) > 5


def test_the_chain_may_use_other_weights_that_compute_the_same() -> None:
    parity = HiddenParity(5, (2, 4, 1))
    _, chain = solved(parity)
    chain[6, 6], chain[6, 5] = 0.0, 1.0  # z_3 from z_1, x_{i_2} and x_{i_3} instead of z_2
    chain[6, 3] = 3.0
    assert chain_by_weights(parity, chain)
    assert judge(parity, solved(parity)[0], chain, torch.Generator()).chain_wrong == 0
    chain[6, 3] = 2.0
    assert not chain_by_weights(parity, chain)


def test_a_sample_alone_proves_no_internalization() -> None:
    """A small leftover on every coordinate tips only inputs with nearly all bits set, which no sample meets."""
    parity = HiddenParity(40, (3, 17, 29))
    direct, chain = solved(parity)
    direct[parity.d - 1, : parity.d] += 0.0135
    verdict = judge(parity, direct, chain, torch.Generator().manual_seed(0))
    assert verdict.direct_wrong == 0
    assert verdict.internalization.holds, "on the sample"
    assert not verdict.exact
    assert not verdict.internalized
    ones = torch.ones(1, 40, dtype=torch.int8)
    wrong = LayerPredictor(direct, 40, 1).outputs(ones)[1][0, 0]
    assert wrong != parity.chain(ones)[0, -1]


def test_many_coordinates_are_judged_by_a_sample_and_by_the_weights() -> None:
    parity = random_parity(30, 4, torch.Generator().manual_seed(0))
    verdict = judge(parity, *solved(parity), torch.Generator().manual_seed(1))
    assert verdict.exact
    assert not verdict.exhaustive
    assert verdict.inputs_checked == 2**20
    assert 0 < verdict.error_bound < 1e-5
