"""The fast training step: same numbers as `PlainStep`, on the CPU.

The batch is split over threads; each does the forward and backward pass of its part: the first layer's table,
then tile by tile. These are the operations of the plain path, without autograd. `unit` are rows of mean 0 and
variance 1 (the layer norm's affine map is folded into the weights behind it); names in `_back` are gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from internalize.models.config import ModelConfig, Precision
from internalize.models.fast.attention import (
    Attended,
    Level,
    Products,
    ShardPlan,
    TilePlan,
    plan_shard,
    sorted_tokens,
)
from internalize.models.fast.layers import (
    AnswerSource,
    FullSource,
    LayerSource,
    Norm,
    Stream,
    TableSource,
    Workspace,
)
from internalize.models.fast.weights import Buffer, Gradients, LayerWeights, Weights
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.kernels.rows import answer_loss, gelu_back, gelu_kernel, normalise, normalise_back
from internalize.models.path import AnswerStats

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class ThreadTeam:
    """Runs a function for 0 … parts-1, each call with one torch thread."""

    def __init__(self, threads: int | None) -> None:
        """threads: torch's number if not given."""
        self.threads = torch.get_num_threads() if threads is None else threads
        # Also one worker needs a thread of its own if torch would use more here.
        alone = self.threads == 1 and torch.get_num_threads() == 1
        self._pool = None if alone else ThreadPoolExecutor(self.threads, initializer=_use_one_thread)

    def run(self, work: Callable[[int], None], parts: int) -> None:
        if self._pool is None:
            for part in range(parts):
                work(part)
        else:
            list(self._pool.map(work, range(parts)))  # a list, so that an error in a worker is raised here


def _use_one_thread() -> None:
    torch.set_num_threads(1)


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
        self.source: LayerSource
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

    def run(self, plan: ShardPlan, weight: float, emphasis: float, loss: Any, correct: Any) -> None:
        """Overwrites the gradients with those of weight · summed loss; adds to loss and correct, (answer,).

        In the sum an answer's first position counts as much as `emphasis` others.
        """
        self.gradients.clear()
        self.table.begin(plan)
        for tile in plan.tiles:
            for layer, norm in zip(self.layers, self.norms, strict=True):
                layer.forward(tile, norm)
            self.predict(tile, weight, emphasis, loss, correct)
            for layer in reversed(self.layers):
                layer.backward(tile)
        self.table.end(plan)

    def predict(self, plan: TilePlan, weight: float, emphasis: float, loss: Any, correct: Any) -> None:
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
            emphasis,
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


ROWS_A_TILE = 1600


class FastStep:
    """Splits the batch over threads, each of which does forward and backward passes tile by tile.

    The result is a pure function of parameters, batch and number of threads: tiles are summed in their order,
    threads in theirs.
    """

    def __init__(
        self,
        model: GPT2,
        gradient: Float[Tensor, " numel"],
        precision: Precision = "fp32",
        threads: int | None = None,
    ) -> None:
        """gradient: the flat one that `flatten_parameters(model)` returned; threads: torch's if not given."""
        self.model, self.precision = model, precision
        self.workers = ThreadTeam(threads)
        self.weights = Weights(model, precision)
        self.gradients = [Gradients(model, gradient)]
        self.gradients += [
            Gradients(model, torch.zeros_like(gradient)) for _ in range(self.workers.threads - 1)
        ]
        self.shards: list[Shard] = []
        self.capacity = (0, 0)

    @torch.no_grad()
    def __call__(
        self,
        tokens: Int[Tensor, "batch length"],
        prompt: int,
        drops: torch.Generator | None = None,
        emphasis: float = 1.0,
    ) -> AnswerStats:
        """drops: never given, models with dropout take the plain path."""
        batch, answer = tokens.shape[0], tokens.shape[1] - prompt
        parts = np.array_split(sorted_tokens(tokens), min(self.workers.threads, batch))
        self._reserve(len(parts), len(parts[0]), tokens.shape[1] - 1, answer)
        self.weights.refresh()
        weight = 1 / (batch * (answer if emphasis == 1.0 else answer - 1 + emphasis))
        stats = np.zeros((len(parts), 2, answer))

        def work(i: int) -> None:
            tile = tile_size(self.model, tokens.shape[1] - 1, answer, len(parts[i]))
            model = self.model
            plan = plan_shard(parts[i], prompt - 1, model.vocabulary, model.config.depth, tile)
            if model.places is not None:
                plan.position_of = model.places.numpy().astype(np.int32)[plan.position_of]
            self.shards[i].run(plan, weight, emphasis, stats[i, 0], stats[i, 1])

        self.workers.run(work, len(parts))
        total = self.gradients[0]
        for other in self.gradients[1 : len(parts)]:
            total.add(other)
        total.unfold()
        loss, correct = torch.from_numpy(stats.sum(0) / batch).to(torch.float32)
        return AnswerStats(loss, correct)

    def _reserve(self, shards: int, sequences: int, positions: int, answer: int) -> None:
        """Make sure that the buffers are large enough for a tile."""
        tile = tile_size(self.model, positions, answer, sequences)
        need = tile * positions, tile * answer
        if len(self.shards) >= shards and need[0] <= self.capacity[0] and need[1] <= self.capacity[1]:
            return
        self.capacity = max(need[0], self.capacity[0]), max(need[1], self.capacity[1])
        pairs = self.model.vocabulary * self.model.context
        self.shards = [
            Shard(self.weights, own, Workspace(self.model, self.precision, *self.capacity), pairs)
            for own in self.gradients[:shards]
        ]


def tile_size(model: GPT2, positions: int, answer: int, sequences: int) -> int:
    """How many sequences each tile has: enough rows to make products efficient, few enough for the caches."""
    rows = answer if model.config.depth == 1 else positions
    tiles = -(-sequences * rows // ROWS_A_TILE)
    return -(-sequences // tiles)
