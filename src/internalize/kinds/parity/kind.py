"""The parity kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from internalize.configs.named import Copies
from internalize.kinds.parity.config import ParityConfig
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, Results, prepared
from internalize.runtime.report import readable


def share_right(summary: Mapping[str, Any]) -> float:
    """Inputs on which the direct answer is right: a lower bound (95 %) where they were drawn, not all asked."""
    return 1.0 if summary["exact"] else 1.0 - float(summary["error_bound"])


def _phases(result: Mapping[str, Any]) -> str:
    return f"{result['phases']}{', stalled' if result['stalled'] else ''}"


class ParityKind:
    """One linear-attention layer learns a hidden parity with its chain shown, then internalizes it."""

    name = "parity"
    config = ParityConfig
    results = Results(
        label=ParityConfig.label,
        subject=lambda config: f"parity-d{config.d}-k{config.k}",
        unit="steps",
        accuracy=share_right,
        columns={
            "phases": _phases,
            "support found": lambda result: readable("", result["support_recovered"]),
            "exact": lambda result: readable("", result["exact"]),
            "internalized": lambda result: readable("", result["internalized"]),
        },
        rates=("support_recovered", "exact", "internalized"),
        samples_per_step=lambda config: config.examples,
    )

    def prepare(self, config: ParityConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        from internalize.kinds.parity.forecast import foretell

        return foretell(prepared.config, keep_stages, timed)


KIND = ParityKind()
