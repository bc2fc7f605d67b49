"""What a chain experiment measures, on the way and at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from internalize.contract import Json
from internalize.curricula import Curriculum, Shown
from internalize.kinds.entrance import load_experiment
from internalize.measure.predictor import Measurement, measure
from internalize.runs.folder import Run
from internalize.runtime.kind import Streams
from internalize.statistics import SUCCESS, Interval
from internalize.tasks.inputs import both_sides, possible_inputs

if TYPE_CHECKING:
    from internalize.contract import Row
    from internalize.kinds.chain.experiment import ChainExperiment
    from internalize.kinds.chain.state import ChainState


@dataclass(frozen=True)
class Mode:
    """A way to ask the model: how its results are named, and what it is asked for."""

    prefix: str
    budget: int | None
    shown: Shown


def modes(curriculum: Curriculum, stage: int) -> list[Mode]:
    """Models that are told the length are asked for their shortest answer and for their longest."""
    if not curriculum.tells_length:
        return [Mode("", None, curriculum.shown(stage))]
    shortest, longest = curriculum.shortest(stage), curriculum.longest(stage)
    if curriculum.pauses and shortest == longest:
        return [Mode("", len(shortest) + 1, shortest)]
    return [Mode("", len(shortest) + 1, shortest), Mode("chain_", len(longest) + 1, longest)]


def evaluation_row(
    experiment: ChainExperiment, state: ChainState, streams: Streams, samples: int
) -> tuple[Row, float]:
    """ID and OOD accuracy with intervals, accuracy on the stage's own target, response length.

    Besides, the ID accuracy of direct answers, to the shortest thing that the model can be asked for.
    """
    row: Row = {}
    direct = 0.0
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
        if not mode.prefix:
            direct = both["id"].direct_accuracy.value
    return row, direct


def summary_row(experiment: ChainExperiment, state: ChainState, streams: Streams) -> Row:
    """The results of a run."""
    samples = experiment.config.evaluation.final_samples
    row: Row = {}
    for mode in modes(experiment.curriculum, state.progress.stage):
        both = _measure_both(experiment, state, mode, samples, streams, "final", 0)
        for name, found in both.items():
            row[f"{mode.prefix}{name}_accuracy"] = found.accuracy.value
            row[f"{mode.prefix}{name}_interval"] = _pair(found.accuracy.interval)
            if mode.shown[-1] != experiment.config.horizon:  # the stage it ended in does not ask for q_T
                row[f"{mode.prefix}{name}_target_accuracy"] = found.target_accuracy.value
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
        **cost_row(experiment, state, bool(row["internalized"])),
    }
    return row


def cost_row(experiment: ChainExperiment, state: ChainState, internalized: bool) -> Row:
    """What the training cost, in all and until it internalized; how often the controller went back."""
    row: Row = {}
    if state.ledger is not None:
        row |= state.ledger.row(experiment.config.batch, experiment.curriculum.stages, internalized)
    if state.control is not None:
        row |= {"attempts_undone": state.control.undone, "gave_up": state.control.gave_up or None}
    return row


def coverage_row(experiment: ChainExperiment, iterations: int) -> Row:
    """Possible inputs, sequences drawn, and how often each input was seen on average."""
    samples = iterations * experiment.config.batch
    possible = possible_inputs(experiment.task.symbols, experiment.config.horizon)
    return {"possible_inputs": possible, "samples": samples, "views_per_input": samples / possible}


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


ANSWERS = 4


@dataclass
class KeptAnswers:
    """Answers of the newest stage whose weights are in the folder; asked anew when there is a newer one."""

    stage: int = 0
    said: list[list[str]] = field(default_factory=list)

    def rows(self, folder: Path) -> list[list[str]]:
        """stage, input, answer and truth, of always the same inputs."""
        run = Run.at(folder)
        kept = run.stages()
        if kept and kept[-1] != self.stage:
            self.stage = kept[-1]
            self.said = answers_of(run, self.stage)
        return self.said


def answers_of(run: Run, stage: int) -> list[list[str]]:
    from internalize.kinds.chain.experiment import ChainExperiment

    _, experiment = load_experiment(run, "cpu")
    assert isinstance(experiment, ChainExperiment)
    shape = (ANSWERS, experiment.config.horizon)
    symbols = experiment.inputs.sample(shape, Streams(0, experiment.device)("live/answers"))
    states = experiment.task.trace(symbols, experiment.renderer.initial_state)
    shown = experiment.curriculum.shown(stage)
    predictor = experiment.load_predictor(run.weights(stage), None, stage)
    answers = experiment.renderer.text(predictor.generate(symbols))
    truth = experiment.renderer.text(experiment.renderer.answer(states, shown))
    inputs = experiment.renderer.text(symbols)
    return [[str(stage), *(plain(text) for text in row)] for row in zip(inputs, answers, truth, strict=True)]


def plain(text: str) -> str:
    """x:1 q:0 EOS → 1 0 ■"""
    return " ".join("■" if word == "EOS" else word.partition(":")[2] for word in text.split())
