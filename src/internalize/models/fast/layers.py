"""What a layer of the fast path computes with: memory that the layers use one after the other, and sources.

A source says where a layer's queries, keys and values come from. There are three cases with one interface: the
first layer reads a table of (token, position) pairs, a middle layer all rows of the tile; the last layer makes
keys and values for all rows but queries only for those that predict an answer token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from internalize.models.config import Precision
from internalize.models.fast.attention import Products, ShardPlan, TilePlan
from internalize.models.fast.few_heads import attention_for
from internalize.models.fast.weights import Buffer, LayerWeights, Weights, operand_type
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.kernels.rows import add_rows, normalise, normalise_back, take_rows

if TYPE_CHECKING:
    from jaxtyping import Float

# oneDNN's float32 product, which torch itself only uses for other types: for weights of this size and more it
# is an eighth faster than MKL's (benchmarks/LOG.md). The rule is by size, not by timing: same bytes every run.
LARGE_WEIGHT = 1 << 16


def large_product(
    a: Float[Tensor, "rows inner"], b: Float[Tensor, "inner columns"]
) -> Float[Tensor, "rows columns"]:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
    return product


def has_large_product() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Stream:
    """The residual stream of a tile and its gradient, float32; products read the gradient as an operand."""

    def __init__(self, rows: int, width: int, dtype: torch.dtype, drops: bool) -> None:
        self.x = Buffer.zeros(rows, width)
        self.back = Buffer.zeros(rows, width)
        same = dtype == torch.float32 and not drops  # which makes an operand of its own
        self.back_operand = self.back if same else Buffer.zeros(rows, width, dtype=dtype)


class Workspace:
    """Buffers for at most `rows` rows, of which at most `answer_rows` predict answer tokens."""

    def __init__(self, model: GPT2, precision: Precision, rows: int, answer_rows: int) -> None:
        config = model.config
        width, hidden = config.width, config.mlp_width
        self.dtype = operand_type(precision)
        self.rows, self.answer_rows = rows, answer_rows
        self.drops = config.dropout is not None
        self.attention = attention_for(config, model.context, half=precision == "bf16")
        self.full = Stream(rows, width, self.dtype, self.drops)
        self.answer = Stream(answer_rows, width, self.dtype, self.drops)
        self.branch = Buffer.zeros(rows, width, dtype=self.dtype)
        self.unit_back = Buffer.zeros(rows, width, dtype=self.dtype)
        self.query_back = Buffer.zeros(answer_rows, width, dtype=self.dtype)
        self.attended_back = Buffer.zeros(rows, width, dtype=self.dtype)
        self.dropped_back = Buffer.zeros(rows if self.drops else 0, width, dtype=self.dtype)
        self.no_bias, self.unused = Buffer.zeros(width).array, Buffer.zeros(width).array
        self.hidden_back = Buffer.zeros(rows, hidden, dtype=self.dtype)
        self.count = np.arange(max(rows, answer_rows), dtype=np.int32)
        self.has_large_product = self.dtype == torch.float32 and has_large_product()
        self._weight_back = torch.empty(0, dtype=self.dtype)

    def product(self, a: Float[Tensor, "rows inner"], b: Float[Tensor, "inner columns"], out: Buffer) -> Buffer:
        """a b, in the first rows of `out` or in new memory."""
        if self._is_large(b):
            return Buffer(large_product(a, b))
        rows = out.rows(a.shape[0])
        torch.mm(a, b, out=rows.tensor)
        return rows

    def add_product(
        self,
        total: Float[Tensor, "rows columns"],
        a: Float[Tensor, "rows inner"],
        b: Float[Tensor, "inner columns"],
    ) -> None:
        """total += a b, in float32 also where the operands are not."""
        if self.has_large_product and total.numel() >= LARGE_WEIGHT:
            total += large_product(a, b)
        elif self.dtype == torch.float32:
            total.addmm_(a, b)
        else:
            if self._weight_back.numel() < total.numel():
                self._weight_back = torch.empty(total.numel(), dtype=self.dtype)
            product = self._weight_back[: total.numel()].view(total.shape)
            torch.mm(a, b, out=product)
            total += product

    def _is_large(self, weight: Float[Tensor, "inner columns"]) -> bool:
        # oneDNN takes columns out of a wider matrix, too, but a thousand times slower.
        dense = weight.is_contiguous() or weight.t().is_contiguous()
        return self.has_large_product and dense and weight.numel() >= LARGE_WEIGHT

    def operand(
        self, values: Float[Tensor, "rows columns"], out: Float[Tensor, " *buffer"]
    ) -> Float[Tensor, "rows columns"]:
        """Float32 values as an operand of products; `out` is where they are rounded to, if they must be."""
        if self.dtype == torch.float32:
            return values
        return out.copy_(values)


class Entrance(Protocol):
    """The embeddings: where the rows of the first layer come from, and where their gradients go."""

    def begin(self, plan: ShardPlan) -> None: ...

    def enter(self, plan: TilePlan) -> None: ...

    def leave(self, plan: TilePlan) -> None: ...

    def end(self, plan: ShardPlan) -> None: ...


class LayerSource(Protocol):
    def forward(self, plan: TilePlan) -> Products:
        """Make queries, keys and values for a tile."""
        ...

    def residual(self, plan: TilePlan) -> tuple[Any, Any]:
        """The residual stream that enters the layer, (·, width), and the row of it for each row that leaves."""
        ...

    def backward(self, plan: TilePlan) -> None:
        """Carry the gradients of queries, keys, values and residual to the layer below."""
        ...


class Norm:
    """Normalised rows that enter a layer, and where the bias before them collects its gradient."""

    def __init__(self, rows: int, width: int, dtype: torch.dtype, bias_back: Any) -> None:
        self.unit = Buffer.zeros(rows, width, dtype=dtype)
        self.scale = Buffer.zeros(rows)
        self.bias_back = bias_back


class TableSource:
    """The first layer's: one row for each (token, position) pair that occurs in the shard."""

    def __init__(
        self, work: Workspace, weights: Weights, gradient: dict[str, Buffer], pairs: int, width: int
    ) -> None:
        self.work, self.weights, self.layer, self.gradient = work, weights, weights.layers[0], gradient
        self.no_bias = Buffer.zeros(width)
        self.x = Buffer.zeros(pairs, width)
        self.x_back = Buffer.zeros(pairs, width)
        self.branch = Buffer.zeros(pairs, width)
        self.norm = Norm(pairs, width, work.dtype, Buffer.zeros(width).array)
        self.qkv = Buffer.zeros(pairs, 3 * width, dtype=work.dtype)
        self.qkv_back = Buffer.zeros(pairs, 3 * width)
        self.qkv_operand = torch.empty(pairs, 3 * width, dtype=work.dtype)
        self.unit_back = Buffer.zeros(pairs, width, dtype=work.dtype)
        self.pairs = 0

    def begin(self, plan: ShardPlan) -> None:
        """Fill the table."""
        self.pairs = n = len(plan.token_of)
        if self.weights.positions is not None:
            take_rows(self.weights.positions.array, plan.position_of, self.branch.array)
        normalise(
            self.weights.embedding.array,
            plan.token_of,
            self.branch.array,
            self.no_bias.array,
            self.x.array,
            self.norm.unit.array,
            self.norm.scale.array,
            LAYER_NORM_EPSILON,
        )
        torch.mm(self.norm.unit.tensor[:n], self.layer.attention, out=self.qkv.tensor[:n])
        self.qkv_back.tensor[:n].zero_()
        self.x_back.tensor[:n].zero_()

    def enter(self, plan: TilePlan) -> None:
        """The table serves all tiles."""

    def leave(self, plan: TilePlan) -> None:
        """Likewise."""

    def forward(self, plan: TilePlan) -> Products:
        width = self.x.array.shape[1]
        back = self.qkv_back.array
        return Products(self.qkv, self.qkv, width, 2 * width, plan.pair, plan.pair, back, back)

    def residual(self, plan: TilePlan) -> tuple[Any, Any]:
        level = plan.answer if len(self.weights.layers) == 1 else plan.full
        return self.x.array, level.below

    def backward(self, plan: TilePlan) -> None:
        last = len(self.weights.layers) == 1
        level, stream = (plan.answer, self.work.answer) if last else (plan.full, self.work.full)
        add_rows(self.x_back.array, level.below, stream.back.array)

    def end(self, plan: ShardPlan) -> None:
        """From the table's gradients to those of the first product and the embeddings."""
        n = self.pairs
        back = self.work.operand(self.qkv_back.tensor[:n], self.qkv_operand[:n])
        unit = self.norm.unit.tensor[:n]
        self.work.add_product(self.gradient["h.0.attn.c_attn.weight"].tensor, unit.t(), back)
        torch.mm(back, self.layer.attention.t(), out=self.unit_back.tensor[:n])
        x_back = self.x_back.array[:n]
        normalise_back(
            self.unit_back.array,
            self.norm.unit.array,
            self.norm.scale.array,
            x_back,
            x_back,
            self.norm.bias_back,
        )
        add_rows(self.gradient["wte.weight"].array, plan.token_of, x_back)
        if self.weights.positions is not None:
            add_rows(self.gradient["wpe.weight"].array, plan.position_of, x_back)


class FullSource:
    """A middle layer's: queries, keys and values for all rows of the tile."""

    def __init__(self, work: Workspace, layer: LayerWeights, norm: Norm, weight_back: Buffer) -> None:
        width = weight_back.tensor.shape[0]
        self.work, self.layer, self.norm, self.weight_back = work, layer, norm, weight_back
        self.qkv = Buffer.zeros(work.rows, 3 * width, dtype=work.dtype)
        self.qkv_back = Buffer.zeros(work.rows, 3 * width)
        self.qkv_operand = torch.empty(
            0 if work.dtype == torch.float32 else work.rows, 3 * width, dtype=work.dtype
        )

    def forward(self, plan: TilePlan) -> Products:
        n = plan.full.count
        qkv = self.work.product(self.norm.unit.tensor[:n], self.layer.attention, self.qkv)
        width = self.norm.unit.array.shape[1]
        self.qkv_back.tensor[:n].zero_()
        back, row = self.qkv_back.array, plan.full.row
        return Products(qkv, qkv, width, 2 * width, row, row, back, back)

    def residual(self, plan: TilePlan) -> tuple[Any, Any]:
        return self.work.full.x.array, self.work.count[: plan.full.count]

    def backward(self, plan: TilePlan) -> None:
        n, work = plan.full.count, self.work
        back = work.operand(self.qkv_back.tensor[:n], self.qkv_operand[:n])
        work.add_product(self.weight_back.tensor, self.norm.unit.tensor[:n].t(), back)
        unit_back = work.product(back, self.layer.attention.t(), work.unit_back)
        enter_norm_back(work, self.norm, unit_back)


class AnswerSource:
    """The last layer's: keys and values for all rows of the tile, queries for the answer rows."""

    def __init__(self, work: Workspace, layer: LayerWeights, norm: Norm, weight_back: Buffer) -> None:
        self.width = width = weight_back.tensor.shape[0]
        self.work, self.layer, self.norm, self.weight_back = work, layer, norm, weight_back
        self.unit = Buffer.zeros(work.answer_rows, width, dtype=work.dtype)
        self.q = Buffer.zeros(work.answer_rows, width, dtype=work.dtype)
        self.q_back = Buffer.zeros(work.answer_rows, width)
        self.kv = Buffer.zeros(work.rows, 2 * width, dtype=work.dtype)
        self.kv_back = Buffer.zeros(work.rows, 2 * width)
        half = work.dtype != torch.float32
        self.q_operand = torch.empty(work.answer_rows if half else 0, width, dtype=work.dtype)
        self.kv_operand = torch.empty(work.rows if half else 0, 2 * width, dtype=work.dtype)

    def forward(self, plan: TilePlan) -> Products:
        n, answers = plan.full.count, plan.answer.count
        weight = self.layer.attention
        kv = self.work.product(self.norm.unit.tensor[:n], weight[:, self.width :], self.kv)
        take_rows(self.norm.unit.array, plan.answer.below, self.unit.array)
        q = self.work.product(self.unit.tensor[:answers], weight[:, : self.width], self.q)
        self.q_back.tensor[:answers].zero_()
        self.kv_back.tensor[:n].zero_()
        rows = plan.answer.row, plan.full.row
        return Products(q, kv, 0, self.width, *rows, self.q_back.array, self.kv_back.array)

    def residual(self, plan: TilePlan) -> tuple[Any, Any]:
        return self.work.full.x.array, plan.answer.below

    def backward(self, plan: TilePlan) -> None:
        n, answers, work, width = plan.full.count, plan.answer.count, self.work, self.width
        weight, weight_back = self.layer.attention, self.weight_back.tensor
        q_back = work.operand(self.q_back.tensor[:answers], self.q_operand[:answers])
        kv_back = work.operand(self.kv_back.tensor[:n], self.kv_operand[:n])
        work.add_product(weight_back[:, :width], self.unit.tensor[:answers].t(), q_back)
        work.add_product(weight_back[:, width:], self.norm.unit.tensor[:n].t(), kv_back)
        unit_back = work.product(kv_back, weight[:, width:].t(), work.unit_back)
        query_back = work.product(q_back, weight[:, :width].t(), work.query_back)
        add_rows(unit_back.array, plan.answer.below, query_back.array)
        work.full.back.tensor[:n].zero_()
        add_rows(work.full.back.array, plan.answer.below, work.answer.back.array)
        enter_norm_back(work, self.norm, unit_back)


def enter_norm_back(work: Workspace, norm: Norm, unit_back: Buffer) -> None:
    """Through the layer norm at a layer's entrance, into the stream of all rows."""
    rows = len(unit_back.array)
    normalise_back(
        unit_back.array,
        norm.unit.array,
        norm.scale.array,
        work.full.back.array[:rows],
        work.full.back_operand.array[:rows],
        norm.bias_back,
    )
