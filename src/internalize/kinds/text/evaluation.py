"""What a text experiment measures, on the way and at its end: exact answers, chains, tokens, forward passes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from internalize.errors import require
from internalize.kinds.text.generation import Prompts, write_answers
from internalize.kinds.text.network import weights_of
from internalize.kinds.text.rendering import CutRow, Kept, TextRenderer
from internalize.measure.predictor import Prediction
from internalize.models.parameters import digest_of
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from internalize.contract import Row
    from internalize.kinds.text.experiment import TextExperiment
    from internalize.kinds.text.state import TextState
    from internalize.runtime.kind import Streams


@dataclass(frozen=True)
class TextMode:
    """A way to ask the model: how its results are named, and what it is asked for."""

    prefix: str
    budget: int | None
    """Of a mixture: which of its budgets, from 0."""


def modes(experiment: TextExperiment) -> list[TextMode]:
    """A mixture is asked for its direct answer and for its whole chain."""
    budgets = experiment.curriculum.budgets
    return [TextMode("", 0), TextMode("chain_", len(budgets) - 1)] if budgets else [TextMode("", None)]


@dataclass(frozen=True)
class WrittenAnswer:
    """What a model wrote, read."""

    chain: tuple[int, ...]
    answer: tuple[int, ...] | None
    """None where it never came to an answer and its end."""
    length: int
    """Tokens written, the end included: as many forward passes."""


def read_written(written: Sequence[int], renderer: TextRenderer) -> WrittenAnswer:
    """Without a marker the answer is the last tokens, as many as every answer of the run has."""
    markers, length = renderer.markers, len(written)
    if not written or written[-1] != markers.end:
        return WrittenAnswer(tuple(written), None, length)
    said = tuple(written[:-1])
    if renderer.boundary == "none":
        cut = max(0, len(said) - renderer.longest_answer)
        return WrittenAnswer(said[:cut], said[cut:], length)
    if markers.answer not in said:
        return WrittenAnswer(said, None, length)
    cut = said.index(markers.answer)
    return WrittenAnswer(said[:cut], said[cut + 1 :], length)


@dataclass(frozen=True)
class TextMeasurement:
    """Answers to the rows of one file."""

    rows: int
    accuracy: Rate
    """The answer is, token by token, the right one."""
    exact_chain: Rate
    """All that was written is, token by token, what remains of the chain, and the answer."""
    chain_accuracy: Rate
    """What was written before the answer is what remains of the chain; the answer is not looked at."""
    direct_accuracy: Rate
    """The answer is right, with nothing before it."""
    response_length: float
    """Mean number of tokens written, end included; as many forward passes."""
    flops: float
    """Mean operations of an answer."""

    def to_row(self, key: str) -> dict[str, Any]:
        """The columns are those of `FILE_COLUMNS`, by which names that would clash are refused."""
        interval = self.accuracy.interval
        return {
            f"{key}_accuracy": self.accuracy.value,
            f"{key}_interval": [interval.low, interval.high],
            f"{key}_target_accuracy": self.accuracy.value,
            f"{key}_exact_chain": self.exact_chain.value,
            f"{key}_chain_accuracy": self.chain_accuracy.value,
            f"{key}_response_length": self.response_length,
        }


def asked_of(experiment: TextExperiment, row: CutRow, kept: Kept, budget: int | None) -> Prompts:
    renderer = experiment.material.renderer
    prompt = renderer.prompt(row, kept, budget)
    if renderer.positions == "closed":
        return Prompts(prompt)
    return Prompts(prompt, renderer.places(row, kept), row.chain)


def kept_of(experiment: TextExperiment, row: CutRow, stage: int, budget: int | None) -> Kept:
    """What the stage shows of a row, or a mixture at one of its budgets."""
    curriculum = experiment.curriculum
    if budget is None:
        return curriculum.kept(len(row.units), stage)
    return curriculum.kept_within(len(row.units), curriculum.budgets[budget])


def answer_rows(
    experiment: TextExperiment,
    model: nn.Module,
    rows: Sequence[CutRow],
    stage: int,
    budget: int | None = None,
    chain_budget: int | None = None,
) -> list[WrittenAnswer]:
    """budget: of a mixture. chain_budget: tokens that any other model is made to write before its answer."""
    material = experiment.material
    asked = [asked_of(experiment, row, kept_of(experiment, row, stage, budget), budget) for row in rows]
    batch = experiment.config.evaluation.batch
    written = write_answers(model, asked, material.renderer.markers, material.limit, batch, chain_budget)
    return [read_written(found, material.renderer) for found in written]


def measure_rows(
    experiment: TextExperiment,
    model: nn.Module,
    rows: Sequence[CutRow],
    stage: int,
    budget: int | None = None,
    chain_budget: int | None = None,
) -> TextMeasurement:
    found = answer_rows(experiment, model, rows, stage, budget, chain_budget)
    return summarise(experiment, rows, found, stage, budget)


def summarise(
    experiment: TextExperiment,
    rows: Sequence[CutRow],
    found: Sequence[WrittenAnswer],
    stage: int,
    budget: int | None,
) -> TextMeasurement:
    renderer, costs = experiment.material.renderer, experiment.costs
    right = chains = exact = direct = 0
    flops = 0
    for row, said in zip(rows, found, strict=True):
        kept = kept_of(experiment, row, stage, budget)
        good = said.answer == row.answer
        same = list(said.chain) == renderer.chain(row, kept)
        right += good
        chains += same
        exact += good and same
        direct += good and not said.chain
        flops += costs.answer_flops(len(renderer.prompt(row, kept, budget)), said.length)
    n = len(rows)
    return TextMeasurement(
        n, Rate(right, n), Rate(exact, n), Rate(chains, n), Rate(direct, n),
        sum(said.length for said in found) / n, flops / n,
    )  # fmt: skip


def chosen_rows(experiment: TextExperiment, name: str, most: int | None) -> list[CutRow]:
    """The same rows of a file at every measurement, whatever the seed; shuffled, as files may be sorted."""
    rows = experiment.material.evals[name]
    if most is None or most >= len(rows):
        return list(rows)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
    return [rows[i] for i in sorted(order.tolist())]


def chance_of(rows: Sequence[CutRow]) -> float:
    """The share of the commonest answer: what always saying the same would reach."""
    return Counter(row.answer for row in rows).most_common(1)[0][1] / len(rows)


def evaluation_row(experiment: TextExperiment, state: TextState) -> tuple[Row, float]:
    """Every file, in every mode, and how often the answer to the rows of `id` is right at once. Draws nothing
    at random."""
    row: Row = {}
    direct = 0.0
    for mode in modes(experiment):
        for name in experiment.material.evals:
            rows = chosen_rows(experiment, name, experiment.config.evaluation.rows)
            found = measure_rows(experiment, state.model, rows, state.progress.stage, mode.budget)
            row |= found.to_row(f"{mode.prefix}{name}")
            if not mode.prefix and name == "id" and not experiment.curriculum.pauses:
                direct = found.direct_accuracy.value
    return row, direct


def summary_row(experiment: TextExperiment, state: TextState, streams: Streams) -> Row:
    """The results of a run."""
    row: Row = {}
    stage, config = state.progress.stage, experiment.config
    for mode in modes(experiment):
        for name in experiment.material.evals:
            rows = chosen_rows(experiment, name, config.evaluation.final_rows)
            found = measure_rows(experiment, state.model, rows, stage, mode.budget)
            interval = found.accuracy.interval
            row[f"{mode.prefix}{name}_accuracy"] = found.accuracy.value
            row[f"{mode.prefix}{name}_interval"] = [interval.low, interval.high]
            if name == "id":
                row[f"{mode.prefix}chain_accuracy"] = found.chain_accuracy.value
                row[f"{mode.prefix}response_length"] = found.response_length
                row[f"{mode.prefix}forward_passes"] = found.response_length
                row[f"{mode.prefix}flops"] = found.flops
            if not mode.prefix and name == "id":
                row["succeeded"] = found.accuracy.value > SUCCESS
                row["internalized"] = found.direct_accuracy.value > SUCCESS and not experiment.curriculum.pauses
            if not mode.prefix and name == "ood":
                row["ood_succeeded"] = found.accuracy.value > SUCCESS
    row |= {
        "iterations": state.progress.iteration,
        "stage": stage,
        "stages": experiment.curriculum.stages,
        "training_rows": len(experiment.material.train),
        "samples": state.progress.iteration * config.batch,
        "epochs": state.progress.iteration * config.batch / len(experiment.material.train),
    }
    if state.ledger is not None:
        confirmed = bool(row.get("internalized", False))
        row |= state.ledger.row(config.batch, experiment.curriculum.stages, confirmed)
    return row


@dataclass(frozen=True)
class TextCosts:
    """Of a model, whatever its weights."""

    parameters: int
    products: int
    """Weights that every token is multiplied with, the unembedding not among them."""
    unembedding: int
    layers: int
    width: int

    @classmethod
    def of(cls, model: nn.Module) -> TextCosts:
        whole: Any = model
        config = whole.config
        head = whole.get_output_embeddings().weight
        tables = {id(head), *(id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding))}
        matrices = {id(p): p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in tables}
        return cls(
            parameters=sum(p.numel() for p in model.parameters()),
            products=sum(matrices.values()),
            unembedding=head.numel(),
            layers=_number(config, "num_hidden_layers", "n_layers", "n_layer"),
            width=_number(config, "hidden_size", "d_model", "n_embd"),
        )

    def read(self, length: int, before: int = 0) -> int:
        """Operations to read so many tokens after others, logits not counted."""
        attended = sum(range(before + 1, before + length + 1))
        return 2 * self.products * length + 4 * self.layers * self.width * attended

    def answer_flops(self, prompt: int, written: int) -> int:
        """Reading a prompt and writing tokens one by one with a cache; the last one is never read back."""
        if written == 0:
            return 0
        return self.read(prompt + written - 1) + 2 * written * self.unembedding

    def training_flops(self, prompt: int, answer: int) -> int:
        """One row of a training step: forward, and twice that backward."""
        return 3 * (self.read(prompt + answer - 1) + 2 * answer * self.unembedding)

    def kept_bytes(self, tokens: int, vocabulary: int) -> int:
        """What a forward pass keeps for the backward one: about twenty rows of the width for each token and
        layer, and the logits twice."""
        return 4 * tokens * (20 * self.layers * self.width + 2 * vocabulary)


def _number(config: Any, *names: str) -> int:
    return next((int(getattr(config, name)) for name in names if hasattr(config, name)), 0)


@dataclass(frozen=True, eq=False)
class TextPredictor:
    """Reads questions, writes what remains of the chain and the answer.

    As a `Predictor` its inputs are numbers of rows in a file to measure on, (batch, 2): file, row; its output
    is a number that stands for the text of the answer.
    """

    experiment: TextExperiment
    model: nn.Module
    stage: int
    budget: int | None = None
    """Tokens of the chain before the answer: asked for by a mixture's marker (None: the direct answer), and
    forced on others (None: as many as they want)."""

    def __post_init__(self) -> None:
        renderer = self.experiment.material.renderer
        most = renderer.longest_chain
        good = self.budget is None or 0 <= self.budget <= most
        require(good, "budget", f"must lie in 0…{most} tokens of the chain, got {self.budget}")
        forced = self.budget is not None and not self.experiment.curriculum.budgets
        marked = renderer.boundary == "marker" or not forced
        require(marked, "budget", "cannot be forced without a marker between chain and answer")

    @property
    def model_class(self) -> str:
        whole: Any = self.model
        sizes = {name: tuple(tensor.shape) for name, tensor in weights_of(self.model).items()}
        shape = hashlib.sha256(repr(sorted(sizes.items())).encode()).hexdigest()[:12]
        return f"{whole.config.model_type} with weights of shape {shape}"

    @cached_property
    def weights_digest(self) -> str:
        return digest_of(weights_of(self.model).items())

    @property
    def asked_budget(self) -> int | None:
        """Of a mixture: which of its budgets; the smallest that allows as much as is asked for."""
        budgets = self.experiment.curriculum.budgets
        if not budgets:
            return None
        wanted = self.budget or 0
        return next((i for i, budget in enumerate(budgets) if budget >= wanted), len(budgets) - 1)

    def write(self, rows: Sequence[CutRow]) -> list[WrittenAnswer]:
        forced = None if self.experiment.curriculum.budgets else self.budget
        return answer_rows(self.experiment, self.model, rows, self.stage, self.asked_budget, forced)

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch, 2) numbers of a file and of a row in it."""
        rows = rows_of(self.experiment, inputs)
        found = self.write(rows)
        renderer, costs = self.experiment.material.renderer, self.experiment.costs
        flops = []
        for row, said in zip(rows, found, strict=True):
            kept = kept_of(self.experiment, row, self.stage, self.asked_budget)
            prompt = renderer.prompt(row, kept, self.asked_budget)
            flops.append(costs.answer_flops(len(prompt), said.length))
        return Prediction(
            torch.tensor([number_of(said.answer) for said in found]),
            torch.tensor([said.length for said in found]),
            torch.tensor(flops, dtype=torch.float64),
        )


def rows_of(experiment: TextExperiment, inputs: Tensor) -> list[CutRow]:
    files = list(experiment.material.evals.values())
    return [files[file][row] for file, row in inputs.tolist()]


def number_of(answer: Sequence[int] | None) -> int:
    """A number that stands for the answer's tokens, the same in every process; -1 for none."""
    if answer is None:
        return -1
    return int.from_bytes(hashlib.sha256(repr(tuple(answer)).encode()).digest()[:7], "big")
