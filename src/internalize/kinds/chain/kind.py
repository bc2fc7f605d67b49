"""The chain kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.named import Copies
from internalize.display.terminal import accuracy_told, readable
from internalize.kinds.chain.config import ChainConfig
from internalize.runtime.kind import Prepared, Results, entry, prepared

if TYPE_CHECKING:
    import torch

    from internalize.kinds.chain.experiment import ChainExperiment
    from internalize.runtime.execution import KeepStages
    from internalize.runtime.forecast import Forecast

NOT_THE_PACE = ("task", "iterations", "optimizer", "inputs", "ood_inputs", "initial_state", "init_from")
"""Fields that do not decide how fast a step is; the operations counted tell what they change."""


def kept_answers() -> Callable[[Path], list[list[str]]]:
    from internalize.kinds.chain.evaluation import KeptAnswers

    return KeptAnswers().rows


def chance_of(experiment: ChainExperiment) -> float:
    """The share of the commonest final state."""
    start, inputs = experiment.renderer.initial_state, experiment.inputs
    return float(experiment.task.final_shares(inputs.probabilities, experiment.config.horizon, start).max())


class ChainKind:
    """A transformer learns to run a semiautomaton: the paper's main experiment."""

    name = "chain"
    config = ChainConfig
    results = Results(
        label=ChainConfig.label,
        subject=lambda config: config.task,
        unit="iterations",
        headline={"loss": "loss", "id_accuracy": "ID", "ood_accuracy": "OOD"},
        accuracy=entry("id_accuracy"),
        ood_accuracy=entry("ood_accuracy"),
        columns={
            "ID": lambda result: accuracy_told(result, "id_accuracy"),
            "OOD": lambda result: accuracy_told(result, "ood_accuracy"),
            "tokens": lambda result: readable("response_length", result["response_length"]),
            "internalized": lambda result: readable("internalized", result["internalized"]),
        },
        rates=("succeeded", "ood_succeeded", "internalized"),
        answers=kept_answers,
        chance=chance_of,
        samples_per_step=lambda config: config.batch,
    )

    def preset(self, name: Any, fields: Mapping[str, Any]) -> ChainConfig:
        """What fields of a sweep depart from that begin with a preset."""
        from internalize.kinds.chain.presets import preset_of_fields

        return preset_of_fields(name, fields)

    def prepare(self, config: ChainConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        place = f"{__name__}:KIND"
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, place, NOT_THE_PACE)

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        from internalize.kinds.chain.experiment import ChainExperiment
        from internalize.kinds.chain.forecast import foretell

        experiment = prepared.build(device)
        assert isinstance(experiment, ChainExperiment)
        return foretell(experiment, keep_stages, timed)


KIND = ChainKind()
