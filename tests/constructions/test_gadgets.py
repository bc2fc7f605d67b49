"""Each gadget alone."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from internalize.constructions.construction import (
    attention_plan,
    circular_positions,
    look_back_head,
    rotation_back,
    self_head,
)
from internalize.constructions.counter import (
    adder_mlp,
    adder_width,
    chinese_remainder_decoding,
    modular_adder,
    prime_powers,
    residues,
)
from internalize.constructions.general import composition_mlp, composition_widths
from internalize.constructions.transformer import AffineWeights, Directions, HeadWeights


def run_mlp(maps: list[AffineWeights], x: torch.Tensor) -> torch.Tensor:
    for i, layer in enumerate(maps):
        x = x @ layer.weight.T + layer.bias
        x = x.clamp(min=0) if i < len(maps) - 1 else x
    return x


@settings(deadline=None)
@given(n=st.integers(2, 5000))
def test_prime_powers_multiply_to_n_and_share_no_factor(n: int) -> None:
    factors = prime_powers(n)
    assert math.prod(factors) == n
    assert all(math.gcd(a, b) == 1 for i, a in enumerate(factors) for b in factors[:i])
    for factor in factors:
        prime = next(p for p in range(2, factor + 1) if factor % p == 0)
        assert prime ** round(math.log(factor, prime)) == factor


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 2000))
def test_chinese_remainders_lead_back(n: int) -> None:
    moduli = prime_powers(n)
    numbers = torch.arange(n)
    decoding = chinese_remainder_decoding(moduli)
    assert torch.equal(decoding.decode(residues(numbers, moduli).double()), numbers)


def test_what_is_no_residue_is_no_answer() -> None:
    decoding = chinese_remainder_decoding((4, 3))
    strange = torch.tensor([[4.0, 0.0], [-0.6, 0.0], [1.0, 3.2], [math.nan, 0.0], [math.inf, 0.0], [0.4, 2.4]])
    assert decoding.decode(strange).tolist() == [-1, -1, -1, -1, -1, 8]


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 9, 17, 64, 97])
def test_the_adder_is_exact_on_the_whole_tolerance_interval(modulus: int) -> None:
    direction, threshold, coefficient, constant = modular_adder(modulus)
    sums = torch.arange(2 * modulus - 1, dtype=torch.float64)
    # ±1/8 is what the proof needs; the plateaus reach to ±1/4. Both ends are tried.
    offsets = torch.cat([torch.linspace(-0.25, 0.25, 101, dtype=torch.float64), torch.tensor([-0.125, 0.125])])
    x = sums[:, None] + offsets
    units = (direction * (x[..., None] - threshold)).clamp(min=0)
    value = constant + units @ coefficient
    torch.testing.assert_close(value, (sums % modulus)[:, None].expand_as(value), rtol=0, atol=1e-9)
    assert len(threshold) <= 4 * modulus + 2
    assert float(coefficient.abs().max()) <= 2 * max(1, modulus - 1)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 200), seed=st.integers(0, 2**30))
def test_the_adder_mlp_adds_and_clears_and_passes_positions(n: int, seed: int) -> None:
    moduli = prime_powers(n)
    directions = Directions(len(moduli))
    generator = torch.Generator().manual_seed(seed)
    a, b = residues(torch.randint(n, (2, 50), generator=generator), moduli).double()
    noise = torch.rand(2, *a.shape, generator=generator, dtype=torch.float64) / 8 - 1 / 16
    where = torch.randn(50, 2, generator=generator, dtype=torch.float64)
    maps = adder_mlp(moduli, directions)
    out = run_mlp(maps, torch.cat([a + noise[0], b + noise[1], where], dim=1))
    expected = (a + b) % torch.tensor(moduli)
    torch.testing.assert_close(out[:, directions.held], expected, rtol=0, atol=1e-9)
    assert not out[:, directions.fetched].any()
    torch.testing.assert_close(out[:, directions.position], where)
    assert maps[0].weight.shape[0] == adder_width(moduli) <= 4 * sum(moduli) + 2 * len(moduli) + 4


@settings(max_examples=40, deadline=None)
@given(states=st.integers(1, 12), seed=st.integers(0, 2**30))
def test_the_composition_mlp_composes(states: int, seed: int) -> None:
    directions = Directions(states)
    generator = torch.Generator().manual_seed(seed)
    later, earlier = torch.randint(states, (2, 20, states), generator=generator)
    noise = torch.rand(20, 2 * states, generator=generator, dtype=torch.float64) / 2 - 1 / 4
    where = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    maps = composition_mlp(states, directions)
    out = run_mlp(maps, torch.cat([torch.cat([later, earlier], dim=1) + noise, where], dim=1))
    torch.testing.assert_close(out[:, directions.held], later.gather(1, earlier).double(), rtol=0, atol=1e-9)
    assert not out[:, directions.fetched].any()
    torch.testing.assert_close(out[:, directions.position], where)
    assert tuple(layer.weight.shape[0] for layer in maps[:-1]) == composition_widths(states)


@settings(deadline=None)
@given(horizon=st.integers(1, 300))
def test_positions_lie_on_a_circle_and_neighbours_are_the_gap_apart(horizon: int) -> None:
    plan = attention_plan(horizon, 5)
    points = circular_positions(plan.positions)
    assert torch.allclose(points.norm(dim=1), torch.ones(plan.positions, dtype=torch.float64))
    rivals = points @ points.T - 2 * torch.eye(plan.positions, dtype=torch.float64)
    assert float(rivals.max()) == pytest.approx(1 - plan.gap, abs=1e-12)


@settings(deadline=None)
@given(horizon=st.integers(1, 100), data=st.data())
def test_rotation_looks_back(horizon: int, data: st.DataObject) -> None:
    count = 2 * horizon + 1
    steps = data.draw(st.integers(1, horizon))
    points = circular_positions(count)
    turned = points @ rotation_back(steps, count).T
    torch.testing.assert_close(turned[steps:], points[:-steps])


def attend(head: HeadWeights, x: torch.Tensor) -> torch.Tensor:
    """(positions, embedding) to the head's output, causal."""
    scores = (x @ head.query.T) @ (x @ head.key.T).T
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=1) @ x @ head.value.T @ head.output.T


@settings(max_examples=30, deadline=None)
@given(horizon=st.integers(1, 60), registers=st.integers(1, 4), seed=st.integers(0, 2**30))
def test_heads_fetch_what_they_should(horizon: int, registers: int, seed: int) -> None:
    plan, directions = attention_plan(horizon, 9), Directions(registers)
    x = torch.zeros(plan.positions, directions.size, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    x[:, directions.held] = torch.randint(9, (plan.positions, registers), generator=generator).double()
    x[:, directions.position] = circular_positions(plan.positions)
    stays = attend(self_head(directions, plan), x)
    torch.testing.assert_close(stays[:, directions.held], x[:, directions.held], rtol=0, atol=1 / 16)
    torch.testing.assert_close(stays[:, directions.position], x[:, directions.position], rtol=0, atol=plan.eta)
    assert not stays[:, directions.fetched].any()
    for layer in range(1, plan.depth + 1):
        stride = plan.stride(layer)
        assert stride <= horizon
        back = attend(look_back_head(directions, plan, stride), x)[horizon:]
        expected = x[horizon - stride : plan.positions - stride, directions.held]
        torch.testing.assert_close(back[:, directions.fetched], expected, rtol=0, atol=1 / 16)
        assert not back[:, directions.held].any()
        assert not back[:, directions.position].any()


def test_the_plan_is_the_theorems() -> None:
    plan = attention_plan(25, 4)
    gap = 1 - math.cos(2 * math.pi / 51)
    eta = min(1 / 64, gap / 60, 1 / 16)
    assert (plan.positions, plan.depth) == (51, 5)
    assert plan.gap == pytest.approx(gap)
    assert plan.eta == pytest.approx(eta)
    assert plan.beta == pytest.approx(2 / gap * math.log(2 * 51 / eta))
    depths = [attention_plan(T, 2).depth for T in (1, 2, 3, 4, 7, 8, 15, 16)]
    assert depths == [1, 2, 2, 3, 3, 4, 4, 5]
