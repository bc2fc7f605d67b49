"""The general construction: any semiautomaton of the package."""

from __future__ import annotations

import pytest
import torch

from internalize.constructions import build_general
from internalize.constructions.certificate import certify
from internalize.constructions.exactness import random_inputs
from internalize.errors import BadInput
from internalize.tasks import parse_task
from internalize.tasks.inputs import all_inputs
from internalize.tasks.semiautomaton import semiautomaton


@pytest.mark.parametrize(
    ("name", "horizon"),
    [("C2", 8), ("C3", 5), ("C5", 4), ("S3", 5), ("D4", 5), ("Q8", 4), ("flipflop3", 5), ("C2xC3", 3)],
)
def test_exact_on_every_input_and_every_initial_state(name: str, horizon: int) -> None:
    task = parse_task(name)
    for start in range(task.states):
        construction = build_general(task, horizon, start)
        for symbols in all_inputs(task.symbols, horizon, 2000):
            assert torch.equal(construction.answer(symbols), task.trace(symbols, start)[:, -1])


@pytest.mark.parametrize("name", ["S3", "A4", "C7", "flipflop4"])
@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 25])
def test_exact_at_longer_horizons_and_the_proof_holds(name: str, horizon: int) -> None:
    certificate = certify(build_general(parse_task(name), horizon), "random", samples=60)
    assert certificate.check.exact
    assert certificate.proof_holds
    states = parse_task(name).states
    assert certificate.to_json()["mlp_width"] <= 4 * states**2 + 4


def test_one_state_is_enough() -> None:
    construction = build_general(semiautomaton("point", [[0, 0]]), 3)
    assert construction.answer(random_inputs(2, 3, 5, seed=0)).tolist() == [0] * 5
    assert certify(construction).check.exact


def test_float32_and_the_tasks_own_initial_state() -> None:
    task = semiautomaton("turnstile", [[0, 1], [0, 1]], initial_state=1)
    construction = build_general(task, 6, precision="float32")
    assert construction.initial_state == 1
    symbols = torch.cat(list(all_inputs(2, 6, 64)))
    assert torch.equal(construction.answer(symbols), task.trace(symbols)[:, -1])


def test_bad_input() -> None:
    with pytest.raises(BadInput, match="initial_state"):
        build_general(parse_task("S3"), 5, 6)
    with pytest.raises(BadInput, match="horizon"):
        build_general(parse_task("S3"), 0)
    with pytest.raises(BadInput, match="of memory"):
        build_general(parse_task("S6"), 5)
