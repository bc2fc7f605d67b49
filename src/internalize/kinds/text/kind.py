"""The text kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent
from internalize.kinds.text.config import TextConfig
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, Results, entry, prepared
from internalize.runtime.report import readable

NOT_THE_PACE = ("iterations", "optimizer")
"""Fields that do not decide how fast a step is; the operations counted tell what they change."""


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
        samples_per_step=lambda config: config.batch,
    )

    commands: ClassVar[Mapping[str, str]] = {
        "evaluate": "internalize.kinds.text.answers:evaluate",
        "show": "internalize.kinds.text.answers:show",
        "ask": "internalize.kinds.text.answers:ask",
        "matrix": "internalize.kinds.text.verdicts:matrix",
        "check": "internalize.kinds.text.verdicts:check",
        "diagnose": "internalize.kinds.text.verdicts:diagnose",
    }
    """Commands on runs that this kind answers in its own way."""

    def prepare(self, config: TextConfig, copies: Copies) -> Prepared:
        from internalize.kinds.text.adapters import require_peft
        from internalize.kinds.text.experiment import TextExperiment
        from internalize.kinds.text.material import find_material

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
        from internalize.kinds.text.experiment import TextExperiment
        from internalize.kinds.text.forecast import foretell

        experiment = prepared.build(device)
        assert isinstance(experiment, TextExperiment)
        return foretell(experiment, device, keep_stages, timed)


KIND = TextKind()
