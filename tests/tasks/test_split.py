"""Held-out inputs: never trained on, alone measured, the same for everybody who asks."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize import ChainConfig, Execution, ModelConfig, train
from internalize.errors import BadInput
from internalize.runtime.kind import Streams
from internalize.tasks.inputs import Split, one_side, parse_inputs
from internalize.tasks.names import parse_task
from tests.runtime.faults import Watcher, bytes_of, send

MASK = 2**64 - 1


def hashed_by_hand(symbols: list[int], salt: int) -> float:
    """The same hash in Python's own whole numbers, one symbol after another."""

    def mix(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    found = mix(salt)
    for symbol in symbols:
        found = mix((found + symbol + 1) & MASK)
    return (found >> 11) / 2**53


@given(st.lists(st.integers(0, 16), min_size=1, max_size=30), st.integers(0, 2**63 - 1), st.floats(0.01, 0.99))
def test_an_input_is_held_out_by_its_hash_alone(symbols: list[int], salt: int, share: float) -> None:
    found = Split(share, salt).held_out(torch.tensor([symbols]))
    assert bool(found[0]) == (hashed_by_hand(symbols, salt) < share)


def test_the_share_is_kept_and_the_salt_matters(generator: torch.Generator) -> None:
    symbols = torch.randint(2, (200_000, 25), generator=generator)
    one, other = Split(0.05, 1).held_out(symbols), Split(0.05, 2).held_out(symbols)
    assert abs(float(one.double().mean()) - 0.05) < 0.002  # four standard errors
    assert abs(float((one & other).double().mean()) - 0.0025) < 0.0005  # as independent ones would agree


@given(st.sampled_from(["C2", "C3", "S3"]), st.integers(0, 2**32), st.floats(0.02, 0.9))
def test_training_never_sees_what_is_held_out_and_measuring_nothing_else(
    name: str, seed: int, share: float
) -> None:
    config = ChainConfig(
        task=name,
        horizon=9,
        seed=seed,
        held_out=share,
        batch=16,
        model=ModelConfig(depth=1, width=8, heads=2),
    )
    experiment = config.build(torch.device("cpu"), {})
    split, streams = Split(share, seed), Streams(seed)
    for iteration in (0, 1, 40):
        symbols, states = experiment.data(iteration, streams)
        assert symbols.shape == (16, 9)
        assert not split.held_out(symbols).any()
        assert torch.equal(states, parse_task(name).trace(symbols, 0))
    for inputs in (experiment.inputs, experiment.ood_inputs):
        assert split.held_out(inputs.sample((50, 9), streams("test"))).all()


def test_a_side_has_the_distribution_of_the_whole(generator: torch.Generator) -> None:
    """Conditioning on a hash leaves the shares of the symbols as they were."""
    inputs = one_side(parse_inputs("binomial:0.8", 3), Split(0.1, 0), held_out=True)
    shares = inputs.sample((10_000, 40), generator).flatten().bincount() / 400_000
    assert torch.allclose(shares, torch.tensor([0.04, 0.32, 0.64]), atol=0.006)


def test_an_impossible_split_is_refused() -> None:
    for fields, message in (
        ({"held_out": 1.5}, "between 0 and 1"),
        ({"held_out": 0.001, "ood_inputs": "binomial:1"}, "too few differ"),
    ):
        with pytest.raises(BadInput, match=message) as problem:
            ChainConfig(horizon=6, seed=3, **fields).check({})
        assert problem.value.field == "held-out"


TINY = ChainConfig(
    horizon=6,
    iterations=60,
    batch=16,
    model=ModelConfig(depth=1, width=16, heads=4),
    held_out=0.2,
    log_every=7,
)


@pytest.mark.parametrize("more", [{}, {"model": replace(TINY.model, dropout=0.1)}, {"scored": "states"}])
def test_a_run_says_what_it_covered_and_both_accuracies(tmp_path: Path, more: dict[str, object]) -> None:
    summary = train(replace(TINY, **more), Execution(out=tmp_path, quiet=True)).summary()  # type: ignore[arg-type]
    assert summary["possible_inputs"] == 64
    assert summary["samples"] == 960
    assert summary["views_per_input"] == 15
    assert {"id_accuracy", "id_trained_accuracy", "ood_accuracy", "ood_trained_accuracy"} <= summary.keys()


@pytest.mark.parametrize("more", [{}, {"ease": 5}], ids=["plain", "easy steps"])
def test_a_killed_run_holds_out_the_same_inputs_and_comes_to_the_same_bytes(
    tmp_path: Path, more: dict[str, int]
) -> None:
    """Killed for good within a bulk of drawn inputs, right before the next one, and at its beginning."""
    config = replace(TINY, **more)  # type: ignore[arg-type]
    calm = bytes_of(train(config, Execution(out=tmp_path / "calm", quiet=True)).path)
    for step in (12, 31, 33):
        child = os.fork()
        if child == 0:
            often = Execution(out=tmp_path / "killed", checkpoint_minutes=1e-9, quiet=True)
            train(config, often, [Watcher(step, send(signal.SIGKILL))])
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert bytes_of(train(config, Execution(out=tmp_path / "killed", quiet=True)).path) == calm
