"""Generation with the fast kernels: a prompt at once, then one token at a time over cached keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from internalize.models.fast.attention import Attended, FusedAttention, Level, Products
from internalize.models.fast.step import ThreadTeam
from internalize.models.fast.weights import Buffer, LayerWeights, Weights
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.kernels.rows import gelu_kernel, normalise

if TYPE_CHECKING:
    from jaxtyping import Float, Int

ROWS_A_TILE = 1024


class FastDecoder:
    """Next-token logits for a batch of sequences of equal length, on the CPU in float32.

    Keys and values take 8 · depth · batch · length · width bytes: evaluate many sequences in batches of some
    hundreds. A decoder can be used again: `prefill` starts anew, with the model's weights of that moment.
    """

    def __init__(self, model: GPT2, batch: int, length: int | None = None, threads: int | None = None) -> None:
        """batch: most sequences at once; length: most tokens of one, the model's context if not given."""
        self.model = model
        self.length = model.context if length is None else length
        self.weights = Weights(model, "fp32")
        config = model.config
        self.cache = [Buffer.zeros(batch * self.length, 2 * config.width) for _ in range(config.depth)]
        self.workers = ThreadTeam(threads)
        self.attention = [
            FusedAttention(config, model.context, half=False) for _ in range(self.workers.threads)
        ]
        self.batch = batch
        self.seen = 0
        self.prompt = 0

    def prefill(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocabulary"]:
        """Read (batch, new) tokens from the beginning; logits (batch, vocabulary) after the last."""
        self.weights.refresh()
        self.seen = 0
        self.prompt = tokens.shape[1]
        return self._read(tokens)

    def append(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        """Read one more token of each sequence, (batch,); logits (batch, vocabulary) after it."""
        return self._read(tokens[:, None])

    def go_on(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocabulary"]:
        """Read (batch, new) tokens right after the prompt, in the place of what came there before."""
        self.seen = self.prompt
        return self._read(tokens)

    @torch.no_grad()
    def _read(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocabulary"]:
        batch, new = tokens.shape
        if batch > self.batch or self.seen + new > self.length:
            raise ValueError(
                f"decoder for {self.batch} sequences of {self.length} tokens got {batch} of {self.seen + new}"
            )
        logits = torch.empty(batch, self.model.vocabulary)
        tile = max(1, ROWS_A_TILE // new)
        starts = range(0, batch, tile)
        threads = self.workers.threads

        def work(part: int) -> None:
            for start in starts[part::threads]:
                rows = slice(start, min(start + tile, batch))
                Tile(self, self.attention[part], tokens[rows], start).read(logits[rows])

        self.workers.run(work, min(threads, len(starts)))
        self.seen += new
        return logits


class Tile:
    """Some sequences' new tokens on their way through the layers."""

    def __init__(
        self, decoder: FastDecoder, attention: FusedAttention, tokens: Int[Tensor, "batch new"], start: int
    ) -> None:
        """tokens: (batch, new); start: number of the first sequence in the decoder's cache."""
        self.decoder, self.attention, self.tokens, self.start = decoder, attention, tokens, start
        self.batch, self.new = tokens.shape
        seen, positions = decoder.seen, decoder.seen + self.new
        sequence = np.arange(self.batch, dtype=np.int32)[:, None]
        self.key_row = (np.int32(start) + sequence) * np.int32(decoder.length) + np.arange(
            positions, dtype=np.int32
        )
        # Rows of the new positions; those of earlier ones are never asked for.
        self.row = sequence * np.int32(self.new) + np.arange(-seen, self.new, dtype=np.int32)
        self.gelu = gelu_kernel(half=False)

    def read(self, logits: Float[Tensor, "batch vocabulary"]) -> None:
        """Fill the cache for the new positions, and `logits` (batch, vocabulary) with those after the last."""
        weights, model = self.decoder.weights, self.decoder.model
        x = Buffer(model.embed(self.tokens, self.decoder.seen).flatten(0, 1).contiguous())
        unit = self.add(x, torch.zeros_like(x.tensor), torch.zeros(x.tensor.shape[1]))
        for i, layer in enumerate(weights.layers):
            last = i == len(weights.layers) - 1
            x, unit = self.read_layer(x, unit, layer, self.decoder.cache[i], last=last)
        torch.addmm(weights.logits_bias.tensor, unit.tensor, weights.unembedding.t(), out=logits)

    def read_layer(
        self, x: Buffer, unit: Buffer, layer: LayerWeights, cache: Buffer, *, last: bool
    ) -> tuple[Buffer, Buffer]:
        """x, unit: (rows, width). In the last layer only the last position goes on."""
        width = x.tensor.shape[1]
        qkv = unit.tensor @ layer.attention
        places = cache.tensor.view(-1, self.decoder.length, 2 * width)
        seen = self.decoder.seen
        places[self.start : self.start + self.batch, seen : seen + self.new] = qkv.view(
            self.batch, self.new, 3 * width
        )[:, :, width:]
        first, out_row = (seen + self.new - 1, self.row // np.int32(self.new)) if last else (seen, self.row)
        out = self.attend(Buffer(qkv), cache, layer, first, out_row)
        if last:
            x = Buffer(x.tensor.view(self.batch, self.new, width)[:, -1].contiguous())
        unit = self.add(x, out @ layer.project, layer.project_bias.tensor)
        hidden = Buffer(unit.tensor @ layer.expand)
        self.gelu(hidden.array, layer.expand_bias.array, hidden.array, np.empty_like(hidden.array))
        return x, self.add(x, hidden.tensor @ layer.contract, layer.contract_bias.tensor)

    def attend(
        self, qkv: Buffer, cache: Buffer, layer: LayerWeights, first: int, out_row: Any
    ) -> Float[Tensor, "rows width"]:
        """Mixed values (rows, width) of the queries from position `first` on."""
        config = self.decoder.model.config
        rows = self.batch * (self.decoder.seen + self.new - first)
        to = Attended(
            Buffer(torch.empty(rows, config.width)),
            Buffer(torch.empty(rows, config.heads)),
            Buffer(torch.empty(rows, config.heads)),
        )
        products = Products(qkv, cache, 0, config.width, self.row, self.key_row)
        level = Level(rows, np.full(self.batch, first, np.int32), out_row, None)
        self.attention.forward(products, layer.attention_bias.array, level, to)
        return to.out.tensor

    def add(self, x: Buffer, branch: Float[Tensor, "rows width"], bias: Float[Tensor, " width"]) -> Buffer:
        """Add a branch to the residual stream in place; returns the normalised rows."""
        unit = Buffer(torch.empty_like(x.tensor))
        index = np.arange(len(x.array), dtype=np.int32)
        scale = np.empty(len(index), np.float32)
        arrays = x.array, index, Buffer(branch).array, Buffer(bias).array, x.array, unit.array
        normalise(*arrays, scale, LAYER_NORM_EPSILON)
        return unit
