"""What became of a chain run, from its measurements on the way: when it internalized, and how far it came.

A run *has internalized* at the first measurement of the last stage at which more than 95 % of its answers are
q_T and EOS, and which the next measurement confirms. Runs that never do are censored at their whole budget,
also those that were given up before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from internalize.curricula import Curriculum, find_curriculum
from internalize.figures.rows import FigureRow
from internalize.measure.cost import training_flops
from internalize.models.gpt2 import ModelConfig
from internalize.runs.folder import Run
from internalize.sequences.rendering import vocabulary_of
from internalize.statistics import SUCCESS, Waiting
from internalize.tasks.names import find_task

Evaluation = Mapping[str, Any]
DISTRIBUTIONAL = 0.05
"""ε of the distributional definition: the answer at once may err so much more often than the chain."""


def chain_outcomes(row: FigureRow, run: Run) -> dict[str, Any]:
    """chain_learned, stages_passed, only_distributional; and until the run internalized (or its budget ended,
    if not happened): iterations_until, operations_until."""
    if row["kind"] != "chain":
        return {}
    curriculum = find_curriculum(row["method"], row["horizon"], {})[0]
    evaluations = list(run.metrics("evaluation"))
    ends = stage_ends(evaluations)
    found: dict[str, Any] = {
        "chain_learned": None,
        "stages_passed": last_stage_passed(ends) / curriculum.stages,
        "only_distributional": None,
    }
    shows_chain = not curriculum.length_hint and len(curriculum.shown(1)) == row["horizon"]
    if shows_chain and 1 in ends:
        found["chain_learned"] = ends[1]["id_target_accuracy"] > SUCCESS
        found["only_distributional"] = is_only_distributional(row, ends[1])
    if not curriculum.length_hint and curriculum.shown(curriculum.stages) == (row["horizon"],):
        wait = until_internalized(evaluations, curriculum.stages, bool(row["internalized"]), row["iterations"])
        found |= {"happened": wait.happened, "iterations_until": wait.time}
        trained = [*run.metrics("train"), *evaluations]
        found["operations_until"] = operations_until(row, trained, curriculum, wait.time)
    return found


def stage_ends(evaluations: Sequence[Evaluation]) -> dict[int, Evaluation]:
    """The last measurement of each stage."""
    return {evaluation["stage"]: evaluation for evaluation in evaluations}


def last_stage_passed(ends: Mapping[int, Evaluation]) -> int:
    """The last stage whose own target was above 95 % at its end; 0 if there is none."""
    return max((stage for stage, end in ends.items() if end["id_target_accuracy"] > SUCCESS), default=0)


def until_internalized(
    evaluations: Sequence[Evaluation], last_stage: int, at_the_end: bool, budget: int
) -> Waiting:
    """at_the_end: what the final, larger measurement says; it confirms the one before it."""
    final = [evaluation for evaluation in evaluations if evaluation["stage"] == last_stage]
    passed = [*(evaluation["id_exact_chain"] > SUCCESS for evaluation in final), at_the_end]
    for place, evaluation in enumerate(final):
        if passed[place] and passed[place + 1]:
            return Waiting(float(evaluation["iteration"]), True)
    return Waiting(float(budget), False)


def is_only_distributional(row: FigureRow, first: Evaluation) -> bool | None:
    """Of a run that internalized: whether its answers err on D hardly more than its chain did, and yet do err.

    One error on one input refutes the strict definition. None where the run did not internalize.
    """
    if not row["internalized"]:
        return None
    close = first["id_accuracy"] - row["id_accuracy"] <= DISTRIBUTIONAL
    return bool(close and min(row["id_accuracy"], row["ood_accuracy"]) < 1)


def operations_until(
    row: FigureRow, trained: Sequence[Evaluation], curriculum: Curriculum, iterations: float
) -> float | None:
    """Floating-point operations of the training up to that iteration; None for a network of one's own.

    Beyond the last row that there is, the run is taken to stay in its stage.
    """
    if row.get("model.network") is not None:
        return None
    task = find_task(row["task"], "task", {})[0]
    vocabulary = vocabulary_of(task, row["horizon"], curriculum.length_hint).size
    shape = ModelConfig(row["model.depth"], row["model.width"], row["model.heads"], row["model.mlp"])
    last: dict[int, int] = {}
    for entry in trained:
        last[entry["stage"]] = max(last.get(entry["stage"], 0), entry["iteration"])
    total, begun = 0.0, 0
    for stage in sorted(last):
        end = iterations if stage == max(last) else min(iterations, last[stage])
        answer = len(curriculum.shown(stage)) + 1
        a_step = training_flops(shape, vocabulary, row["batch"], row["horizon"] + 1, answer)
        total += max(0.0, end - begun) * a_step
        begun = max(begun, last[stage])
    return total
