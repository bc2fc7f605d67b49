"""Methods at equal compute: which internalizes, at what cost, and what it keeps.

Every entrant gets the same operations of the cost model, the same seeds and as many trials of learning rates.
Entrants and tables are pure functions of configs and results; the command is at the end.
"""

from __future__ import annotations

import json
import math
import statistics as python_statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from internalize.analysis.output import OutputFolder
from internalize.configs.codec import to_json
from internalize.configs.files import require_writable
from internalize.configs.named import own_files
from internalize.contract import RunState
from internalize.curricula import ScheduleConfig, find_curriculum
from internalize.curricula.schedule import EqualShares
from internalize.display.plots import MARKERS, PALETTE, new_figure
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import BadInput, require
from internalize.kinds import prepare
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.presets import LAPTOP, PresetName, preset_in, without_stages
from internalize.runs.provenance import provenance
from internalize.runs.table import latex_table, markdown_table
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.driver import Outcome
from internalize.runtime.fleet.seeds import MOST, require_finished, train_side_by_side
from internalize.runtime.kind import cpu
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXTRAS = ("rehearsal", "easy", "fixed", "muon")
"""What may follow a method's name after a plus: left+rehearsal+easy, inductive+fixed, left+muon."""
REHEARSED = 0.5
"""Share of batches that rehearse, of an entrant with +rehearsal whose base does not say."""


@dataclass(frozen=True)
class RaceFinish:
    """One run of an entrant, as far as the race is concerned."""

    entrant: str
    seed: int
    internalized: bool
    cost: float | None
    """Operations until it internalized; None if it did not within the budget."""
    spent: float
    """Operations in all."""
    id_accuracy: float
    ood_accuracy: float
    chain_accuracy: float | None
    """Of the whole chain when asked for it; None for models that cannot be asked."""


def entrant_config(entrant: str, base: ChainConfig, operations: float) -> ChainConfig:
    """The config of an entrant: METHOD, and after plus signs what it is trained with."""
    method, *extras = entrant.split("+")
    for extra in extras:
        require(extra in EXTRAS, "methods", f"unknown +{extra} in {entrant!r}; known: {', '.join(EXTRAS)}")
    base = replace(base, method=method)
    if find_curriculum(method, base.horizon, {}, "methods")[0].stages == 1:
        base = without_stages(
            base, method
        )  # what a last stage does, such as cooling, it would do from the start
    rehearses, pauses = "rehearsal" in extras, method.startswith("filler")
    told = rehearses and not pauses and (base.length_token or not base.keep_positions)
    config = replace(
        base,
        rehearsal=(base.rehearsal or REHEARSED) if rehearses else None,
        rehearse=base.rehearse if rehearses else None,
        ease=(base.ease or LAPTOP.ease) if "easy" in extras else None,
        length_token=True if told else None,
        keep_positions=None if pauses else base.keep_positions,  # behind pauses every state has its place
        operations_limit=operations,
    )
    if "muon" in extras:
        config = replace(config, optimizer=replace(config.optimizer, muon=True))
    if "fixed" in extras:
        config = replace(config, schedule=ScheduleConfig())
    elif config.schedule.smoothing is not None and not rehearses:
        config = replace(config, schedule=replace(config.schedule, smoothing=None))
    return replace(config, iterations=iterations_for(config, operations))


def iterations_for(config: ChainConfig, operations: float) -> int:
    """Iterations that the budget pays for: in equal stages where these are fixed, else of the cheapest kind.

    Of the cheapest kind, since a stage that adapts may end early: the limit of operations then ends the run.
    """
    try:
        experiment = config.build(cpu(), {})
    except BadInput as problem:
        raise BadInput(problem.field, f"{config.method}: {problem.message}") from None
    curriculum = experiment.curriculum
    steps = [experiment.mean_operations(stage) for stage in range(1, curriculum.stages + 1)]
    if config.schedule.kind != "fixed":
        return max(curriculum.stages, int(operations / min(steps)) + 1)
    count = int(operations / python_statistics.mean(steps))
    require(
        count >= curriculum.stages, "operations", f"pays for {count} iterations, fewer than there are stages"
    )
    while _cost_in_equal_stages(count, steps) > operations and count > curriculum.stages:
        count -= 1
    return count


def _cost_in_equal_stages(iterations: int, steps: Sequence[float]) -> float:
    sizes = EqualShares(iterations, len(steps)).sizes()
    return sum(size * step for size, step in zip(sizes, steps, strict=True))


def finish_of(entrant: str, seed: int, summary: Mapping[str, Any]) -> RaceFinish:
    """From the results of a run."""
    return RaceFinish(
        entrant,
        seed,
        bool(summary["internalized"]),
        summary["operations_to_internalize"] if summary["internalized"] else None,
        float(summary["operations"]),
        float(summary["id_accuracy"]),
        float(summary["ood_accuracy"]),
        summary.get("chain_id_accuracy"),
    )


@dataclass(frozen=True)
class RaceStanding:
    """An entrant, over all its seeds."""

    entrant: str
    internalized: Rate
    median_cost: float | None
    """Operations by which half of the runs had internalized; None where fewer than half did."""
    mean_cost: float
    """Operations until it internalized, runs that did not counted with the whole budget."""
    id_accuracy: float
    ood_accuracy: float
    """Mean over the runs that internalized; over all if none did."""
    chain: Rate | None
    """Runs whose whole chain is still right for more than 95 %; None where it cannot be asked for."""

    def to_json(self) -> dict[str, Any]:
        return {
            "entrant": self.entrant,
            "internalized": self.internalized.to_json(),
            "median_operations": self.median_cost,
            "mean_operations": self.mean_cost,
            "id_accuracy": self.id_accuracy,
            "ood_accuracy": self.ood_accuracy,
            "chain_kept": None if self.chain is None else self.chain.to_json(),
        }


def standings(finishes: Sequence[RaceFinish], operations: float) -> list[RaceStanding]:
    """The quickest first: by the share that internalized, then by the mean cost, then by the ID accuracy."""
    found = [
        _standing(entrant, [finish for finish in finishes if finish.entrant == entrant], operations)
        for entrant in dict.fromkeys(finish.entrant for finish in finishes)
    ]
    return sorted(found, key=lambda one: (-one.internalized.value, one.mean_cost, -one.id_accuracy))


def _standing(entrant: str, own: Sequence[RaceFinish], operations: float) -> RaceStanding:
    through = [finish for finish in own if finish.cost is not None]
    chains = [finish.chain_accuracy for finish in own if finish.chain_accuracy is not None]
    shares = waiting_shares([finish.cost for finish in own])
    return RaceStanding(
        entrant,
        Rate(len(through), len(own)),
        next((cost for cost, share in shares if share <= 0.5), None),
        python_statistics.mean(min(finish.cost or operations, operations) for finish in own),
        python_statistics.mean(finish.id_accuracy for finish in own),
        python_statistics.mean(finish.ood_accuracy for finish in own),
        Rate(sum(accuracy > SUCCESS for accuracy in chains), len(chains)) if chains else None,
    )


def waiting_shares(costs: Sequence[float | None]) -> list[tuple[float, float]]:
    """(cost, share of runs that have not internalized by then), from (0, 1) on.

    All runs are watched for the same budget, so the Kaplan-Meier curve is this plain share.
    """
    done = sorted(cost for cost in costs if cost is not None)
    points = [(0.0, 1.0)]
    for cost in dict.fromkeys(done):
        points.append((float(cost), 1 - sum(other <= cost for other in done) / len(costs)))
    return points


HEADINGS = ("method", "internalized", "median operations", "mean operations", "ID", "OOD", "chain kept")


def cells(standing: RaceStanding) -> tuple[str, ...]:
    median = "not reached" if standing.median_cost is None else f"{standing.median_cost:.2e}"
    kept = standing.chain
    return (
        standing.entrant,
        f"{standing.internalized.successes} of {standing.internalized.trials}",
        median,
        f"{standing.mean_cost:.2e}",
        f"{100 * standing.id_accuracy:.1f} %",
        f"{100 * standing.ood_accuracy:.1f} %",
        "cannot be asked" if kept is None else f"{kept.successes} of {kept.trials}",
    )


TUNING_SEED = 190
"""Learning rates are tried on seeds from here on, which no race is run on."""


@dataclass(frozen=True)
class RaceArguments:
    """Train every method with the same operations on the same seeds: which internalizes, at what cost?"""

    operations: float = 1e13
    """What every run may spend, in operations of the cost model; rehearsal counts like everything else."""
    methods: str = "left, left+rehearsal, inductive, even, geometric, mixture"
    """Names as --method takes them, with commas between. After a plus: rehearsal (with the length token where
    it is needed), easy (--ease), muon, or fixed (equal stages): left+rehearsal+easy."""
    seeds: int = 4
    """Runs of each method, with the seeds from --seed up."""
    lrs: tuple[float, ...] = ()
    """Learning rates that each method may choose from, on other seeds; --optimizer.lr if none are given."""
    tuning_seeds: int = 2
    """Runs of each method at each learning rate, to choose by."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""
    drawings: Path | None = None
    """Folder for tables and curves; `race` in the folder of the runs if not given."""
    preset: PresetName | None = None
    """The recipe that the methods share where no field is given; laptop if not given."""
    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: LAPTOP)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)

    def __post_init__(self) -> None:
        for name, count in (("seeds", self.seeds), ("tuning-seeds", self.tuning_seeds)):
            require(1 <= count <= MOST, name, f"must lie in 1…{MOST:,}, got {count}")
        good = 0 < self.operations < math.inf
        require(good, "operations", f"must be more than 0 and finite, got {self.operations}")
        first, choosing = self.config.seed, range(TUNING_SEED, TUNING_SEED + self.tuning_seeds)
        tuned = len(self.lrs) > 1
        apart = first + self.seeds <= TUNING_SEED or first > choosing[-1]
        why = f"learning rates are chosen on seeds {choosing[0]} to {choosing[-1]}: race on others"
        require(apart or not tuned, "seed", why)
        names = self.entrants
        require(bool(names), "methods", "must name at least one")
        require(len(set(names)) == len(names), "methods", f"names one twice: {self.methods}")

    @property
    def entrants(self) -> list[str]:
        return [name.strip() for name in self.methods.split(",") if name.strip()]

    @classmethod
    def defaults(cls, words: Sequence[str]) -> RaceArguments:
        return cls(config=preset_in(words, otherwise="laptop") or LAPTOP)


def race_command(arguments: RaceArguments) -> None:
    execution = arguments.execution
    folder = OutputFolder(require_writable(arguments.drawings or execution.out / "race"))
    with own_files():
        base = {
            name: entrant_config(name, arguments.config, arguments.operations) for name in arguments.entrants
        }
    tuned = _tuned(arguments, base)
    # seed by seed, so that a comparison is there early
    first = arguments.config.seed
    runs = [
        (name, replace(config, seed=seed))
        for seed in range(first, first + arguments.seeds)
        for name, config in tuned.items()
    ]
    finishes = _finishes(runs, arguments, f"race, {len(runs)} runs")
    table = standings(finishes, arguments.operations)
    result = {
        "task": arguments.config.task,
        "horizon": arguments.config.horizon,
        "operations": arguments.operations,
        "learning_rates": {name: config.optimizer.lr for name, config in tuned.items()},
        "standings": [standing.to_json() for standing in table],
        "runs": [vars(finish) for finish in finishes],
        "configs": {name: to_json(config) for name, config in tuned.items()},
        "provenance": provenance(resolve_device(execution.device)),
    }
    rows = [cells(standing) for standing in table]
    folder.json("race", result)
    folder.text("race.md", markdown_table(HEADINGS, rows) + "\n")
    folder.text("race.tex", latex_table(HEADINGS, rows) + "\n")
    folder.figure("race", draw_race(finishes, arguments.operations))
    if execution.json:
        print(json.dumps(result))
    elif not execution.quiet:
        asked = arguments.config
        title = f"{asked.task}, T = {asked.horizon}, {arguments.operations:.1e} operations each"
        PlainConsole().print(results_table(title, list(HEADINGS), [list(row) for row in rows]))
        PlainConsole().print(folder.note(), soft_wrap=True)


def _tuned(arguments: RaceArguments, base: dict[str, ChainConfig]) -> dict[str, ChainConfig]:
    """Each method with the learning rate that served it best on other seeds; the same trials for all."""
    candidates = {
        name: {
            f"{name} {lr!r}": replace(config, optimizer=replace(config.optimizer, lr=lr))
            for lr in arguments.lrs or (config.optimizer.lr,)
        }
        for name, config in base.items()
    }
    if len(arguments.lrs) <= 1:
        return {name: next(iter(own.values())) for name, own in candidates.items()}
    trials = [
        (label, replace(config, seed=TUNING_SEED + i))
        for own in candidates.values()
        for label, config in own.items()
        for i in range(arguments.tuning_seeds)
    ]
    finishes = _finishes(trials, arguments, f"choosing learning rates, {len(trials)} runs")
    best = [standing.entrant for standing in standings(finishes, arguments.operations)]
    return {name: own[min(own, key=best.index)] for name, own in candidates.items()}


def _finishes(
    runs: Sequence[tuple[str, ChainConfig]], arguments: RaceArguments, title: str
) -> list[RaceFinish]:
    with own_files():
        prepared = [prepare(config) for _, config in runs]
    outcomes = train_side_by_side(prepared, arguments.execution, arguments.workers, title)
    lost = [_lost_its_numbers(outcome) for outcome in outcomes]
    require_finished([outcome for outcome, gone in zip(outcomes, lost, strict=True) if not gone])
    return [
        _did_not_finish(name, config.seed, arguments.operations)
        if gone or outcome.run is None
        else finish_of(name, config.seed, outcome.run.summary())
        for (name, config), outcome, gone in zip(runs, outcomes, lost, strict=True)
    ]


def _lost_its_numbers(outcome: Outcome) -> bool:
    """Whether the run itself has failed for good. A full disk, or another process that has it, is no result."""
    if outcome.state != RunState.FAILED or outcome.run is None:
        return False
    status = outcome.run.status()
    return status["state"] == RunState.FAILED and bool(status.get("for_good", True))


def _did_not_finish(entrant: str, seed: int, operations: float) -> RaceFinish:
    """A run whose loss was no number any more: it has not internalized, and is right about nothing."""
    return RaceFinish(entrant, seed, False, None, operations, 0.0, 0.0, None)


def draw_race(finishes: Sequence[RaceFinish], operations: float) -> Figure:
    """A line for each method, a mark for each run: filled where it internalized, open at the budget if not."""
    entrants = [standing.entrant for standing in standings(finishes, operations)]
    figure, panel = new_figure(height=1.2 + 0.5 * len(entrants))
    names = []
    for place, entrant in enumerate(entrants):
        costs = [finish.cost for finish in finishes if finish.entrant == entrant]
        there = [cost for cost in costs if cost is not None]
        names.append(f"{entrant}\n{len(there)} of {len(costs)}")
        style: dict[str, Any] = {"edgecolors": PALETTE[place % len(PALETTE)], "zorder": 3, "clip_on": False}
        style |= {"marker": MARKERS[place % len(MARKERS)], "s": 44}
        panel.scatter(there, [place] * len(there), color=style["edgecolors"], alpha=0.8, **style)
        never = len(costs) - len(there)
        panel.scatter([operations] * never, [place] * never, facecolors="none", **style)
    panel.set_yticks(range(len(entrants)), names)
    panel.invert_yaxis()
    panel.margins(y=0.5 / max(1, len(entrants)))
    power = math.floor(math.log10(operations))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value / 10**power:g}")
    panel.set_xlabel(f"operations until internalized, in 10$^{{{power}}}$; open: not within the budget")
    panel.set_xlim(0, operations)
    return figure
