"""The internalization matrix: which answer budgets can each stage of a run still serve?

Budget K means an answer of exactly K states before EOS. Two readings of every cell (stage, K):

*forced*: the model writes all K states itself, EOS masked until then; a mixture model is asked by LEN_{K+1}
and left free. The last state should be q_T. Greedy decoding with EOS masked does not know how long it will go
on: the answer at budget K is the first K words of the answer at budget T, so one generation serves all budgets.

*teacher-forced*: the true states of a format of K states are given up to the last, and the model says the last
one (EOS masked). The format is the one of that length that the run's own curriculum has and that ends in q_T;
otherwise left's, q_{T-K+1} … q_T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from internalize.analysis.opening import Examples, OpenChain
from internalize.curricula import Curriculum, Shown
from internalize.curricula.curriculum import describe
from internalize.measure.predictor import TransformerPredictor
from internalize.models.language_model import LanguageModel
from internalize.sequences import Renderer
from internalize.statistics import SUCCESS, Rate

Reading = Literal["forced", "teacher"]
CHUNK = 250
"""Sequences at once: the cache of a large model takes about a megabyte for each."""


@dataclass(frozen=True)
class Cell:
    """One stage at one budget, on one distribution, in one reading."""

    stage: int
    budget: int
    """K: states in the answer, EOS not counted."""
    inputs: Literal["id", "ood"]
    reading: Reading
    format: str
    """The states that an answer of this budget should show."""
    own: bool
    """Whether this is what the stage itself trained."""
    supplied: int
    """True states given to the model."""
    generated: float
    """Tokens that the model wrote itself: K and no EOS where that was forced; a mean for mixtures, with EOS."""
    right: Rate
    """The last state is q_T."""

    def row(self) -> dict[str, object]:
        interval = self.right.interval
        return {
            "stage": self.stage,
            "budget": self.budget,
            "inputs": self.inputs,
            "reading": self.reading,
            "format": self.format,
            "own": self.own,
            "supplied": self.supplied,
            "generated": self.generated,
            "n": self.right.trials,
            "right": self.right.successes,
            "accuracy": self.right.value,
            "low": interval.low,
            "high": interval.high,
        }


@dataclass(frozen=True)
class Matrix:
    """All cells of a run."""

    title: str
    horizon: int
    stages: tuple[int, ...]
    cells: tuple[Cell, ...]
    chance: dict[str, float]
    """id, ood → what always saying the commonest final state would reach."""
    inputs: dict[str, str]
    """id, ood → the distribution's name."""

    def select(self, inputs: str, reading: str) -> Tensor:
        """(stages, T) accuracies."""
        found = {
            (c.stage, c.budget): c.right.value for c in self.cells if (c.inputs, c.reading) == (inputs, reading)
        }
        return torch.tensor([[found[s, k] for k in range(1, self.horizon + 1)] for s in self.stages])

    def cell(self, stage: int, budget: int, inputs: str, reading: str) -> Cell:
        wanted = (stage, budget, inputs, reading)
        return next(c for c in self.cells if (c.stage, c.budget, c.inputs, c.reading) == wanted)

    def served(self, stage: int, inputs: str = "id") -> list[int]:
        """The budgets at which the stage, writing everything itself, passes the paper's bar of 95 %."""
        row = self.select(inputs, "forced")[self.stages.index(stage)]
        return [k for k, accuracy in enumerate(row.tolist(), start=1) if accuracy > SUCCESS]

    def chain_forgotten(self, inputs: str = "id") -> int | None:
        """The first stage at which the full chain, once served, no longer is."""
        full = [self.horizon in self.served(stage, inputs) for stage in self.stages]
        lost = (s for i, s in enumerate(self.stages) if any(full[:i]) and not full[i])
        return next(lost, None)

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.title,
            "horizon": self.horizon,
            "stages": list(self.stages),
            "inputs": self.inputs,
            "chance": self.chance,
            "served": {name: {str(s): self.served(s, name) for s in self.stages} for name in self.inputs},
            "chain_forgotten": {name: self.chain_forgotten(name) for name in self.inputs},
            "cells": [cell.row() for cell in self.cells],
        }


def matrix(
    chain: OpenChain,
    samples: int,
    seed: int = 0,
    stages: tuple[int, ...] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Every saved stage (or those given) at every budget; all of them answer the same inputs."""
    stages = stages or tuple(chain.stages())
    drawn = {name: chain.draw(inputs, samples, seed, "matrix") for name, inputs in chain.both_inputs().items()}
    cells: list[Cell] = []
    for stage in stages:
        progress(f"stage {stage}")
        predictor = chain.predictor(stage)
        for name, examples in drawn.items():
            cells += _row(chain, predictor, stage, "id" if name == "id" else "ood", examples)
    return Matrix(
        title=chain.title,
        horizon=chain.horizon,
        stages=stages,
        cells=tuple(cells),
        chance={name: examples.chance for name, examples in drawn.items()},
        inputs={name: examples.inputs for name, examples in drawn.items()},
    )


def budget_formats(curriculum: Curriculum) -> tuple[Shown, ...]:
    """For K = 1 … T the format of K states that is teacher-forced: the curriculum's own, else left's."""
    T = curriculum.horizon
    stages = range(1, curriculum.stages + 1)
    own = [shown for stage in stages for shown in curriculum.formats(stage) if shown[-1] == T]
    by_length = {len(shown): shown for shown in reversed(own)}
    return tuple(by_length.get(k, tuple(range(T - k + 1, T + 1))) for k in range(1, T + 1))


def _row(
    chain: OpenChain,
    predictor: TransformerPredictor,
    stage: int,
    inputs: Literal["id", "ood"],
    examples: Examples,
) -> list[Cell]:
    """The cells of one stage on one distribution."""
    curriculum, T, n = chain.experiment.curriculum, chain.horizon, len(examples.symbols)
    formats = budget_formats(curriculum)
    forced, generated = forced_hits(predictor, examples)
    teacher = teacher_hits(predictor.model, predictor.renderer, examples, formats)
    trained = curriculum.formats(stage)
    cells = []
    for k in range(1, T + 1):
        own = any(len(shown) == k and shown[-1] == T for shown in trained)
        text = describe(formats[k - 1])
        for reading, hits, supplied, wrote in (
            ("forced", forced[k - 1], 0, generated[k - 1]),
            ("teacher", teacher[k - 1], k - 1, 1.0),
        ):
            kind: Reading = "forced" if reading == "forced" else "teacher"
            cells.append(Cell(stage, k, inputs, kind, text, own, supplied, wrote, Rate(int(hits), n)))
    return cells


def forced_hits(predictor: TransformerPredictor, examples: Examples) -> tuple[list[int], list[float]]:
    """For K = 1 … T: answers whose last state is q_T, and tokens written by the model on average."""
    renderer, T = predictor.renderer, predictor.renderer.horizon
    final = examples.states[:, -1]
    if renderer.length_hint:
        answers = [
            renderer.read(TransformerPredictor(predictor.model, renderer, k + 1).generate(examples.symbols))
            for k in range(1, T + 1)
        ]
        hits = [int((answer.final_state == final).sum()) for answer in answers]
        return hits, [float(answer.length.float().mean()) for answer in answers]
    written = TransformerPredictor(predictor.model, renderer, T + 1).generate(examples.symbols)[:, :T]
    right = written - renderer.vocabulary.first_state == final[:, None]
    return right.sum(0).tolist(), [float(k) for k in range(1, T + 1)]


@torch.no_grad()
def teacher_hits(
    model: LanguageModel, renderer: Renderer, examples: Examples, formats: tuple[Shown, ...]
) -> list[int]:
    """For each format: how often its last state is said right when all before it are given.

    The inputs are read once; every format goes on from the same cache.
    """
    hits = torch.zeros(len(formats), dtype=torch.int64, device=examples.symbols.device)
    read = renderer.horizon + 1  # σ_1 … σ_T and q_0: what all prompts share
    for symbols, states in zip(examples.symbols.split(CHUNK), examples.states.split(CHUNK), strict=True):
        shortest = renderer.prompt(symbols, 2 if renderer.length_hint else None)
        first_logits, cache = model(shortest[:, :read], first=read - 1)
        for i, shown in enumerate(formats):
            prompt = renderer.prompt(symbols, len(shown) + 1 if renderer.length_hint else None)
            rest = torch.cat([prompt[:, read:], renderer.answer(states, shown)[:, :-2]], dim=1)
            logits = first_logits[:, -1] if rest.shape[1] == 0 else _after(model, rest, cache)
            logits = logits.clone()
            logits[:, renderer.vocabulary.eos] = -torch.inf
            said = logits.argmax(dim=-1) - renderer.vocabulary.first_state
            hits[i] += (said == states[:, shown[-1]]).sum()
    return [int(count) for count in hits]


def _after(model: LanguageModel, tokens: Tensor, cache: Any) -> Tensor:
    """(batch, vocabulary) logits after the last of the tokens; the cache itself does not change."""
    logits, _ = model(tokens, first=tokens.shape[1] - 1, cache=cache)
    return logits[:, -1]
