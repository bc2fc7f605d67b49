"""What a chain experiment measures, on the way and at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from internalize.contract import Json
from internalize.curricula import Curriculum, Shown
from internalize.measure.accuracy import Measurement, measure
from internalize.statistics import SUCCESS, Interval
from internalize.tasks.inputs import both_sides

if TYPE_CHECKING:
    from internalize.contract import Row
    from internalize.kinds.chain.experiment import ChainExperiment
    from internalize.kinds.chain.state import ChainState
    from internalize.runtime.streams import Streams


@dataclass(frozen=True)
class Mode:
    """A way to ask the model: how its results are named, and what it is asked for."""

    prefix: str
    budget: int | None
    shown: Shown


def modes(curriculum: Curriculum, stage: int) -> list[Mode]:
    """Models with a length token are asked for their shortest answer and for their longest."""
    if not curriculum.length_hint:
        return [Mode("", None, curriculum.shown(stage))]
    formats = sorted(curriculum.formats(stage), key=len)
    return [
        Mode("", len(formats[0]) + 1, formats[0]),
        Mode("chain_", len(formats[-1]) + 1, formats[-1]),
    ]


def evaluation_row(experiment: ChainExperiment, state: ChainState, streams: Streams, samples: int) -> Row:
    """ID and OOD accuracy with intervals, accuracy on the stage's own target, response length."""
    row: Row = {}
    for mode in modes(experiment.curriculum, state.progress.stage):
        both = _measure_both(experiment, state, mode, samples, streams, "evaluate", state.progress.iteration)
        for name, found in both.items():
            key = f"{mode.prefix}{name}"
            row |= {
                f"{key}_accuracy": found.accuracy.value,
                f"{key}_interval": _pair(found.accuracy.interval),
                f"{key}_target_accuracy": found.target_accuracy.value,
                f"{key}_exact_chain": found.exact_chain.value,
                f"{key}_response_length": found.response_length,
            }
    return row


def summary_row(experiment: ChainExperiment, state: ChainState, streams: Streams) -> Row:
    """The results of a run."""
    samples = experiment.config.evaluation.final_samples
    row: Row = {}
    for mode in modes(experiment.curriculum, state.progress.stage):
        both = _measure_both(experiment, state, mode, samples, streams, "final", 0)
        for name, found in both.items():
            row[f"{mode.prefix}{name}_accuracy"] = found.accuracy.value
            row[f"{mode.prefix}{name}_interval"] = _pair(found.accuracy.interval)
        known = both["id"]
        row[f"{mode.prefix}response_length"] = known.response_length
        row[f"{mode.prefix}forward_passes"] = known.forward_passes
        row[f"{mode.prefix}flops"] = known.flops
        if not mode.prefix:
            row["succeeded"] = known.accuracy.value > SUCCESS
            row["ood_succeeded"] = both["ood"].accuracy.value > SUCCESS
            row["internalized"] = known.direct_accuracy.value > SUCCESS
    row |= {
        "iterations": state.progress.iteration,
        "stage": state.progress.stage,
        "stages": experiment.curriculum.stages,
        "kernel": state.kernel,
        **coverage_row(experiment, state.progress.iteration),
    }
    return row


def coverage_row(experiment: ChainExperiment, iterations: int) -> Row:
    """Possible inputs, sequences drawn, and how often each input was seen on average."""
    samples = iterations * experiment.config.batch
    possible = possible_inputs(experiment.task.symbols, experiment.config.horizon)
    return {"possible_inputs": possible, "samples": samples, "views_per_input": samples / possible}


def possible_inputs(symbols: int, horizon: int) -> float:
    """|Σ|^T, or a bound that every number in a table can hold."""
    return float(symbols**horizon) if horizon * math.log10(max(symbols, 1)) < 300 else 1e300


def _measure_both(
    experiment: ChainExperiment,
    state: ChainState,
    mode: Mode,
    samples: int,
    streams: Streams,
    stream: str,
    step: int,
) -> dict[str, Measurement]:
    """In distribution and out of it; every mode answers the same inputs.

    Where inputs are held out, `id` and `ood` are measured on these, `id_trained` and `ood_trained` on the rest.
    """
    predictor = experiment.predictor(state, mode.budget)
    found = {}
    for name, inputs in (("id", experiment.inputs), ("ood", experiment.ood_inputs)):
        for side, of_side in both_sides(inputs).items():
            key = f"{name}_{side}" if side else name
            generator = streams(f"{stream}/{key}", step)
            found[key] = measure(predictor, experiment.task, of_side, mode.shown, samples, generator)
    return found


def _pair(interval: Interval) -> list[Json]:
    return [interval.low, interval.high]
