"""One thread's forward and backward pass: the first layer's table, then tile by tile.

The operations of the plain path, without autograd. `unit` are rows of mean 0 and variance 1 (the layer norm's
affine map is folded into the weights behind it); names in `_back` are gradients.
"""

from __future__ import annotations

from typing import Any

import torch

from internalize.models.fast.attention import Attended, Products
from internalize.models.fast.buffers import Buffer
from internalize.models.fast.plan import Level, ShardPlan, TilePlan
from internalize.models.fast.sources import AnswerSource, FullSource, Norm, Source, TableSource
from internalize.models.fast.weights import Gradients, LayerWeights, Weights
from internalize.models.fast.workspace import Stream, Workspace
from internalize.models.gpt2 import LAYER_NORM_EPSILON, ModelConfig
from internalize.models.kernels.gelu import gelu_back, gelu_kernel
from internalize.models.kernels.loss import answer_loss
from internalize.models.kernels.rows import normalise, normalise_back


class Layer:
    """Attention and MLP of one layer for the rows it writes."""

    def __init__(
        self,
        work: Workspace,
        config: ModelConfig,
        weights: LayerWeights,
        gradient: dict[str, Buffer],
        *,
        last: bool,
    ) -> None:
        """gradient: the layer's own entries, by their names inside the block."""
        self.work, self.weights, self.gradient, self.last = work, weights, gradient, last
        self.stream: Stream = work.answer if last else work.full
        rows = work.answer_rows if last else work.rows
        self.attended = Attended(
            Buffer.zeros(rows, config.width, dtype=work.dtype),
            Buffer.zeros(rows, config.heads),
            Buffer.zeros(rows, config.heads),
        )
        self.mid = Norm(rows, config.width, work.dtype, gradient["attn.c_proj.bias"].array)
        self.active = Buffer.zeros(rows, config.mlp_width, dtype=work.dtype)
        self.slope = Buffer.zeros(rows, config.mlp_width, dtype=work.dtype)
        self.gelu = gelu_kernel(work.dtype != torch.float32)
        self.source: Source
        self.products: Products

    def level(self, plan: TilePlan) -> Level:
        return plan.answer if self.last else plan.full

    def forward(self, plan: TilePlan, after: Norm) -> None:
        """after: the layer norm that follows the layer."""
        work, weights, level = self.work, self.weights, self.level(plan)
        n = level.count
        self.products = self.source.forward(plan)
        work.attention.forward(self.products, weights.attention_bias.array, level, self.attended)
        branch = work.product(self.attended.out.tensor[:n], weights.project, work.branch)
        self.add_branch(*self.source.residual(plan), branch.array, weights.project_bias.array, self.mid)
        hidden = work.product(self.mid.unit.tensor[:n], weights.expand, self.active)
        self.gelu(hidden.array, weights.expand_bias.array, self.active.array, self.slope.array)
        branch = work.product(self.active.tensor[:n], weights.contract, work.branch)
        row = work.count[:n]
        self.add_branch(self.stream.x.array, row, branch.array, weights.contract_bias.array, after)

    def add_branch(self, before: Any, index: Any, branch: Any, bias: Any, norm: Norm) -> None:
        normalise(
            before,
            index,
            branch,
            bias,
            self.stream.x.array,
            norm.unit.array,
            norm.scale.array,
            LAYER_NORM_EPSILON,
        )

    def backward(self, plan: TilePlan) -> None:
        """From the stream's gradient behind the layer to that before it."""
        work, weights, gradient = self.work, self.weights, self.gradient
        n = self.level(plan).count
        back, operand = self.stream.back.rows(n), self.stream.back_operand.rows(n)

        hidden = work.product(operand.tensor, weights.contract.t(), work.hidden_back)
        work.add_product(gradient["mlp.c_proj.weight"].tensor, self.active.tensor[:n].t(), operand.tensor)
        gelu_back(hidden.array, self.slope.array, gradient["mlp.c_fc.bias"].array)
        work.add_product(gradient["mlp.c_fc.weight"].tensor, self.mid.unit.tensor[:n].t(), hidden.tensor)
        unit_back = work.product(hidden.tensor, weights.expand.t(), work.unit_back)
        normalise_back(
            unit_back.array,
            self.mid.unit.array,
            self.mid.scale.array,
            back.array,
            operand.array,
            self.mid.bias_back,
        )

        out = self.attended.out.tensor[:n]
        work.add_product(gradient["attn.c_proj.weight"].tensor, out.t(), operand.tensor)
        attended_back = work.product(operand.tensor, weights.project.t(), work.attended_back)
        work.attention.backward(
            self.products,
            weights.attention_bias.array,
            self.level(plan),
            self.attended,
            attended_back.array,
            gradient["attn.c_attn.bias"].array,
        )
        self.source.backward(plan)


class Shard:
    """All layers over one thread's buffers."""

    def __init__(self, weights: Weights, gradients: Gradients, work: Workspace, pairs: int) -> None:
        """pairs: most different (token, position) pairs."""
        config = weights.model.config
        self.work, self.weights, self.gradients = work, weights, gradients
        self.table = TableSource(work, weights, gradients.of, pairs, config.width)
        self.layers: list[Layer] = []
        self.norms: list[Norm] = []
        for i, layer_weights in enumerate(weights.layers):
            prefix, last = f"h.{i}.", i == config.depth - 1
            own = {n.removeprefix(prefix): g for n, g in gradients.of.items() if n.startswith(prefix)}
            layer = Layer(work, config, layer_weights, own, last=last)
            if i == 0:
                layer.source = self.table
            else:
                kind = AnswerSource if last else FullSource
                layer.source = kind(work, layer_weights, self.norms[-1], own["attn.c_attn.weight"])
            # The logits are always made in float32, so the last norm's rows are too.
            rows, dtype = (work.answer_rows, torch.float32) if last else (work.rows, work.dtype)
            self.norms.append(Norm(rows, config.width, dtype, own["mlp.c_proj.bias"].array))
            self.layers.append(layer)
        self.logits = Buffer.zeros(work.answer_rows, weights.model.vocabulary)
        self.last_unit_back = Buffer.zeros(work.answer_rows, config.width)

    def run(self, plan: ShardPlan, weight: float, loss: Any, correct: Any) -> None:
        """Overwrites the gradients with those of weight · summed loss; adds to loss and correct, (answer,)."""
        self.gradients.clear()
        self.table.begin(plan)
        for tile in plan.tiles:
            for layer, norm in zip(self.layers, self.norms, strict=True):
                layer.forward(tile, norm)
            self.predict(tile, weight, loss, correct)
            for layer in reversed(self.layers):
                layer.backward(tile)
        self.table.end(plan)

    def predict(self, plan: TilePlan, weight: float, loss: Any, correct: Any) -> None:
        """Logits, loss, and back through the last layer norm."""
        n, norm, stream = plan.answer.count, self.norms[-1], self.work.answer
        logits, unit = self.logits.rows(n), norm.unit.tensor[:n]
        torch.mm(unit, self.weights.unembedding.t(), out=logits.tensor)
        answer_loss(
            logits.array,
            self.weights.logits_bias.array,
            plan.tokens,
            plan.answer.row,
            plan.start,
            weight,
            loss,
            correct,
            self.gradients.logits_bias.array,
        )
        self.gradients.unembedding.tensor.addmm_(unit.t(), logits.tensor)
        torch.mm(logits.tensor, self.weights.unembedding, out=self.last_unit_back.tensor[:n])
        stream.back.tensor[:n].zero_()
        normalise_back(
            self.last_unit_back.array,
            norm.unit.array,
            norm.scale.array,
            stream.back.array[:n],
            stream.back_operand.array[:n],
            norm.bias_back,
        )
