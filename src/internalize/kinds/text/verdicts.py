"""`internalize matrix`, `check` and `diagnose` on runs of text: what is left, what it is worth, what broke."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from torch import Tensor

from internalize.display.terminal import PlainConsole, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds.text.evaluation import (
    TextMeasurement,
    TextPredictor,
    chosen_rows,
    right_answers,
    summarise,
)
from internalize.kinds.text.open_text import OpenText, TextAnswer, open_text
from internalize.measure.internalization import check_distributional, check_internalization
from internalize.runs.storage import write_json
from internalize.statistics import SUCCESS

MOST_BUDGETS = 9
"""Columns of a matrix: budgets spread evenly over the chain's tokens."""


def _write(arguments: Any, run: Path, name: str, found: object) -> Path | None:
    """Beside the run, or where --out says; `check` writes only where it is told to."""
    folder = arguments.out if arguments.out is not None else run / "analysis"
    if name == "check" and arguments.out is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", found)
    return Path(folder) / f"{name}.json"


# Matrix ----------------------------------------------------------------------------------------------------


def matrix(arguments: Any) -> None:
    """Every saved stage at budgets from none to the whole chain, on every file of the run.

    A model is held to exactly so many tokens before its answer; a mixture is asked by its marker.
    """
    opened = open_text(arguments.run, arguments.device)
    unknown = sorted(set(arguments.stages) - set(opened.stages))
    require(not unknown, "stages", f"kept are the stages {opened.stages}, not {unknown}")
    stages, budgets = arguments.stages or tuple(opened.stages), matrix_budgets(opened)
    cells: list[dict[str, Any]] = []
    with errors_console().status("matrix") as status:
        for stage in stages:
            status.update(f"stage {stage}")
            cells += _matrix_row(opened, stage, budgets, arguments.samples)
    found = {"run": opened.title, "stages": list(stages), "budgets": budgets, "cells": cells}
    written = _write(arguments, opened.run.path, "matrix", found)
    if arguments.json:
        print(json.dumps(found))
        return
    console = PlainConsole()
    for file in opened.experiment.material.evals:
        values = {(c["stage"], c["budget"]): c["accuracy"] for c in cells if c["inputs"] == file}
        rows = [[str(stage), *(percent(values[stage, budget]) for budget in budgets)] for stage in stages]
        heads = ["stage", *map(str, budgets)]
        title = f"{opened.title}, {file}: answers right, by tokens before them"
        console.print(results_table(title, heads, rows))
    console.print(f"written to {written}", soft_wrap=True)


def matrix_budgets(opened: OpenText) -> list[int]:
    curriculum, longest = opened.experiment.curriculum, opened.experiment.material.renderer.longest_chain
    if curriculum.budgets and curriculum.unit == "token":
        return list(curriculum.budgets)
    marked = opened.experiment.material.renderer.boundary == "marker"
    require(marked, "run", f"{opened.title} has no marker before its answers: no budget can be forced")
    steps = min(MOST_BUDGETS - 1, longest)
    return sorted({round(i * longest / max(1, steps)) for i in range(steps + 1)})


def _matrix_row(opened: OpenText, stage: int, budgets: list[int], most: int) -> list[dict[str, Any]]:
    experiment, model = opened.experiment, opened.model(stage)
    cells = []
    for budget in budgets:
        predictor = TextPredictor(experiment, model, stage, budget)
        for file in experiment.material.evals:
            rows = chosen_rows(experiment, file, most)
            found = summarise(experiment, rows, predictor.write(rows), stage, predictor.asked_budget)
            cells.append({"stage": stage, "budget": budget, **measurement_json(file, found)})
    return cells


# Check -----------------------------------------------------------------------------------------------------


def check(arguments: Any) -> int:
    """RUN[@STAGE][:BUDGET] against another, on the rows of one file: with ε the distributional definition."""
    fast, slow = (
        _named(text, arguments.device, field)
        for text, field in ((arguments.fast, "fast"), (arguments.against, "against"))
    )
    experiment = fast.experiment
    same = experiment.material.evals == slow.experiment.material.evals
    require(same, "against", "the two runs were measured on different rows")
    files = list(experiment.material.evals)
    name = files[0] if arguments.inputs is None else arguments.inputs
    require(name in files, "inputs", f"must be one of {', '.join(files)}, got {name!r}")
    batches = list(_batches(fast, files.index(name), arguments.samples))
    if arguments.epsilon is None:
        verdict: Any = check_internalization(fast, slow, batches, exhaustive=False)
    else:
        verdict = check_distributional(
            fast, slow, batches, lambda inputs: right_answers(experiment, inputs), arguments.epsilon
        )
    found = {
        "definition": "strict" if arguments.epsilon is None else "distributional",
        "fast": arguments.fast,
        "slow": arguments.against,
        "distribution": name,
        **verdict.to_json(),
    }
    _write(arguments, Path(), "check", found)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        rows = [
            [clause.name.replace("_", " "), "holds" if clause.holds else "fails", escape(clause.evidence)]
            for clause in verdict.clauses
        ]
        title = f"{found['definition']}: {'holds' if verdict.holds else 'fails'}"
        PlainConsole().print(results_table(title, ["clause", "", "what was seen"], rows))
    return 0 if verdict.holds else 1


def _named(text: str, device: str, field: str) -> TextPredictor:
    form = re.fullmatch(r"(?P<run>.+?)(?:@(?P<stage>\d+))?(?::(?P<budget>\d+))?", text)
    assert form is not None
    stage, budget = (None if form[part] is None else int(form[part]) for part in ("stage", "budget"))
    return open_text(form["run"], device, field).predictor(budget, stage)


def _batches(predictor: TextPredictor, file: int, most: int | None) -> Iterator[Tensor]:
    rows = list(predictor.experiment.material.evals.values())[file]
    count = min(most or len(rows), len(rows))
    numbers = torch.stack([torch.full((count,), file), torch.arange(count)], 1)
    yield from numbers.split(predictor.experiment.config.evaluation.batch)


# Diagnose --------------------------------------------------------------------------------------------------

HEADLINES = {
    "internalized": "It internalized: the answer is right, with no word before it.",
    "succeeded": "It succeeded, with words or pauses before its answers.",
    "chain not learned": "The chain itself was never learned: stage 1 ended below the bar.",
    "broke": "The chain was learned, but taking words away broke it.",
    "unfinished": "The run is not finished.",
    "failed": "The run failed.",
}
ADVICE = {
    "chain not learned": "train longer, with a larger --optimizer.lr or --init-std; see data check's warnings",
    "broke": "take fewer units away at a stage (--removal.per-stage), let stages last until they are learned "
    "(--schedule.kind adaptive), or smooth the removal (--removal.smoothing 4)",
    "unfinished": "internalize resume RUN",
}


def diagnose(arguments: Any) -> None:
    """Stage by stage: iterations, the worst loss, the accuracy at its end; and what to try."""
    opened = open_text(arguments.run, arguments.device)
    found = diagnosis(opened)
    _write(arguments, opened.run.path, "diagnosis", found)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    console = PlainConsole()
    console.print(f"[bold]{escape(str(found['headline']))}[/bold]")
    rows = [
        [str(s["stage"]), s["label"], f"{s['iterations']:,}", f"{s['worst_loss']:.4f}", percent(s["accuracy"])]
        for s in found["stages"]
    ]
    console.print(results_table(opened.title, ["stage", "shown", "iterations", "worst loss", "ID"], rows))
    for line in found["suggestions"]:
        console.print(f"try: {escape(line)}", soft_wrap=True)


def diagnosis(opened: OpenText) -> dict[str, Any]:
    run, curriculum = opened.run, opened.experiment.curriculum
    status = run.status()
    trained, measured = run.metrics("train").rows, run.metrics("evaluation").rows
    stages, begun = [], 0
    for stage in sorted({row["stage"] for row in trained}):
        last = [row for row in trained if row["stage"] == stage][-1]
        seen = [row for row in measured if row["stage"] == stage]
        stages.append(
            {
                "stage": stage,
                "label": curriculum.label(stage),
                "iterations": last["iteration"] - begun,
                "worst_loss": last["worst_loss"],
                "accuracy": seen[-1]["id_accuracy"] if seen else None,
            }
        )
        begun = last["iteration"]
    verdict, broke = _verdict(status, stages)
    at = f" It broke at stage {broke} of {curriculum.stages}." if verdict == "broke" else ""
    return {
        "run": opened.title,
        "verdict": verdict,
        "headline": HEADLINES[verdict] + at,
        "broke_at": broke,
        "stages": stages,
        "suggestions": [ADVICE[verdict]] if verdict in ADVICE else [],
    }


def _verdict(status: dict[str, Any], stages: list[dict[str, Any]]) -> tuple[str, int | None]:
    """The stage from which on none passed the bar, where the last did not."""
    if status["state"] == "failed":
        return "failed", None
    if status["state"] != "done":
        return "unfinished", None
    summary = status["summary"]
    if summary["succeeded"]:
        return ("internalized" if summary["internalized"] else "succeeded"), None
    broke = None
    for found in reversed(stages):
        if (found["accuracy"] or 0.0) > SUCCESS:
            break
        broke = int(found["stage"])
    return ("chain not learned" if broke == 1 else "broke"), broke


def evaluate(arguments: Any) -> None:
    """--inputs: one of the run's files by its name, or another file of rows; all of its own if not given."""
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    opened = open_text(arguments.run, arguments.device)
    found = measure_files(opened, arguments.inputs, arguments.samples, arguments.budget, arguments.stage)
    if arguments.json:
        results = [measurement_json(name, measurement) for name, measurement in found.items()]
        whole = {**results[0], "distributions": results} if len(results) > 1 else results[0]
        print(json.dumps(whole | {"stage": opened.stage_or_last(arguments.stage)}))
        return
    columns = ["rows of", "n", "answer", "chain", "both", "tokens", "FLOPs"]
    cells = [
        [name, f"{m.rows:,}", str(m.accuracy), str(m.chain_accuracy), str(m.exact_chain),
         f"{m.response_length:.2f}", f"{m.flops:,.0f}"]
        for name, m in found.items()
    ]  # fmt: skip
    stage = f"stage {opened.stage_or_last(arguments.stage)} of {opened.experiment.curriculum.stages}"
    PlainConsole().print(results_table(f"{opened.title}: {stage}", columns, cells))


def measure_files(
    opened: OpenText, inputs: str | None, most: int, budget: int | None, stage: int | None
) -> dict[str, TextMeasurement]:
    predictor = opened.predictor(budget, stage)
    found = {}
    for name, rows in opened.rows(inputs, most).items():
        said = predictor.write(rows)
        found[name] = summarise(opened.experiment, rows, said, predictor.stage, predictor.asked_budget)
    return found


def measurement_json(name: str, found: TextMeasurement) -> dict[str, Any]:
    rates = {
        "accuracy": found.accuracy,
        "chain_accuracy": found.chain_accuracy,
        "exact_chain": found.exact_chain,
        "direct_accuracy": found.direct_accuracy,
    }
    row: dict[str, Any] = {"inputs": name, "samples": found.rows}
    for key, rate in rates.items():
        row[key] = rate.value
        row["interval" if key == "accuracy" else f"{key}_interval"] = [rate.interval.low, rate.interval.high]
    length = found.response_length
    return row | {"response_length": length, "forward_passes": length, "flops": found.flops}


def show(arguments: Any) -> None:
    require(arguments.examples >= 1, "examples", f"must be at least 1, got {arguments.examples}")
    opened = open_text(arguments.run, arguments.device)
    predictor = opened.predictor(arguments.budget, arguments.stage)
    tokenizer = opened.experiment.material.tokenizer
    rows = next(iter(opened.rows(arguments.inputs, arguments.examples).values()))
    found = []
    for row, said in zip(rows, opened.answers(predictor, rows), strict=True):
        chain = tokenizer.decode(token for unit in row.units for token in unit)
        truth = tokenizer.decode(row.answer)
        found.append({**vars(said), "true_chain": chain, "truth": truth, "right": said.answer == truth})
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    cells = [
        [escape(str(row["question"])), escape(str(row["chain"])), escape(_said(row["answer"])),
         escape(str(row["truth"])), "[green]right[/green]" if row["right"] else "[red]wrong[/red]"]
        for row in found
    ]  # fmt: skip
    table = results_table(opened.title, ["question", "it wrote", "answer", "truth", ""], cells)
    for column in table.columns[:4]:
        column.justify = "left"
        column.overflow = "fold"
    PlainConsole().print(table)


def ask(arguments: Any) -> None:
    opened = open_text(arguments.run, arguments.device)
    said: TextAnswer = opened.answer(arguments.inputs, arguments.budget, arguments.stage)
    if arguments.json:
        print(json.dumps({"run": opened.title, **vars(said)}, ensure_ascii=False))
        return
    console = PlainConsole(soft_wrap=True)
    console.print(f"[bold]{escape(_said(said.answer))}[/bold]")
    console.print(f"before it  {escape(said.chain) or 'nothing'}")
    console.print(f"tokens     {said.tokens}")


def _said(answer: Any) -> str:
    return "no answer" if answer is None else str(answer)
