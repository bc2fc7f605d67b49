"""A chain run opened for inspection: every saved stage of it, and fresh inputs to ask it about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from internalize.curricula import Shown
from internalize.errors import BadInput, require
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import load_experiment
from internalize.measure.predictor import TransformerPredictor
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel
from internalize.runs.folder import Run
from internalize.runtime.streams import Streams
from internalize.tasks import InputDistribution


@dataclass(frozen=True)
class Examples:
    """Inputs from one distribution and what is true of them."""

    inputs: str
    symbols: Tensor
    """(samples, T)"""
    states: Tensor
    """(samples, T+1): q_0 … q_T."""
    chance: float
    """The share of the commonest final state: what always saying the same would reach."""


@dataclass(frozen=True)
class OpenChain:
    """A chain run whose stages can be loaded one by one."""

    run: Run
    experiment: ChainExperiment

    @property
    def title(self) -> str:
        return self.run.path.name

    @property
    def horizon(self) -> int:
        return self.experiment.config.horizon

    def stages(self) -> list[int]:
        """The stages whose weights can be loaded; the last one even if only the final model was kept."""
        kept = self.run.stages()
        if (self.run.path / "model" / "model.safetensors").is_file():
            kept = sorted({*kept, self.final_stage()})
        require(bool(kept), "run", f"{self.run.path} has no saved weights (it is {self.run.status()['state']})")
        return kept

    def final_stage(self) -> int:
        return int(self.run.summary()["stage"])

    def predictor(self, stage: int | None = None, budget: int | None = None) -> TransformerPredictor:
        """From the weights at a stage's end; None: the final ones, or the last kept of an unfinished run."""
        source = self._source(stage)
        return self.experiment.load_predictor(self.run.weights(source), budget)

    def model(self, stage: int | None = None) -> GPT2:
        """The transformer itself, for whoever looks inside it; who only asks it takes `predictor`."""
        return _built_in(self, self.predictor(stage).model)

    def stage_or_last(self, stage: int | None) -> int:
        return self.stages()[-1] if stage is None else stage

    def _source(self, stage: int | None) -> int | None:
        stage = self.stage_or_last(stage)
        require(stage in self.stages(), "stage", f"kept are the stages {self.stages()}, not {stage}")
        return stage if stage in self.run.stages() else None

    def own_shown(self, stage: int, budget: int | None = None) -> Shown:
        """What the stage's own format shows; of a mixture's formats the one of this budget, or the direct one.

        budget: tokens of the answer, EOS included.
        """
        curriculum = self.experiment.curriculum
        require(1 <= stage <= curriculum.stages, "stage", f"must lie in 1…{curriculum.stages}, got {stage}")
        if budget is None:
            return curriculum.shown(stage)
        lengths = {len(shown) + 1: shown for shown in curriculum.formats(stage)}
        require(
            budget in lengths,
            "budget",
            f"stage {stage} trained answers of {sorted(lengths)} tokens, not {budget}",
        )
        return lengths[budget]

    def draw(self, inputs: InputDistribution, samples: int, seed: int, purpose: str) -> Examples:
        """Fresh examples; the same seed and purpose give the same ones."""
        require(samples >= 1, "samples", f"must be at least 1, got {samples}")
        generator = Streams(seed, self.experiment.device)(f"{purpose}/{inputs.name}")
        symbols = inputs.sample((samples, self.horizon), generator)
        states = self.experiment.task.trace(symbols, self.experiment.renderer.initial_state)
        return Examples(inputs.name, symbols, states, float(self.final_shares(inputs).max()))

    def final_shares(self, inputs: InputDistribution) -> Tensor:
        """(states,) float64: how often inputs end in each state, computed symbol by symbol, not sampled."""
        task = self.experiment.task
        targets = task.table.flatten().cpu()
        symbol = torch.tensor(inputs.probabilities, dtype=torch.float64)
        share = torch.zeros(task.states, dtype=torch.float64)
        share[self.experiment.renderer.initial_state] = 1.0
        for _ in range(self.horizon):
            share = torch.zeros_like(share).index_add_(0, targets, torch.outer(share, symbol).flatten())
        return share

    def both_inputs(self) -> dict[str, InputDistribution]:
        return {"id": self.experiment.inputs, "ood": self.experiment.ood_inputs}


def open_chain(path: Path | str, device: str = "auto", field: str = "run") -> OpenChain:
    """path: the run's folder or the beginning of its hash."""
    run = Run.open(path, field)
    _, experiment = load_experiment(run, device)
    if not isinstance(experiment, ChainExperiment):
        raise BadInput(field, f"{path} is a run of another kind, not of chains")
    return OpenChain(run, experiment)


def untrained(chain: OpenChain) -> GPT2:
    """The very model that the run began with, or would have begun with, before any training."""
    model = _built_in(chain, chain.experiment.new_model())
    model.initialise(Streams(chain.experiment.config.seed, chain.experiment.device)("init"))
    return model


def _built_in(chain: OpenChain, model: LanguageModel) -> GPT2:
    if not isinstance(model, GPT2):
        network = chain.experiment.config.model.network
        raise BadInput("run", f"{chain.title} trained {network}: only the built-in GPT-2 can be looked into")
    return model
