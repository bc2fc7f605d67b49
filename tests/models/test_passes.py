"""Dropout: nothing else than the plain path where nothing is dropped, and Hugging Face's places and shares."""

from __future__ import annotations

import pytest
import torch

from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2, drop, logits_with_dropout


def model_of(depth: int, positions: str, dropout: float) -> GPT2:
    config = ModelConfig(depth=depth, width=16, heads=4, positions=positions, dropout=dropout)  # type: ignore[arg-type]
    model = GPT2(config, vocabulary=7, context=12)
    model.initialise(torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize("positions", ["absolute", "none"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("first", [0, 5])
def test_without_drops_it_is_the_plain_path(
    depth: int, positions: str, first: int, generator: torch.Generator
) -> None:
    model = model_of(depth, positions, 1e-12)
    tokens = torch.randint(7, (3, 12), generator=generator)
    found = logits_with_dropout(model, tokens, first, generator)
    torch.testing.assert_close(found, model(tokens, first=first)[0], rtol=1e-5, atol=1e-6)


def test_drops_keep_the_mean_and_come_from_the_stream(generator: torch.Generator) -> None:
    dropped = drop(torch.ones(100_000), 0.1, generator)
    assert dropped.unique().tolist() == [0.0, pytest.approx(1 / 0.9)]
    assert abs(float((dropped == 0).double().mean()) - 0.1) < 0.004
    model, tokens = model_of(2, "absolute", 0.3), torch.randint(7, (3, 12), generator=generator)
    one, same, other = (
        logits_with_dropout(model, tokens, 0, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_its_expectation_is_that_of_hugging_face(generator: torch.Generator) -> None:
    """Both drop at random: over many draws the mean and the spread of the logits must agree."""
    transformers = pytest.importorskip("transformers")
    model = model_of(2, "absolute", 0.2)
    config = transformers.GPT2Config(
        vocab_size=7,
        n_positions=12,
        n_embd=16,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.2,
        embd_pdrop=0.2,
        attn_pdrop=0.2,
        attn_implementation="eager",
    )
    theirs = transformers.GPT2LMHeadModel(config).train()
    missing, unexpected = theirs.load_state_dict(dict(model.state_dict()), strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])  # which is tied
    draws = 4_000
    tokens = torch.randint(7, (1, 12), generator=generator).expand(draws, -1)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        ours = logits_with_dropout(model, tokens, 6, generator)
        other = theirs(tokens).logits[:, 6:]
    spread = ours.std(0)
    assert torch.allclose(spread, other.std(0), rtol=0.15)
    assert bool(((ours.mean(0) - other.mean(0)).abs() < 5 * spread * (2 / draws) ** 0.5).all())
