"""The kind with hints, as the runtime sees it."""

from __future__ import annotations

import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent
from internalize.kinds.hints.config import HintsConfig
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, Results, entry, prepared
from internalize.runtime.report import readable


class HintsKind:
    """A ReLU network learns a Boolean function with its circuit's gates as hints, then without them."""

    name = "hints"
    config = HintsConfig
    results = Results(
        label=HintsConfig.label,
        subject=lambda config: config.circuit,
        unit="steps",
        headline={"loss": "loss", "accuracy": "accuracy", "subnetwork_accuracy": "h(x)"},
        accuracy=entry("accuracy"),
        columns={
            "accuracy": lambda result: percent(result["accuracy"]),
            "h(x)": lambda result: percent(result["subnetwork_accuracy"]),
            "internalized": lambda result: readable("internalized", result["internalized"]),
        },
        rates=("succeeded", "internalized"),
        samples_per_step=lambda config: config.batch,
    )

    def prepare(self, config: HintsConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        from internalize.kinds.hints.experiment import HintsExperiment
        from internalize.kinds.hints.forecast import foretell

        experiment = prepared.build(device)
        assert isinstance(experiment, HintsExperiment)
        return foretell(experiment, device, keep_stages, timed)


KIND = HintsKind()
