"""The curves of the same tasks as chains and as text: how many stages each run has passed at every iteration.

    python studies/text/equivalence.py results/text/equivalence-chain.csv results/text/equivalence-text.csv

Reads two tables that `internalize collect --csv` wrote (the commands are in equivalence-chain.yaml and
equivalence-text.yaml), prints for every stage after how many iterations it was passed, and draws all runs into
equivalence.png and equivalence.svg beside the second table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from internalize.display.charts import task_name
from internalize.display.plots import LINES, PALETTE, new_figure, save
from internalize.errors import BadInput, require
from internalize.sweeps.recorded import recorded_in

STAGES = "iterations_to_stages"
KINDS = ("chains", "text")


@dataclass(frozen=True)
class Curve:
    """One run."""

    task: str
    passed: tuple[int, ...]
    """Iterations after which stage 1, 2, … was passed; shorter than the stages where the run got stuck."""
    stages: int
    iterations: int
    """In all."""


def curves_of(table: Path) -> list[Curve]:
    """The runs of a table."""
    found = [run.results for run in recorded_in(table).values()]
    again = "train them again, since they were made before stages were counted"
    require(all(row.get(STAGES) for row in found), STAGES, f"is not in every row of {table}: {again}")
    return [
        Curve(_task(row), tuple(end for end in row[STAGES] if end is not None), row["stages"], _trained(row))
        for row in found
    ]


def _task(row: Mapping[str, Any]) -> str:
    """A row of text is named by the folder of its data: data/C3/train.jsonl."""
    return str(row["task"]) if "task" in row else Path(row["data"]).parent.name


def _trained(row: Mapping[str, Any]) -> int:
    return int(row.get("result.iterations", row["iterations"]))


def table_text(curves: Mapping[str, Sequence[Curve]]) -> str:
    """Markdown: median and range over the runs that passed the stage, and how many these are if not all."""
    lines = ["| task | stage | " + " | ".join(KINDS) + " |", "|---|---|" + "---|" * len(KINDS)]
    for task in tasks_of(curves):
        own = {kind: [curve for curve in curves[kind] if curve.task == task] for kind in KINDS}
        for stage in range(max(curve.stages for group in own.values() for curve in group)):
            cells = [
                _cell([c.passed[stage] for c in own[k] if len(c.passed) > stage], len(own[k])) for k in KINDS
            ]
            lines.append(f"| {task} | {stage + 1} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(ends: Sequence[int], runs: int) -> str:
    if not ends:
        return f"0 of {runs}"
    few = f" ({len(ends)} of {runs})" if len(ends) < runs else ""
    return f"{median(ends):,.0f} [{min(ends):,}–{max(ends):,}]{few}"


def tasks_of(curves: Mapping[str, Sequence[Curve]]) -> list[str]:
    """Those of both kinds, which must be the same."""
    named = {kind: list(dict.fromkeys(curve.task for curve in curves[kind])) for kind in KINDS}
    same = set(named["chains"]) == set(named["text"])
    require(same, "tables", f"must be of the same tasks, got {named['chains']} and {named['text']}")
    return named["chains"]


def draw(curves: Mapping[str, Sequence[Curve]], stem: Path) -> list[Path]:
    """One panel for each task, one line for each run; a cross where a run ended without passing its stage."""
    tasks = tasks_of(curves)
    figure, axes = new_figure(1, len(tasks), width=3.6 * len(tasks) + 0.6, height=3.2, squeeze=False)
    for axis, task in zip(axes[0], tasks, strict=True):
        for style, kind in enumerate(KINDS):
            own = [curve for curve in curves[kind] if curve.task == task]
            look: dict[str, Any] = {"color": PALETTE[style], "alpha": 0.75, "lw": 1.2}
            for number, curve in enumerate(own):
                stuck = len(curve.passed) < curve.stages
                times = [0, *curve.passed, *([curve.iterations] if stuck else [])]
                heights = [*range(len(curve.passed) + 1), *([len(curve.passed)] if stuck else [])]
                label = f"{kind} ({len(own)} runs)" if number == 0 else None
                axis.step(times, heights, LINES[style], where="post", label=label, **look)
                axis.plot(times[-1], heights[-1], "x" if stuck else "o", markersize=4, **look)
        axis.set(title=task_name(task), xlabel="thousand iterations", ylabel="stages passed")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
        axis.set(xlim=(0, None), ylim=(0, None))
    axes[0][0].legend(loc="lower right")
    return save(figure, stem)


def main(words: Sequence[str]) -> int:
    try:
        require(len(words) == 2, "tables", "name two: that of the chains, then that of the text")
        curves = {kind: curves_of(Path(word)) for kind, word in zip(KINDS, words, strict=True)}
        print(table_text(curves))
        for path in draw(curves, Path(words[1]).with_name("equivalence")):
            print(f"picture: {path}", file=sys.stderr)
    except BadInput as problem:
        print(f"equivalence: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
