"""Runs of text in a page: questions, chains and answers as they were recorded at every stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from internalize.errors import require
from internalize.explorer.bundle import LARGEST_MATRIX, Bundle, Progress, label_of, tell_apart, thin_out
from internalize.kinds.text.evaluation import TextPredictor, chance_of, chosen_rows, kept_of
from internalize.kinds.text.open_text import OpenText
from internalize.kinds.text.rendering import CutRow
from internalize.kinds.text.verdicts import matrix_budgets, matrix_row, matrix_values

ROWS = 40
"""Questions of each file that are recorded."""
VIEWS = 40
"""Stages of a model, or budgets of a mixture, that the page carries."""
MATRIX_ROWS = 100

Json = dict[str, Any]


def make_text_bundle(runs: Sequence[OpenText], progress: Progress = lambda _: None) -> Bundle:
    """All runs on one page: they answer the rows on which all of them were measured."""
    first = runs[0]
    files = {name: chosen_rows(first.experiment, name, ROWS) for name in shared_files(runs)}
    rows = [(name, row) for name, of_file in files.items() for row in of_file]
    data: Json = {
        "data": Path(first.config.data).name,
        "files": [{"name": name, "chance": chance_of(first.experiment.material.evals[name])} for name in files],
        "rows": [describe_row(first, name, row) for name, row in rows],
        "models": [],
        "made": {"internalize": first.run.provenance().get("internalize")},
    }
    for run in runs:
        progress(run.title)
        data["models"].append(describe_model(run, list(files), [row for _, row in rows], progress))
    tell_apart(data["models"])
    return Bundle(data)


def shared_files(runs: Sequence[OpenText]) -> list[str]:
    """The names of the files whose rows are the same for all runs."""

    def asked(run: OpenText, name: str) -> list[tuple[str, str]]:
        return [(row.question, row.answer) for row in run.experiment.material.texts.get(name, ())]

    names = list(runs[0].experiment.material.evals)
    shared = [name for name in names if all(asked(run, name) == asked(runs[0], name) for run in runs)]
    titles = ", ".join(run.title for run in runs)
    require(
        bool(shared), "run", f"one page asks all runs the same, and no file was used to measure all of {titles}"
    )
    return shared


def describe_row(run: OpenText, file: str, row: CutRow) -> Json:
    tokenizer = run.experiment.material.tokenizer
    return {
        "file": file,
        "question": tokenizer.decode(row.question),
        "chain": pieces(run, [token for unit in row.units for token in unit]),
        "answer": tokenizer.decode(row.answer),
    }


def pieces(run: OpenText, ids: Sequence[int]) -> list[str]:
    library = run.experiment.material.tokenizer.library
    return [library.decode([i]) for i in ids]


def describe_model(run: OpenText, files: list[str], rows: list[CutRow], progress: Progress) -> Json:
    method = run.config.method
    views = list(views_of(run))
    costs = run.experiment.costs
    summary = dict(run.run.status().get("summary", {}))
    return {
        "kind": "recorded",
        "title": run.title,
        "label": label_of(method, run.experiment.curriculum.stages, summary),
        "method": method,
        "seed": run.config.seed,
        "parameters": costs.parameters,
        "unit": run.config.unit,
        "mixture": bool(run.experiment.curriculum.budgets),
        "pauses": run.experiment.curriculum.pauses,
        "totalStages": run.experiment.curriculum.stages,
        "keptStages": len(run.stages),
        "stages": [describe_view(run, *view, files) for view in views],
        "answers": [_recorded(run, *view, rows, progress) for view in views],
        "curve": describe_curve(run, files),
        "matrix": describe_matrix(run, files, progress),
        "summary": summary,
    }


def views_of(run: OpenText) -> list[tuple[int, int | None]]:
    """(stage, budget): the stages in their order; of a mixture its budgets, from all to nothing."""
    budgets = list(run.experiment.curriculum.budgets)
    if budgets:
        return [(run.stages[-1], budget) for budget in reversed(thin_out(budgets, VIEWS))]
    return [(stage, None) for stage in thin_out(run.stages, VIEWS)]


def describe_view(run: OpenText, stage: int, budget: int | None, files: list[str]) -> Json:
    """What is shown, and how well it did at the stage's end."""
    measured = [row for row in run.run.metrics("evaluation") if row.get("stage") == stage]
    last = measured[-1] if measured else {}
    label = run.experiment.curriculum.label(stage) if budget is None else f"at most {budget} {run.config.unit}s"
    return {
        "stage": stage if budget is None else budget,
        "label": label,
        "measured": {
            name: {"accuracy": last[f"{name}_accuracy"], "interval": last[f"{name}_interval"]}
            for name in files
            if f"{name}_accuracy" in last and f"{name}_interval" in last and budget in (None, 0)
        },
    }


def _recorded(
    run: OpenText, stage: int, budget: int | None, rows: list[CutRow], progress: Progress
) -> list[list[Any]]:
    """For each row: tokens before the answer, their places in the whole chain, answer, right, tokens in all."""
    progress(f"{run.title}: stage {stage}")
    experiment, renderer = run.experiment, run.experiment.material.renderer
    tokens = None if budget is None else min(budget, renderer.longest_chain)
    predictor = TextPredictor(experiment, run.model(stage), stage, tokens)
    found = []
    for row, said in zip(rows, predictor.write(rows), strict=True):
        places = renderer.places(row, kept_of(experiment, row, stage, predictor.asked_budget))
        answer = None if said.answer is None else experiment.material.tokenizer.decode(said.answer)
        chain = pieces(run, said.chain)
        found.append([chain, places[: row.chain], answer, said.answer == row.answer, said.length])
    return found


def describe_curve(run: OpenText, files: list[str]) -> Json:
    rows = list(run.run.metrics("evaluation"))
    return {
        "iteration": [row["iteration"] for row in rows],
        "stage": [row.get("stage") for row in rows],
        "files": {name: [row.get(f"{name}_accuracy") for row in rows] for name in files},
    }


def describe_matrix(run: OpenText, files: list[str], progress: Progress) -> Json | None:
    """Every stage held to every budget; left out where it would take long, or where no budget can be forced."""
    experiment = run.experiment
    stages = thin_out(run.stages, VIEWS)
    longest = experiment.material.renderer.longest_chain
    forced = experiment.material.renderer.boundary == "marker" and not experiment.curriculum.budgets
    tokens = MATRIX_ROWS * experiment.material.context * longest * len(stages)
    work = 2.0 * experiment.costs.parameters * tokens
    if not forced or len(stages) < 2 or work > LARGEST_MATRIX:
        return None
    budgets = matrix_budgets(run)
    cells: list[Json] = []
    for stage in stages:
        progress(f"{run.title}: matrix, stage {stage}")
        cells += matrix_row(run, stage, budgets, MATRIX_ROWS)
    found = {"stages": stages, "budgets": budgets, "cells": cells}
    own = [next(c["budget"] for c in cells if c["own"] and c["stage"] == stage) for stage in stages]
    values = {name: matrix_values(found, name) for name in files}
    return {"stages": stages, "budgets": budgets, "own": own, "files": values, "samples": MATRIX_ROWS}
