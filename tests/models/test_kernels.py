"""Compiled kernels against torch, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from internalize.models.config import ModelConfig, Positions
from internalize.models.fast.attention import (
    Attended,
    FusedAttention,
    Level,
    Products,
    plan_shard,
    sorted_tokens,
)
from internalize.models.fast.few_heads import FewHeads
from internalize.models.fast.weights import Buffer
from internalize.models.gpt2 import rotate
from internalize.models.kernels.rows import gelu_back, gelu_kernel, normalise, normalise_back

SHAPES = [  # batch, positions, heads, head size, first query, position encoding
    (3, 7, 32, 2, 0, "absolute"),
    (2, 9, 5, 4, 3, "none"),
    (2, 5, 1, 64, 0, "absolute"),
    (2, 6, 40, 1, 5, "absolute"),
    (1, 1, 3, 3, 0, "absolute"),
    (2, 21, 17, 8, 4, "rotary"),
    (2, 9, 18, 4, 0, "rotary"),
    (1, 70, 16, 2, 40, "absolute"),
]


def reference(qkv: Tensor, batch: int, heads: int, positions: Positions) -> Tensor:
    """(batch · positions, 3 width) to (batch · positions, width)."""
    parts = (x.unflatten(0, (batch, -1)).unflatten(-1, (heads, -1)) for x in qkv.chunk(3, -1))
    q, k, v = (x.transpose(1, 2) for x in parts)
    if positions == "rotary":
        q, k = rotate(q, 0), rotate(k, 0)
    return scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).flatten(0, 1)


@pytest.mark.parametrize(("batch", "length", "heads", "size", "first", "positions"), SHAPES)
@pytest.mark.parametrize("loudness", [1.0, 12.0])
@pytest.mark.parametrize("kind", [FusedAttention, FewHeads])
def test_attention(
    kind: type[FusedAttention | FewHeads],
    batch: int,
    length: int,
    heads: int,
    size: int,
    first: int,
    positions: Positions,
    loudness: float,
) -> None:
    """A loudness of 12 makes scores of some hundreds, where a careless softmax overflows."""
    width, rows = heads * size, batch * length
    generator = torch.Generator().manual_seed(0)
    qkv = loudness * torch.randn(rows, 3 * width, generator=generator)
    bias = torch.randn(3 * width, generator=generator)
    out_back = torch.randn(rows, width, generator=generator)
    out_back.view(batch, length, width)[:, :first] = 0

    wanted_qkv = (qkv + bias).double().requires_grad_()
    wanted = reference(wanted_qkv, batch, heads, positions)
    wanted.backward(out_back.double())

    row = np.arange(rows, dtype=np.int32).reshape(batch, length)
    back = np.zeros((rows, 3 * width), np.float32)
    bias_back = np.zeros(3 * width, np.float32)
    attention = kind(ModelConfig(1, width, heads, 1, positions), length, half=False)
    source = Products(Buffer(qkv), Buffer(qkv), width, 2 * width, row, row, back, back)
    level = Level(rows, np.full(batch, first, np.int32), row, None)
    to = Attended(Buffer.zeros(rows, width), Buffer.zeros(rows, heads), Buffer.zeros(rows, heads))
    attention.forward(source, bias.numpy(), level, to)
    attention.backward(source, bias.numpy(), level, to, out_back.numpy(), bias_back)

    seen = slice(first, None)
    got = to.out.tensor.view(batch, length, width)[:, seen]
    torch.testing.assert_close(
        got, wanted.detach().float().view(batch, length, width)[:, seen], rtol=1e-4, atol=2e-5 * loudness**2
    )
    assert wanted_qkv.grad is not None
    scale = wanted_qkv.grad.abs().max().item()
    tolerance = 3e-6 * loudness**2 * scale
    torch.testing.assert_close(torch.from_numpy(back), wanted_qkv.grad.float(), rtol=1e-4, atol=tolerance)
    torch.testing.assert_close(
        torch.from_numpy(bias_back), wanted_qkv.grad.sum(0).float(), rtol=1e-4, atol=tolerance * rows
    )


@pytest.mark.parametrize("kind", [FusedAttention, FewHeads])
def test_attention_in_bfloat16_reads_and_writes_rounded_numbers(
    kind: type[FusedAttention | FewHeads],
) -> None:
    batch, length, heads, size = 2, 9, 20, 4
    width, rows = heads * size, batch * length
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(rows, 3 * width, generator=generator).bfloat16()
    row = np.arange(rows, dtype=np.int32).reshape(batch, length)
    attention = kind(ModelConfig(1, width, heads, 1), length, half=True)
    source = Products(Buffer(qkv), Buffer(qkv), width, 2 * width, row, row)
    level = Level(rows, np.zeros(batch, np.int32), row, None)
    out = Buffer.zeros(rows, width, dtype=torch.bfloat16)
    to = Attended(out, Buffer.zeros(rows, heads), Buffer.zeros(rows, heads))
    attention.forward(source, np.zeros(3 * width, np.float32), level, to)
    wanted = reference(qkv.float(), batch, heads, "none").bfloat16()
    torch.testing.assert_close(out.tensor, wanted, rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize("width", [1, 15, 64, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu(width: int, dtype: torch.dtype) -> None:
    before = (4 * torch.randn(7, width, generator=torch.Generator().manual_seed(0))).to(dtype)
    before[0, 0], before[1, 0] = -200.0, 200.0
    bias = torch.linspace(-1, 1, width)
    x = (before.float() + bias).double().requires_grad_()
    wanted = gelu(x, approximate="tanh")
    wanted.sum().backward()
    after, slope = Buffer.zeros(7, width, dtype=dtype), Buffer.zeros(7, width, dtype=dtype)
    gelu_kernel(dtype == torch.bfloat16)(Buffer(before).array, bias.numpy(), after.array, slope.array)
    rounding = 2**-8 if dtype == torch.bfloat16 else 3e-6
    torch.testing.assert_close(after.tensor.double(), wanted.detach(), rtol=rounding, atol=rounding)
    torch.testing.assert_close(slope.tensor.double(), x.grad, rtol=rounding, atol=rounding)

    bias_back = np.zeros(width, np.float32)
    gelu_back(after.array, slope.array, bias_back)
    assert x.grad is not None
    expected = wanted.detach() * x.grad
    torch.testing.assert_close(
        torch.from_numpy(bias_back).double(), expected.sum(0), rtol=20 * rounding, atol=200 * rounding
    )


@pytest.mark.parametrize("width", [1, 6, 64, 130])
def test_residual_and_layer_norm(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    source, branch = torch.randn(4, width, generator=generator), torch.randn(6, width, generator=generator)
    bias, unit_back = torch.randn(width, generator=generator), torch.randn(6, width, generator=generator)
    residual_back = torch.randn(6, width, generator=generator)
    index = np.array([0, 3, 3, 1, 2, 0], np.int32)
    x, unit, scale = Buffer.zeros(6, width), Buffer.zeros(6, width), Buffer.zeros(6)
    arrays: list[Any] = [source.numpy(), index, branch.numpy(), bias.numpy()]
    normalise(*arrays, x.array, unit.array, scale.array, 1e-5)

    wanted_x = (source[torch.from_numpy(index).long()] + branch + bias).double().requires_grad_()
    wanted = layer_norm(wanted_x, (width,), eps=1e-5)
    wanted.backward(unit_back.double())
    torch.testing.assert_close(unit.tensor.double(), wanted.detach(), rtol=1e-4, atol=1e-5)
    bias_back = np.zeros(width, np.float32)
    back = residual_back.clone()
    normalise_back(unit_back.numpy(), unit.array, scale.array, back.numpy(), back.numpy(), bias_back)
    assert wanted_x.grad is not None
    expected = residual_back.double() + wanted_x.grad
    torch.testing.assert_close(back.double(), expected, rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(torch.from_numpy(bias_back).double(), expected.sum(0), rtol=1e-4, atol=1e-4)


def test_plan_gives_one_row_to_each_prefix() -> None:
    tokens = torch.randint(3, (40, 8), generator=torch.Generator().manual_seed(0))
    plan = plan_shard(sorted_tokens(tokens), start=4, vocabulary=3, depth=2, tile=40)
    (tile,) = plan.tiles
    place: dict[tuple[int, ...], int] = {}
    for b in range(40):
        for i in range(7):
            prefix = tuple(tile.tokens[b, : i + 1])
            assert place.setdefault(prefix, tile.full.row[b, i]) == tile.full.row[b, i]
            pair = tile.pair[b, i]
            assert (plan.token_of[pair], plan.position_of[pair]) == (tile.tokens[b, i], i)
            assert tile.full.below[tile.full.row[b, i]] == pair
            if i >= 4:
                assert tile.answer.below[tile.answer.row[b, i]] == tile.full.row[b, i]
    assert sorted(place.values()) == list(range(tile.full.count))
