"""`internalize matrix` and `check` on runs of text: what is left at every stage, and what it is worth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from internalize.configs.files import make_folder, write_output
from internalize.display.plots import accuracy_shades, new_figure, outline, ticks, write_numbers
from internalize.display.terminal import PlainConsole, errors_console, results_table
from internalize.errors import require
from internalize.kinds.text.evaluation import (
    TextPredictor,
    chance_of,
    chosen_rows,
    kept_of,
    number_of,
    summarise,
)
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.open_text import OpenText, measurement_json, open_text, refuse_drawing
from internalize.kinds.text.rendering import CutRow
from internalize.measure.internalization import check_distributional, check_internalization
from internalize.measure.predictor import Prediction

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
    refuse_drawing(arguments)
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
    refuse_drawing(arguments)
    fast, slow = (
        _named(text, arguments.device, field)
        for text, field in ((arguments.fast, "fast"), (arguments.against, "against"))
    )
    name = _shared_file(fast, slow, arguments.inputs)
    quick, thorough = AnswersInWords(fast, name), AnswersInWords(slow, name)
    batches = list(_batches(fast, name, arguments.samples))
    if arguments.epsilon is None:
        verdict: Any = check_internalization(quick, thorough, batches, exhaustive=False)
    else:
        verdict = check_distributional(quick, thorough, batches, quick.right, arguments.epsilon)
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


def _shared_file(fast: TextPredictor, slow: TextPredictor, asked: str | None) -> str:
    """The file to compare the two on: the one that is asked for, or the first that both have with the same
    questions and answers. How rows are cut, and what other files there are, makes no difference."""
    mine, its = (
        {name: [(row.question, row.answer) for row in rows] for name, rows in texts.items() if name != "train"}
        for texts in (fast.experiment.material.texts, slow.experiment.material.texts)
    )
    both = [name for name in mine if name in its]
    shared = [name for name in both if mine[name] == its[name]]
    if asked is not None:
        have = (
            f"must be one of {', '.join(both)}, which both runs have"
            if both
            else "the runs have none in common"
        )
        require(asked in both, "inputs", f"{have}; got {asked!r}")
        require(asked in shared, "against", f"the two runs have different rows in {asked!r}")
        return asked
    have = f"{', '.join(mine)} here, {', '.join(its)} there"
    require(bool(shared), "against", f"the two runs were measured on different rows ({have})")
    return shared[0]


@dataclass(frozen=True, eq=False)
class AnswersInWords:
    """A predictor on the rows of one file. Its answers are compared as texts: two runs may cut them
    differently."""

    predictor: TextPredictor
    file: str

    @property
    def model_class(self) -> str:
        return self.predictor.model_class

    @property
    def weights_digest(self) -> str:
        return self.predictor.weights_digest

    def answer(self, inputs: Tensor) -> Prediction:
        """(batch, 2) numbers of a file, which is not looked at, and of a row."""
        rows, experiment = self._rows(inputs), self.predictor.experiment
        found, budget = self.predictor.write(rows), self.predictor.asked_budget
        flops = []
        for row, said in zip(rows, found, strict=True):
            kept = kept_of(experiment, row, self.predictor.stage, budget)
            prompt = experiment.material.renderer.prompt(row, kept, budget)
            flops.append(experiment.costs.answer_flops(len(prompt), said.length))
        return Prediction(
            torch.tensor([self._number(said.answer) for said in found]),
            torch.tensor([said.length for said in found]),
            torch.tensor(flops, dtype=torch.float64),
        )

    def right(self, inputs: Tensor) -> Tensor:
        """(batch,) what should be said."""
        return torch.tensor([self._number(row.answer) for row in self._rows(inputs)])

    def _rows(self, inputs: Tensor) -> list[CutRow]:
        rows = self.predictor.experiment.material.evals[self.file]
        return [rows[row] for _, row in inputs.tolist()]

    def _number(self, answer: Sequence[int] | None) -> int:
        if answer is None:
            return number_of(None)
        words = self.predictor.experiment.material.tokenizer.decode(answer).split()
        return number_of(tuple(" ".join(words).encode()))


def _batches(predictor: TextPredictor, name: str, most: int | None) -> Iterator[Tensor]:
    files = predictor.experiment.material.evals
    count = min(most or len(files[name]), len(files[name]))
    numbers = torch.stack([torch.full((count,), list(files).index(name)), torch.arange(count)], 1)
    yield from numbers.split(predictor.experiment.config.evaluation.batch)
