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
from internalize.models.dropout import Drops, attention_site, mlp_site, weights_site
from internalize.models.fast.attention import (
    Attended,
    Level,
    Products,
    ShardPlan,
    TilePlan,
    plan_shard,
    plan_with_dropout,
    sorted_tokens,
)
from internalize.models.fast.dropout import DroppedEmbedding, bias_sums, mark_dropped, numbers_of
from internalize.models.fast.layers import (
    AnswerSource,
    Entrance,
    FullSource,
    LayerSource,
    Norm,
    Stream,
    TableSource,
    Workspace,
)
from internalize.models.fast.weights import Buffer, Gradients, LayerWeights, Weights
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.kernels.drops import drop_back, drop_rows
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
        number: int,
    ) -> None:
        """gradient: the layer's own entries, by their names inside the block; number: from 0 on."""
        self.work, self.weights, self.gradient = work, weights, gradient
        self.number, self.last = number, number == config.depth - 1
        self.heads, last = config.heads, self.last
        self.stream: Stream = work.answer if last else work.full
        rows = work.answer_rows if last else work.rows
        self.attended = Attended(
            Buffer.zeros(rows, config.width, dtype=work.dtype),
            Buffer.zeros(rows, config.heads),
            Buffer.zeros(rows, config.heads),
        )
        self.mid = Norm(rows, config.width, work.dtype, bias_sums(work, gradient["attn.c_proj.bias"]))
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
        if plan.drops is not None:
            mark_dropped(plan.drops, weights_site(self.number), plan, level, self.heads, self.attended)
        work.attention.forward(self.products, weights.attention_bias.array, level, self.attended)
        branch = work.product(self.attended.out.tensor[:n], weights.project, work.branch)
        bias = self.dropped(plan, attention_site(self.number), branch, weights.project_bias)
        self.add_branch(*self.source.residual(plan), branch.array, bias, self.mid)
        hidden = work.product(self.mid.unit.tensor[:n], weights.expand, self.active)
        self.gelu(hidden.array, weights.expand_bias.array, self.active.array, self.slope.array)
        branch = work.product(self.active.tensor[:n], weights.contract, work.branch)
        row = work.count[:n]
        bias = self.dropped(plan, mlp_site(self.number), branch, weights.contract_bias)
        self.add_branch(self.stream.x.array, row, branch.array, bias, after)

    def dropped(self, plan: TilePlan, site: int, branch: Buffer, bias: Buffer) -> Any:
        """With dropout, drop from branch and bias, in place. Returns the bias (width,) that is still to add."""
        if plan.drops is None:
            return bias.array
        place = self.level(plan).place
        rows = self.work.count[: len(place)]
        drop_rows(*numbers_of(plan.drops, site), place, branch.array, rows, bias.array, branch.array)
        return self.work.no_bias

    def branch_back(self, plan: TilePlan, site: int, bias: str) -> Buffer:
        """The stream's gradient as it enters a branch, an operand of products; bias: the branch's last one.

        Without dropout it is there already, and the layer norm has summed it for the bias.
        """
        n = self.level(plan).count
        if plan.drops is None:
            return self.stream.back_operand.rows(n)
        operand, sums = self.work.dropped_back.rows(n), self.gradient[bias].array
        place, back = self.level(plan).place, self.stream.back.array
        drop_back(*numbers_of(plan.drops, site), place, back, operand.array, sums)
        return operand

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
        back = self.stream.back.rows(n)
        operand = self.branch_back(plan, mlp_site(self.number), "mlp.c_proj.bias")

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
            self.stream.back_operand.rows(n).array,
            self.mid.bias_back,
        )

        operand = self.branch_back(plan, attention_site(self.number), "attn.c_proj.bias")
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
        self.entrance: Entrance
        if work.drops:
            self.entrance = below = DroppedEmbedding(work, weights, gradients.of, pairs, config.width)
        else:
            self.entrance = table = TableSource(work, weights, gradients.of, pairs, config.width)
        self.layers: list[Layer] = []
        self.norms: list[Norm] = []
        for i, layer_weights in enumerate(weights.layers):
            prefix, last = f"h.{i}.", i == config.depth - 1
            own = {n.removeprefix(prefix): g for n, g in gradients.of.items() if n.startswith(prefix)}
            layer = Layer(work, config, layer_weights, own, number=i)
            if i == 0 and not work.drops:
                layer.source = table
            else:
                kind = AnswerSource if last else FullSource
                norm = self.norms[-1] if i > 0 else below.norm
                layer.source = kind(work, layer_weights, norm, own["attn.c_attn.weight"])
            # The logits are always made in float32, so the last norm's rows are too.
            rows, dtype = (work.answer_rows, torch.float32) if last else (work.rows, work.dtype)
            self.norms.append(Norm(rows, config.width, dtype, bias_sums(work, own["mlp.c_proj.bias"])))
            self.layers.append(layer)
        self.logits = Buffer.zeros(work.answer_rows, weights.model.vocabulary)
        self.last_unit_back = Buffer.zeros(work.answer_rows, config.width)

    def run(self, plan: ShardPlan, weight: float, emphasis: float, loss: Any, correct: Any) -> None:
        """Overwrites the gradients with those of weight · summed loss; adds to loss and correct, (answer,).

        In the sum an answer's first position counts as much as `emphasis` others.
        """
        self.gradients.clear()
        self.entrance.begin(plan)
        for tile in plan.tiles:
            self.entrance.enter(tile)
            for layer, norm in zip(self.layers, self.norms, strict=True):
                layer.forward(tile, norm)
            self.predict(tile, weight, emphasis, loss, correct)
            for layer in reversed(self.layers):
                layer.backward(tile)
            self.entrance.leave(tile)
        self.entrance.end(plan)

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
        batch, answer = tokens.shape[0], tokens.shape[1] - prompt
        dropped = self._dropped(drops)
        rows = sorted_tokens(tokens) if dropped is None else tokens.numpy()
        parts = np.array_split(rows, min(self.workers.threads, batch))
        before = np.cumsum([0] + [len(part) for part in parts])
        self._reserve(len(parts), len(parts[0]), tokens.shape[1] - 1, answer)
        self.weights.refresh()
        weight = 1 / (batch * (answer if emphasis == 1.0 else answer - 1 + emphasis))
        stats = np.zeros((len(parts), 2, answer))

        def work(i: int) -> None:
            tile = tile_size(self.model, tokens.shape[1] - 1, answer, len(parts[i]))
            model = self.model
            if dropped is None:
                plan = plan_shard(parts[i], prompt - 1, model.vocabulary, model.config.depth, tile)
            else:
                plan = plan_with_dropout(parts[i], prompt - 1, model.vocabulary, tile, int(before[i]), dropped)
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

    def _dropped(self, drops: torch.Generator | None) -> Drops | None:
        """What this step drops: in a model with dropout that is given no stream, nothing."""
        config = self.model.config
        if config.dropout is None:
            return None
        return Drops.nothing(config.depth) if drops is None else Drops.draw(config.dropout, config.depth, drops)

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
    """How many sequences each tile has: enough rows to make products efficient, few enough for the caches.

    A single layer's MLP, where most of the memory goes, has the answer's rows alone; with dropout, keys and
    values count for a third of that.
    """
    rows = positions
    if model.config.depth == 1:
        rows = answer if model.config.dropout is None else max(answer, positions // 3)
    tiles = -(-sequences * rows // ROWS_A_TILE)
    return -(-sequences // tiles)
