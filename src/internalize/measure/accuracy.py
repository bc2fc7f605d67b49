"""How well a transformer answers, in and out of distribution, each rate with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.curricula.curriculum import Shown
from internalize.measure.predictor import TransformerPredictor
from internalize.statistics import Interval, Rate, mean_interval
from internalize.tasks import InputDistribution, Semiautomaton

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


@dataclass(frozen=True)
class Measurement:
    """Answers to `samples` fresh inputs from one distribution."""

    inputs: str
    samples: int
    accuracy: Rate
    """Final-state accuracy: the state right before EOS is q_T; no EOS counts as wrong."""
    target_accuracy: Rate
    """The state right before EOS is the last one that the format shows."""
    exact_chain: Rate
    """The answer is, token by token, the one that the format asks for."""
    direct_accuracy: Rate
    """The answer is q_T and EOS, with nothing before it."""
    response_length: float
    """Mean number of tokens written, EOS included."""
    response_length_interval: Interval
    forward_passes: float
    """Mean calls of the network for an answer."""
    flops: float
    """Mean floating-point operations for an answer."""


def measure(
    predictor: TransformerPredictor,
    task: Semiautomaton,
    inputs: InputDistribution,
    shown: Shown,
    samples: int,
    generator: torch.Generator,
) -> Measurement:
    """Draw inputs, let the model answer, compare with the task's own trace. Consumes the generator."""
    renderer = predictor.renderer
    symbols = inputs.sample((samples, renderer.horizon), generator)
    states = task.trace(symbols, renderer.initial_state)
    generated = predictor.generate(symbols)
    answers = renderer.read(generated)
    wanted = renderer.answer(states, shown)
    right = answers.final_state == states[:, -1]
    lengths = answers.length.double()
    flops = sum(predictor.flops(int(n)) * int(k) for n, k in zip(*_counts(answers.length), strict=True))
    return Measurement(
        inputs=inputs.name,
        samples=samples,
        accuracy=_rate(right),
        target_accuracy=_rate(answers.final_state == states[:, shown[-1]]),
        exact_chain=_rate(_same(generated, wanted, renderer.vocabulary.eos) & answers.ended),
        direct_accuracy=_rate(right & (answers.length == 2)),
        response_length=float(lengths.mean()),
        response_length_interval=mean_interval(float(lengths.sum()), float(lengths.square().sum()), samples),
        forward_passes=float(lengths.mean()),
        flops=flops / samples,
    )


def _rate(hits: Bool[Tensor, " *shape"]) -> Rate:
    return Rate(int(hits.sum()), hits.numel())


def _counts(lengths: Int[Tensor, " batch"]) -> tuple[list[int], list[int]]:
    values, counts = lengths.unique(return_counts=True)
    return values.tolist(), counts.tolist()


def _same(
    generated: Int[Tensor, "batch written"], wanted: Int[Tensor, "batch answer"], eos: int
) -> Bool[Tensor, " batch"]:
    """Row by row, whether two blocks of tokens are equal when the shorter one is filled up with EOS."""
    longest = max(generated.shape[1], wanted.shape[1])
    pad = torch.nn.functional.pad
    a = pad(generated, (0, longest - generated.shape[1]), value=eos)
    b = pad(wanted, (0, longest - wanted.shape[1]), value=eos)
    return (a == b).all(dim=1)
