"""`internalize matrix`: which answer budgets can each stage of a run still serve?

Budget K means an answer of exactly K states before EOS. Two readings of every cell (stage, K):

*forced*: the model writes all K states itself, EOS masked until then; a mixture model is asked by LEN_{K+1}
and left free. The last state should be q_T. Greedy decoding with EOS masked does not know how long it will go
on: the answer at budget K is the first K words of the answer at budget T, so one generation serves all budgets.

*teacher-forced*: the true states of a format of K states are given up to the last, and the model says the last
one (EOS masked). The format is the one of that length that the run's own curriculum has and that ends in q_T;
otherwise left's, q_{T-K+1} … q_T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from rich.console import Console
from torch import Tensor

from internalize.analysis.arguments import MatrixArguments
from internalize.analysis.open_run import OpenChain, TracedInputs, open_chain
from internalize.curricula import Curriculum, Shown
from internalize.curricula.curriculum import describe
from internalize.display.plots import (
    accuracy_axis,
    accuracy_shades,
    new_figure,
    outline,
    rate_line,
    ticks,
    write_numbers,
)
from internalize.display.terminal import errors_console, percent, results_table
from internalize.errors import require
from internalize.measure.predictor import TransformerPredictor
from internalize.models.path import make_decoder
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Reading = Literal["forced", "teacher"]
CHUNK = 250
"""Sequences at once: the cache of a large model takes about a megabyte for each."""
READINGS = {"forced": "the model writes all K states", "teacher": "true states given up to the last"}
NUMBERED = 12
"""Up to this many rows and columns a cell has room for its number."""
OUTLINES = "outlined: the budget that the stage itself trained"


@dataclass(frozen=True)
class Cell:
    """One stage at one budget, on one distribution, in one reading."""

    stage: int
    budget: int
    """K: states in the answer, EOS not counted."""
    inputs: Literal["id", "ood"]
    reading: Reading
    format: str
    """The states that an answer of this budget should show."""
    own: bool
    """Whether this is what the stage itself trained."""
    supplied: int
    """True states given to the model."""
    generated: float
    """Tokens that the model wrote itself: K and no EOS where that was forced; a mean for mixtures, with EOS."""
    right: Rate
    """The last state is q_T."""

    def row(self) -> dict[str, object]:
        interval = self.right.interval
        return {
            "stage": self.stage,
            "budget": self.budget,
            "inputs": self.inputs,
            "reading": self.reading,
            "format": self.format,
            "own": self.own,
            "supplied": self.supplied,
            "generated": self.generated,
            "n": self.right.trials,
            "right": self.right.successes,
            "accuracy": self.right.value,
            "low": interval.low,
            "high": interval.high,
        }


@dataclass(frozen=True)
class Matrix:
    """All cells of a run."""

    title: str
    status: str
    """Of the run: an unfinished one has fewer stages than its curriculum."""
    horizon: int
    stages: tuple[int, ...]
    cells: tuple[Cell, ...]
    chance: dict[str, float]
    """id, ood → what always saying the commonest final state would reach."""
    inputs: dict[str, str]
    """id, ood → the distribution's name."""

    def select(self, inputs: str, reading: str) -> Tensor:
        """(stages, T) accuracies."""
        found = {
            (c.stage, c.budget): c.right.value for c in self.cells if (c.inputs, c.reading) == (inputs, reading)
        }
        return torch.tensor([[found[s, k] for k in range(1, self.horizon + 1)] for s in self.stages])

    def cell(self, stage: int, budget: int, inputs: str, reading: str) -> Cell:
        wanted = (stage, budget, inputs, reading)
        return next(c for c in self.cells if (c.stage, c.budget, c.inputs, c.reading) == wanted)

    def served(self, stage: int, inputs: str = "id") -> list[int]:
        """The budgets at which the stage, writing everything itself, passes the paper's bar of 95 %."""
        row = self.select(inputs, "forced")[self.stages.index(stage)]
        return [k for k, accuracy in enumerate(row.tolist(), start=1) if accuracy > SUCCESS]

    def chain_forgotten(self, inputs: str = "id") -> int | None:
        """The first stage at which the full chain, once served, no longer is."""
        full = [self.horizon in self.served(stage, inputs) for stage in self.stages]
        lost = (s for i, s in enumerate(self.stages) if any(full[:i]) and not full[i])
        return next(lost, None)

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.title,
            "status": self.status,
            "horizon": self.horizon,
            "stages": list(self.stages),
            "inputs": self.inputs,
            "chance": self.chance,
            "served": {name: {str(s): self.served(s, name) for s in self.stages} for name in self.inputs},
            "chain_forgotten": {name: self.chain_forgotten(name) for name in self.inputs},
            "cells": [cell.row() for cell in self.cells],
        }


def matrix(
    chain: OpenChain,
    samples: int,
    seed: int = 0,
    stages: tuple[int, ...] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Every saved stage (or those given) at every budget; all of them answer the same inputs."""
    moves = chain.config.answer_positions is not None
    why = (
        f"of {chain.title} count from the end: answers of another length stand at other places than it learned"
    )
    require(not moves, "run", f"the positions {why}")
    stages = stages or tuple(chain.stages)
    drawn = {name: chain.draw(inputs, samples, seed, "matrix") for name, inputs in chain.both_inputs().items()}
    cells: list[Cell] = []
    for stage in stages:
        progress(f"stage {stage}")
        predictor = chain.predictor(stage=stage)
        for name, examples in drawn.items():
            cells += _row(chain, predictor, stage, "id" if name == "id" else "ood", examples)
    return Matrix(
        title=chain.title,
        status=chain.status,
        horizon=chain.horizon,
        stages=stages,
        cells=tuple(cells),
        chance={name: examples.chance for name, examples in drawn.items()},
        inputs={name: examples.inputs for name, examples in drawn.items()},
    )


def budget_formats(curriculum: Curriculum) -> tuple[Shown, ...]:
    """For K = 1 … T the format of K states that is teacher-forced: the curriculum's own, else left's."""
    T = curriculum.horizon
    stages = range(1, curriculum.stages + 1)
    own = [shown for stage in stages for shown in curriculum.formats(stage) if shown[-1] == T]
    by_length = {len(shown): shown for shown in reversed(own)}
    return tuple(by_length.get(k, tuple(range(T - k + 1, T + 1))) for k in range(1, T + 1))


def _row(
    chain: OpenChain,
    predictor: TransformerPredictor,
    stage: int,
    inputs: Literal["id", "ood"],
    examples: TracedInputs,
) -> list[Cell]:
    """The cells of one stage on one distribution."""
    curriculum, T, n = chain.experiment.curriculum, chain.horizon, len(examples.symbols)
    formats = budget_formats(curriculum)
    forced, generated = forced_hits(predictor, examples)
    teacher = teacher_hits(predictor, examples, formats)
    trained = curriculum.formats(stage)
    cells = []
    for k in range(1, T + 1):
        own = any(len(shown) == k and shown[-1] == T for shown in trained)
        text = describe(formats[k - 1])
        for reading, hits, supplied, wrote in (
            ("forced", forced[k - 1], 0, generated[k - 1]),
            ("teacher", teacher[k - 1], k - 1, 1.0),
        ):
            kind: Reading = "forced" if reading == "forced" else "teacher"
            cells.append(Cell(stage, k, inputs, kind, text, own, supplied, wrote, Rate(int(hits), n)))
    return cells


def forced_hits(predictor: TransformerPredictor, examples: TracedInputs) -> tuple[list[int], list[float]]:
    """For K = 1 … T: answers whose last state is q_T, and tokens written by the model on average."""
    renderer, T = predictor.renderer, predictor.renderer.horizon
    final = examples.states[:, -1]
    if renderer.tells_length:
        answers = [
            renderer.read(replace(predictor, budget=k + 1).generate(examples.symbols)) for k in range(1, T + 1)
        ]
        hits = [int((answer.final_state == final).sum()) for answer in answers]
        return hits, [float(answer.length.float().mean()) for answer in answers]
    written = replace(predictor, budget=T + 1).generate(examples.symbols)[:, :T]
    right = written - renderer.vocabulary.first_state == final[:, None]
    return right.sum(0).tolist(), [float(k) for k in range(1, T + 1)]


@torch.no_grad()
def teacher_hits(
    predictor: TransformerPredictor, examples: TracedInputs, formats: tuple[Shown, ...]
) -> list[int]:
    """For each format: how often its last state is said right when all before it are given.

    The inputs are read once; every format goes on from what was read.
    """
    renderer = predictor.renderer
    hits = torch.zeros(len(formats), dtype=torch.int64, device=examples.symbols.device)
    read = renderer.horizon + 1  # σ_1 … σ_T and q_0: what all prompts share
    decoder = make_decoder(predictor.kernel, predictor.model, min(CHUNK, len(examples.symbols)))
    for symbols, states in zip(examples.symbols.split(CHUNK), examples.states.split(CHUNK), strict=True):
        shortest = renderer.prompt(symbols, 2)
        first_logits = decoder.prefill(shortest[:, :read])
        for i, shown in enumerate(formats):
            prompt = renderer.prompt(symbols, len(shown) + 1)
            rest = torch.cat([prompt[:, read:], renderer.answer(states, shown)[:, :-2]], dim=1)
            logits = first_logits.clone() if rest.shape[1] == 0 else decoder.go_on(rest)
            logits[:, renderer.vocabulary.eos] = -torch.inf
            said = logits.argmax(dim=-1) - renderer.vocabulary.first_state
            hits[i] += (said == states[:, shown[-1]]).sum()
    return [int(count) for count in hits]


# The picture ---------------------------------------------------------------------------------------------


def draw_matrix(matrix: Matrix) -> Figure:
    """Stage × budget heat maps; of a run with a single stage, accuracy against budget."""
    return _matrix_lines(matrix) if len(matrix.stages) == 1 else _matrix_maps(matrix)


def _matrix_maps(matrix: Matrix) -> Figure:
    T, rows = matrix.horizon, len(matrix.stages)
    width, height = 2.8 + 2 * max(2.4, min(0.36 * T, 5.0)), 2.2 + 2 * max(1.6, min(0.3 * rows, 4.2))
    figure, axes = new_figure(2, 2, width=width, height=height, sharex=True, sharey=True)
    image: Any = None
    for i, (reading, meaning) in enumerate(READINGS.items()):
        for j, name in enumerate(matrix.inputs):
            panel, values = axes[i, j], matrix.select(name, reading)
            image = panel.imshow(values.numpy(), aspect="auto", **accuracy_shades(matrix.chance["id"]))
            panel.grid(False)
            panel.set_title(f"{name.upper()} ({matrix.inputs[name]})\n{meaning}", fontsize=9)
            own = {
                (c.stage, c.budget) for c in matrix.cells if c.own and (c.inputs, c.reading) == (name, reading)
            }
            outline(panel, [(matrix.stages.index(stage), budget - 1) for stage, budget in sorted(own)])
            if max(T, rows) <= NUMBERED:
                write_numbers(panel, values.tolist(), matrix.chance["id"])
    for panel in axes[1]:
        panel.set_xlabel("budget K: states in the answer")
        places = ticks(T)
        panel.set_xticks(places, [str(k + 1) for k in places])
    for panel in axes[:, 0]:
        panel.set_ylabel("weights at the end of stage")
        places = ticks(rows)
        panel.set_yticks(places, [str(matrix.stages[i]) for i in places])
    figure.colorbar(image, ax=axes, label="last state is $q_T$ (white: chance)", format="{x:.0%}", shrink=0.8)
    what = f"which budgets each stage serves; {OUTLINES}"
    figure.suptitle(f"{matrix.title}\n{what}", fontsize=10)
    return figure


def _matrix_lines(matrix: Matrix) -> Figure:
    figure, axes = new_figure(width=7.0, height=4.2)
    budgets = range(1, matrix.horizon + 1)
    for i, reading in enumerate(READINGS):
        for j, name in enumerate(matrix.inputs):
            cells = [matrix.cell(matrix.stages[0], k, name, reading) for k in budgets]
            rates = [cell.right for cell in cells]
            label = f"{'writes all' if reading == 'forced' else 'true states given'}, {name.upper()}"
            rate_line(axes, list(budgets), rates, label, style=2 * i + j)
    accuracy_axis(axes, matrix.chance["id"])
    axes.set_xlabel("budget K: states in the answer")
    places = ticks(matrix.horizon)
    axes.set_xticks([k + 1 for k in places])
    axes.legend(fontsize=8, loc="best")
    axes.set_title(matrix.title, fontsize=10)
    return figure


# The command ---------------------------------------------------------------------------------------------


def matrix_command(arguments: MatrixArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    unknown = sorted(set(arguments.stages) - set(chain.stages))
    require(not unknown, "stages", f"kept are the stages {chain.stages}, not {unknown}")
    stages = tuple(sorted(set(arguments.stages)))
    with errors_console().status("matrix") as status:
        found = matrix(chain, arguments.samples, arguments.seed, stages, status.update)
    out = arguments.folder(chain.run.path)
    out.csv("matrix", [cell.row() for cell in found.cells])
    out.json("matrix", found.to_json())
    out.figure("matrix", draw_matrix(found))
    arguments.present(found.to_json(), out, partial(_print_matrix, chain, found))


def _print_matrix(chain: OpenChain, found: Matrix, console: Console) -> None:
    console.print(_matrix_table(chain, found))
    drawn = ", ".join(f"{name.upper()} {inputs}" for name, inputs in found.inputs.items())
    console.print(f"inputs: {drawn}")
    console.print(
        "own K: the budget that the stage itself trained, outlined in matrix.png. serves K: the budgets at "
        "which more than 95 % are right when the model writes all K states itself."
    )
    if found.status != "done":
        console.print(f"The run is {found.status}: these are the stages that it has ended so far.")
    for name in found.inputs:
        lost = found.chain_forgotten(name)
        if lost is not None:
            console.print(f"{name.upper()}: the full chain, once served, is lost from stage {lost} on")


def _matrix_table(chain: OpenChain, found: Matrix) -> object:
    """The budgets that matter most: one state, what the stage trained, and the full chain."""
    T, rows = found.horizon, []
    for stage in found.stages:
        own = min(len(chain.own_shown(stage)), T)
        cells = [found.cell(stage, k, "id", "forced") for k in (1, own, T)]
        cells += [found.cell(stage, own, "ood", "forced"), found.cell(stage, T, "id", "teacher")]
        served = found.served(stage)
        budgets = _ranges(served) if served else "none"
        rows.append([str(stage), str(own), *(percent(cell.right.value) for cell in cells), budgets])
    columns = ["stage", "own K", "K=1", "at own K", f"K={T}", "own K, OOD", f"K={T}, given", "serves K"]
    n = found.cells[0].right.trials
    title = f"{found.title}: final state right, {n:,} inputs for each cell (intervals in matrix.csv)"
    return results_table(title, columns, rows)


def _ranges(numbers: list[int]) -> str:
    """[1, 2, 3, 7] as `1–3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}–{p[-1]}" for p in parts)
