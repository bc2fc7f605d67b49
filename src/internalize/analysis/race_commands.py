"""`internalize race`: methods against each other, each with the same operations, seeds and tuning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from internalize.analysis.output import OutputFolder
from internalize.analysis.race import (
    HEADINGS,
    Finish,
    as_latex,
    as_markdown,
    cells,
    entrant_config,
    finish_of,
    standings,
    waiting_shares,
)
from internalize.configs.codec import to_json
from internalize.configs.outputs import require_writable
from internalize.configs.trust import own_files
from internalize.display.plots import LINES, PALETTE, new_figure
from internalize.display.terminal import results_table
from internalize.errors import RunFailed, require
from internalize.kinds import prepare
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.presets import LAPTOP, PresetName, preset_in
from internalize.runs.provenance import provenance
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.seeds import train_side_by_side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNING_SEED = 190
"""Learning rates are tried on seeds from here on, which no race is run on."""


@dataclass(frozen=True)
class RaceArguments:
    """Train every method with the same operations on the same seeds: which internalizes, at what cost?"""

    operations: float = 1e13
    """What every run may spend, in operations of the cost model; rehearsal counts like everything else."""
    methods: str = "left, left+rehearsal, inductive, even, geometric, mixture"
    """Names with commas between. After a plus: rehearsal (and the length token), or fixed (equal stages)."""
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
            require(count >= 1, name, f"must be at least 1, got {count}")
        require(self.operations > 0, "operations", f"must be more than 0, got {self.operations}")
        names = self.entrants
        require(len(set(names)) == len(names), "methods", f"names one twice: {self.methods}")

    @property
    def entrants(self) -> list[str]:
        return [name.strip() for name in self.methods.split(",") if name.strip()]

    @classmethod
    def defaults(cls, words: Sequence[str]) -> RaceArguments | None:
        config = preset_in(words)
        return None if config is None else cls(config=config)


def race_command(arguments: RaceArguments) -> None:
    execution = arguments.execution
    folder = OutputFolder(require_writable(arguments.drawings or execution.out / "race"))
    base = {name: entrant_config(name, arguments.config, arguments.operations) for name in arguments.entrants}
    tuned = _tuned(arguments, base) if len(arguments.lrs) > 1 else base
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
    folder.text("race.md", as_markdown(HEADINGS, rows))
    folder.text("race.tex", as_latex(HEADINGS, rows))
    folder.figure("race", draw_race(finishes, arguments.operations))
    if execution.json:
        print(json.dumps(result))
    elif not execution.quiet:
        asked = arguments.config
        title = f"{asked.task}, T = {asked.horizon}, {arguments.operations:.1e} operations each"
        Console(highlight=False).print(results_table(title, list(HEADINGS), [list(row) for row in rows]))
        Console(highlight=False).print(folder.note(), soft_wrap=True)


def _tuned(arguments: RaceArguments, base: dict[str, ChainConfig]) -> dict[str, ChainConfig]:
    """Each method with the learning rate that served it best on other seeds; the same trials for all."""
    trials = [
        (f"{name} {lr:g}", replace(config, seed=TUNING_SEED + i, optimizer=replace(config.optimizer, lr=lr)))
        for name, config in base.items()
        for lr in arguments.lrs
        for i in range(arguments.tuning_seeds)
    ]
    finishes = _finishes(trials, arguments, f"choosing learning rates, {len(trials)} runs")
    chosen = {}
    for name, config in base.items():
        own = [finish for finish in finishes if finish.entrant.rpartition(" ")[0] == name]
        best = standings(own, arguments.operations)[0].entrant
        chosen[name] = replace(config, optimizer=replace(config.optimizer, lr=float(best.rpartition(" ")[2])))
    return chosen


def _finishes(runs: Sequence[tuple[str, ChainConfig]], arguments: RaceArguments, title: str) -> list[Finish]:
    with own_files():
        prepared = [prepare(config) for _, config in runs]
    outcomes = train_side_by_side(prepared, arguments.execution, arguments.workers, title)
    found = []
    for (name, config), outcome in zip(runs, outcomes, strict=True):
        if outcome.run is None or outcome.state != "done":
            raise RunFailed(f"{config.label()} {outcome.state}: {outcome.error}; the same command goes on")
        found.append(finish_of(name, config.seed, outcome.run.summary()))
    return found


def draw_race(finishes: Sequence[Finish], operations: float) -> Figure:
    """The share of runs that have not internalized, against operations spent."""
    figure, panel = new_figure()
    for number, entrant in enumerate(dict.fromkeys(finish.entrant for finish in finishes)):
        points = waiting_shares([finish.cost for finish in finishes if finish.entrant == entrant])
        costs = [*(cost for cost, _ in points), operations]
        shares = [*(share for _, share in points), points[-1][1]]
        panel.step(
            costs,
            shares,
            where="post",
            label=entrant,
            color=PALETTE[number % len(PALETTE)],
            linestyle=LINES[number % len(LINES)],
        )
    panel.set_xlabel("operations of training")
    panel.set_ylabel("share not yet internalized")
    panel.set_ylim(-0.03, 1.03)
    panel.set_xlim(0, operations)
    panel.legend()
    return figure
