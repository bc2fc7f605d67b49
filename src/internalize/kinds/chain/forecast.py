"""What a chain run will cost: operations and bytes counted from its shape, seconds by a few timed steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from internalize.curricula import Progress, Shown
from internalize.curricula.schedule import EqualShares
from internalize.kinds.chain.data import BULK, TrainingData
from internalize.kinds.chain.evaluation import modes
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.chain.state import ChainState
from internalize.measure.predictor import generate
from internalize.models.path import make_decoder
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes, measurements, median_seconds
from internalize.runtime.kind import Streams
from internalize.tasks.inputs import both_sides

BYTES = 4
"""Of a number in fp32, which weights and moments always are."""
TOKEN = 8
"""Bytes of a token's number, of a symbol's and of a state's."""
COPIES = 4
"""Of every weight: itself, its gradient and the two moments of AdamW; one more with Muon."""
TRIAL_ANSWERS = 64
LARGE_STEP = 2e10
"""Operations above which a step is timed on a part of its batch, so that the forecast stays quick."""


def foretell(experiment: ChainExperiment, keep_stages: KeepStages, timed: bool) -> Forecast:
    """Adaptive schedules are taken as if they used all their iterations, in equal shares."""
    config, curriculum, costs = experiment.config, experiment.curriculum, experiment.costs
    renderer, parameters = experiment.renderer, costs.parameters()
    sizes = EqualShares(config.iterations, curriculum.stages).sizes()
    training = sum(
        iterations * experiment.mean_operations(stage) for stage, iterations in enumerate(sizes, start=1)
    )
    measuring = sum(
        asked.answers * costs.answer_flops(renderer.prompt_length(asked.written), asked.written)
        for asked in measured_answers(experiment)
    )
    weights, copies = BYTES * parameters, COPIES + bool(config.optimizer.muon)
    saved = copies - 1  # all but the gradient
    if config.schedule.kind == "controller":  # also as they were at the end of the stage before
        copies, saved = copies + saved, 2 * saved
    answer = len(max(curriculum.formats(1), key=len))
    longest = renderer.prompt_length(answer + 1) + answer
    return Forecast(
        min(training, config.operations_limit or math.inf),
        float(measuring),
        disk_bytes(keep_stages, curriculum.stages, weights, saved * weights, weights),
        float(copies * weights + costs.kept_bytes(config.batch, longest)),
        parameters,
        config.iterations,
        least_memory(experiment),
        precision=config.precision,
        seconds=seconds_of_run(experiment) if timed else None,
    )


def least_memory(experiment: ChainExperiment) -> tuple[Need, ...]:
    config, model, weights = experiment.config, experiment.config.model, experiment.costs.parameters()
    # of GPT-2 one row of the width in every layer, and there are several; of another network what it reads
    token = BYTES * model.depth * model.width if model.network is None else TOKEN
    step = config.batch * experiment.renderer.prompt_length(2) * token
    drawn = BULK * config.batch * (2 * config.horizon + 1) * TOKEN
    field = "batch" if config.batch >= config.horizon else "horizon"
    what = f"a batch of {config.batch:,} sequences"
    if field == "horizon":
        what += f" of {config.horizon:,} symbols"
    samples = max(config.evaluation.samples, config.evaluation.final_samples)  # drawn at once
    return (
        Need(COPIES * BYTES * weights, "model", f"training {weights:,} parameters"),
        Need(max(step, drawn), field, what),
        Need(samples * config.horizon * TOKEN, "evaluation", f"measuring on {samples:,} inputs"),
    )


# Measurements ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Answers of one length that a model is measured by."""

    answers: int
    written: int
    """Tokens of each, EOS included."""


def measured_answers(experiment: ChainExperiment) -> Iterator[Asked]:
    """All answers of all measurements of a run, if every answer is as long as it was taught to be."""
    config, curriculum = experiment.config, experiment.curriculum
    shares = EqualShares(config.iterations, curriculum.stages)
    sets = 2 * len(both_sides(experiment.inputs))  # in distribution and out of it; held out and trained
    begun = 0
    for stage in range(1, curriculum.stages + 1):
        times = measurements(begun, shares.end(stage), config.evaluation_interval)
        final = config.evaluation.final_samples if stage == curriculum.stages else 0
        inputs = sets * (times * config.evaluation.samples + final)
        for mode in modes(curriculum, stage):
            yield Asked(inputs, len(mode.shown) + 1)
        begun = shares.end(stage)


# Seconds ---------------------------------------------------------------------------------------------------


def seconds_of_run(experiment: ChainExperiment) -> float:
    """Time the first format and the last, and take the stages in between as a straight line.

    Weights from elsewhere are not read: they take as long as others.
    """
    config, curriculum = experiment.config, experiment.curriculum
    first, last = curriculum.formats(1)[0], curriculum.shortest(curriculum.stages)
    streams = Streams(config.seed, experiment.device)
    model = experiment.new_model()
    model.initialise(streams("init"))
    state = experiment.assemble(model, Progress())
    data = experiment.trial_data(_trial_batch(experiment, first))
    formats = [first] if first == last else [first, last]
    per_step = sum(_seconds_of_step(experiment, data, state, streams, shown) for shown in formats) / len(
        formats
    )
    update = median_seconds(state.optimizer.step)
    training = config.iterations * (per_step * config.batch / data.batch + update)
    return training + _evaluation_seconds(experiment, state)


def _trial_batch(experiment: ChainExperiment, shown: Shown) -> int:
    config, flops = experiment.config, experiment.operations_of_step(len(shown) + 1)
    return max(1, min(config.batch, int(config.batch * LARGE_STEP / flops)))


def _seconds_of_step(
    experiment: ChainExperiment, data: TrainingData, state: ChainState, streams: Streams, shown: Shown
) -> float:
    """Data, forward and backward pass."""

    def step() -> None:
        symbols, states = data(0, streams)
        tokens = experiment.renderer.sequence(symbols, states, shown)
        state.step(tokens, tokens.shape[1] - len(shown) - 1)

    return median_seconds(step)


def _evaluation_seconds(experiment: ChainExperiment, state: ChainState) -> float:
    """All measurements of a run, from a few answers: the shortest, the longest, and a straight line between."""
    shortest, longest = 2, experiment.config.horizon + 1
    short, long = (_seconds_of_answer(experiment, state, written) for written in (shortest, longest))
    a_token = (long - short) / max(1, longest - shortest)
    return sum(
        asked.answers * (short + a_token * (asked.written - shortest)) for asked in measured_answers(experiment)
    )


def _seconds_of_answer(experiment: ChainExperiment, state: ChainState, written: int) -> float:
    """Of that many tokens, which a model that has learned nothing yet must be made to write."""
    renderer, inputs = experiment.renderer, experiment.inputs
    symbols = inputs.sample((TRIAL_ANSWERS, renderer.horizon), Streams(0, experiment.device)("estimate"))
    prompt = renderer.prompt(symbols, written)

    def answer() -> None:
        decoder = make_decoder(state.kernel, state.model, TRIAL_ANSWERS)
        generate(decoder, prompt, renderer.vocabulary.eos, written, forced_states=written - 1)

    return median_seconds(answer) / TRIAL_ANSWERS
