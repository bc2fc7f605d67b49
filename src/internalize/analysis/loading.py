"""A run, opened for reading: its experiment and a predictor from its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from internalize.curricula import Shown
from internalize.errors import BadInput, require
from internalize.experiments.chain.experiment import ChainExperiment
from internalize.experiments.training import load_experiment
from internalize.measure.transformer import TransformerPredictor
from internalize.runs.folder import Run


@dataclass(frozen=True)
class LoadedChain:
    """A chain run in hand."""

    run: Run
    experiment: ChainExperiment
    predictor: TransformerPredictor
    shown: Shown
    """What an answer should show, at the stage and budget asked for."""

    @property
    def title(self) -> str:
        return self.run.path.name


def load_chain(
    path: Path, stage: int | None = None, budget: int | None = None, device: str = "auto"
) -> LoadedChain:
    """stage: weights at its end, None the final ones; budget: tokens of an answer with EOS, None: free."""
    run = Run.open(path)
    _, experiment = load_experiment(run, device)
    if not isinstance(experiment, ChainExperiment):
        raise BadInput("run", f"{path} is a run of another kind, not of chains")
    horizon = experiment.config.horizon
    good = budget is None or 2 <= budget <= horizon + 1
    require(good, "budget", f"must lie in 2…{horizon + 1} (one state to all, and EOS), got {budget}")
    predictor = experiment.load_predictor(run.weights(stage), budget)
    return LoadedChain(run, experiment, predictor, _shown(experiment, _stage_of(run, stage), budget))


def _stage_of(run: Run, stage: int | None) -> int:
    return int(run.summary()["stage"]) if stage is None else stage


def _shown(experiment: ChainExperiment, stage: int, budget: int | None) -> Shown:
    """The format asked for: by its length where the model is asked by one, else the stage's own."""
    curriculum = experiment.curriculum
    if curriculum.length_hint:
        wanted = (budget or 2) - 1
        return next((f for f in curriculum.formats(stage) if len(f) == wanted), curriculum.shown(stage))
    return curriculum.shown(stage)
