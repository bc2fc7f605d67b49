"""An atlas of tasks: what internalizing each of them cost, beside what theory says of it beforehand."""

from __future__ import annotations

import json
import re
import statistics as python_statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from internalize.analysis.output import OutputFolder
from internalize.analysis.race import waiting_shares
from internalize.configs.files import require_writable
from internalize.configs.named import TrustOption
from internalize.display import page
from internalize.display.charts import QUIET, task_name
from internalize.display.plots import MARKERS, PALETTE, inline_svg, new_figure
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import require
from internalize.runs.location import runs_folder
from internalize.runs.provenance import provenance
from internalize.runs.table import latex_table, markdown_table
from internalize.runtime.kind import cpu
from internalize.statistics import Rate, spearman_trend
from internalize.sweeps.collection import collect
from internalize.sweeps.recorded import recorded_in
from internalize.sweeps.sweep import find_sweep
from internalize.tasks.groups import Structure, structure_of
from internalize.tasks.inputs import possible_inputs
from internalize.tasks.names import FSM_SUFFIXES, SUFFIXES, parse_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("group that commutes", "group", "resets", "mixed", "too large")
"""What the symbols of a task generate: a group, in which everything can be undone; maps of which none turns
in a circle, as in a flip-flop; or something of both."""


@dataclass(frozen=True)
class Predictors:
    """What is known of a task before anything is trained."""

    states: int
    symbols: int
    transformations: int | None
    """Order of the group or semigroup that its symbols generate; None where it is too large to list."""
    kind: str
    """One of KINDS."""
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
    orders = None if found is None else found.prime_powers
    return Predictors(
        task.inner_states,
        task.symbols,
        None if found is None else found.size,
        _kind(found),
        None if found is None else found.solvable,
        None if orders is None else sum(orders),
        shape.mlp_width,
        shape.depth,
    )


def _kind(found: Structure | None) -> str:
    if found is None:
        return "too large"
    if found.is_group:
        return "group that commutes" if found.abelian else "group"
    return "resets" if found.aperiodic else "mixed"


@dataclass(frozen=True)
class Place:
    """One task of the atlas, over its finished runs."""

    task: str
    horizon: int
    predictors: Predictors
    internalized: Rate
    costs: tuple[float | None, ...]
    """Operations until each run had internalized; None for those that did not."""
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
    costs = [row["operations_to_internalize"] if row["internalized"] else None for row in rows]
    through = [row for row, cost in zip(rows, costs, strict=True) if cost is not None]
    known = predictors(task, horizon)
    return Place(
        task,
        horizon,
        known,
        Rate(len(through), len(rows)),
        tuple(costs),
        next((cost for cost, share in waiting_shares(costs) if share <= 0.5), None),
        python_statistics.mean(row["ood_accuracy"] for row in through) if through else None,
        max(row["samples"] for row in rows) / possible_inputs(known.symbols, horizon),
    )


@dataclass(frozen=True)
class Ranking:
    """How well one predictor puts the tasks in the order of their costs."""

    predictor: str
    tasks: int
    """Those of which the predictor says anything."""
    correlation: float
    """Spearman's; 1 if the task of which more is predicted always costs more."""
    p: float
    """Two-sided, by permuting the tasks."""


LEAST_TASKS = 4
"""With fewer, no order of the tasks could be told from chance."""


def rankings(found: Sequence[Place]) -> list[Ranking]:
    """Each predictor against the median cost; a task that fewer than half of its runs internalize ranks last.

    Costs are compared between tasks of one horizon alone: the most frequent one of the atlas. Theorem 3 speaks
    of groups that commute: among these, its predictor stands beside their order.
    """
    horizons = [place.horizon for place in found]
    tasks = [place for place in found if place.horizon == max(horizons, key=horizons.count)]
    commuting = [place for place in tasks if place.predictors.prime_powers is not None]
    known = [place for place in tasks if place.predictors.transformations is not None]
    ranked = [
        _ranking("states", tasks, lambda known: known.states),
        _ranking("transformations", known, lambda known: known.transformations or 0),
        _ranking("width by hand", tasks, lambda known: known.construction_width),
        _ranking("Σ prime powers, of groups that commute", commuting, lambda known: known.prime_powers or 0),
        _ranking("states, of groups that commute", commuting, lambda known: known.states),
    ]
    return [ranking for ranking in ranked if ranking.tasks >= LEAST_TASKS]


def _ranking(name: str, tasks: Sequence[Place], predictor: Callable[[Predictors], int]) -> Ranking:
    if len(tasks) < LEAST_TASKS:
        return Ranking(name, len(tasks), 0.0, 1.0)
    costs = [place.median_operations or float("inf") for place in tasks]
    trend = spearman_trend([float(predictor(place.predictors)) for place in tasks], costs)
    return Ranking(name, len(tasks), trend.correlation, min(1.0, 2 * min(trend.rising, trend.falling)))


HEADINGS = (
    *("task", "T", "internalized", "median operations", "OOD", "views of an input"),
    *("kind", "states", "symbols", "transformations", "solvable", "Σ prime powers", "width by hand"),
)


ON_TERMINAL = ("task", "T", "internalized", "median operations", "OOD", "kind")
"""All of them do not fit into 80 columns; the files have them."""


def cells(place: Place) -> tuple[str, ...]:
    """What came out, then what was known."""
    known = place.predictors
    return (
        short_name(place.task),
        str(place.horizon),
        f"{place.internalized.successes} of {place.internalized.trials}",
        "not reached" if place.median_operations is None else f"{place.median_operations:.2e}",
        "–" if place.ood_accuracy is None else f"{100 * place.ood_accuracy:.1f} %",
        f"{place.views:.1e}",
        known.kind,
        str(known.states),
        str(known.symbols),
        _told(known.transformations),
        "–" if known.solvable is None else "yes" if known.solvable else "no",
        _told(known.prime_powers),
        str(known.construction_width),
    )


def short_name(task: str) -> str:
    """Without folder and ending, for tasks in files of one's own; what the file calls it stays."""
    file, colon, name = task.rpartition(":") if ".py:" in task else (task, "", "")
    path = Path(file)
    return f"{path.stem}{colon}{name}" if path.suffix in (*SUFFIXES, *FSM_SUFFIXES, ".py") else task


def _told(value: int | None) -> str:
    return "–" if value is None else str(value)


RANKING_HEADINGS = ("predictor", "tasks", "rank correlation with cost", "p")


def ranking_cells(ranking: Ranking) -> tuple[str, ...]:
    return ranking.predictor, str(ranking.tasks), f"{ranking.correlation:+.2f}", f"{ranking.p:.3f}"


def draw_atlas(found: Sequence[Place]) -> Figure:
    """A line for each task, the cheapest on top, with a mark for each run: what the symbols generate."""
    figure, panel = new_figure(height=0.32 * len(found) + 1.3)
    most = max((cost for place in found for cost in place.costs if cost is not None), default=1.0)
    beyond = 1.5 * most  # where runs stand that did not internalize
    for kind in dict.fromkeys(place.predictors.kind for place in found):
        number = KINDS.index(kind)
        points = [
            (cost or beyond, row)
            for row, place in enumerate(found)
            for cost in place.costs
            if place.predictors.kind == kind
        ]
        panel.plot(
            [cost for cost, _ in points],
            [row for _, row in points],
            MARKERS[number],
            color=PALETTE[number],
            label=kind,
            alpha=0.75,
        )
    if any(cost is None for place in found for cost in place.costs):
        panel.axvline(1.22 * most, color=QUIET, linewidth=0.8, linestyle=":")
        panel.text(1.25 * most, len(found) - 0.7, "never", color=QUIET, fontsize=8)
    panel.set_xscale("log")
    horizons = sorted({place.horizon for place in found})
    names = [task_name(short_name(place.task)) for place in found]
    if len(horizons) > 1:
        names = [f"{name}, T = {place.horizon}" for name, place in zip(names, found, strict=True)]
    panel.set_yticks(range(len(found)), names)
    panel.set_ylim(len(found) - 0.5, -0.5)
    where = f"T = {horizons[0]}; " if len(horizons) == 1 else ""
    panel.set_xlabel(f"{where}operations until internalized, each run")
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=4, borderaxespad=0)
    return figure


WORDS = (
    "Transformations: how many different maps of the states the symbols generate. Solvable: whether every "
    "group among them is; then constant depth may do. Σ prime powers: of a group that commutes, what the "
    "width in theorem 3 grows with. Width by hand: of the MLP of a transformer that is written by hand "
    "for the task. OOD: mean accuracy on other inputs, of the runs that internalized. Views of an input: "
    "how often the longest run saw each possible input on average."
)


def atlas_page(found: Sequence[Place], ranked: Sequence[Ranking], sweep: str, runs: int, missing: int) -> str:
    through = sum(place.internalized.successes for place in found)
    lead = (
        f"{len(found)} tasks, {runs} runs of {sweep}, {through} of them internalized. The cheapest task comes "
        "first. Costs can be compared between tasks of one horizon T."
    )
    if missing:
        lead += f" {missing} runs of the sweep are not finished."
    sections = [
        page.figure(
            inline_svg(draw_atlas(found), "Operations until internalized, for each run of each task"),
            "Operations of training until a run had internalized. Every mark is a run.",
        ),
        page.heading("What came out, and what was known beforehand"),
        page.table(HEADINGS, [cells(place) for place in found]),
        page.paragraph(WORDS),
    ]
    if ranked:
        sections += [
            page.heading("What predicts the cost?"),
            page.table(RANKING_HEADINGS, [ranking_cells(ranking) for ranking in ranked]),
            page.paragraph(
                "+1: the task of which more is predicted always costs more. 0: the predictor says nothing. p: "
                "how often tasks that are dealt out at random correlate as strongly, one predictor at a time."
            ),
        ]
    return page.page("What internalization costs, task by task", lead, sections, f"internalize atlas {sweep}")


@dataclass(frozen=True)
class AtlasArguments(TrustOption):
    """What internalizing each task of a sweep cost, beside what theory says of it. Trains nothing."""

    sweep: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = "studies/atlas.yaml"
    """A sweep over tasks, carried out by `internalize sweep`; runs that are missing are left out and named."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    recorded: Path | None = None
    """A table of `internalize collect --csv`: its rows stand for runs whose folders are not here."""
    drawings: Path | None = None
    """Folder for page, picture and tables; `atlas` in the folder of the runs if not given."""
    json: bool = False
    """Print one JSON object."""


def atlas_command(arguments: AtlasArguments) -> None:
    folder = OutputFolder(require_writable(arguments.drawings or arguments.out / "atlas"))
    collected = collect(find_sweep(arguments.sweep), arguments.out, recorded_in(arguments.recorded))
    rows = [row for row in collected.rows if row["kind"] == "chain"]
    require(len(rows) > 0, "sweep", f"{arguments.sweep} has no finished chain run in {arguments.out}")
    unknown = [row["run"] for row in rows if "operations_to_internalize" not in row]
    require(not unknown, "sweep", f"{unknown[:1]} was made before costs were counted: train it again")
    found = places(rows)
    ranked = rankings(found)
    missing = len(collected.missing)
    result = {
        "sweep": str(arguments.sweep),
        "places": [place.to_json() for place in found],
        "rankings": [vars(ranking) for ranking in ranked],
        "runs": len(rows),
        "missing": missing,
        "provenance": provenance(cpu()),
    }
    lines = [cells(place) for place in found]
    folder.json("atlas", result)
    folder.text("atlas.md", markdown_table(HEADINGS, lines) + "\n")
    folder.text("atlas.tex", latex_table(HEADINGS, lines) + "\n")
    folder.text("atlas.html", atlas_page(found, ranked, arguments.sweep, len(rows), missing))
    folder.figure("atlas", draw_atlas(found))
    if arguments.json:
        print(json.dumps(result))
        return
    console = PlainConsole()
    title = f"{len(rows)} runs; {missing} of the sweep are not finished" if missing else f"{len(rows)} runs"
    told_here = [HEADINGS.index(name) for name in ON_TERMINAL]
    console.print(results_table(title, list(ON_TERMINAL), [[line[i] for i in told_here] for line in lines]))
    if ranked:
        told = [list(ranking_cells(ranking)) for ranking in ranked]
        console.print(results_table("What predicts the cost?", list(RANKING_HEADINGS), told))
    console.print(folder.note(), soft_wrap=True)
