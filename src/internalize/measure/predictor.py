"""A predictor answers inputs: what definitions, matrices, self-play and constructions have in common.

A transformer on sequences becomes one by greedy generation with a key-value cache, many sequences at once; it
never samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from internalize.curricula.curriculum import Shown
from internalize.errors import BadInput
from internalize.measure.cost import costs_of
from internalize.models.language_model import LanguageModel
from internalize.models.parameters import digest_of
from internalize.models.path import Decoder, Kernel, make_decoder
from internalize.sequences import Renderer
from internalize.statistics import Interval, Rate, mean_interval
from internalize.tasks import InputDistribution, Semiautomaton

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int, Shaped


@dataclass(frozen=True)
class Prediction:
    """Answers to a batch of inputs, and what each of them cost."""

    output: Int[Tensor, " batch"]
    """(batch,) int64: the answer; -1 where none was given."""
    forward_passes: Int[Tensor, " batch"]
    """(batch,) int64: calls of the network."""
    flops: Float64[Tensor, " batch"]
    """(batch,) float64: floating-point operations of these calls."""


class Predictor(Protocol):
    """A program that answers inputs."""

    @property
    def model_class(self) -> str:
        """The class of hypotheses it belongs to: same text, same class."""

    @property
    def weights_digest(self) -> str:
        """A hash of its parameters θ."""

    def answer(self, inputs: Shaped[Tensor, "batch ..."]) -> Prediction:
        """(batch, …) inputs of the task."""


@torch.no_grad()
def generate(
    decoder: Decoder,
    prompt: Int[Tensor, "batch length"],
    eos: int,
    limit: int,
    forced_states: int | None = None,
) -> Int[Tensor, "batch written"]:
    """(batch, length) prompt to (batch, at most `limit`) tokens; after its EOS a row repeats EOS.

    forced_states: write exactly this many tokens and then EOS, whatever the model would rather do.
    """
    if forced_states is not None:
        limit = forced_states + 1
    logits = decoder.prefill(prompt)
    written: list[Tensor] = []
    ended = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    for i in range(limit):
        if forced_states is not None:
            logits[:, eos] = float("inf") if i == forced_states else float("-inf")
        token = torch.where(ended, eos, logits.argmax(dim=-1))
        written.append(token)
        ended |= token == eos
        if i + 1 == limit or bool(ended.all()):
            break
        logits = decoder.append(token)
    return torch.stack(written, dim=1)


CACHE_BYTES = 256 * 2**20
"""Sequences are generated so many at once that their cached keys and values fit in this."""


@dataclass(frozen=True)
class TransformerPredictor:
    """Reads σ_1 … σ_T, writes an answer, and predicts the last state of it."""

    model: LanguageModel
    renderer: Renderer
    budget: int | None = None
    """Tokens of an answer with EOS. Models that are told the length are asked for it (None: the direct answer,
    by LEN_2 or the most pauses); others are made to write that many (None: as many as they want)."""
    kernel: Kernel = "plain"
    """Which code runs the model."""

    def __post_init__(self) -> None:
        most = self.renderer.horizon + 1
        if self.budget is not None and not 2 <= self.budget <= most:
            raise BadInput("budget", f"must lie in 2…{most} (one state to all, and EOS), got {self.budget}")

    @property
    def answer_length(self) -> int | None:
        """What the prompt tells of the answer's length; None where prompts tell nothing."""
        return (self.budget or 2) if self.renderer.tells_length else None

    @property
    def model_class(self) -> str:
        return self.model.hypotheses

    @cached_property
    def weights_digest(self) -> str:
        return digest_of(self.model.weights().items())

    def generate(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch written"]:
        """(batch, T) symbols to (batch, at most T+2) tokens."""
        rows = [self._generate_chunk(chunk) for chunk in symbols.split(self._chunk())]
        longest = max(row.shape[1] for row in rows)
        eos = self.renderer.vocabulary.eos
        padded = [torch.nn.functional.pad(row, (0, longest - row.shape[1]), value=eos) for row in rows]
        return torch.cat(padded)

    def _chunk(self) -> int:
        config = self.model.config
        bytes_of_one = 8 * config.depth * self.model.context * config.width
        return max(1, min(2_000, CACHE_BYTES // bytes_of_one))

    def _generate_chunk(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch written"]:
        renderer = self.renderer
        prompt = renderer.prompt(symbols, self.answer_length)
        forced = self.budget - 1 if self.budget is not None and not renderer.tells_length else None
        decoder = make_decoder(self.kernel, self.model, len(symbols))
        limit = renderer.generation_limit(self.answer_length)
        return generate(decoder, prompt, renderer.vocabulary.eos, limit, forced)

    def answer(self, inputs: Int[Tensor, "batch T"]) -> Prediction:
        answers = self.renderer.read(self.generate(inputs))
        costs = torch.tensor(
            [self.flops(written) for written in range(self.renderer.generation_limit(self.answer_length) + 1)],
            dtype=torch.float64,
        )
        return Prediction(answers.final_state, answers.length, costs[answers.length.cpu()])

    def flops(self, written: int) -> int:
        """Operations for an answer of that many tokens, EOS included."""
        if written == 0:
            return 0
        return costs_of(self.model).answer_flops(self.renderer.prompt_length(self.answer_length), written)


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
    lengths = answers.length.cpu().double()  # Apple's GPUs have no double
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
