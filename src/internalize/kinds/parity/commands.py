"""`internalize parity` and `internalize parity diagram`: the theorem at work, and how far it can be relaxed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import torch
import tyro
from rich.console import Console

from internalize.configs.folders import make_folder
from internalize.configs.outputs import write_output
from internalize.configs.trust import own_files
from internalize.display.plots import save
from internalize.display.terminal import duration, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds import prepare
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.drawing import (
    draw_attention,
    draw_stall,
    draw_theorem,
    draw_threshold,
    draw_watch,
)
from internalize.kinds.parity.phase_diagram import (
    SCALED_SIZES,
    Grid,
    contrast_table,
    success_table,
    theorem_grids,
    threshold_grids,
)
from internalize.kinds.parity.stall import stall_table
from internalize.kinds.parity.watch import QUANTITIES
from internalize.runs.folder import Run
from internalize.runs.provenance import provenance
from internalize.runs.table import Table
from internalize.runtime.execution import Execution, threads
from internalize.runtime.fleet.seeds import SideBySide, finished, report_side_by_side
from internalize.runtime.report import observers_for, result_of
from internalize.runtime.train import train_prepared
from internalize.statistics import Interval
from internalize.tasks.parity import HiddenParity


@dataclass(frozen=True)
class ParityArguments:
    """One linear-attention layer learns a hidden parity out loud, then internalizes it, the proof watched."""

    config: Annotated[ParityConfig, tyro.conf.arg(name="")] = field(default_factory=ParityConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)
    draw: bool = False
    """Draw W after every phase, and the watch."""
    drawings: Path | None = None
    """Folder of the drawings and of the watch as CSV (with --seeds of a folder for each run); `drawings` in the
    run's folder if not given."""


def parity_command(arguments: ParityArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    wants = arguments.draw or arguments.drawings is not None
    good = not wants or execution.keep_stages == "all"
    require(good, "keep-stages", "must be all to draw W after every phase")
    with own_files():
        prepared = prepare(config)
    if arguments.many.seeds is not None:
        outcomes = arguments.many.train(prepared, execution)
        for run in finished(outcomes) if wants else ():
            folder = None if arguments.drawings is None else arguments.drawings / run.path.name
            _draw(run, folder, arguments)
        results = prepared.kind.results
        return report_side_by_side(outcomes, execution, results.columns, results.rates)
    run = train_prepared(prepared, execution, observers_for(prepared, execution))
    if wants:
        _draw(run, arguments.drawings, arguments)
    if execution.json:
        print(json.dumps(result_of(run)))
    elif not execution.quiet:
        _print_tables(run, config)
    return None


def _draw(run: Run, folder: Path | None, arguments: ParityArguments) -> None:
    folder = folder or run.path / "drawings"
    draw_run(run, arguments.config.d, folder)
    if not arguments.execution.quiet:
        errors_console().print(f"drawn in {folder}", soft_wrap=True)


def draw_run(run: Run, d: int, folder: Path) -> None:
    """attention.png and .svg, parity.json; where the proof was watched also watch.png, .svg and .csv."""
    phases, summary = evaluations(run), run.summary()
    parity = HiddenParity(d, tuple(summary["support"]))
    weights = {row["phase"]: run.weights(row["phase"])["W"] for row in phases}
    make_folder(folder, "drawings")
    save(draw_attention(parity, weights), folder / "attention")
    if "watch" in phases[0]:
        save(draw_watch(phases), folder / "watch")
        write_output(folder / "watch.csv", watch_table(phases).to_csv())
    record = {"config": run.identity().config, "summary": summary, "provenance": run.provenance()}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_output(folder / "parity.json", text)


def evaluations(run: Run) -> list[dict[str, Any]]:
    """One row a phase."""
    return list(run.metrics("evaluation"))


def watch_table(phases: list[dict[str, Any]]) -> Table:
    """One row a phase and quantity."""
    return Table([{"phase": row["phase"], **measured} for row in phases for measured in row["watch"]])


def _print_tables(run: Run, config: ParityConfig) -> None:
    console, phases, summary = Console(highlight=False), evaluations(run), run.summary()
    if "watch" in phases[0]:
        columns = ["quantity", "should be", "over the phases", "holds", "lemma"]
        rows = _watch_rows(watch_table(phases), len(phases))
        console.print(results_table("The proof, watched", columns, rows))
    else:
        rows = [[str(row["phase"]), f"{row['phase_steps']:,}", f"{row['loss']:.3g}",
                 "yes" if row["prefix_recovered"] else "no"] for row in phases]  # fmt: skip
        console.print(results_table("Phases", ["phase", "steps", "loss", "prefix found"], rows))
    console.print(results_table(config.label(), ["training", "result"], _result_rows(config, summary)))
    console.print(f"{duration(run.status()['seconds'])}, {run.path}", soft_wrap=True)


def _watch_rows(table: Table, phases: int) -> list[list[str]]:
    rows = []
    for name, written in QUANTITIES.items():
        found = list(table.where(quantity=name))
        values = [row["value"] for row in found]
        low, high = f"{min(values):.4g}", f"{max(values):.4g}"
        count = sum(row["holds"] for row in found)
        holds = "holds" if count == phases else "does not" if count == 0 else f"in {count} of {phases}"
        bound = f"{found[0]['relation']} {found[0]['bound']:.4g}"
        rows.append([written, bound, low if low == high else f"{low} … {high}", holds, found[0]["lemma"]])
    return rows


def _result_rows(config: ParityConfig, summary: Mapping[str, Any]) -> list[list[str]]:
    """What the curriculum reached, and direct training beside it."""
    where = f"{'all' if summary['exhaustive'] else 'drawn'} {summary['inputs_checked']:,}"
    proof = "; proved by W" if summary["proved_by_weights"] else ""
    failed = [name.replace("_", " ") for name, holds in summary["clauses"].items() if not holds]
    wrong = f"no: {', '.join(failed)}"
    rows = [
        ["curriculum: support found", _yes(summary["support_recovered"])],
        ["curriculum: direct answer exact", f"{_yes(summary['exact'])} ({where} inputs{proof})"],
        ["curriculum: chain after phase 1 exact", _yes(summary["chain_exact"])],
        ["curriculum: internalized, strictly", "yes" if summary["internalized"] else wrong],
        ["curriculum: phases", f"{summary['phases']} of {config.k}{', stalled' if summary['stalled'] else ''}"],
    ]
    if "direct_training_accuracy" in summary:
        reached = percent(summary["direct_training_accuracy"])
        best = f"best of several step sizes: {summary['direct_training_step_size']:.3g}"
        rows.append(["directly on the parity: exact", _yes(summary["direct_training_exact"])])
        rows.append(["directly on the parity: accuracy", f"{reached} ({best})"])
    return rows


def _yes(value: bool) -> str:
    return "yes" if value else "no"


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
