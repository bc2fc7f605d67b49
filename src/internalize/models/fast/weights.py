"""The model's weights as the products read them, and gradients in the parameters' layout.

A buffer is memory seen both by torch (for products) and by numba (for what lies between them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from internalize.models.config import Precision
from internalize.models.gpt2 import GPT2, Block, Conv1D
from internalize.models.kernels.rows import unfold

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped


def operand_type(precision: Precision) -> torch.dtype:
    """The type of the numbers that products read."""
    return torch.bfloat16 if precision == "bf16" else torch.float32


def as_array(tensor: Shaped[Tensor, " *shape"]) -> Any:
    """The same memory for numba, which sees bfloat16 as uint16."""
    if tensor.dtype == torch.bfloat16:
        return tensor.detach().view(torch.int16).numpy().view(np.uint16)
    return tensor.detach().numpy()


class Buffer:
    """A tensor and the array over its memory; `rows` gives the first ones of both."""

    __slots__ = ("array", "tensor")

    def __init__(self, tensor: Shaped[Tensor, " *shape"], array: Any = None) -> None:
        self.tensor = tensor
        self.array = as_array(tensor) if array is None else array

    @classmethod
    def zeros(cls, *shape: int, dtype: torch.dtype = torch.float32) -> Buffer:
        return cls(torch.zeros(shape, dtype=dtype))

    def rows(self, count: int) -> Buffer:
        return Buffer(self.tensor[:count], self.array[:count])


class LayerWeights:
    """One layer's weights, layer norms folded in, in the operands' precision; biases in float32."""

    def __init__(self, block: Block, dtype: torch.dtype) -> None:
        self.block = block
        self.attention = torch.empty_like(block.attn.c_attn.weight.data, dtype=dtype)
        self.attention_bias = Buffer.zeros(*block.attn.c_attn.bias.shape)
        self.expand = torch.empty_like(block.mlp.c_fc.weight.data, dtype=dtype)
        self.expand_bias = Buffer.zeros(*block.mlp.c_fc.bias.shape)
        # In float32 these two are the parameters themselves, else copies.
        self.project = block.attn.c_proj.weight.data.to(dtype)
        self.contract = block.mlp.c_proj.weight.data.to(dtype)
        self.project_bias = Buffer(block.attn.c_proj.bias.data)
        self.contract_bias = Buffer(block.mlp.c_proj.bias.data)

    def refresh(self) -> None:
        """Take over what the parameters are now."""
        block = self.block
        fold(block.ln_1, block.attn.c_attn, self.attention, self.attention_bias.tensor)
        fold(block.ln_2, block.mlp.c_fc, self.expand, self.expand_bias.tensor)
        if self.project.dtype != torch.float32:
            self.project.copy_(block.attn.c_proj.weight.data)
            self.contract.copy_(block.mlp.c_proj.weight.data)


def blocks(model: GPT2) -> list[Block]:
    return [block for block in model.transformer.h if isinstance(block, Block)]


def fold(
    norm: nn.LayerNorm,
    product: Conv1D,
    weight: Float[Tensor, "inputs outputs"],
    bias: Float[Tensor, " outputs"],
) -> None:
    """weight: (inputs, outputs) and bias: (outputs,) out."""
    torch.mul(product.weight.data, norm.weight.data[:, None], out=weight)
    torch.addmv(product.bias.data, product.weight.data.t(), norm.bias.data, out=bias)


class Weights:
    """All weights of a model for one step."""

    def __init__(self, model: GPT2, precision: Precision) -> None:
        self.model = model
        trunk = model.transformer
        self.layers = [LayerWeights(block, operand_type(precision)) for block in blocks(model)]
        self.embedding = Buffer(trunk.wte.weight.data)
        absolute = model.config.positions == "absolute"
        self.positions = Buffer(trunk.wpe.weight.data) if absolute else None
        self.unembedding = torch.empty_like(trunk.wte.weight.data)
        self.logits_bias = Buffer.zeros(model.vocabulary)
        self.refresh()

    def refresh(self) -> None:
        for layer in self.layers:
            layer.refresh()
        norm, embedding = self.model.transformer.ln_f, self.embedding.tensor
        torch.mul(embedding, norm.weight.data, out=self.unembedding)
        torch.mv(embedding, norm.bias.data, out=self.logits_bias.tensor)


class Gradients:
    """A flat gradient with the views that the backward pass fills.

    Until `unfold`, the entries of c_attn and c_fc are those of the folded weights, and the unembedding's
    share is kept apart.
    """

    def __init__(self, model: GPT2, flat: Float[Tensor, " numel"]) -> None:
        """flat: (numel,) in the order of `model.parameters()`."""
        self.model = model
        self.flat = flat
        self.of: dict[str, Buffer] = {}
        start = 0
        for name, parameter in model.named_parameters():
            view = flat[start : start + parameter.numel()].view(parameter.shape)
            self.of[name.removeprefix("transformer.")] = Buffer(view)
            start += parameter.numel()
        self.unembedding = Buffer.zeros(model.config.width, model.vocabulary)
        self.logits_bias = Buffer.zeros(model.vocabulary)

    def clear(self) -> None:
        for tensor in (self.flat, self.unembedding.tensor, self.logits_bias.tensor):
            tensor.zero_()

    def add(self, other: Gradients) -> None:
        self.flat += other.flat
        self.unembedding.tensor += other.unembedding.tensor
        self.logits_bias.tensor += other.logits_bias.tensor

    def unfold(self) -> None:
        """Make it the gradient of the model's own parameters."""
        for i, block in enumerate(blocks(self.model)):
            self._unfold_product(f"h.{i}.ln_1", block.ln_1, f"h.{i}.attn.c_attn", block.attn.c_attn)
            self._unfold_product(f"h.{i}.ln_2", block.ln_2, f"h.{i}.mlp.c_fc", block.mlp.c_fc)
        norm, embedding = self.model.transformer.ln_f, self.model.transformer.wte.weight.data
        unfold(
            as_array(embedding.t().contiguous()),
            as_array(norm.weight.data),
            as_array(norm.bias.data),
            self.logits_bias.array,
            self.unembedding.array,
            self.of["ln_f.weight"].array,
            self.of["ln_f.bias"].array,
        )
        self.of["wte.weight"].tensor += self.unembedding.tensor.t()

    def _unfold_product(self, norm_name: str, norm: nn.LayerNorm, name: str, product: Conv1D) -> None:
        unfold(
            as_array(product.weight.data),
            as_array(norm.weight.data),
            as_array(norm.bias.data),
            self.of[f"{name}.bias"].array,
            self.of[f"{name}.weight"].array,
            self.of[f"{norm_name}.weight"].array,
            self.of[f"{norm_name}.bias"].array,
        )
