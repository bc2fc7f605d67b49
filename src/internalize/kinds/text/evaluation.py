"""What a text experiment measures, on the way and at its end: exact answers, chains, tokens, forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from internalize.kinds.text.curriculum import Kept
from internalize.kinds.text.generation import Asked, write_answers
from internalize.kinds.text.rendering import CutRow, TextRenderer
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from torch import nn

    from internalize.contract import Row
    from internalize.kinds.text.experiment import TextExperiment
    from internalize.kinds.text.state import TextState
    from internalize.runtime.streams import Streams


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


def read_written(written: Sequence[int], renderer: TextRenderer, answer: int) -> WrittenAnswer:
    """answer: tokens of the right answer, which without a marker is all that tells where it begins."""
    markers, length = renderer.markers, len(written)
    if not written or written[-1] != markers.end:
        return WrittenAnswer(tuple(written), None, length)
    said = tuple(written[:-1])
    if renderer.boundary == "none":
        cut = max(0, len(said) - answer)
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
        interval = self.accuracy.interval
        return {
            f"{key}_accuracy": self.accuracy.value,
            f"{key}_interval": [interval.low, interval.high],
            f"{key}_target_accuracy": self.accuracy.value,
            f"{key}_exact_chain": self.exact_chain.value,
            f"{key}_chain_accuracy": self.chain_accuracy.value,
            f"{key}_response_length": self.response_length,
        }


def asked_of(experiment: TextExperiment, row: CutRow, kept: Kept, budget: int | None) -> Asked:
    renderer = experiment.material.renderer
    prompt = renderer.prompt(row, kept, budget)
    if renderer.positions == "closed":
        return Asked(prompt)
    return Asked(prompt, renderer.places(row, kept), row.chain)


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
    return [
        read_written(found, material.renderer, len(row.answer))
        for found, row in zip(written, rows, strict=True)
    ]


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


def evaluation_row(experiment: TextExperiment, state: TextState, streams: Streams) -> Row:
    """Every file, in every mode. Draws nothing at random."""
    row: Row = {}
    for mode in modes(experiment):
        for name in experiment.material.evals:
            rows = chosen_rows(experiment, name, experiment.config.evaluation.rows)
            found = measure_rows(experiment, state.model, rows, state.progress.stage, mode.budget)
            row |= found.to_row(f"{mode.prefix}{name}")
    return row


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
    return row
