"""`internalize matrix`, `check` and `diagnose` on runs of text: what is left, what it is worth, what broke."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from internalize.configs.files import make_folder, write_output
from internalize.display.plots import accuracy_shades, new_figure, outline, ticks, write_numbers
from internalize.display.terminal import PlainConsole, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds.text.evaluation import (
    TextPredictor,
    chance_of,
    chosen_rows,
    kept_of,
    right_answers,
    summarise,
)
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.open_text import OpenText, measurement_json, open_text
from internalize.kinds.text.rendering import CutRow
from internalize.measure.internalization import check_distributional, check_internalization
from internalize.statistics import SUCCESS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BUDGETS = 9
"""Columns of a matrix: budgets spread evenly over the chain's tokens."""
NUMBERED = 12
"""Up to this many rows and columns a cell of the picture has room for its number."""


# Matrix ----------------------------------------------------------------------------------------------------


def matrix(arguments: Any) -> None:
    """Every saved stage at budgets from none to the whole chain, on every file of the run.

    A model is held to exactly so many tokens before its answer; a mixture is asked by its marker.
    """
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    opened = open_text(arguments.run, arguments.device)
    unknown = sorted(set(arguments.stages) - set(opened.stages))
    require(not unknown, "stages", f"kept are the stages {opened.stages}, not {unknown}")
    stages, budgets = arguments.stages or tuple(opened.stages), matrix_budgets(opened)
    cells: list[dict[str, Any]] = []
    with errors_console().status("matrix") as status:
        for stage in stages:
            status.update(f"stage {stage}")
            cells += matrix_row(opened, stage, budgets, arguments.samples)
    chance = {name: chance_of(rows) for name, rows in opened.experiment.material.evals.items()}
    found = {"run": opened.title, "stages": list(stages), "budgets": budgets, "chance": chance, "cells": cells}
    out = arguments.folder(opened.path)
    out.csv("matrix", [{k: v for k, v in cell.items() if not k.endswith("interval")} for cell in cells])
    out.json("matrix", found)
    out.figure("matrix", draw_matrix(found))
    arguments.present(found, out, lambda console: _print_matrix(console, opened, found))


def _print_matrix(console: Console, opened: OpenText, found: dict[str, Any]) -> None:
    for file in opened.experiment.material.evals:
        values = matrix_values(found, file)
        rows = [
            [str(s), *(f"{100 * v:.0f}" for v in row)] for s, row in zip(found["stages"], values, strict=True)
        ]
        title = f"{file}: right answers in %, by tokens written before them"
        console.print(results_table(title, ["stage", *map(str, found["budgets"])], rows))
    n = found["cells"][0]["samples"]
    console.print(
        f"{opened.title}; {n:,} rows for a cell at most. Outlined in matrix.png: what the stage trained."
    )


def matrix_values(found: dict[str, Any], file: str) -> list[list[float]]:
    """(stages, budgets) accuracies on the rows of one file."""
    cells = {(c["stage"], c["budget"]): c["accuracy"] for c in found["cells"] if c["inputs"] == file}
    return [[cells[stage, budget] for budget in found["budgets"]] for stage in found["stages"]]


def matrix_budgets(opened: OpenText) -> list[int]:
    curriculum, longest = opened.experiment.curriculum, opened.experiment.material.renderer.longest_chain
    if curriculum.budgets and curriculum.unit == "token":
        return list(curriculum.budgets)
    marked = opened.experiment.material.renderer.boundary == "marker"
    require(marked, "run", f"{opened.title} has no marker before its answers: no budget can be forced")
    steps = min(MOST_BUDGETS - 1, longest)
    return sorted({round(i * longest / max(1, steps)) for i in range(steps + 1)})


def matrix_row(opened: OpenText, stage: int, budgets: list[int], most: int) -> list[dict[str, Any]]:
    experiment, model = opened.experiment, opened.model(stage)
    cells = []
    for budget in budgets:
        predictor = TextPredictor(experiment, model, stage, budget)
        for file in experiment.material.evals:
            rows = chosen_rows(experiment, file, most)
            found = summarise(experiment, rows, predictor.write(rows), stage, predictor.asked_budget)
            own = budget == _own_budget(experiment, rows, stage, budgets)
            cells.append({"stage": stage, "budget": budget, "own": own, **measurement_json(file, found)})
    return cells


def _own_budget(experiment: TextExperiment, rows: list[CutRow], stage: int, budgets: list[int]) -> int | None:
    """The budget nearest to what the stage itself shows of these rows; a mixture trains them all."""
    if experiment.curriculum.budgets:
        return None
    renderer = experiment.material.renderer
    shown = [len(renderer.chain(row, kept_of(experiment, row, stage, None))) for row in rows]
    return min(budgets, key=lambda budget: abs(budget - sum(shown) / len(shown)))


def draw_matrix(found: dict[str, Any]) -> Figure:
    """Stage × budget heat maps, one for each file; what a stage trained is outlined."""
    stages, budgets, files = found["stages"], found["budgets"], list(found["chance"])
    chance = found["chance"][files[0]]
    width, height = (
        1.6 + len(files) * max(2.4, 0.42 * len(budgets)),
        1.6 + max(1.4, min(0.34 * len(stages), 5.0)),
    )
    figure, axes = new_figure(1, len(files), width=width, height=height, sharey=True, squeeze=False)
    image: Any = None
    for panel, file in zip(axes[0], files, strict=True):
        values = matrix_values(found, file)
        image = panel.imshow(values, aspect="auto", **accuracy_shades(chance))
        panel.grid(False)
        panel.set_title(f"rows of {file}", fontsize=9)
        panel.set_xlabel("tokens before the answer")
        panel.set_xticks(ticks(len(budgets)), [str(budgets[i]) for i in ticks(len(budgets))])
        panel.set_yticks(ticks(len(stages)), [str(stages[i]) for i in ticks(len(stages))])
        own = {(c["stage"], c["budget"]) for c in found["cells"] if c["inputs"] == file and c["own"]}
        outline(panel, [(stages.index(stage), budgets.index(budget)) for stage, budget in own])
        if max(len(stages), len(budgets)) <= NUMBERED:
            write_numbers(panel, values, chance)
    axes[0, 0].set_ylabel("weights at the end of stage")
    figure.colorbar(
        image, ax=axes, label="answer right (white: the commonest answer)", format="{x:.0%}", shrink=0.9
    )
    figure.suptitle(f"{found['run']}\nheld to a number of tokens; outlined: what the stage trained", fontsize=9)
    return figure


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
    if arguments.out is not None:
        make_folder(arguments.out)
        write_output(arguments.out / "check.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if arguments.json:
        print(json.dumps(found))
    else:
        _print_check(PlainConsole(), found)
    return 0 if verdict.holds else 1


def _print_check(console: Console, found: dict[str, Any]) -> None:
    words = {True: "[green]holds[/green]", False: "[red]fails[/red]"}
    rows = [[c["name"].replace("_", " "), words[c["holds"]], escape(c["evidence"])] for c in found["clauses"]]
    title = f"{escape(found['fast'])} against {escape(found['slow'])}, {found['definition']} definition"
    table = results_table(title, ["clause", "", "what was seen"], rows)
    table.columns[2].justify = "left"
    console.print(table)
    seen = f"the {found['inputs']:,} rows of {found['distribution']}"
    if found["holds"]:
        word = "It internalizes" if found["definition"] == "distributional" else "No clause fails"
        console.print(f"{word} on {seen}.")
    else:
        failed = ", ".join(c["name"].replace("_", " ") for c in found["clauses"] if not c["holds"])
        console.print(f"It does not internalize, or that is not shown, on {seen}. Not met: {failed}.")


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
UNFINISHED = "internalize resume RUN"
LEARNED = 0.99
"""Share of right tokens in training from which on the training rows count as learned."""


def diagnose(arguments: Any) -> None:
    """Stage by stage: iterations, the worst loss, the accuracy at its end; and what to try."""
    opened = open_text(arguments.run, arguments.device)
    found = diagnosis(opened)
    out = arguments.folder(opened.path)
    out.json("diagnosis", found)
    arguments.present(found, out, lambda console: _print_diagnosis(console, opened, found))


def _print_diagnosis(console: Console, opened: OpenText, found: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(str(found['headline']))}[/bold]")
    rows = [
        [str(s["stage"]), s["label"], f"{s['iterations']:,}", f"{s['worst_loss']:.4f}",
         percent(s["token_accuracy"]), percent(s["accuracy"])]
        for s in found["stages"]
    ]  # fmt: skip
    heads = ["stage", "shown", "iterations", "worst loss", "in training", "ID"]
    console.print(results_table(opened.title, heads, rows))
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
                "token_accuracy": last["token_accuracy"],
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
        "suggestions": list(_suggestions(opened, verdict, stages)),
    }


def _suggestions(opened: OpenText, verdict: str, stages: list[dict[str, Any]]) -> Iterator[str]:
    """What was not tried yet in this run."""
    config, material = opened.config, opened.experiment.material
    if verdict == "unfinished":
        yield UNFINISHED
    if verdict not in ("chain not learned", "broke"):
        return
    seen = stages[-1]["iterations"] and stages[-1]["token_accuracy"] >= LEARNED
    if seen:
        yield (
            f"more training rows: its {len(material.train):,} rows are learned, new ones are not, which is "
            "learning by heart (also --dropout 0.1, --optimizer.weight-decay 0.1)"
        )
    if verdict == "chain not learned":
        yield "train longer, with a larger --optimizer.lr or --init-std; see data check's warnings"
        return
    if opened.experiment.curriculum.pace > 1:
        yield f"take fewer units away at a stage: --removal.per-stage {opened.experiment.curriculum.pace // 2}"
    if config.schedule.kind != "adaptive":
        yield "let stages last until they are learned: --schedule.kind adaptive"
    elif not seen:
        yield f"more --iterations or a longer --schedule.cap: stage {stages[-1]['stage']} was not learned"
    if config.removal.smoothing is None:
        yield "smooth the removal: --removal.smoothing 4"


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
