"""The chain kind, as the runtime sees it."""

from __future__ import annotations

import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent
from internalize.kinds.chain.config import ChainConfig
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, Results, entry, prepared
from internalize.runtime.report import readable

NOT_THE_PACE = ("task", "iterations", "optimizer", "inputs", "ood_inputs", "initial_state", "init_from")
"""Fields that do not decide how fast a step is; the operations counted tell what they change."""


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
            "ID": lambda result: percent(result["id_accuracy"]),
            "OOD": lambda result: percent(result["ood_accuracy"]),
            "tokens": lambda result: readable("response_length", result["response_length"]),
            "internalized": lambda result: readable("internalized", result["internalized"]),
        },
        rates=("succeeded", "ood_succeeded", "internalized"),
        samples_per_step=lambda config: config.batch,
    )

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
