"""Memory that a shard's layers use one after the other, and products into it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from internalize.models.fast.attention import FusedAttention
from internalize.models.fast.buffers import Buffer, operand_type
from internalize.models.gpt2 import GPT2
from internalize.models.step import Precision

# oneDNN's float32 product, which torch itself only uses for other types: for weights of this size and more it
# is an eighth faster than MKL's (benchmarks/LOG.md). The rule is by size, not by timing: same bytes every run.
LARGE_WEIGHT = 1 << 16


def large_product(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
    return product


def has_large_product() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Stream:
    """The residual stream of a tile and its gradient, float32; products read the gradient as an operand."""

    def __init__(self, rows: int, width: int, dtype: torch.dtype) -> None:
        self.x = Buffer.zeros(rows, width)
        self.back = Buffer.zeros(rows, width)
        same = dtype == torch.float32
        self.back_operand = self.back if same else Buffer.zeros(rows, width, dtype=dtype)


class Workspace:
    """Buffers for at most `rows` rows, of which at most `answer_rows` predict answer tokens."""

    def __init__(self, model: GPT2, precision: Precision, rows: int, answer_rows: int) -> None:
        config = model.config
        width, hidden = config.width, config.mlp_width
        self.dtype = operand_type(precision)
        self.rows, self.answer_rows = rows, answer_rows
        self.attention = FusedAttention(config, model.context, half=precision == "bf16")
        self.full = Stream(rows, width, self.dtype)
        self.answer = Stream(answer_rows, width, self.dtype)
        self.branch = Buffer.zeros(rows, width, dtype=self.dtype)
        self.unit_back = Buffer.zeros(rows, width, dtype=self.dtype)
        self.query_back = Buffer.zeros(answer_rows, width, dtype=self.dtype)
        self.attended_back = Buffer.zeros(rows, width, dtype=self.dtype)
        self.hidden_back = Buffer.zeros(rows, hidden, dtype=self.dtype)
        self.count = np.arange(max(rows, answer_rows), dtype=np.int32)
        self.has_large_product = self.dtype == torch.float32 and has_large_product()
        self._weight_back = torch.empty(0, dtype=self.dtype)

    def product(self, a: Tensor, b: Tensor, out: Buffer) -> Buffer:
        """a b, in the first rows of `out` or in new memory."""
        if self._is_large(b):
            return Buffer(large_product(a, b))
        rows = out.rows(a.shape[0])
        torch.mm(a, b, out=rows.tensor)
        return rows

    def add_product(self, total: Tensor, a: Tensor, b: Tensor) -> None:
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

    def _is_large(self, weight: Tensor) -> bool:
        # oneDNN takes columns out of a wider matrix, too, but a thousand times slower.
        dense = weight.is_contiguous() or weight.t().is_contiguous()
        return self.has_large_product and dense and weight.numel() >= LARGE_WEIGHT

    def operand(self, values: Tensor, out: Tensor) -> Tensor:
        """Float32 values as an operand of products; `out` is where they are rounded to, if they must be."""
        if self.dtype == torch.float32:
            return values
        return out.copy_(values)
