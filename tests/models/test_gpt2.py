"""The plain model against Hugging Face's GPT-2: same logits, same training, same initialisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from internalize.configs.codec import to_json
from internalize.errors import BadInput
from internalize.models.config import ModelConfig, initial_spread
from internalize.models.gpt2 import GPT2, Attention, rotate
from internalize.models.parameters import AdamW, flatten_parameters
from internalize.models.path import PlainStep

VOCABULARY, CONTEXT = 11, 14
SHAPES = [
    ModelConfig(depth=1, width=8, heads=4, init_std=0.02),  # head size 2
    ModelConfig(depth=3, width=24, heads=6, mlp=10, init_std=0.02),  # an MLP that is not 4d
    ModelConfig(depth=2, width=12, heads=1, mlp=100, init_std=0.02),
    ModelConfig(depth=2, width=5, heads=5, init_std=0.02),  # head size 1, an odd width
]


def our_model(config: ModelConfig, seed: int = 0, scale: float = 10.0) -> GPT2:
    """A model whose weights are large enough that attention and GELU leave their linear range."""
    model = GPT2(config, VOCABULARY, CONTEXT)
    generator = torch.Generator().manual_seed(seed)
    model.initialise(generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale).add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def their_model(model: GPT2) -> Any:
    """Hugging Face's with the same weights."""
    shape = model.config
    config = GPT2Config(
        vocab_size=model.vocabulary,
        n_positions=model.context,
        n_embd=shape.width,
        n_layer=shape.depth,
        n_head=shape.heads,
        n_inner=shape.mlp,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    theirs = GPT2LMHeadModel(config)
    missing, unexpected = theirs.load_state_dict(model.state_dict(), strict=False)
    assert missing == ["lm_head.weight"]  # tied to wte
    assert unexpected == []
    theirs.tie_weights()
    return theirs


def tokens(batch: int, length: int, seed: int = 1) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("config", SHAPES, ids=str)
@torch.no_grad()
def test_logits_equal_hugging_faces_on_copied_weights(config: ModelConfig) -> None:
    ours = our_model(config)
    theirs = their_model(ours).eval()
    for length in (1, 2, CONTEXT):
        ids = tokens(5, length)
        logits, _ = ours(ids)
        expected = theirs(ids).logits
        assert expected.std() > 0.5  # there is something to compare
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
        for first in range(length):
            torch.testing.assert_close(ours(ids, first=first)[0], expected[:, first:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", SHAPES[:2], ids=str)
def test_twenty_steps_of_training_equal_hugging_faces(config: ModelConfig) -> None:
    """Fresh batches, answers of several lengths, the loss on the answer alone, AdamW as in the paper."""
    ours = our_model(config, scale=1.0)
    theirs = their_model(ours).train()
    parameters, gradient = flatten_parameters(ours)
    step, optimizer = PlainStep(ours, gradient), AdamW(parameters, gradient, 3e-3, (0.9, 0.95), 0.01)
    reference = torch.optim.AdamW(theirs.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01)
    losses = []
    for i in range(20):
        prompt = 5
        batch = tokens(16, prompt + 2 + i % 4, seed=i)
        batch[:, prompt:] = batch[:, :1]  # something that can be learned
        our_loss = float(step(batch, prompt).loss.mean())
        optimizer.step()

        labels = batch.clone()
        labels[:, :prompt] = -100
        loss = theirs(batch, labels=labels).loss
        reference.zero_grad()
        loss.backward()
        reference.step()
        losses.append(our_loss)
        assert our_loss == pytest.approx(float(loss.detach()), abs=1e-4), f"step {i}"
    assert losses[-1] < losses[0] - 0.2
    for name, parameter in ours.named_parameters():
        a, b = parameter.detach(), theirs.state_dict()[name]
        if name.endswith("c_attn.bias"):  # keys have no use for a bias: its gradient is rounding alone
            a, b = (torch.cat([bias.chunk(3)[0], bias.chunk(3)[2]]) for bias in (a, b))
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=name)


def test_initialisation_is_hugging_faces() -> None:
    """Zero biases, layer norms of one, and normal weights whose spread is theirs."""
    config = ModelConfig(depth=4, width=64, heads=8, init_std=0.02)
    ours = GPT2(config, vocabulary=100, context=100)
    ours.initialise(torch.Generator().manual_seed(0))
    theirs = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=100, n_embd=64, n_layer=4, n_head=8))
    expected = theirs.state_dict()
    for name, own in ours.named_parameters():
        parameter = own.detach()
        if expected[name].unique().numel() == 1:
            assert torch.equal(parameter, expected[name]), name
        else:
            spread = 0.02 / 8**0.5 if name.endswith("c_proj.weight") else 0.02
            assert float(parameter.std()) == pytest.approx(spread, rel=0.05), name
            assert float(expected[name].std()) == pytest.approx(spread, rel=0.05), name
            assert abs(float(parameter.mean())) < 0.05 * spread


@pytest.mark.parametrize(("width", "spread"), [(512, 0.02), (2048, 0.02), (128, 0.04), (32, 0.08)])
def test_initial_weights_that_nothing_is_said_of_fit_the_width(width: int, spread: float) -> None:
    """0.02·√(512/width) below 512, GPT-2's 0.02 from there on; and a run's folder says the number."""
    config = ModelConfig(depth=1, width=width, heads=4, mlp=8)
    assert initial_spread(config) == pytest.approx(spread)
    assert to_json(config)["init_std"] == pytest.approx(spread)
    assert to_json(config, settled=False)["init_std"] is None
    assert initial_spread(replace(config, init_std=0.1)) == 0.1
    if width <= 512:
        model = GPT2(config, 30, 30)
        model.initialise(torch.Generator().manual_seed(0))
        assert float(model.transformer.wte.weight.detach().std()) == pytest.approx(spread, rel=0.05)


def test_initialisation_is_a_function_of_the_seed() -> None:
    models = [GPT2(SHAPES[0], VOCABULARY, CONTEXT) for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        model.initialise(torch.Generator().manual_seed(seed))
    flat = [flatten_parameters(model)[0] for model in models]
    assert torch.equal(flat[0], flat[1])
    assert not torch.equal(flat[0], flat[2])


@torch.no_grad()
def test_rotary_scores_depend_on_distance_alone_and_none_on_nothing() -> None:
    """The last position's logits when what was read is shifted, or shuffled."""
    rotary = our_model(ModelConfig(depth=1, width=16, heads=4, positions="rotary"))
    ids = tokens(3, 6)
    _, cache = rotary(ids[:, :3])
    attention = rotary.transformer.h[0].attn
    assert isinstance(attention, Attention)
    x = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(0))
    q, k, _ = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in attention.c_attn(x).chunk(3, -1))
    here, there = (rotate(q, seen) @ rotate(k, seen).transpose(2, 3) for seen in (0, 5))
    torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)
    assert (rotate(q, 0) @ rotate(k, 1).transpose(2, 3) - here).abs().max() > 0.1

    none = our_model(ModelConfig(depth=1, width=16, heads=4, positions="none"))
    shuffled = torch.cat([ids[:, [2, 0, 1, 4, 3]], ids[:, 5:]], 1)
    torch.testing.assert_close(none(ids)[0][:, -1], none(shuffled)[0][:, -1], rtol=1e-4, atol=1e-4)
    assert (rotary(ids)[0][:, -1] - rotary(shuffled)[0][:, -1]).abs().max() > 1e-3
    assert not any("wpe" in name for name, _ in [*none.named_parameters(), *rotary.named_parameters()])
    assert cache[0].keys.shape == (3, 4, 3, 4)


@pytest.mark.parametrize("positions", ["absolute", "none", "rotary"])
@torch.no_grad()
def test_a_cache_in_pieces_gives_the_logits_of_one_pass(positions: Any) -> None:
    model = our_model(ModelConfig(depth=2, width=16, heads=4, positions=positions, init_std=0.02))
    ids = tokens(3, CONTEXT)
    whole, _ = model(ids)
    pieces, cache = [], None
    for part in ids.split([5, 1, 3, 1, 4], dim=1):  # several new positions after a cache, too
        logits, cache = model(part, cache=cache)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-5, atol=1e-4)


def test_more_tokens_than_positions_are_refused() -> None:
    model = our_model(SHAPES[0])
    with pytest.raises(ValueError, match=f"reads at most {CONTEXT} tokens, got {CONTEXT + 1}"):
        model(tokens(1, CONTEXT + 1))
    _, cache = model(tokens(1, CONTEXT - 1))
    with pytest.raises(ValueError, match="reads at most"):  # one row would be broadcast over two positions
        model(tokens(1, 2), cache=cache)


def test_shapes_on_the_meta_device() -> None:
    """Nothing in the model or the step is bound to the CPU: on meta, mixed devices would be an error."""
    model = GPT2(SHAPES[1], VOCABULARY, CONTEXT).to("meta")
    _, gradient = flatten_parameters(model)
    batch = torch.zeros(3, 9, dtype=torch.int64, device="meta")
    stats = PlainStep(model, gradient)(batch, 5)
    assert stats.loss.shape == stats.correct.shape == (4,)
    logits, cache = model(batch)
    logits, cache = model(batch[:, :1], cache=cache)
    assert logits.shape == (3, 1, VOCABULARY)
    assert {t.device.type for t in (gradient, stats.loss, logits, cache[0].keys)} == {"meta"}


def test_loss_is_the_mean_over_answer_tokens_only() -> None:
    model = our_model(SHAPES[0])
    _, gradient = flatten_parameters(model)
    batch = tokens(4, 9)
    stats = PlainStep(model, gradient)(batch, 6)
    logits = model(batch)[0][:, 5:8]
    assert float(stats.loss.mean()) == pytest.approx(cross_entropy(logits.mT, batch[:, 6:]).item(), abs=1e-5)


@pytest.mark.parametrize(("width", "heads"), [(10, 3), (4, 8)])
def test_heads_must_divide_the_width(width: int, heads: int) -> None:
    with pytest.raises(BadInput, match=f"model.heads: must divide model.width = {width}, got {heads}"):
        ModelConfig(width=width, heads=heads)
