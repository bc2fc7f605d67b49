"""`internalize parity diagram`: success over many seeds, the contrast with direct training, and the stall."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from rich.console import Console

from internalize.configs.folders import make_folder
from internalize.display.plots import save
from internalize.display.terminal import duration, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds.parity.diagram_drawing import draw_stall, draw_theorem, draw_threshold
from internalize.kinds.parity.phase_diagram import (
    SCALED_SIZES,
    Grid,
    contrast_table,
    success_table,
    theorem_grids,
    threshold_grids,
)
from internalize.kinds.parity.stall import stall_table
from internalize.runs.provenance import provenance
from internalize.runs.table import Table
from internalize.runtime.execution import threads
from internalize.statistics import Interval

Which = Literal["theorem", "threshold", "stall", "contrast"]


@dataclass(frozen=True)
class DiagramArguments:
    """How far the theorem's constants can be relaxed, and what training without rounding needs."""

    which: tuple[Which, ...] = get_args(Which)
    """theorem (B/d³, η·d, T/d), threshold (no rounding), stall (why it stalls), contrast (direct training)."""
    d: int = 20
    """Coordinates of an input."""
    k: int = 9
    """Coordinates of the hidden parity."""
    seeds: int = 30
    """Runs a point, with the seeds 0, 1, …"""
    out: Path = Path("diagrams")
    """Folder for the tables (CSV), the pictures and where they are from."""
    quiet: bool = False
    """No progress, no tables: errors only."""
    json: bool = False
    """Print one JSON object with all tables, last."""

    def __post_init__(self) -> None:
        require(self.d >= 2, "d", f"must be at least 2, got {self.d}")
        require(2 <= self.k <= self.d, "k", f"must lie in 2…d = {self.d}, got {self.k}")
        require(self.seeds >= 1, "seeds", f"must be at least 1, got {self.seeds}")
        require(len(self.which) >= 1, "which", f"must name some of {', '.join(get_args(Which))}")
        unknown = [name for name in self.which if name not in get_args(Which)]
        require(not unknown, "which", f"must be some of {', '.join(get_args(Which))}, got {unknown}")


def diagram_command(arguments: DiagramArguments) -> None:
    make_folder(arguments.out, "out")
    makers: dict[Which, Callable[[DiagramArguments], Table]] = {
        "theorem": lambda a: _grids(theorem_grids(a.d, a.k), a),
        "threshold": lambda a: _grids(threshold_grids(a.d, a.k), a),
        "stall": lambda a: stall_table(a.d, a.k, a.seeds, _progress(a)),
        "contrast": lambda a: contrast_table(SCALED_SIZES, a.seeds, _progress(a)),
    }
    tables = {}
    for name in dict.fromkeys(arguments.which):
        started = time.perf_counter()
        with threads(1):
            table = makers[name](arguments)
        tables[name] = table.rows
        _write(name, table, arguments, time.perf_counter() - started)
    if arguments.json:
        print(json.dumps({"out": str(arguments.out), **tables}))


def _grids(grids: list[Grid], arguments: DiagramArguments) -> Table:
    return Table([row for grid in grids for row in success_table(grid, arguments.seeds, _progress(arguments))])


def _progress(arguments: DiagramArguments) -> Callable[[str], None]:
    console = errors_console()
    return (lambda text: None) if arguments.quiet else lambda text: console.print(text, soft_wrap=True)


def _write(name: Which, table: Table, arguments: DiagramArguments, seconds: float) -> None:
    """The table, its picture, and where both are from."""
    stem = arguments.out / name
    stem.with_suffix(".csv").write_text(table.to_csv(), encoding="utf-8")
    record = {
        "settings": {"d": arguments.d, "k": arguments.k, "seeds": arguments.seeds},
        "seconds": round(seconds, 1),
        "provenance": provenance(torch.device("cpu")),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    stem.with_suffix(".json").write_text(text, encoding="utf-8")
    if name != "contrast":
        pictures = {"theorem": draw_theorem, "threshold": draw_threshold}
        save(pictures[name](table) if name in pictures else draw_stall(table, arguments.d), stem)
    if not (arguments.quiet or arguments.json):
        console = Console(highlight=False)
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
