"""What a chain run says while it trains: a few answers of the model that it kept last, for its live page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from internalize.kinds.entrance import load_experiment
from internalize.runs.folder import Run
from internalize.runtime.streams import Streams

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
    answers = experiment.renderer.text(experiment.load_predictor(run.weights(stage), None).generate(symbols))
    truth = experiment.renderer.text(experiment.renderer.answer(states, shown))
    inputs = experiment.renderer.text(symbols)
    return [[str(stage), *(plain(text) for text in row)] for row in zip(inputs, answers, truth, strict=True)]


def plain(text: str) -> str:
    """x:1 q:0 EOS → 1 0 ■"""
    return " ".join("■" if word == "EOS" else word.partition(":")[2] for word in text.split())
