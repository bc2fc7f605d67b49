"""Dropout: Hugging Face's places and shares, numbers that are random enough, and the same on both paths."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from internalize.models.config import ModelConfig, Precision
from internalize.models.dropout import (
    GAMMA,
    Drops,
    attention_site,
    embedding_site,
    logits_with_dropout,
    mix,
    mlp_site,
    signed,
    sites,
    weights_site,
)
from internalize.models.fast import FastStep
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainStep
from tests.models.test_fast import ODD_SHAPES, assert_same, counter_batch, noisy_model, random_tokens


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
    found = logits_with_dropout(model, tokens, first, Drops.draw(1e-12, depth, generator))
    torch.testing.assert_close(found, model(tokens, first=first)[0], rtol=1e-5, atol=1e-6)


def test_the_numbers_are_splitmix64s() -> None:
    """The first ones of seed 1234567, as Vigna's C code and others' give them."""
    seed = 1234567
    state = (torch.arange(1, 4) * signed(GAMMA)) + seed
    words = [word % (1 << 64) for word in mix(state).tolist()]
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.93])
def test_drops_have_their_rate_and_keep_the_mean(rate: float, generator: torch.Generator) -> None:
    drops = Drops.draw(rate, 1, generator)
    factors = drops.factors(weights_site(0), torch.arange(40_000).view(200, 200), 30)
    assert factors.shape == (200, 200, 30)
    assert factors.unique().tolist() == [0.0, pytest.approx(1 / (1 - rate), rel=1e-3)]
    deviation = (rate * (1 - rate)) ** 0.5
    shares = (factors == 0).double()
    assert abs(shares.mean() - rate) < 4 * deviation / shares.numel() ** 0.5
    for axis in (0, 1, 2):  # no row, key or head is dropped more often than others
        counts = shares.mean(axis)
        assert counts.std() == pytest.approx(deviation / shares.shape[axis] ** 0.5, rel=0.1)


def test_drops_are_independent(generator: torch.Generator) -> None:
    """Of neighbours in a row, of rows, of sites and of steps: correlations as small as chance makes them."""
    first, second = (Drops.draw(0.1, 2, generator) for _ in range(2))
    rows, width = torch.arange(50_000), 64

    def centred(drops: Drops, site: int) -> torch.Tensor:
        kept = (drops.factors(site, rows, width) > 0).double()
        return (kept - kept.mean()) / kept.std()

    one = centred(first, embedding_site())
    beside = [one.roll(shift, axis) for axis in (0, 1) for shift in (1, 2, 3, 4, 8)]
    others = weights_site(0), attention_site(0), mlp_site(0), mlp_site(1)
    elsewhere = [centred(first, site) for site in others]
    for other in (*beside, *elsewhere, centred(second, embedding_site())):
        assert abs(float((one * other).mean())) < 4.5 / one.numel() ** 0.5
    # How many of a row's entries are dropped spreads as if each were dropped by itself.
    count = (one < 0).double().sum(1)
    assert float(count.var()) == pytest.approx(width * 0.09, rel=0.03)


def test_every_site_has_a_key_of_its_own(generator: torch.Generator) -> None:
    kinds = weights_site, attention_site, mlp_site
    numbers = [embedding_site(), *(site(i) for i in range(3) for site in kinds)]
    assert sorted(numbers) == list(range(sites(3)))
    assert len(set(Drops.draw(0.1, 3, generator).keys)) == sites(3)


def test_drops_come_from_the_stream(generator: torch.Generator) -> None:
    model, tokens = model_of(2, "absolute", 0.3), torch.randint(7, (3, 12), generator=generator)
    one, same, other = (
        logits_with_dropout(model, tokens, 0, Drops.draw(0.3, 2, torch.Generator().manual_seed(seed)))
        for seed in (5, 5, 6)
    )
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


FAST_SHAPES = [shape for shape in ODD_SHAPES if shape[0].positions != "rotary"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("config", "vocabulary", "batch", "prompt", "answer"), FAST_SHAPES)
def test_fast_step_has_the_plain_losses_and_gradients(
    config: ModelConfig, vocabulary: int, batch: int, prompt: int, answer: int, threads: int
) -> None:
    model = noisy_model(replace(config, dropout=0.2), vocabulary, prompt + answer - 1)
    _, gradient = flatten_parameters(model)
    tokens = random_tokens(vocabulary, batch, prompt + answer)
    plain = PlainStep(model, gradient)(tokens, prompt, torch.Generator().manual_seed(3))
    wanted = gradient.clone()
    fast_step = FastStep(model, gradient, threads=threads)
    gradient.fill_(float("nan"))
    fast = fast_step(tokens, prompt, torch.Generator().manual_seed(3))
    assert_same(fast, plain)
    assert (gradient - wanted).norm() < 1e-5 * wanted.norm()
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=3e-5 * wanted.abs().max().item())
    # Without a stream nothing is dropped.
    plain = PlainStep(model, gradient)(tokens, prompt)
    wanted = gradient.clone()
    assert_same(fast_step(tokens, prompt), plain)
    assert (gradient - wanted).norm() < 1e-5 * wanted.norm()


def test_fast_step_with_places_tiles_and_emphasis() -> None:
    """More sequences than a tile has, other positions, then shorter answers in the same buffers."""
    model = noisy_model(ModelConfig(1, 32, 16, 64, dropout=0.1), 5, 60)
    model.places = torch.arange(60).flip(0)
    _, gradient = flatten_parameters(model)
    fast = FastStep(model, gradient, threads=1)
    for answer in (26, 2, 9):
        tokens = random_tokens(5, 128, 26 + answer)
        plain = PlainStep(model, gradient)(tokens, 26, torch.Generator().manual_seed(answer), 4.0)
        wanted = gradient.clone()
        assert_same(fast(tokens, 26, torch.Generator().manual_seed(answer), 4.0), plain)
        assert (gradient - wanted).norm() < 1e-5 * wanted.norm()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_same_bytes_when_repeated_and_rebuilt(precision: Precision) -> None:
    def train(iterations: range, start: torch.Tensor | None) -> torch.Tensor:
        model = noisy_model(ModelConfig(2, 32, 16, 64, dropout=0.1), 5, 21)
        parameters, gradient = flatten_parameters(model)
        if start is not None:
            parameters.copy_(start)
        step = FastStep(model, gradient, precision, threads=2)
        for i in iterations:
            step(counter_batch(2, 10, 1 + i, i), 11, torch.Generator().manual_seed(i))
            parameters -= 0.1 * gradient
        return parameters

    once = train(range(6), None)
    assert torch.equal(once, train(range(6), None))
    assert torch.equal(once, train(range(3, 6), train(range(3), None)))


def test_bfloat16_is_near() -> None:
    model = noisy_model(ModelConfig(3, 64, 32, 128, dropout=0.1), 5, 21, noise=0.02)
    _, gradient = flatten_parameters(model)
    tokens = counter_batch(2, 10, 3, 0)
    plain = PlainStep(model, gradient)(tokens, 11, torch.Generator().manual_seed(0))
    wanted = gradient.clone()
    fast = FastStep(model, gradient, "bf16", threads=1)(tokens, 11, torch.Generator().manual_seed(0))
    assert_same(fast, plain, tolerance=2e-2)
    assert (gradient - wanted).norm() < 2e-2 * wanted.norm()


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
        ours = logits_with_dropout(model, tokens, 6, Drops.draw(0.2, 2, generator))
        other = theirs(tokens).logits[:, 6:]
    spread = ours.std(0)
    assert torch.allclose(spread, other.std(0), rtol=0.15)
    assert bool(((ours.mean(0) - other.mean(0)).abs() < 5 * spread * (2 / draws) ** 0.5).all())
