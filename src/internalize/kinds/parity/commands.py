"""`internalize parity`: the theorem at work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from internalize.configs.files import make_folder, require_writable, write_output
from internalize.configs.named import own_files
from internalize.display.plots import save
from internalize.display.terminal import PlainConsole, duration, errors_console, percent, results_table
from internalize.errors import require
from internalize.kinds import prepare
from internalize.kinds.parity.config import ParityConfig
from internalize.runs.folder import Run
from internalize.runs.provenance import for_others
from internalize.runs.table import Table
from internalize.runtime.execution import Execution, observers_for, result_of
from internalize.runtime.fleet.seeds import SideBySide, finished, report_side_by_side
from internalize.runtime.train import train_prepared
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


Which = Literal["theorem", "threshold", "stall", "contrast"]
MOST_SEEDS = 10_000


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
    """Folder for the rows of the runs, the tables (CSV), the pictures and where they are from."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""
    train: bool = True
    """Whether runs that have no row in the folder yet are carried out; if not, all rows must be there."""
    fresh: bool = False
    """Make all rows anew."""
    quiet: bool = False
    """No progress, no tables: errors only."""
    json: bool = False
    """Print one JSON object with all tables, last."""

    def __post_init__(self) -> None:
        require(self.d >= 2, "d", f"must be at least 2, got {self.d}")
        require(2 <= self.k <= self.d, "k", f"must lie in 2…d = {self.d}, got {self.k}")
        require(1 <= self.seeds <= MOST_SEEDS, "seeds", f"must lie in 1…{MOST_SEEDS:,}, got {self.seeds:,}")
        good = self.workers is None or self.workers >= 1
        require(good, "workers", f"must be at least 1, got {self.workers}")
        require(len(self.which) >= 1, "which", f"must name some of {', '.join(get_args(Which))}")
        unknown = [name for name in self.which if name not in get_args(Which)]
        require(not unknown, "which", f"must be some of {', '.join(get_args(Which))}, got {unknown}")


def parity_command(arguments: ParityArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    wants = arguments.draw or arguments.drawings is not None
    good = not wants or execution.keep_stages == "all"
    require(good, "keep-stages", "must be all to draw W after every phase")
    if arguments.drawings is not None:
        require_writable(arguments.drawings, "drawings")
    with own_files():
        prepared = prepare(config)
    if not arguments.many.is_one_run():
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
    from internalize.kinds.parity.drawing import draw_attention, draw_watch

    phases, summary = evaluations(run), run.summary()
    parity = HiddenParity(d, tuple(summary["support"]))
    weights = {row["phase"]: run.weights(row["phase"])["W"] for row in phases}
    make_folder(folder, "drawings")
    save(draw_attention(parity, weights), folder / "attention")
    if "watch" in phases[0]:
        save(draw_watch(phases), folder / "watch")
        write_output(folder / "watch.csv", watch_table(phases).to_csv())
    record = {"config": run.identity().config, "summary": summary, "provenance": for_others(run.provenance())}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_output(folder / "parity.json", text)


def evaluations(run: Run) -> list[dict[str, Any]]:
    """One row a phase."""
    return list(run.metrics("evaluation"))


def watch_table(phases: list[dict[str, Any]]) -> Table:
    """One row a phase and quantity."""
    return Table([{"phase": row["phase"], **measured} for row in phases for measured in row["watch"]])


def _print_tables(run: Run, config: ParityConfig) -> None:
    console, phases, summary = PlainConsole(), evaluations(run), run.summary()
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
    from internalize.kinds.parity.watch import QUANTITIES

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
    wrong = f"no: {', '.join(failed)}" if failed else "not refuted on the inputs drawn, and not proved"
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
