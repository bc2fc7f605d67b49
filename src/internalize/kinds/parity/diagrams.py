"""`internalize parity diagram`: how far the theorem's constants can be relaxed, over many seeds.

Every run here is the experiment of `internalize parity` or of `stall.py`. They are thousands and small: one row
of each is kept in the folder of the diagrams, and tables and pictures are made from the rows. Success is a fact
about the final weights (`evaluation.direct_by_weights`), which holds for all 2^d inputs at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from internalize.configs.files import make_folder, write_output
from internalize.contract import Ended, Event
from internalize.display.plots import save
from internalize.display.terminal import PlainConsole, duration, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds.parity.commands import DiagramArguments, Which
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.drawing import draw_stall, draw_theorem, draw_threshold
from internalize.kinds.parity.kind import KIND
from internalize.kinds.parity.stall import KIND as STALL
from internalize.kinds.parity.stall import stall_configs, stall_table
from internalize.runs.provenance import provenance
from internalize.runs.table import Table
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.driver import Outcome
from internalize.runtime.fleet.pool import execute_rows, rows_by_identity
from internalize.runtime.kind import Prepared, prepare_by
from internalize.statistics import Interval, wilson

CHECKED = 1_024
"""Inputs on which a run's final answers are checked, beside the proof by weights, which decides."""
TOLD = 20
"""How often progress is told."""


# What is computed -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiagramGrid:
    """A diagram's points: each is a config, and what it is called along the axes."""

    name: str
    points: tuple[tuple[dict[str, float], ParityConfig], ...]


BATCHES = (1 / 512, 1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 4, 1.0, 4.0)
SCALED_SIZES = ((8, 3), (12, 5), (16, 7), (20, 9))
STEP_SIZES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0)
LENGTHS = (1.0, 2.0, 4.0, 8.0, 20.0, 40.0)
THRESHOLDS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
THRESHOLD_STEP_SIZES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
THRESHOLD_BATCHES = (128, 256, 512, 1024, 2048, 4096, 16384)


def theorem_grids(d: int, k: int) -> list[DiagramGrid]:
    """B/d³ for several d; B/d³ against η·d, and T/d against η·d, for this d and k."""

    def point(d: int, k: int, batch: float = 4.0, eta: float = 1.0, length: float = 20.0) -> ParityConfig:
        steps = max(1, round(length * d))
        return ParityConfig(d=d, k=k, batch=max(1, round(batch * d**3)), step_size=eta / d, steps=steps)

    lines = [({"B/d³": b}, point(n, m, batch=b)) for n, m in SCALED_SIZES for b in BATCHES]
    wide = [({"η·d": e, "B/d³": b}, point(d, k, batch=b, eta=e)) for e in STEP_SIZES for b in BATCHES]
    long = [({"η·d": e, "T/d": t}, point(d, k, eta=e, length=t)) for e in STEP_SIZES for t in LENGTHS]
    return [
        DiagramGrid("batch", tuple(lines)),
        DiagramGrid("batch-step", tuple(wide)),
        DiagramGrid("length-step", tuple(long)),
    ]


def threshold_grids(d: int, k: int) -> list[DiagramGrid]:
    """The threshold against η at the paper's B, and against B at the paper's η."""
    point = partial(ParityConfig, d=d, k=k, regime="threshold")
    steps: Sequence[tuple[dict[str, float], ParityConfig]] = [
        ({"η": e, "threshold": t}, point(step_size=e, threshold=t))
        for e in THRESHOLD_STEP_SIZES
        for t in THRESHOLDS
    ]
    batches: Sequence[tuple[dict[str, float], ParityConfig]] = [
        ({"batch": b, "threshold": t}, point(batch=b, threshold=t))
        for b in THRESHOLD_BATCHES
        for t in THRESHOLDS
    ]
    return [DiagramGrid("threshold-step", tuple(steps)), DiagramGrid("threshold-batch", tuple(batches))]


def grids_of(which: Which, d: int, k: int) -> list[DiagramGrid]:
    return theorem_grids(d, k) if which == "theorem" else threshold_grids(d, k)


def configs_of(which: Which, d: int, k: int, seeds: int) -> list[Any]:
    """Every run of a diagram: point by point, and of a point seed by seed."""
    if which == "stall":
        return list(stall_configs(d, k, seeds))
    if which == "contrast":
        points = [ParityConfig(d=n, k=m, wandering=True) for n, m in SCALED_SIZES]
    else:
        points = [config for grid in grids_of(which, d, k) for _, config in grid.points]
    small = partial(replace, watch=False, contrast=which == "contrast", check_inputs=CHECKED)
    return [small(point, seed=seed) for point in points for seed in range(seeds)]


# Tables from rows -----------------------------------------------------------------------------------------

Kept = Mapping[str, Any]
"""What is kept of a run: its summary and its last measurement; nothing of one that diverged."""


def success_table(grids: Sequence[DiagramGrid], runs: Sequence[Kept], seeds: int) -> Table:
    """One row for each point: how often the direct answer and the chain were exact, with intervals."""
    points = [(grid, axes, config) for grid in grids for axes, config in grid.points]
    rows = []
    for i, (grid, axes, config) in enumerate(points):
        own = runs[i * seeds : (i + 1) * seeds]
        done = [run for run in own if "summary" in run]
        exact = sum(run["summary"]["proved_by_weights"] for run in done)
        interval = wilson(exact, seeds)
        row: dict[str, float | int | str | None] = {
            "diagram": grid.name,
            "d": config.d,
            "k": config.k,
            "B": config.examples,
            "eta": config.eta,
            "T": config.most_steps,
            **axes,
            "seeds": seeds,
            "exact": exact,
            "low": interval.low,
            "high": interval.high,
            "chain_exact": sum(run["summary"]["chain_exact"] for run in done),
        }
        if not config.rounds:
            losses = [run["last"]["loss"] for run in done if run["summary"]["stalled"]]
            diverged = len(own) - len(done)
            row |= {"stalled": len(losses) + diverged, "stalled_loss": _mean(losses)}
        rows.append(row)
    return Table(rows)


def contrast_table(runs: Sequence[Kept], seeds: int) -> Table:
    """The curriculum and direct training side by side, for every (d, k)."""
    rows = []
    for i, (d, k) in enumerate(SCALED_SIZES):
        config = ParityConfig(d=d, k=k)
        own = [run["summary"] for run in runs[i * seeds : (i + 1) * seeds] if "summary" in run]
        exact = sum(summary["proved_by_weights"] for summary in own)
        direct = sum(summary["direct_training_exact"] for summary in own)
        accuracies = [summary["direct_training_accuracy"] for summary in own]
        ours, theirs = wilson(exact, seeds), wilson(direct, seeds)
        rows.append(
            {
                "d": d,
                "k": k,
                "examples": k * config.examples,
                "steps": k * config.most_steps,
                "seeds": seeds,
                "curriculum_exact": exact,
                "curriculum_low": ours.low,
                "curriculum_high": ours.high,
                "direct_exact": direct,
                "direct_low": theirs.low,
                "direct_high": theirs.high,
                "direct_mean_accuracy": _mean(accuracies),
                "direct_best_accuracy": max(accuracies, default=None),
                "wandering_exact": sum(summary["wandering_training_exact"] for summary in own),
            }
        )
    return Table(rows)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# The command ----------------------------------------------------------------------------------------------


def diagram_command(arguments: DiagramArguments) -> int | None:
    make_folder(arguments.out, "out")
    tables = {}
    for name in dict.fromkeys(arguments.which):
        started = time.perf_counter()
        configs = configs_of(name, arguments.d, arguments.k, arguments.seeds)
        kind = STALL if name == "stall" else KIND
        prepared = [prepare_by(kind, config) for config in configs]
        outcomes = _carry_out(name, prepared, arguments) if arguments.train else []
        if lost := [outcome for outcome in outcomes if outcome.row is None]:
            _say(f"{name}: {len(lost)} runs have no row: {lost[0].error or lost[0].state}; the others are kept")
            return max(outcome.exit_code for outcome in lost) or 1
        runs = read_kept(prepared, arguments.out)
        if name == "stall":
            ended = [
                (config, run["summary"]) for config, run in zip(configs, runs, strict=True) if "summary" in run
            ]
            table = stall_table([config for config, _ in ended], [summary for _, summary in ended])
        elif name == "contrast":
            table = contrast_table(runs, arguments.seeds)
        else:
            table = success_table(grids_of(name, arguments.d, arguments.k), runs, arguments.seeds)
        tables[name] = table.rows
        _write(name, table, arguments, time.perf_counter() - started)
    if arguments.json:
        print(json.dumps({"out": str(arguments.out), **tables}))
    return None


def read_kept(prepared: Sequence[Prepared], folder: Path) -> list[Kept]:
    """The rows of these runs, in their order; nothing is trained."""
    rows = rows_by_identity(folder)
    missing = sum(one.identity.digest() not in rows for one in prepared)
    require(
        missing == 0, "out", f"{folder} has no row of {missing} of {len(prepared)} runs: leave out --no-train"
    )
    return [rows[one.identity.digest()] for one in prepared]


def _carry_out(name: str, prepared: Sequence[Prepared], arguments: DiagramArguments) -> list[Outcome]:
    execution = Execution(device="cpu", fresh=arguments.fresh, quiet=arguments.quiet)
    observer = None if arguments.quiet else Count(name)
    return execute_rows(prepared, arguments.out, execution, arguments.workers, observer)


class Count:
    """Tells now and then how many runs have ended."""

    def __init__(self, name: str) -> None:
        self.name, self.runs, self.ended = name, 0, 0

    def begin(self, names: Sequence[str]) -> None:
        self.runs = len(names)

    def event(self, index: int, event: Event) -> None:
        if isinstance(event, Ended):
            self.ended += 1
            if self.ended * TOLD // self.runs > (self.ended - 1) * TOLD // self.runs:
                _say(f"{self.name}: {self.ended:,} of {self.runs:,} runs")

    def end(self) -> None: ...


def _say(text: str) -> None:
    errors_console().print(text, soft_wrap=True, markup=False, emoji=False)


def _write(name: Which, table: Table, arguments: DiagramArguments, seconds: float) -> None:
    """The table, its picture, and where both are from."""
    stem = arguments.out / name
    write_output(stem.with_suffix(".csv"), table.to_csv())
    record = {
        "settings": {"d": arguments.d, "k": arguments.k, "seeds": arguments.seeds},
        "seconds": round(seconds, 1),
        "provenance": provenance(torch.device("cpu")),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_output(stem.with_suffix(".json"), text)
    if name != "contrast":
        pictures = {"theorem": draw_theorem, "threshold": draw_threshold}
        save(pictures[name](table) if name in pictures else draw_stall(table, arguments.d), stem)
    if not (arguments.quiet or arguments.json):
        console = PlainConsole()
        if name == "contrast":
            console.print(_contrast_shown(table))
        console.print(f"{name}: {len(table)} points in {duration(seconds)}, {stem}.csv", soft_wrap=True)


def _contrast_shown(table: Table) -> Any:
    rows = [
        [
            f"d = {row['d']}, k = {row['k']}",
            _rate(row, "curriculum"),
            _rate(row, "direct"),
            percent(row["direct_mean_accuracy"]),
            str(row["wandering_exact"]),
        ]
        for row in table
    ]
    columns = ["", "curriculum exact", "direct exact", "accuracy", "beyond stability"]
    return results_table("As many examples and steps; direct training at its best step size", columns, rows)


def _rate(row: dict[str, Any], who: str) -> str:
    interval = Interval(row[f"{who}_low"], row[f"{who}_high"])
    return f"{row[f'{who}_exact']} of {row['seeds']} [{percent(interval.low)}, {percent(interval.high)}]"
