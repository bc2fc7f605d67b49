"""Theorem 3: exact for every order, within the theorem's sizes."""

from __future__ import annotations

import math

import pytest
import torch

from internalize.constructions import build_counter
from internalize.constructions.certificate import quantities
from internalize.constructions.construction import Precision
from internalize.constructions.counter import prime_powers
from internalize.constructions.exactness import adversarial_inputs, check, random_inputs
from internalize.errors import BadInput
from internalize.tasks import parse_task
from internalize.tasks.inputs import all_inputs

HORIZONS = [1, 2, 3, 7, 8, 25]


@pytest.mark.parametrize("horizon", HORIZONS)
def test_exact_and_within_the_theorems_sizes_for_all_small_orders(horizon: int) -> None:
    for n in range(2, 41):
        construction = build_counter(n, horizon, initial_state=(7 * n + horizon) % n)
        symbols = torch.cat([adversarial_inputs(n, horizon), random_inputs(n, horizon, 100, seed=n)])
        assert torch.equal(construction.answer(symbols), construction.final_states(symbols)), (n, horizon)
        moduli = prime_powers(n)
        m, network = len(moduli), construction.network
        assert len(network.blocks) == math.ceil(math.log2(horizon + 1))
        assert network.tokens.shape == (n, 2 * m + 2)
        assert network.blocks[0].attention.query.shape == (2, m + 2, 2 * m + 2)
        assert network.blocks[0].mlp.weights[0].shape[0] <= 4 * sum(moduli) + 2 * m + 4
        weight = quantities(construction)[-1]
        assert weight.value <= 2 * weight.theorem


@pytest.mark.parametrize(("n", "horizon"), [(2, 1), (2, 9), (3, 6), (4, 5), (6, 4), (12, 3), (5, 5)])
def test_agrees_with_the_tasks_oracle_on_every_input_and_every_initial_state(n: int, horizon: int) -> None:
    task = parse_task(f"C{n}")
    for start in range(n):
        construction = build_counter(n, horizon, start)
        for symbols in all_inputs(n, horizon, 1000):
            assert torch.equal(construction.answer(symbols), task.trace(symbols, start)[:, -1])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_exact_in_lower_precision(precision: Precision) -> None:
    construction = build_counter(12, 7, 5, precision)
    assert construction.network.tokens.dtype == getattr(torch, precision)
    assert check(construction, "random", samples=300).exact


def test_float32_at_the_sizes_of_the_specification() -> None:
    assert check(build_counter(17, 200, precision="float32"), "random", samples=20).exact
    assert check(build_counter(360, 100, precision="float32"), "random", samples=20).exact


def test_a_precision_that_is_too_low_is_built_and_found_out() -> None:
    result = check(build_counter(12, 100, precision="bfloat16"), "random", samples=50)
    assert not result.exact
    assert result.first_wrong is not None


def test_what_positions_hold_is_the_sum_of_their_window() -> None:
    construction = build_counter(12, 5, 7)
    symbols = random_inputs(12, 5, 10, seed=0)
    tokens = construction.tokens(symbols)
    assert tokens.shape == (10, 11)
    assert (tokens[:, :5] == 0).all()
    assert (tokens[:, -1] == 7).all()
    for layers in range(4):
        held = construction.held(symbols, layers)
        for i in range(11):
            window = tokens[:, max(0, i + 1 - 2**layers) : i + 1].sum(dim=1)
            assert torch.equal(held[:, i], torch.stack([window % 4, window % 3], dim=1))


@pytest.mark.parametrize(
    ("n", "horizon", "start", "field"),
    [
        (1, 5, 0, "order"),
        (0, 5, 0, "order"),
        (-3, 5, 0, "order"),
        (10**15, 5, 0, "order"),
        (10**40, 5, 0, "order"),
        (5, 0, 0, "horizon"),
        (5, 10**8, 0, "horizon"),
        (5, 3, 5, "initial_state"),
        (5, 3, -1, "initial_state"),
    ],
)
def test_bad_input_is_a_clear_line(n: int, horizon: int, start: int, field: str) -> None:
    with pytest.raises(BadInput) as error:
        build_counter(n, horizon, start)
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_what_does_not_fit_says_its_size() -> None:
    with pytest.raises(BadInput, match=r"would need about .* (TiB|PiB) of memory"):
        build_counter(10**15, 5)
