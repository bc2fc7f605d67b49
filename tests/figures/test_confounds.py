"""What looks like a claim's effect and is none: it must not be confirmed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from internalize.display.charts import accuracy_over_stages
from internalize.display.plots import new_figure
from internalize.figures.claims import judge
from internalize.figures.paper import find_figure
from internalize.figures.paper.ood_degradation import ood_columns
from internalize.runs.folder import Run
from tests.figures.planting import chain, plant

STAGES = 8


class Measured:
    """A run of which only the accuracies at its stage ends are known."""

    def __init__(self, id_accuracies: list[float], ood_accuracies: list[float]) -> None:
        pairs = enumerate(zip(id_accuracies, ood_accuracies, strict=True), start=1)
        self._rows = [_evaluation(stage, a, b) for stage, (a, b) in pairs]

    def metrics(self, event: str) -> list[dict[str, Any]]:
        if event == "train":
            return []
        # a stage begins badly; only its end counts
        return [row for end in self._rows for row in (_evaluation(end["stage"], 0.3, 0.3), end)]


def _evaluation(stage: int, id_accuracy: float, ood_accuracy: float) -> dict[str, Any]:
    return {
        "stage": stage,
        "iteration": 100 * stage,
        "id_accuracy": id_accuracy,
        "id_target_accuracy": id_accuracy,
        "id_exact_chain": id_accuracy,
        "ood_target_accuracy": ood_accuracy,
    }


def columns_of(id_accuracies: list[float], ood_accuracies: list[float]) -> dict[str, Any]:
    row = {
        "kind": "chain", "task": "C3", "horizon": STAGES, "method": "left", "batch": 8, "iterations": 900,
        "model.depth": 1,
        "model.width": 8, "model.heads": 2, "model.mlp": None, "id_accuracy": id_accuracies[-1],
        "ood_accuracy": ood_accuracies[-1], "internalized": id_accuracies[-1] > 0.95,
    }  # fmt: skip
    return {**row, **ood_columns(row, cast("Run", Measured(id_accuracies, ood_accuracies)))}


def falling(to: float) -> list[float]:
    return [1.0 - (1.0 - to) * stage / (STAGES - 1) for stage in range(STAGES)]


@pytest.mark.parametrize(("ood_end", "word"), [(0.96, "inconclusive"), (0.6, "confirmed")])
def test_what_falls_in_distribution_too_is_no_loss_of_ood(ood_end: float, word: str) -> None:
    rows = []
    for seed in range(12):
        noise = [0.001 * ((seed + stage) % 2) for stage in range(STAGES)]
        ood = [a - n for a, n in zip(falling(ood_end), noise, strict=True)]
        rows.append({"seed": seed, **columns_of(falling(0.96), ood)})
    judged = judge(find_figure("ood-degradation").claims, rows)
    assert [one.word for one in judged] == [word]


def test_a_run_that_is_lost_half_way_counts_as_far_as_it_came() -> None:
    half = [*falling(0.96)[:4], *[0.4] * (STAGES - 4)]
    found = columns_of(half, [a - 0.02 * stage for stage, a in enumerate(half)])
    assert (found["stages_kept"], found["ood_gap_trend"], found["stages_passed"]) == (4, -1.0, 0.5)
    assert (found["happened"], found["iterations_until"]) == (False, 900)
    few = [1.0, 0.99, *[0.4] * (STAGES - 2)]
    assert columns_of(few, few)["ood_gap_trend"] is None


def test_the_picture_is_strong_as_far_as_the_trend_goes() -> None:
    """Short of 95 % at stage 4 and at the last two: the trend has three stages, the line six, three faint."""
    ended = [1.0, 0.99, 0.98, 0.94, 0.97, 0.96, 0.5, 0.4]
    found, ends = columns_of(ended, ended), [_evaluation(i + 1, a, a) for i, a in enumerate(ended)]
    _, axis = new_figure()
    accuracy_over_stages(axis, [ends], [found["stages_kept"]], 1 / 3)
    run, faint, median, faint_median = axis.get_lines()[:4]
    assert found["stages_kept"] == 3
    for strong, weak in ((run, faint), (median, faint_median)):
        assert strong.get_xdata().tolist() == [1, 2, 3]
        assert weak.get_xdata().tolist() == [3, 4, 5, 6]  # it goes on where the other ends
        assert weak.get_alpha() < strong.get_alpha() / 2


def test_a_worse_curriculum_at_depth_one_is_no_effect_of_depth() -> None:
    def left_is_worse(row: dict[str, Any]) -> dict[str, Any]:
        worse = 0.3 if row["method"] == "left" else 0.0
        return {**chain(row, 1.0), "ood_accuracy": 0.9 - worse + 0.001 * (row["seed"] % 5)}

    figure = find_figure("scatter")
    judged = {one.claim.name: one.word for one in judge(figure.claims, plant(figure, "paper", left_is_worse))}
    assert judged["depth-helps-ood-of-c2"] == "inconclusive"
