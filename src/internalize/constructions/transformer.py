"""A generic transformer: softmax attention, heads' outputs summed, ReLU MLP; no residual, no layer norm.

It knows tokens, positions and weights, nothing of counters: what it computes is decided by what is loaded.
Scores are not divided by the root of the head size, as in the paper's appendix C.

Two shortcuts save work; for finite numbers they change results by rounding only (a zero weight is taken to
hide what it multiplies, which infinities would not respect). Attention is causal, so positions in front
of the first token in which the inputs of a batch differ are the same for all, and are computed once. And from
the zeros of the weights we follow which coordinates can depend on tokens at all: where queries and keys read
none of them, a layer's scores are the same for every input, and are computed once too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from internalize.errors import BadInput

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int


@dataclass(frozen=True)
class LayerRecord:
    """What happened in one layer. The batch is 1 in `scores` and `weights` where all inputs share them."""

    scores: Float[Tensor, "shared heads positions positions"]
    """(batch or 1, heads, positions, positions), -inf where a key comes after its query."""
    weights: Float[Tensor, "shared heads positions positions"]
    """(batch or 1, heads, positions, positions): the causal softmax of the scores."""
    mixed: Float[Tensor, "batch positions embedding"]
    """(batch, positions, embedding): the sum of the heads' outputs, which the MLP reads."""
    output: Float[Tensor, "batch positions embedding"]
    """(batch, positions, embedding): what the MLP writes."""


class ReluMlp(nn.Module):
    """Affine maps with a ReLU between each two."""

    def __init__(self, widths: Sequence[int]) -> None:
        """widths: input, hidden ones, output."""
        super().__init__()
        pairs = list(pairwise(widths))
        self.weights = nn.ParameterList(torch.zeros(outputs, inputs) for inputs, outputs in pairs)
        self.biases = nn.ParameterList(torch.zeros(outputs) for _, outputs in pairs)

    @torch.no_grad()
    def load(self, maps: Sequence[AffineWeights]) -> None:
        for weight, bias, values in zip(self.weights, self.biases, maps, strict=True):
            weight.copy_(values.weight)
            bias.copy_(values.bias)

    def depends(self, varying: Bool[Tensor, " embedding"]) -> Bool[Tensor, " embedding"]:
        """Which outputs can differ where only the coordinates `varying` (embedding,) bool differ."""
        for weight in self.weights:
            varying = (weight[:, varying] != 0).any(dim=1)
        return varying

    def forward(self, x: Float[Tensor, "*rows embedding"]) -> Float[Tensor, "*rows embedding"]:
        """(…, embedding) to the same shape."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = F.linear(x, weight, bias)
            if i < last:
                x = x.relu_()
        return x


class SoftmaxAttention(nn.Module):
    """Causal softmax attention; the heads' outputs are summed."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        inward = (shape.heads, shape.head_size, shape.embedding)
        self.query = nn.Parameter(torch.zeros(inward))
        self.key = nn.Parameter(torch.zeros(inward))
        self.value = nn.Parameter(torch.zeros(inward))
        self.output = nn.Parameter(torch.zeros(shape.heads, shape.embedding, shape.head_size))

    @torch.no_grad()
    def load(self, heads: Sequence[HeadWeights]) -> None:
        for h, head in enumerate(heads):
            self.query[h].copy_(head.query)
            self.key[h].copy_(head.key)
            self.value[h].copy_(head.value)
            self.output[h].copy_(head.output)

    def depends(self, varying: Bool[Tensor, " embedding"]) -> Bool[Tensor, " embedding"]:
        """Which outputs can differ, as for the MLP. Where scores can differ, every output can."""
        if self._scores_vary(varying):
            return torch.ones_like(varying)
        through = (self.value[:, :, varying] != 0).any(dim=2)
        return ((self.output != 0) & through[:, None, :]).any(dim=2).any(dim=0)

    def _scores_vary(self, varying: Bool[Tensor, " embedding"]) -> bool:
        return bool(self.query[..., varying].any() or self.key[..., varying].any())

    def forward(
        self,
        x: Float[Tensor, "new batch embedding"],
        before: Float[Tensor, "old 1 embedding"],
        first: int,
        varying: Bool[Tensor, " embedding"],
    ) -> tuple[
        Float[Tensor, "new-{first} batch embedding"],
        list[Float[Tensor, "shared new-{first} old+new"]],
        list[Float[Tensor, "shared new-{first} old+new"]],
    ]:
        """x: (new, batch, embedding), `before`: (old, 1, embedding), earlier positions that all inputs share.

        `first` is the first new position whose output is wanted. Returns the sum of the heads' outputs
        (new - first, batch, embedding) and, for each head, scores and weights
        (batch or 1, new - first, old + new).
        """
        readers = x if self._scores_vary(varying) else x[:, :1]
        seen = torch.cat([before.expand(-1, readers.shape[1], -1), readers])
        total = x.new_zeros(x.shape[0] - first, x.shape[1], x.shape[2])
        all_scores, all_weights = [], []
        for query, key, value, output in zip(self.query, self.key, self.value, self.output, strict=True):
            scores = _causal_scores(F.linear(readers[first:], query), F.linear(seen, key))
            weights = scores.softmax(dim=-1)
            total += F.linear(_mix(weights, F.linear(before, value), F.linear(x, value)), output)
            all_scores.append(scores)
            all_weights.append(weights)
        return total, all_scores, all_weights


class SoftmaxLayer(nn.Module):
    """Attention, then the MLP; each replaces what it reads."""

    def __init__(self, shape: Shape, mlp: ReluMlp) -> None:
        super().__init__()
        self.attention = SoftmaxAttention(shape)
        self.mlp = mlp

    def depends(self, varying: Bool[Tensor, " embedding"]) -> Bool[Tensor, " embedding"]:
        """Which coordinates can differ after this layer."""
        return self.mlp.depends(self.attention.depends(varying))


class SoftmaxTransformer(nn.Module):
    """Tokens to the representation of the last position. All weights are zero until they are loaded."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Parameter(torch.zeros(shape.tokens, shape.embedding))
        self.positions = nn.Parameter(torch.zeros(shape.positions, shape.embedding))
        widths = (shape.embedding, *shape.mlp_widths, shape.embedding)
        self.layers = nn.ModuleList(SoftmaxLayer(shape, ReluMlp(widths)) for _ in range(shape.depth))

    @property
    def blocks(self) -> list[SoftmaxLayer]:
        """The layers, from the first to the last."""
        return cast(list[SoftmaxLayer], list(self.layers))

    def forward(self, tokens: Int[Tensor, "batch positions"]) -> Float[Tensor, "batch embedding"]:
        """(batch, positions) token ids to (batch, embedding)."""
        shared = _shared_length(tokens)
        prefix = self._prefix(tokens[:1, :shared])
        x, varying = self._embed(tokens[:, shared:], shared), self._varying()
        last = self.shape.depth - 1
        for i, layer in enumerate(self.blocks):
            # Later layers attend to every position, so only the last layer may leave positions out.
            mixed, _, _ = layer.attention(x, prefix[i], len(x) - 1 if i == last else 0, varying)
            x, varying = layer.mlp(mixed), layer.depends(varying)
        return x[-1]

    def record(self, tokens: Int[Tensor, "batch positions"]) -> list[LayerRecord]:
        """The same pass with every position of every layer kept, and nothing left out."""
        x, varying = self._embed(tokens, 0), self._varying()
        records = []
        for layer in self.blocks:
            mixed, scores, weights = layer.attention(x, x[:0, :1], 0, varying)
            x, varying = layer.mlp(mixed), layer.depends(varying)
            both = torch.stack(scores, dim=1), torch.stack(weights, dim=1)
            records.append(LayerRecord(*both, mixed.transpose(0, 1), x.transpose(0, 1)))
        return records

    def _prefix(self, tokens: Int[Tensor, "1 shared"]) -> list[Float[Tensor, "shared 1 embedding"]]:
        """(1, shared) tokens to what each layer reads at these positions, (shared, 1, embedding) a layer."""
        x = self._embed(tokens, 0)
        inputs = [x]
        for layer in self.blocks[:-1]:
            mixed, _, _ = layer.attention(x, x[:0], 0, self._varying())
            x = layer.mlp(mixed)
            inputs.append(x)
        return inputs

    def _embed(self, tokens: Int[Tensor, "batch new"], start: int) -> Float[Tensor, "new batch embedding"]:
        """(batch, new) tokens from position `start` on to (new, batch, embedding).

        Position-major, because then mixing positions is one matrix product for the whole batch.
        """
        return self.tokens[tokens.T] + self.positions[start : start + tokens.shape[1], None, :]

    def _varying(self) -> Bool[Tensor, " embedding"]:
        """(embedding,) bool: the coordinates in which tokens differ."""
        return (self.tokens != self.tokens[:1]).any(dim=0)


def _shared_length(tokens: Int[Tensor, "batch positions"]) -> int:
    """How many leading positions hold the same token in all of (batch, positions), the last one excepted."""
    same = (tokens == tokens[:1]).all(dim=0)[:-1]
    return int(same.cumprod(dim=0).sum())


def _causal_scores(
    queries: Float[Tensor, "queries batch size"], keys: Float[Tensor, "keys batch size"]
) -> Float[Tensor, "batch queries keys"]:
    """(queries, batch, size) and (keys, batch, size) to (batch, queries, keys); both end at the same place."""
    scores = queries.transpose(0, 1) @ keys.permute(1, 2, 0)
    reach = len(keys) - len(queries) + 1
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(reach)
    return scores.masked_fill_(later, -torch.inf)


def _mix(
    weights: Float[Tensor, "shared queries seen"],
    before: Float[Tensor, "old 1 size"],
    values: Float[Tensor, "new batch size"],
) -> Float[Tensor, "queries batch size"]:
    """(batch or 1, queries, old + new) weights, (old, 1, size) and (new, batch, size) values to
    (queries, batch, size)."""
    old, new = weights.split([len(before), len(values)], dim=2)
    shared = (old @ before[:, 0]).transpose(0, 1)
    if len(weights) == 1:
        return (new[0] @ values.flatten(1)).unflatten(1, values.shape[1:]) + shared
    return (new @ values.transpose(0, 1)).transpose(0, 1) + shared


@dataclass(frozen=True)
class Shape:
    """All sizes of a transformer, so that its cost is known before anything is allocated."""

    tokens: int
    """Number of token ids."""
    positions: int
    """Length of the sequences that it reads."""
    embedding: int
    depth: int
    heads: int
    head_size: int
    mlp_widths: tuple[int, ...]
    """Hidden widths of every layer's MLP, from its input to its output."""

    @property
    def mlp_width(self) -> int:
        """The widest hidden layer."""
        return max(self.mlp_widths)

    @property
    def mlp_parameters(self) -> int:
        """Weights and biases of one layer's MLP."""
        widths = (self.embedding, *self.mlp_widths, self.embedding)
        return sum((a + 1) * b for a, b in pairwise(widths))

    @property
    def parameters(self) -> int:
        """Weights of all layers; the embedding tables are not counted."""
        attention = 4 * self.heads * self.head_size * self.embedding
        return self.depth * (attention + self.mlp_parameters)

    @property
    def flops(self) -> float:
        """Operations of one forward pass on one sequence, all positions of all layers, two a product."""
        projections = 4 * self.positions * self.heads * self.head_size * self.embedding
        mixing = 2 * self.positions**2 * self.heads * self.head_size
        return 2.0 * self.depth * (projections + mixing + self.positions * self.mlp_parameters)


@dataclass(frozen=True)
class HeadWeights:
    """One attention head: W_Q, W_K, W_V (head size, embedding) and W_C (embedding, head size)."""

    query: Float[Tensor, "head_size embedding"]
    key: Float[Tensor, "head_size embedding"]
    value: Float[Tensor, "head_size embedding"]
    output: Float[Tensor, "embedding head_size"]


@dataclass(frozen=True)
class AffineWeights:
    """x ↦ weight·x + bias: (outputs, inputs) and (outputs,)."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, " outputs"]


def available_memory() -> int:
    """Bytes that can be had without pushing others out."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def bytes_needed(shape: Shape, states: int) -> int:
    """Float64 weights, twice while they are written, tables, and one input on its way through a layer."""
    tables = (shape.tokens + shape.positions) * shape.embedding + 2 * states
    attention = 6 * shape.positions**2 * shape.heads  # scores and weights, and copies while they are measured
    hidden = shape.positions * (2 * shape.mlp_width + 6 * shape.embedding)
    return 8 * (2 * shape.parameters + 2 * tables + attention + hidden)


def require_memory(needed: int, field: str, what: str) -> None:
    """Refuse what would need more than there is."""
    available = available_memory()
    if needed > available:
        raise BadInput(field, f"{what} would need about {_size(needed)} of memory, {_size(available)} are free")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024 or unit == "PiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"


@dataclass(frozen=True)
class Directions:
    """Three blocks: what a position holds, what it fetched from another position, and where it is.

    For a counter the registers are residues and auxiliary residues; for any semiautomaton they are the
    entries of a transition map.
    """

    registers: int

    @property
    def size(self) -> int:
        return 2 * self.registers + 2

    @property
    def held(self) -> slice:
        """The registers of the position itself: the paper's first residue block."""
        return slice(0, self.registers)

    @property
    def fetched(self) -> slice:
        """The auxiliary registers, filled by the look-back head."""
        return slice(self.registers, 2 * self.registers)

    @property
    def position(self) -> slice:
        """The point on the circle that says where we are."""
        return slice(2 * self.registers, 2 * self.registers + 2)

    def extract(self, block: slice) -> Float64[Tensor, "block {self.size}"]:
        """The matrix (block, size) that reads a block; its transpose writes it. The paper's E_1, E_2, E_p."""
        return torch.eye(self.size, dtype=torch.float64)[block]
