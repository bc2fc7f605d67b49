"""The cases of a figure as data, a base config, axes and seeds for each tier; and in what two tiers differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from internalize.configs.codec import to_json
from internalize.curricula import ScheduleConfig
from internalize.figures.rows import FigureRow
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.kinds.chain.presets import LAPTOP, LAPTOP_IN_ORDER, without_stages
from internalize.models.config import ModelConfig
from internalize.runs.table import dotted_fields
from internalize.runtime.kind import ExperimentConfig, Prepared
from internalize.sweeps import Case, Sweep, sweep_of

Tier = Literal["smoke", "toy", "laptop", "paper"]
TIERS: tuple[Tier, ...] = get_args(Tier)


@dataclass(frozen=True)
class Grid:
    """Every value of every axis with every entry of the zipped ones, over the base, for every seed."""

    base: ExperimentConfig
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zipped: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Axes that go together: the first values of all of them, then the second ones, …"""
    seeds: Sequence[int] = (0,)
    later: bool = False
    """Planned, and not carried out unless asked for: too long for now, or waiting for something else."""
    ours: bool = False
    """Of the paper's tier: not in the paper, and run beside its cases for a comparison."""

    def cases(self, name: str, seeds: Sequence[int] | None = None) -> tuple[Case, ...]:
        """seeds: others than the grid's own."""
        return sweep_of(
            name,
            self.base.kind,
            to_json(self.base, settled=False),
            grid=self.axes,
            zipped=self.zipped or None,
            seeds=list(self.seeds if seeds is None else seeds),
        ).cases


Tiers = Mapping[Tier, Sequence[Grid]]


def sweep_from(name: str, grids: Sequence[Grid], later: bool = False) -> Sweep:
    """One sweep of all grids, those for later too if wanted; a run that two of them ask for is there once."""
    known: dict[Any, Case] = {}
    for grid in grids:
        for case in grid.cases(name) if later or not grid.later else ():
            known.setdefault(case.prepared, case)
    return Sweep(name, tuple(known.values()))


def in_progress(grids: Sequence[Grid], missing: Collection[Prepared]) -> set[Prepared]:
    """The cases of grids for later of which runs are missing: they are not looked at before their end."""
    begun: set[Prepared] = set()
    for grid in (grid for grid in grids if grid.later):
        own = {case.prepared for case in grid.cases("")}
        begun |= own if own & set(missing) else set()
    return begun - {case.prepared for grid in grids if not grid.later for case in grid.cases("")}


Shapes = Sequence[tuple[ExperimentConfig, tuple[int, ...]]]
"""Each once: a config with its first seed, and all its seeds."""


def shapes_of(grids: Sequence[Grid], later: bool = False) -> Shapes:
    """Quicker than going through all cases."""
    found: dict[Prepared, tuple[int, ...]] = {}
    for grid in (grid for grid in grids if later or not grid.later):
        for case in grid.cases("", grid.seeds[:1]):
            known = found.get(case.prepared, ())
            found[case.prepared] = (*known, *(seed for seed in grid.seeds if seed not in known))
    return [(prepared.config, seeds) for prepared, seeds in found.items()]


def planned_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """The cases as rows without results."""
    return [{"kind": case.config.kind, **dotted_fields(case.config)} for case in sweep.cases]


# What a smaller tier changes against the paper ----------------------------------------------------------------

WORDS = {
    "horizon": "T",
    "method": "curricula",
    "model.depth": "depth",
    "model.width": "width d",
    "model.heads": "heads",
    "model.mlp": "MLP width",
    "model.positions": "positions",
    "schedule.kind": "schedule",
    "optimizer.lr": "learning rate",
    "model.init_std": "initial weights",
    "task": "tasks",
    "lr": "learning rate",
}
"""Fields that have a name in the paper."""
UNSAID = ("model.init_std", "held_out")
"""Fields of which the paper says nothing: what stands beside ours is a reading of it."""
SILENT = ("seed", "kernel", "log_every", "evaluation.", "schedule.")
"""Fields of which a reader of a caption need not know; the configs are in the report."""
MOST_VALUES = 8


def differences(ours: Shapes, paper: Shapes) -> list[str]:
    """`T: 10 (paper: 15, 20, 25)`, one line for each field whose values are not the same."""
    rows, rows_of_paper = ([_fields(config) for config, _ in shapes] for shapes in (ours, paper))
    lines = []
    for name in dict.fromkeys(name for row in [*rows, *rows_of_paper] for name in row):
        if name.startswith(SILENT) and name != "schedule.kind":
            continue
        mine, theirs = values_of(rows, name), values_of(rows_of_paper, name)
        if mine != theirs:
            word = WORDS.get(name, name.replace("_", " ").replace(".", " "))
            whose = "paper tier" if name in UNSAID else "paper"
            lines.append(f"{word}: {_told(mine)} ({whose}: {_told(theirs)})")
    counts = [sorted({len(seeds) for _, seeds in shapes}) for shapes in (ours, paper)]
    if counts[0] != counts[1]:
        lines.append(f"seeds: {_told(counts[0])} (paper tier: {_told(counts[1])})")
    return lines


def _fields(config: ExperimentConfig) -> dict[str, Any]:
    """By dotted names; an MLP of which nothing is said is four times as wide as the model."""
    row = dotted_fields(config)
    if "model.mlp" in row and row["model.mlp"] is None:
        row["model.mlp"] = 4 * row["model.width"]
    return row


def varied(rows: Sequence[FigureRow]) -> dict[str, list[Any]]:
    """Every field that takes more than one value, with its values."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: values for name in names if len(values := values_of(rows, name)) > 1}


def values_of(rows: Sequence[FigureRow], name: str) -> list[Any]:
    """The values of a field, each once, in order: C2 before C10."""
    found = {repr(row[name]): row[name] for row in rows if name in row}
    return sorted(found.values(), key=_order)


def _order(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        letters, number = re.match(r"(\D*)(\d*)", value).groups()  # type: ignore[union-attr]
        return 1, letters, int(number or 0), value
    return (0, value) if isinstance(value, int | float) else (2, str(value))


def _told(values: Sequence[Any]) -> str:
    texts = [_one(value) for value in values]
    if len(texts) > MOST_VALUES:
        texts = [*texts[:2], "…", texts[-1]]
    return ", ".join(texts) or "none"


def _one(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, float):
        return f"{value:.4g}"
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else str(value)


def coverage(shapes: Shapes, columns: Callable[[FigureRow, Sequence[FigureRow]], dict[str, Any]]) -> list[str]:
    """A line for a caption: how often a run sees an input, from the case that sees least to the one that sees
    most. The paper's premise is that runs see few of them."""
    cases = [{"kind": config.kind, **dotted_fields(config)} for config, _ in shapes]
    found = [columns(case, cases).get("views_within_budget") for case in cases]
    known = sorted(one for one in found if one is not None)
    if not known:
        return []
    between = " to ".join(dict.fromkeys(f"{end:,.2g}" for end in (known[0], known[-1])))
    return [f"Samples for each possible input, if all iterations are used: {between}."]


# Smoke: seconds for all figures together; nothing is learned

SMOKE = ChainConfig(
    task="C2",
    horizon=3,
    iterations=20,
    batch=8,
    model=ModelConfig(depth=1, width=8, heads=4),
    evaluation=EvaluationConfig(every=10, samples=20, final_samples=50),
    kernel="plain",
)
SMOKE_SEEDS = (0,)

# Toy: the first, small runs. Most inputs were seen many times, so that they support no claim

TOY = ChainConfig(
    task="C2",
    horizon=12,
    iterations=6_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
)
"""The paper's protocol at T = 12 and width 64."""
TOY_ADAPTIVE = ChainConfig(
    task="C2",
    horizon=10,
    iterations=8_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
    schedule=ScheduleConfig(kind="adaptive", stop_early=True),
    optimizer=OptimizerConfig(lr=5e-4),
)
TOY_HORIZONS = {"C2": 10, "C3": 8, "C5": 6, "S3": 6}

# Laptop: the paper's own cells where two cores can run them, elsewhere sizes that keep its premise (possible
# inputs far exceed training sequences). Settings are chosen on seeds 100 … 199, claims judged on 200 … 229.

INIT_STD = 0.057
"""Initial weights of the C_2 cell, of width 64: GPT-2's 0.02 times √(512/64). Chosen on tuning seeds by the
success of the inductive run alone: docs/readings.md."""
HELD_OUT = 0.05
"""Share of inputs that no training batch holds; accuracies are measured on these."""
SMALL_MODEL = ModelConfig(depth=1, width=64, heads=32, init_std=INIT_STD)

CELL = ChainConfig(task="C2", horizon=25, iterations=50_000, held_out=HELD_OUT, model=SMALL_MODEL)
"""The paper's own C_2 cell and protocol: equal stages, 50,000 iterations in all."""

ADAPTIVE = ChainConfig(
    task="C3",
    horizon=17,
    iterations=40_000,
    held_out=HELD_OUT,
    model=SMALL_MODEL,
    schedule=ScheduleConfig(kind="adaptive", stop_early=True),
    optimizer=OptimizerConfig(lr=5e-4),
    evaluation=EvaluationConfig(every=250),
)
"""Stages end when they are learned. Measured often, so that one sees when a run has internalized."""

LONG_RECIPE = replace(
    LAPTOP,
    task="C3",
    horizon=25,
    held_out=HELD_OUT,
    evaluation=EvaluationConfig(every=250, samples=500),
)
"""The laptop's recipe at the paper's own horizon, chosen on tuning seeds by how surely and how soon the left
curriculum ends: docs/cost.md. Measured often, so that one sees when a run has internalized."""
TWO_LAYERS = replace(
    LAPTOP_IN_ORDER, task="S3", horizon=13, held_out=HELD_OUT, evaluation=LONG_RECIPE.evaluation
)
"""For S_3, whose symbols do not commute. Chosen on a tuning seed: docs/lab-notes.md."""
LONG_ONE_STAGE = without_stages(replace(LONG_RECIPE, iterations=40_000), "cot")
"""CoT and E2E training at that horizon, with the same model and optimizer, until it is learned."""
RECIPE = replace(
    LONG_RECIPE,
    horizon=17,
    iterations=40_000,
    schedule=replace(LAPTOP.schedule, settle_for_less=None),
    rehearsal=0.5,
)
"""The recipe as it was when the smaller horizons were judged: it still rehearsed."""
ONE_STAGE = without_stages(replace(RECIPE, iterations=30_000), "cot")
"""CoT and E2E training with the same model and optimizer, until it is learned. The limit is above what the
recipe needs on these tasks, S_3 apart: a direct answer takes half the tokens of a chain."""

HORIZONS = {"C2": 25, "C3": 17, "C4": 13, "C5": 12, "C7": 10, "C8": 9, "C11": 8, "S3": 13}
"""The least T at which 40,000 iterations see less than a tenth of all inputs (C_2: a fifth)."""

JUDGING_SEEDS = range(200, 215)
TEN_SEEDS = range(200, 210)
FRESH_SEEDS = range(210, 230)
"""For a claim that is judged once more: none of these was run before in its setting."""
SIX_SEEDS = range(200, 206)
THREE_SEEDS = range(200, 203)
"""Where the unit of a claim is the task, more tasks say more than more seeds."""

# Paper: a cluster

PAPER = ChainConfig()
"""Depth 4, width 512, 128 heads, MLP 2048, T = 25, 50,000 iterations of fixed stages, AdamW at 3e-4."""
PAPER_SEEDS = range(200, 230)
"""As many as the main figure of the paper has; those below 50 have been looked at."""
S3_ITERATIONS = 200_000


def with_horizons(tasks: Sequence[str], horizons: dict[str, int]) -> dict[str, list[Any]]:
    """The zipped axes of a grid: tasks with their horizons."""
    return {"task": list(tasks), "horizon": [horizons[task] for task in tasks]}
