"""The generic module: against the formulas written out, and with its shortcut switched off by the weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from internalize.constructions import build_counter
from internalize.constructions.exactness import random_inputs
from internalize.constructions.transformer import Shape, SoftmaxTransformer

SHAPE = Shape(tokens=5, positions=6, embedding=7, depth=3, heads=2, head_size=4, mlp_widths=(9, 8))


def random_network(shape: Shape, seed: int = 0) -> SoftmaxTransformer:
    network = SoftmaxTransformer(shape).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.7, generator=generator)
    return network


def written_out(network: SoftmaxTransformer, tokens: Tensor) -> Tensor:
    """Appendix C, one sequence, one position and one head at a time."""
    x = [network.tokens[token] + network.positions[i] for i, token in enumerate(tokens.tolist())]
    for layer in network.blocks:
        attention = layer.attention
        mixed = []
        for i in range(len(x)):
            total = torch.zeros_like(x[0])
            for h in range(network.shape.heads):
                query = attention.query[h] @ x[i]
                scores = [float(query @ (attention.key[h] @ x[j])) for j in range(i + 1)]
                powers = [math.exp(score - max(scores)) for score in scores]
                for j, power in enumerate(powers):
                    total = total + power / sum(powers) * (attention.output[h] @ (attention.value[h] @ x[j]))
            mixed.append(total)
        x = []
        for vector in mixed:
            hidden = vector
            for k, (weight, bias) in enumerate(zip(layer.mlp.weights, layer.mlp.biases, strict=True)):
                hidden = weight @ hidden + bias
                if k < len(layer.mlp.weights) - 1:
                    hidden = hidden.clamp(min=0)
            x.append(hidden)
    return x[-1]


@torch.no_grad()
@pytest.mark.parametrize("shared", [0, 1, 3, 5, 6])
def test_forward_is_the_formula(shared: int) -> None:
    network = random_network(SHAPE)
    tokens = random_inputs(5, 6, 4, seed=1)
    tokens[:, :shared] = tokens[0, :shared]  # what inputs share in front is computed once
    expected = torch.stack([written_out(network, row) for row in tokens])
    torch.testing.assert_close(network(tokens), expected, rtol=1e-10, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("shared", [True, False])
def test_record_ends_where_forward_does(shared: bool) -> None:
    construction = build_counter(6, 5)
    network = construction.network if shared else random_network(construction.shape)
    tokens = construction.tokens(random_inputs(6, 5, 3, seed=2))
    records = network.record(tokens)
    assert records[0].scores.shape[0] == (1 if shared else 3)
    torch.testing.assert_close(records[-1].output[:, -1], network(tokens), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_the_shortcut_gives_what_the_plain_way_gives() -> None:
    construction = build_counter(12, 9)
    tokens = construction.tokens(random_inputs(12, 9, 20, seed=3))
    with_zeros = construction.network(tokens)
    for layer in construction.network.blocks:
        layer.attention.query[:, 0, 0] = 1e-300  # no zero any more: scores may depend on residues
    assert construction.network.record(tokens)[0].scores.shape[0] == 20
    torch.testing.assert_close(construction.network(tokens), with_zeros, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_weights_load_into_a_module_made_from_sizes_alone() -> None:
    construction = build_counter(10, 6)
    blank = SoftmaxTransformer(construction.shape).double()
    blank.load_state_dict(construction.network.state_dict())
    tokens = construction.tokens(random_inputs(10, 6, 30, seed=4))
    assert torch.equal(blank(tokens), construction.network(tokens))


class Operations(TorchDispatchMode):
    """Notes the name of every tensor operation."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@torch.no_grad()
def test_no_rounding_no_modulus_in_the_forward_pass() -> None:
    construction = build_counter(12, 7)
    tokens = construction.tokens(random_inputs(12, 7, 5, seed=5))
    with Operations() as operations:
        construction.network(tokens)
    forbidden = {"remainder", "fmod", "round", "floor", "ceil", "trunc", "argmax", "div", "gather", "sign"}
    assert operations.names & forbidden == set()
    assert {"_softmax", "relu_"} <= operations.names


def test_sizes_are_counted_right() -> None:
    network = random_network(SHAPE)
    assert sum(p.numel() for p in network.layers.parameters()) == SHAPE.parameters
    assert SHAPE.mlp_width == 9
    assert SHAPE.flops > 2 * SHAPE.positions * SHAPE.parameters
