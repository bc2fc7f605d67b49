"""When a run internalized, what it cost, and its scale: by hand on measurements written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from internalize import Execution, train
from internalize.curricula import ScheduleConfig
from internalize.figures.cases import Grid
from internalize.figures.figure import Figure
from internalize.figures.results import read
from internalize.figures.rows import (
    judged_ood,
    last_stage_passed,
    operations_until,
    scale_of,
    scale_of_all,
    stage_ends,
    until_internalized,
    views_within_budget,
)
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.measure.cost import training_flops
from internalize.models.config import ModelConfig
from internalize.statistics import Waiting


def measured(*entries: tuple[int, int, float]) -> list[dict[str, Any]]:
    """(iteration, stage, accuracy)."""
    return [
        {"iteration": i, "stage": stage, "id_exact_chain": a, "id_target_accuracy": a}
        for i, stage, a in entries
    ]


@pytest.mark.parametrize(
    ("entries", "at_the_end", "expected"),
    [
        ([(100, 2, 0.99), (200, 3, 0.96), (300, 3, 0.97)], True, Waiting(200, True)),
        ([(100, 3, 0.96), (200, 3, 0.5), (300, 3, 0.97), (400, 3, 0.98)], True, Waiting(300, True)),
        ([(100, 2, 0.99), (200, 3, 0.96)], True, Waiting(200, True)),  # the final measurement confirms
        ([(100, 2, 0.99), (200, 3, 0.96)], False, Waiting(1_000, False)),  # or does not
        ([(100, 3, 0.95), (200, 3, 0.94)], True, Waiting(1_000, False)),  # nothing on the way to confirm
        ([(100, 1, 1.0), (200, 2, 0.4)], False, Waiting(1_000, False)),  # given up before the last stage
        ([(100, 3, 0.96), (200, 3, 0.97), (300, 2, 0.9)], False, Waiting(100, True)),  # undone later
        ([(100, 3, 0.96), (200, 2, 0.99), (300, 3, 0.97)], False, Waiting(1_000, False)),  # two attempts
    ],
)
def test_the_first_measurement_that_the_next_confirms(
    entries: list[tuple[int, int, float]], at_the_end: bool, expected: Waiting
) -> None:
    assert until_internalized(measured(*entries), 3, at_the_end, 1_000) == expected


COUNTED = {"iterations": 1_000, "result.iterations": 1_000, "operations": 9_000}
WITH_EVENT = {"iterations_to_internalize": 200, "operations_to_internalize": 1_700}
NEVER = {"iterations_to_internalize": None, "operations_to_internalize": None}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({**COUNTED, **WITH_EVENT, "happened": True, "iterations_until": 200.0}, 1_700),
        ({**COUNTED, **WITH_EVENT, "happened": True, "iterations_until": 300.0}, None),  # of another moment
        ({**COUNTED, **NEVER, "happened": False, "iterations_until": 1_000.0}, 9_000),
        # given up early: what the rest of its budget would have cost is not known
        ({**COUNTED, **NEVER, "result.iterations": 400, "happened": False, "iterations_until": 1_000.0}, None),
        ({"iterations": 1_000, "happened": True, "iterations_until": 200.0}, None),  # before costs were counted
        ({"iterations": 1_000, "happened": False, "iterations_until": 1_000.0}, None),
    ],
)
def test_operations_are_those_counted_at_that_iteration_or_none(
    row: dict[str, Any], expected: int | None
) -> None:
    assert operations_until(row) == expected


SMALL = ChainConfig(
    task="C2",
    horizon=2,
    iterations=400,
    batch=32,
    model=ModelConfig(depth=1, width=16, heads=4, init_std=0.2),
    schedule=ScheduleConfig(kind="fixed"),
    optimizer=OptimizerConfig(lr=5e-3),
    evaluation=EvaluationConfig(every=50, samples=50, final_samples=100),
    kernel="plain",
)
"""Two stages of 200 iterations: q_1, q_2 and EOS; then q_2 and EOS."""


def test_operations_until_a_small_run_internalized(tmp_path: Path) -> None:
    """By hand: so many steps on three answer tokens, so many on two; a table with another number is mended."""
    figure = Figure("own", "", "", {"laptop": [Grid(SMALL)]}, lambda material: None, "", [])  # type: ignore[arg-type,return-value]
    train(SMALL, Execution(out=tmp_path, quiet=True))
    (row,) = read(figure, "laptop", tmp_path).material.rows
    assert row["happened"]
    assert 200 < row["iterations_until"] < 400
    vocabulary, prompt = 2 + 2 + 1, 2 + 1  # symbols, states, EOS; two symbols and q_0
    long, short = (training_flops(SMALL.model, vocabulary, 32, prompt, answer) for answer in (3, 2))
    by_hand = 200 * long + (row["iterations_until"] - 200) * short
    assert row["operations_until"] == by_hand
    written = {**row, "operations_until": by_hand - 1}
    (told,) = figure.rows([written], figure.sweep("laptop"), None)
    assert told["operations_until"] == by_hand


def test_the_last_stage_that_passed() -> None:
    ends = stage_ends(measured((10, 1, 0.2), (20, 1, 0.99), (30, 2, 0.96), (40, 3, 0.5), (50, 4, 0.96)))
    assert last_stage_passed(ends) == 4
    assert last_stage_passed(stage_ends(measured((10, 1, 0.2)))) == 0


CELL = {
    "kind": "chain",
    "task": "C2", "horizon": 25, "iterations": 50_000, "batch": 128, "model.width": 64, "model.mlp": None,
    "model.init_std": 0.1, "held_out": 0.05, "seed": 200, "schedule.kind": "fixed",
}  # fmt: skip


def test_an_input_that_is_heavy_does_not_decide_what_is_measured_out_of_distribution() -> None:
    """Hand-worked: 0.8^25 = 0.4 % of the mass is one input of C_2, 0.64^17 = 0.05 % is one of C_3."""
    measured = {"ood_accuracy": 0.90, "ood_trained_accuracy": 1.0, "ood_inputs": "binomial:0.8"}
    assert judged_ood({**CELL, **measured}, 2) == pytest.approx(0.05 * 0.90 + 0.95 * 1.0)
    assert judged_ood({**CELL, **measured, "task": "C3", "horizon": 17}, 3) == 0.90
    assert judged_ood({**CELL, "ood_accuracy": 0.90, "ood_inputs": "binomial:0.8"}, 2) == 0.90


def test_the_scale_of_a_case() -> None:
    """Hand-worked: 6.4 million samples of 2^25 inputs are 0.19 views, of 3^17 they are 0.05, of 2^12 1,562."""
    paper = [{**CELL, "model.mlp": 256, "held_out": None, "model.init_std": 0.02, "seed": 0}]

    def scale(**fields: Any) -> str:
        row = {**CELL, **fields}
        row["views_within_budget"] = views_within_budget(row, int(row["task"][1:]))
        return scale_of(row, paper)

    assert views_within_budget(CELL, 2) == pytest.approx(0.1907, abs=1e-4)
    assert scale() == "the paper's own"
    assert scale(held_out=None) == "toy"
    assert scale(**{"model.width": 32}) == "the paper's C_2 cell"
    assert scale(iterations=20_000) == "premise kept, smaller"  # 0.08 views
    assert scale(task="C3", horizon=17) == "premise kept, smaller"
    assert scale(ease=300) == "premise kept, our recipe"  # the paper has no easy steps
    assert scale(**{"optimizer.warmup": 200}) == "premise kept, our recipe"
    assert scale(task="C3", horizon=17, **{"schedule.kind": "controller"}) == "premise kept, our recipe"
    assert scale(horizon=12) == "toy"
    assert scale(task="C3", horizon=15) == "toy"
    assert scale_of_all(["the paper's own", "premise kept, smaller"]) == "premise kept, smaller"
    assert scale_of_all(["the paper's own", "the paper's C_2 cell"]) == "the paper's C_2 cell"
    assert scale_of_all(["the paper's C_2 cell", "premise kept, smaller"]) == "premise kept, smaller"
    assert scale_of_all(["premise kept, our recipe", "premise kept, smaller"]) == "premise kept, our recipe"
    assert scale_of_all(["the paper's own", "toy"]) == "toy"
    hints = {"kind": "hints", "d": 24, "method": "direct"}
    assert scale_of(hints, [{**hints, "d": 25}]) == "smaller, few inputs"
    assert scale_of({**hints, "d": 25}, [{**hints, "d": 25}]) == "the paper's own"
