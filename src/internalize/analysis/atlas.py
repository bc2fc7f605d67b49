"""An atlas of tasks: what internalizing each of them cost, beside what theory says of it beforehand."""

from __future__ import annotations

import json
import re
import statistics as python_statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from internalize.analysis.output import OutputFolder
from internalize.analysis.race import as_latex, as_markdown, waiting_shares
from internalize.configs.files import require_writable
from internalize.configs.named import TrustOption
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import require
from internalize.runs.location import runs_folder
from internalize.runs.provenance import provenance
from internalize.runtime.kind import cpu
from internalize.statistics import Rate
from internalize.sweeps.collection import collect
from internalize.sweeps.sweep import find_sweep
from internalize.tasks.groups import structure_of
from internalize.tasks.names import parse_task


@dataclass(frozen=True)
class Predictors:
    """What is known of a task before anything is trained."""

    states: int
    symbols: int
    transformations: int | None
    """Order of the group or semigroup that its symbols generate; None where it is too large to list."""
    kind: str
    """group, monoid that only resets, or mixed."""
    solvable: bool | None
    prime_powers: int | None
    """Σ of the prime powers of an abelian group: what the width of theorem 3 goes with."""
    construction_width: int
    """MLP width of the construction by hand: theorem 3's for counters, else the general one."""
    construction_depth: int


def predictors(task_name: str, horizon: int) -> Predictors:
    from internalize.constructions.counter import counter_shape
    from internalize.constructions.general import general_shape

    task = parse_task(task_name)
    found = structure_of(task)
    counter = re.fullmatch(r"C_?(\d+)", task_name)
    shape = (
        counter_shape(int(counter[1]), horizon)
        if counter
        else general_shape(task.states, task.symbols, horizon)
    )
    kind = "too large" if found is None else "group" if found.is_group else "mixed"
    if found is not None and found.aperiodic and not found.is_group:
        kind = "resets"
    orders = None if found is None else found.prime_powers
    return Predictors(
        task.states,
        task.symbols,
        None if found is None else found.size,
        kind,
        None if found is None else found.solvable,
        None if orders is None else sum(orders),
        shape.mlp_width,
        shape.depth,
    )


@dataclass(frozen=True)
class Place:
    """One task of the atlas, over its finished runs."""

    task: str
    horizon: int
    predictors: Predictors
    internalized: Rate
    median_operations: float | None
    """Operations by which half of the runs had internalized; None where fewer than half did."""
    ood_accuracy: float | None
    """Mean over the runs that internalized."""
    views: float
    """How often each possible input was seen on average, in the longest run: below 1 the premise holds."""

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "predictors": vars(self.predictors),
            "internalized": self.internalized.to_json(),
        }


def places(rows: Sequence[dict[str, Any]]) -> list[Place]:
    """One for each (task, T) of finished chain runs, those that cost least first."""
    keys = dict.fromkeys((row["task"], row["horizon"]) for row in rows)
    found = [_place(*key, [row for row in rows if (row["task"], row["horizon"]) == key]) for key in keys]
    return sorted(found, key=lambda place: (place.median_operations is None, place.median_operations or 0.0))


def _place(task: str, horizon: int, rows: Sequence[dict[str, Any]]) -> Place:
    from internalize.kinds.chain.evaluation import possible_inputs

    costs = [row["operations_to_internalize"] if row["internalized"] else None for row in rows]
    through = [row for row, cost in zip(rows, costs, strict=True) if cost is not None]
    symbols = predictors(task, horizon).symbols
    return Place(
        task,
        horizon,
        predictors(task, horizon),
        Rate(len(through), len(rows)),
        next((cost for cost, share in waiting_shares(costs) if share <= 0.5), None),
        python_statistics.mean(row["ood_accuracy"] for row in through) if through else None,
        max(row["samples"] for row in rows) / possible_inputs(symbols, horizon),
    )


HEADINGS = (
    *(
        "task",
        "T",
        "states",
        "symbols",
        "transformations",
        "kind",
        "solvable",
        "Σ prime powers",
        "width by hand",
    ),
    *("internalized", "median operations", "OOD", "views of an input"),
)


def cells(place: Place) -> tuple[str, ...]:
    known = place.predictors
    return (
        place.task,
        str(place.horizon),
        str(known.states),
        str(known.symbols),
        _told(known.transformations),
        known.kind,
        "–" if known.solvable is None else "yes" if known.solvable else "no",
        _told(known.prime_powers),
        str(known.construction_width),
        f"{place.internalized.successes} of {place.internalized.trials}",
        "not reached" if place.median_operations is None else f"{place.median_operations:.2e}",
        "–" if place.ood_accuracy is None else f"{100 * place.ood_accuracy:.1f} %",
        f"{place.views:.1e}",
    )


def _told(value: int | None) -> str:
    return "–" if value is None else str(value)


@dataclass(frozen=True)
class AtlasArguments(TrustOption):
    """What internalizing each task of a sweep cost, beside what theory says of it. Trains nothing."""

    sweep: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = "studies/atlas.yaml"
    """A sweep over tasks, carried out by `internalize sweep`; runs that are missing are left out and named."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    drawings: Path | None = None
    """Folder for the tables; `atlas` in the folder of the runs if not given."""
    json: bool = False
    """Print one JSON object."""


def atlas_command(arguments: AtlasArguments) -> None:
    folder = OutputFolder(require_writable(arguments.drawings or arguments.out / "atlas"))
    collected = collect(find_sweep(arguments.sweep), arguments.out)
    rows = [row for row in collected.rows if row["kind"] == "chain"]
    require(len(rows) > 0, "sweep", f"{arguments.sweep} has no finished chain run in {arguments.out}")
    unknown = [row["run"] for row in rows if "operations_to_internalize" not in row]
    require(not unknown, "sweep", f"{unknown[:1]} was made before costs were counted: train it again")
    found = places(rows)
    missing = len(collected.missing)
    result = {
        "sweep": str(arguments.sweep),
        "places": [place.to_json() for place in found],
        "runs": len(rows),
        "missing": missing,
        "provenance": provenance(cpu()),
    }
    lines = [cells(place) for place in found]
    folder.json("atlas", result)
    folder.text("atlas.md", as_markdown(HEADINGS, lines))
    folder.text("atlas.tex", as_latex(HEADINGS, lines))
    if arguments.json:
        print(json.dumps(result))
        return
    console = PlainConsole()
    title = f"{len(rows)} runs; {missing} of the sweep are not finished" if missing else f"{len(rows)} runs"
    console.print(results_table(title, list(HEADINGS), [list(line) for line in lines]))
    console.print(folder.note(), soft_wrap=True)
