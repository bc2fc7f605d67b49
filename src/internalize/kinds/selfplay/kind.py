"""The self-play kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, Results, entry, prepared
from internalize.runtime.report import readable


def _lines_lost(result: Mapping[str, Any]) -> str:
    return "–" if result["raw_loses"] is None else f"{result['raw_loses']:,}"


class SelfPlayKind:
    """A network plays itself with tree search, and is trained to move at once as the search does."""

    name = "selfplay"
    config = SelfPlayConfig
    results = Results(
        label=SelfPlayConfig.label,
        subject=lambda config: config.game,
        unit="parts",
        headline={"raw_accuracy": "raw optimal", "search_accuracy": "search optimal", "loss": "loss"},
        accuracy=entry("raw_optimal_rate"),
        columns={
            "raw": lambda result: percent(result["raw_optimal_rate"]),
            "search": lambda result: percent(result["search_optimal_rate"]),
            "match": lambda result: percent(result["match_score"]),
            "lines lost": _lines_lost,
            "internalized": lambda result: readable("", bool(result["internalized"])),
        },
        rates=("internalized",),
        samples_per_step=lambda config: config.samples_per_step,
    )

    def prepare(self, config: SelfPlayConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        from internalize.kinds.selfplay.forecast import foretell

        return foretell(prepared.config, keep_stages, timed)


KIND = SelfPlayKind()
