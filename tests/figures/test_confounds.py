"""What looks like a claim's effect and is none: it must not be confirmed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from internalize.figures.catalogue import find_figure
from internalize.figures.paper.ood_degradation import ood_columns
from internalize.figures.verdicts import judge
from internalize.runs.folder import Run
from tests.figures.planting import chain, plant

STAGES = 8


class Measured:
    """A run of which only the accuracies at its stage ends are known."""

    def __init__(self, id_accuracies: list[float], ood_accuracies: list[float]) -> None:
        pairs = enumerate(zip(id_accuracies, ood_accuracies, strict=True), start=1)
        self._rows = [{"stage": stage, "id_accuracy": a, "ood_accuracy": b} for stage, (a, b) in pairs]

    def metrics(self, event: str) -> list[dict[str, Any]]:
        assert event == "evaluation"
        # a stage begins badly; only its end counts
        return [row for end in self._rows for row in ({**end, "id_accuracy": 0.3, "ood_accuracy": 0.3}, end)]


def columns_of(id_accuracies: list[float], ood_accuracies: list[float]) -> dict[str, Any]:
    return ood_columns({"stages": STAGES}, cast("Run", Measured(id_accuracies, ood_accuracies)))


def falling(to: float) -> list[float]:
    return [1.0 - (1.0 - to) * stage / (STAGES - 1) for stage in range(STAGES)]


@pytest.mark.parametrize(("ood_end", "word"), [(0.96, "not confirmed"), (0.6, "confirmed")])
def test_what_falls_in_distribution_too_is_no_loss_of_ood(ood_end: float, word: str) -> None:
    rows = []
    for seed in range(12):
        noise = [0.001 * ((seed + stage) % 2) for stage in range(STAGES)]
        ood = [a - n for a, n in zip(falling(ood_end), noise, strict=True)]
        rows.append({"task": "C3", "seed": seed, **columns_of(falling(0.96), ood)})
    verdicts = judge(find_figure("ood-degradation").claims, rows)
    assert [verdict.word for verdict in verdicts] == [word, word]


def test_a_run_that_stops_half_way_has_not_internalized_all() -> None:
    half = [*falling(0.96)[:4], *[0.4] * (STAGES - 4)]
    found = columns_of(half, [a - 0.02 * stage for stage, a in enumerate(half)])
    assert found["stages_kept"] == 4
    assert found["ood_gap_trend"] == -1.0
    assert found["ood_gap_change"] is None
    few = [1.0, 0.99, *[0.4] * (STAGES - 2)]
    assert columns_of(few, few) == {"ood_gap_trend": None, "ood_gap_change": None, "stages_kept": 2}


def test_a_worse_curriculum_at_depth_one_is_no_effect_of_depth() -> None:
    def left_is_worse(row: dict[str, Any]) -> dict[str, Any]:
        worse = 0.3 if row["method"] == "left" else 0.0
        return {**chain(row, 1.0), "ood_accuracy": 0.9 - worse + 0.001 * (row["seed"] % 5)}

    figure = find_figure("scatter")
    verdicts = {v.claim.name: v.word for v in judge(figure.claims, plant(figure, "paper", left_is_worse))}
    assert verdicts["depth-helps-ood-of-c2"] == "not confirmed"
