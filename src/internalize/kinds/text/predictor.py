"""A language model on rows of text, as a predictor of answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.errors import require
from internalize.kinds.text.evaluation import WrittenAnswer, answer_rows, kept_of
from internalize.kinds.text.network import weights_of
from internalize.kinds.text.rendering import CutRow
from internalize.measure.predictor import Prediction
from internalize.models.parameters import digest_of

if TYPE_CHECKING:
    from torch import nn

    from internalize.kinds.text.experiment import TextExperiment


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


def right_answers(experiment: TextExperiment, inputs: Tensor) -> Tensor:
    """(batch,) what a predictor should say."""
    return torch.tensor([number_of(row.answer) for row in rows_of(experiment, inputs)])


def number_of(answer: Sequence[int] | None) -> int:
    """A number that stands for the answer's tokens, the same in every process; -1 for none."""
    if answer is None:
        return -1
    return int.from_bytes(hashlib.sha256(repr(tuple(answer)).encode()).digest()[:7], "big")
