"""The fast step with one or two large heads, whose attention is batched products, against the plain one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from internalize.models.config import ModelConfig
from internalize.models.fast import FastDecoder, FastStep, Precision
from internalize.models.fast.attention import FusedAttention
from internalize.models.fast.few_heads import QUERIES_AT_ONCE, FewHeads, attention_for
from internalize.models.fast.step import ROWS_A_TILE
from internalize.models.gpt2 import GPT2
from internalize.models.parameters import flatten_parameters
from internalize.models.path import PlainDecoder, PlainStep, make_decoder, rule
from tests.models.test_fast import assert_same, counter_batch, noisy_model, random_tokens

SHAPES = [  # config, batch, prompt, answer
    (ModelConfig(1, 64, 1, 256), 32, 9, 9),
    (ModelConfig(2, 64, 1, 96), 7, 6, 3),
    (ModelConfig(3, 64, 1, 64), 9, 4, 6),
    (ModelConfig(1, 128, 2, 64), 12, 5, 4),
    (ModelConfig(2, 128, 2, 64), 12, 5, 4),
    (ModelConfig(3, 128, 1, 64), 6, 3, 5),
    (ModelConfig(1, 128, 1, 64, "none"), 6, 3, 5),
    (ModelConfig(3, 128, 2, 64, "rotary"), 6, 7, 5),
    (ModelConfig(1, 64, 1, 8, "rotary"), 6, 7, 5),
    (ModelConfig(2, 64, 1, 8), 1, 1, 1),  # one token of one sequence
    (ModelConfig(1, 64, 1, 8), 70, 4, 50),  # several tiles
    (ModelConfig(2, 64, 1, 8), 50, 20, 20),
    (ModelConfig(2, 128, 2, 8), 3, 60, QUERIES_AT_ONCE + 9),  # more queries than are asked at once
]


def check(model: GPT2, tokens: Tensor, prompt: int, threads: int = 1) -> None:
    """Losses and gradient, as `test_fast` holds them to the plain ones."""
    _, gradient = flatten_parameters(model)
    plain = PlainStep(model, gradient)(tokens, prompt)
    wanted = gradient.clone()
    gradient.fill_(float("nan"))
    assert_same(FastStep(model, gradient, threads=threads)(tokens, prompt), plain)
    assert (gradient - wanted).norm() < 1e-5 * wanted.norm()
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=3e-5 * wanted.abs().max().item())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("config", "batch", "prompt", "answer"), SHAPES)
def test_gradient(config: ModelConfig, batch: int, prompt: int, answer: int, threads: int) -> None:
    assert rule(config) == "products"
    model = noisy_model(config, 5, prompt + answer - 1)
    check(model, random_tokens(5, batch, prompt + answer), prompt, threads)


def test_the_shapes_fill_several_tiles() -> None:
    rows = [batch * (answer if config.depth == 1 else prompt + answer - 1)
            for config, batch, prompt, answer in SHAPES]  # fmt: skip
    depths = {config.depth for (config, *_), count in zip(SHAPES, rows, strict=True) if count > ROWS_A_TILE}
    assert depths == {1, 2}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("heads", [1, 2])
def test_gradient_where_sequences_share_prefixes_but_not_targets(depth: int, heads: int) -> None:
    model = noisy_model(ModelConfig(depth, 128, heads, 32), 4, 8)
    tokens = random_tokens(2, 60, 8)  # few different prefixes
    tokens[30:, :-1] = tokens[:30, :-1]
    tokens[30:, -1] = 3
    check(model, tokens, 2)


def test_a_smaller_batch_after_a_larger_one_sees_nothing_of_it() -> None:
    model = noisy_model(ModelConfig(2, 64, 1, 32), 5, 20)
    _, gradient = flatten_parameters(model)
    used, fresh = FastStep(model, gradient, threads=1), FastStep(model, gradient, threads=1)
    for batch, length in ((40, 21), (7, 12)):
        tokens = random_tokens(5, batch, length)
        used(tokens, 6)
    wanted = gradient.clone()
    fresh(tokens, 6)
    assert torch.equal(gradient, wanted)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_same_bytes_when_repeated_and_rebuilt(threads: int, precision: Precision) -> None:
    def train(iterations: range, start: Tensor | None) -> Tensor:
        model = noisy_model(ModelConfig(2, 64, 1, 64), 5, 21)
        parameters, gradient = flatten_parameters(model)
        if start is not None:
            parameters.copy_(start)
        step = FastStep(model, gradient, precision, threads)
        for i in iterations:
            step(counter_batch(2, 10, 1 + i, i), 11)
            parameters -= 0.1 * gradient
        return parameters

    once = train(range(6), None)
    assert torch.equal(once, train(range(6), None))
    assert torch.equal(once, train(range(3, 6), train(range(3), None)))


@pytest.mark.parametrize("depth", [1, 3])
def test_bfloat16_is_near(depth: int) -> None:
    model = noisy_model(ModelConfig(depth, 128, 2, 128), 5, 21, noise=0.02)
    _, gradient = flatten_parameters(model)
    tokens = counter_batch(2, 10, 3, 0)
    plain = PlainStep(model, gradient)(tokens, 11)
    wanted = gradient.clone()
    assert_same(FastStep(model, gradient, "bf16", threads=1)(tokens, 11), plain, tolerance=2e-2)
    assert (gradient - wanted).norm() < 2e-2 * wanted.norm()


@pytest.mark.parametrize(
    ("width", "heads", "kind"),
    [
        (64, 1, FewHeads),
        (128, 2, FewHeads),
        (512, 1, FewHeads),
        (32, 1, FusedAttention),
        (64, 2, FusedAttention),
        (256, 4, FusedAttention),
        (512, 4, FusedAttention),
        (64, 32, FusedAttention),
    ],
)
def test_which_attention_and_decoder_a_shape_takes(width: int, heads: int, kind: type) -> None:
    config = ModelConfig(1, width, heads, 8)
    assert type(attention_for(config, 8, half=False)) is kind
    decoder = make_decoder("fast", GPT2(config, 5, 8), 2)
    assert type(decoder) is (PlainDecoder if kind is FewHeads else FastDecoder)
