"""The text kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from internalize.configs.named import Copies
from internalize.curricula import Progress
from internalize.curricula.schedule import EqualShares
from internalize.display.terminal import percent, readable
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.evaluation import asked_of, chance_of, chosen_rows, kept_of, modes
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.generation import write_answers
from internalize.kinds.text.rendering import CutRow
from internalize.kinds.text.state import TextState
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes, measurements, median_seconds
from internalize.runtime.kind import Prepared, Results, Streams, entry, prepared

NOT_THE_PACE = ("iterations", "optimizer")
"""Fields that do not decide how fast a step is; the operations counted tell what they change."""


def kept_answers() -> Callable[[Path], Sequence[Sequence[str]]]:
    from internalize.kinds.text.open_text import KeptTextAnswers

    return KeptTextAnswers().rows


class TextKind:
    """A language model learns to answer one's own questions, with a chain of words that is taken away."""

    name = "text"
    config = TextConfig
    results = Results(
        label=TextConfig.label,
        subject=lambda config: Path(config.data).name,
        unit="iterations",
        headline={"loss": "loss", "id_accuracy": "ID", "ood_accuracy": "OOD"},
        accuracy=entry("id_accuracy"),
        ood_accuracy=entry("ood_accuracy"),
        columns={
            "ID": lambda result: percent(result["id_accuracy"]),
            "OOD": lambda result: percent(result.get("ood_accuracy")),
            "tokens": lambda result: readable("response_length", result["response_length"]),
            "internalized": lambda result: readable("internalized", result["internalized"]),
        },
        rates=("succeeded", "internalized"),
        answers=kept_answers,
        chance=lambda experiment: chance_of(next(iter(experiment.material.evals.values()))),
        samples_per_step=lambda config: config.batch,
    )

    commands: ClassVar[Mapping[str, str]] = {
        "evaluate": "internalize.kinds.text.open_text:evaluate",
        "show": "internalize.kinds.text.open_text:show",
        "ask": "internalize.kinds.text.open_text:ask",
        "matrix": "internalize.kinds.text.verdicts:matrix",
        "check": "internalize.kinds.text.verdicts:check",
        "diagnose": "internalize.kinds.text.diagnosis:diagnose",
    }
    """Commands on runs that this kind answers in its own way."""
    instead: ClassVar[Mapping[str, str]] = {
        "profile": "internalize evaluate RUN measures all files of a run, and --inputs FILE another one",
        "audit": "internalize matrix RUN asks a mixture for every budget",
        "probe": "internalize.open_run(RUN).model(stage) is a model of transformers with output_hidden_states",
        "patch": "internalize.open_run(RUN).model(stage) is a model of transformers, which takes hooks",
    }
    """Commands that look into chains of states: what to do with a run of text instead."""
    opened = "internalize.kinds.text.open_text:OpenText"
    """How `internalize.open_run` opens its runs."""

    def prepare(self, config: TextConfig, copies: Copies) -> Prepared:
        from internalize.kinds.text.material import find_material
        from internalize.kinds.text.network import require_peft

        if config.lora.rank is not None:
            require_peft()
        material = find_material(config, copies)
        place = f"{__name__}:KIND"

        def build(device: torch.device) -> TextExperiment:
            return TextExperiment(config, material, device)

        return prepared(self, config, copies, build, material.sources, place, NOT_THE_PACE)

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        experiment = prepared.build(device)
        assert isinstance(experiment, TextExperiment)
        return foretell(experiment, device, keep_stages, timed)


KIND = TextKind()


BYTES = 4
"""Of a number in fp32, which weights and moments always are."""
COPIES = 4
"""Of every trained weight: itself, its gradient and the two moments of AdamW."""
SAMPLED = 64
"""Rows that stand for all others in what is counted and timed."""


def foretell(
    experiment: TextExperiment, device: torch.device, keep_stages: KeepStages, timed: bool
) -> Forecast:
    """Adaptive schedules are taken as if they used all their iterations, in equal shares."""
    config, curriculum, costs = experiment.config, experiment.curriculum, experiment.costs
    shares = EqualShares(config.iterations, curriculum.stages).sizes()
    training = sum(
        iterations * config.batch * _row_flops(experiment, stage) for stage, iterations in enumerate(shares, 1)
    )
    measuring = sum(measured.rows * measured.flops for measured in _measured(experiment))
    weights = BYTES * costs.parameters
    longest = experiment.material.context * -(-config.batch // config.accumulate)
    kept = costs.kept_bytes(longest, experiment.material.tokenizer.size)
    trained = weights if not experiment.trained_only else weights // 20
    return Forecast(
        float(training),
        float(measuring),
        float(disk_bytes(keep_stages, curriculum.stages, trained, 3 * trained, weights)),
        float(weights + (COPIES - 1) * trained + kept),
        costs.parameters,
        config.iterations,
        _least(experiment, weights) if device.type == "cpu" else (),
        precision=config.precision,
        seconds=_seconds(experiment) if timed else None,
    )


def _least(experiment: TextExperiment, weights: int) -> tuple[Need, ...]:
    whole = weights if experiment.trained_only else COPIES * weights
    return (Need(whole, "model", f"training {experiment.costs.parameters:,} parameters"),)


def _sample(experiment: TextExperiment) -> list[CutRow]:
    """Rows spread evenly over the training rows."""
    rows = experiment.material.train
    return [rows[i * len(rows) // SAMPLED] for i in range(min(SAMPLED, len(rows)))]


def _row_flops(experiment: TextExperiment, stage: int) -> float:
    """Of one row of a training step, the mean over some rows and over a mixture's budgets."""
    renderer, rows = experiment.material.renderer, _sample(experiment)
    budgets: list[int | None] = list(range(len(experiment.curriculum.budgets))) or [None]
    total = 0
    for budget in budgets:
        for row in rows:
            rendered = renderer.render(row, kept_of(experiment, row, stage, budget), budget)
            total += experiment.costs.training_flops(rendered.prompt, len(rendered.slots))
    return total / len(rows) / len(budgets)


@dataclass(frozen=True)
class MeasuredRows:
    """Rows that a stage is measured by, in one mode."""

    rows: int
    flops: float
    """Of one answer as long as it was taught to be."""
    length: float
    """Tokens of such an answer."""


def _measured(experiment: TextExperiment) -> Iterator[MeasuredRows]:
    config, curriculum = experiment.config, experiment.curriculum
    shares = EqualShares(config.iterations, curriculum.stages)
    every = config.evaluation.every or config.iterations + 1
    counts = {name: len(rows) for name, rows in experiment.material.evals.items()}
    renderer, rows = experiment.material.renderer, _sample(experiment)
    begun = 0
    for stage in range(1, curriculum.stages + 1):
        times = measurements(begun, shares.end(stage), every)
        asked = sum(times * min(config.evaluation.rows, count) for count in counts.values())
        if stage == curriculum.stages:
            most = config.evaluation.final_rows
            asked += sum(count if most is None else min(most, count) for count in counts.values())
        for mode in modes(experiment):
            flops = length = 0
            for row in rows:
                rendered = renderer.render(row, kept_of(experiment, row, stage, mode.budget), mode.budget)
                flops += experiment.costs.answer_flops(rendered.prompt, len(rendered.slots))
                length += len(rendered.slots)
            yield MeasuredRows(asked, flops / len(rows), length / len(rows))
        begun = shares.end(stage)


# Seconds ---------------------------------------------------------------------------------------------------


def _seconds(experiment: TextExperiment) -> float:
    """Time the first stage and the last, and take those in between as a straight line."""
    config, curriculum = experiment.config, experiment.curriculum
    streams = Streams(config.seed, experiment.device)
    state = experiment.init(streams)
    stages = sorted({1, curriculum.stages})
    per_step = sum(_seconds_of_step(experiment, state, streams, stage) for stage in stages) / len(stages)
    update = median_seconds(state.optimizer.step)
    return config.iterations * (per_step + update) + _evaluation_seconds(experiment, state)


def _seconds_of_step(experiment: TextExperiment, state: TextState, streams: Streams, stage: int) -> float:
    """Rows, forward and backward pass."""
    step = state.step
    progress = Progress(stage=stage)
    drops = streams("dropout") if experiment.config.dropout > 0 else None
    return median_seconds(lambda: step(experiment.rendered_at(progress, streams), drops))


def _evaluation_seconds(experiment: TextExperiment, state: TextState) -> float:
    """From a few answers of one length, taken in proportion to the tokens of all others."""
    material = experiment.material
    rows = chosen_rows(experiment, next(iter(material.evals)), SAMPLED)
    kept = [kept_of(experiment, row, 1, None if not experiment.curriculum.budgets else 0) for row in rows]
    budget = 0 if experiment.curriculum.budgets else None
    asked = [asked_of(experiment, row, k, budget) for row, k in zip(rows, kept, strict=True)]
    tokens = min(16, material.limit)
    batch = experiment.config.evaluation.batch
    markers = material.renderer.markers

    def answer() -> None:  # held to a budget, so that no answer ends early
        write_answers(state.model, asked, markers, tokens, batch, tokens)

    per_token = median_seconds(answer) / len(rows) / tokens
    return sum(measured.rows * per_token * measured.length for measured in _measured(experiment))
