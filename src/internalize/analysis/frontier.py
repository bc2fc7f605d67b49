"""How far a recipe gets: the largest horizon internalized within a budget, and how the cost grows with it.

The search and the fitted law are pure functions of outcomes; the command trains and is at the end.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro

from internalize.analysis.output import OutputFolder
from internalize.configs.codec import to_json
from internalize.configs.files import require_writable
from internalize.configs.named import own_files
from internalize.contract import Row, RunState, Stage
from internalize.display.plots import PALETTE, new_figure
from internalize.display.terminal import PlainConsole, errors_console, results_table
from internalize.errors import Interrupted, RunFailed, require
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.presets import LAPTOP, PresetName, preset_in
from internalize.kinds.entrance import run_folder, train
from internalize.runs.folder import Run
from internalize.runs.provenance import provenance, seconds_at, seconds_in_all
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.seeds import MOST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESAMPLES = 2_000
MOST_MINUTES = 366 * 24 * 60


@dataclass(frozen=True)
class Frontier:
    """What a search found."""

    largest: int | None
    """The largest horizon that was reached; None if not even the first was."""
    smallest_missed: int | None
    """The smallest horizon beyond it that was not reached; None if the search ended before it missed one."""
    tried: tuple[tuple[int, bool], ...]
    """Every horizon and whether it was reached, in the order tried."""


def search(reached: Callable[[int], bool], first: int, most: int, resolution: int = 1) -> Frontier:
    """Double the horizon until it is missed, then halve the gap until it is small enough. Each is tried once.

    Takes it that what is missed once is missed beyond, too: between outcomes that contradict this, the one
    that the halving meets decides.
    """
    tried: dict[int, bool] = {}

    def attempt(horizon: int) -> bool:
        if horizon not in tried:
            tried[horizon] = reached(horizon)
        return tried[horizon]

    low, high = None, None
    horizon = first
    while high is None:
        if attempt(horizon):
            low = horizon
            if horizon == most:
                break
            horizon = min(2 * horizon, most)
        else:
            high = horizon
    while low is not None and high is not None and high - low > resolution:
        middle = (low + high) // 2
        if attempt(middle):
            low = middle
        else:
            high = middle
    return Frontier(low, high, tuple(tried.items()))


@dataclass(frozen=True)
class Law:
    """cost = factor · T^exponent, by least squares on logarithms."""

    factor: float
    exponent: float
    low: float | None
    high: float | None
    """95 % of the exponents from runs drawn again with replacement, horizon by horizon; None where a horizon
    has only one run, which would be drawn every time."""
    runs: int

    def __str__(self) -> str:
        within = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.factor:.3g} · T^{self.exponent:.2f}{within}, {self.runs} runs"


def fit_law(costs: Sequence[tuple[int, float]], seed: int = 0) -> Law | None:
    """costs: (T, cost) of every run that internalized; None for fewer than two horizons.

    Runs that did not internalize are left out: the law says what success costs, not how likely it is.
    """
    horizons = sorted({horizon for horizon, _ in costs})
    if len(horizons) < 2:
        return None
    logs = {t: np.log([cost for horizon, cost in costs if horizon == t]) for t in horizons}
    slope, constant = _line(logs)
    if min(map(len, logs.values())) < 2:
        return Law(math.exp(constant), slope, None, None, len(costs))
    random = np.random.default_rng(seed)
    slopes = [_line({t: random.choice(own, len(own)) for t, own in logs.items()})[0] for _ in range(RESAMPLES)]
    low, high = np.percentile(slopes, [2.5, 97.5])
    return Law(math.exp(constant), slope, float(low), float(high), len(costs))


def _line(logs: dict[int, np.ndarray]) -> tuple[float, float]:
    x = np.concatenate([np.full(len(own), math.log(t)) for t, own in logs.items()])
    slope, constant = np.polyfit(x, np.concatenate(list(logs.values())), 1)
    return float(slope), float(constant)


@dataclass(frozen=True)
class FrontierArguments:
    """The largest T that a recipe internalizes within a budget of processor time, and what it costs by T."""

    minutes: float = 20.0
    """Processor time that each run may take. A later, larger budget goes on with the same runs."""
    seeds: int = 4
    """Runs at each horizon, with the seeds from --seed up."""
    share: float = 0.5
    """A horizon is reached if at least this share of its runs internalize."""
    first: int = 4
    """The horizon to begin with; doubled until it is missed."""
    most: int = 64
    """The largest horizon to try."""
    resolution: int = 1
    """The search ends when the largest T that was reached and the least that was missed are so near. Runs that
    are out of time cost most, and every halving has some: 4 or 8 saves hours."""
    drawings: Path | None = None
    """Folder for table and figure; `frontier` in the folder of the runs if not given."""
    preset: PresetName | None = None
    """The recipe where no field is given; laptop if not given."""
    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: LAPTOP)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)

    def __post_init__(self) -> None:
        good = 0 < self.minutes <= MOST_MINUTES
        require(good, "minutes", f"must be more than 0, and at most a year, got {self.minutes:g}")
        require(1 <= self.seeds <= MOST, "seeds", f"must lie in 1…{MOST:,}, got {self.seeds}")
        require(0 < self.share <= 1, "share", f"must lie in (0, 1], got {self.share}")
        good = 1 <= self.first <= self.most
        require(good, "first", f"must lie in 1…{self.most} (--most), got {self.first}")

        require(self.resolution >= 1, "resolution", f"must be at least 1, got {self.resolution}")

    @classmethod
    def defaults(cls, words: Sequence[str]) -> FrontierArguments:
        return cls(config=preset_in(words, otherwise="laptop") or LAPTOP)


class Deadline:
    """Stops the run that it watches when its processor time is used up, with a checkpoint to go on from."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False

    def begin(self, folder: Path, stage: Stage) -> None:
        self._end = time.process_time() + self.seconds - (seconds_in_all(Run(folder)) or 0.0)

    def stepped(self, stage: Stage) -> None:
        if time.process_time() > self._end and not self.passed:
            self.passed = True
            os.kill(os.getpid(), signal.SIGTERM)

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: RunState, summary: Row) -> None: ...


def frontier_command(arguments: FrontierArguments) -> None:
    execution = arguments.execution
    folder = OutputFolder(require_writable(arguments.drawings or execution.out / "frontier"))
    rows: list[dict[str, Any]] = []

    def reached(horizon: int) -> bool:
        own = [run_row(arguments, horizon, arguments.config.seed + i) for i in range(arguments.seeds)]
        rows.extend(own)
        through = sum(row["seconds"] is not None for row in own)
        if not execution.quiet:
            errors_console().print(f"T = {horizon}: {through} of {len(own)} internalized in time")
        return through >= arguments.share * len(own)

    found = search(reached, arguments.first, arguments.most, arguments.resolution)
    through = [row for row in rows if row["seconds"] is not None]
    law = fit_law([(row["horizon"], float(row["operations"])) for row in through])
    result = {
        "task": arguments.config.task,
        "minutes": arguments.minutes,
        "largest": found.largest,
        "smallest_missed": found.smallest_missed,
        "tried": [list(pair) for pair in found.tried],
        "operations_law": None if law is None else vars(law),
        "runs": rows,
        "config": to_json(arguments.config),
        "provenance": provenance(resolve_device(execution.device)),
    }
    folder.json("frontier", result)
    folder.csv("frontier", rows)
    folder.figure("frontier", draw_frontier(rows, str(law) if law else ""))
    if execution.json:
        print(json.dumps(result))
    elif not execution.quiet:
        _say(arguments, rows, found.largest, str(law) if law else "too few horizons", folder)


def _say(
    arguments: FrontierArguments,
    rows: Sequence[dict[str, Any]],
    largest: int | None,
    law: str,
    folder: OutputFolder,
) -> None:
    table = [
        [str(row["horizon"]), str(row["seed"]), row["ended"], _told(row["seconds"], "{:.0f} s"),
         _told(row["operations"], "{:.2e}")]
        for row in sorted(rows, key=lambda row: (row["horizon"], row["seed"]))
    ]  # fmt: skip
    console = PlainConsole()
    title = f"{arguments.config.task}: largest T within {arguments.minutes:g} minutes: {largest or 'none'}"
    console.print(results_table(title, ["T", "seed", "ended", "processor", "operations"], table))
    console.print(f"operations to internalize: {law}")
    console.print(folder.note(), soft_wrap=True)


def _told(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def run_row(arguments: FrontierArguments, horizon: int, seed: int) -> dict[str, Any]:
    """Train one run, or go on with it, until it ends or its time is used up."""
    config = replace(arguments.config, horizon=horizon, seed=seed)
    execution, limit = arguments.execution, 60 * arguments.minutes
    row: dict[str, Any] = {"horizon": horizon, "seed": seed, "ended": "out of time"}
    row |= {"seconds": None, "operations": None, "stage": None}
    with own_files():
        before = run_folder(config, execution.out)
    begun = before.exists() and not execution.fresh
    if begun and (seconds_in_all(Run(before)) or 0.0) >= limit and _state(before) != "done":
        return row
    deadline = Deadline(limit)
    try:
        run = train(config, execution, [deadline])
    except Interrupted:
        if not deadline.passed:
            raise
        return row
    except RunFailed as problem:
        return row | {"ended": f"failed: {problem}"}
    summary = run.summary()
    row |= {"ended": summary.get("gave_up") or "not internalized", "stage": summary["stage"]}
    if summary["internalized"] and summary["iterations_to_internalize"] is not None:
        seconds = seconds_at(run, summary["iterations_to_internalize"])
        row["ended"] = "out of time"
        if seconds is not None and seconds <= limit:
            row |= {"ended": "internalized", "seconds": round(seconds, 1)}
            row["operations"] = summary["operations_to_internalize"]
    return row


def _state(folder: Path) -> str:
    return str(Run(folder).status()["state"])


def draw_frontier(rows: Sequence[dict[str, Any]], law: str) -> Figure:
    """Operations until internalized against T, on logarithmic axes; crosses below for runs that did not."""
    figure, panel = new_figure()
    through = [row for row in rows if row["operations"] is not None]
    lost = [row for row in rows if row["operations"] is None]
    if through:
        costs = [row["operations"] for row in through]
        panel.plot(
            [row["horizon"] for row in through], costs, "o", color=PALETTE[0], label=f"internalized {law}"
        )
        panel.set_yscale("log")
    if lost:
        floor = min((row["operations"] for row in through), default=1.0)
        horizons = [row["horizon"] for row in lost]
        panel.plot(horizons, [floor] * len(lost), "x", color=PALETTE[1], label="not in time")
    panel.set_xscale("log", base=2)
    panel.set_xlabel("horizon T")
    panel.set_ylabel("operations until internalized")
    panel.legend()
    return figure
