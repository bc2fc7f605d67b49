"""`internalize hints` and `internalize hints draw`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, get_args

import tyro

from internalize.configs.codec import changed_fields
from internalize.configs.files import make_folder, require_writable, write_output
from internalize.configs.named import own_files
from internalize.display.plots import draw_hint_accuracy, save
from internalize.display.terminal import PlainConsole, duration, percent, results_table
from internalize.errors import require
from internalize.kinds import prepare
from internalize.kinds.hints.config import HintsConfig, Method
from internalize.runs.folder import Run
from internalize.runs.location import find_folders
from internalize.runs.provenance import for_others, provenance
from internalize.runs.table import Table
from internalize.runtime.execution import Execution, announce, observers_for, result_of
from internalize.runtime.fleet.seeds import SideBySide, exit_code, finished, train_side_by_side
from internalize.runtime.kind import prepare_by
from internalize.runtime.train import train_prepared
from internalize.statistics import SUCCESS, Rate


@dataclass(frozen=True)
class HintsArguments:
    """Train a ReLU network on a Boolean function, with its circuit's gates as hints that are taken away."""

    # no default of its own: a config that is made already has its preset filled in
    config: Annotated[HintsConfig, tyro.conf.arg(name="")]
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)
    compare: bool = False
    """Train direct, curriculum and mixture, and draw them side by side."""
    drawings: Path | None = None
    """Folder for the figure and the tables of --compare; `hints` in the folder of the runs if not given."""


@dataclass(frozen=True)
class HintsDrawArguments:
    """Draw accuracy against training samples from finished runs that differ in method and seed alone."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """The runs: folders, unique parts of their names, beginnings of their hashes, patterns such as 'C7-*', or
    latest."""
    out: Path = Path("hints")
    """Folder for the figure and the tables."""
    json: bool = False
    """Print one JSON object with the results, last."""


def hints_command(arguments: HintsArguments) -> int | None:
    config, execution = arguments.config, arguments.execution
    require_writable(execution.out)
    if arguments.drawings is not None:
        require_writable(arguments.drawings, "drawings")
    with own_files():
        prepared = prepare(config)
    if not execution.quiet:
        announce(prepared, execution)
    if not arguments.compare and arguments.many.is_one_run():
        _report(train_prepared(prepared, execution, observers_for(prepared, execution)), execution)
        return None
    every = arguments.many.with_seeds(prepared)
    if arguments.compare:
        kind = prepared.kind
        every = [prepare_by(kind, replace(one.config, method=m)) for one in every for m in METHODS]
    outcomes = train_side_by_side(every, execution, arguments.many.workers, f"{len(every)} runs with hints")
    runs = finished(outcomes)
    if runs:
        folder = (arguments.drawings or execution.out / "hints") if arguments.compare else None
        present(in_order(runs), folder, execution.json, execution.quiet)
    return exit_code(outcomes)


def _report(run: Run, execution: Execution) -> None:
    """One finished run: a table for people, or one JSON object."""
    summary, seconds = run.summary(), run.status()["seconds"]
    if execution.json:
        print(json.dumps(result_of(run)))
    if execution.json or execution.quiet:
        return
    rows = [
        [meaning, percent(summary[f"{name}accuracy"]), " … ".join(map(percent, summary[f"{name}interval"]))]
        for name, meaning in MEANINGS.items()
    ]
    console = PlainConsole()
    console.print(results_table(_title([run]), ["answers that are right", "", "95 % interval"], rows))
    failed = [name.replace("_", " ") for name, holds in summary["clauses"].items() if not holds]
    verdict = "yes" if summary["internalized"] else "no" + (f" ({', '.join(failed)})" if failed else "")
    gap = (
        f"gap of the risks {summary['risk_gap']:+.4f}, {'all' if summary['risk_gap_exact'] else 'drawn'} inputs"
    )
    console.print(f"h(x) internalizes stage 1's g with hints: {verdict}; {gap}")
    console.print(f"{summary['steps']:,} steps, {duration(seconds)}, {run.path}", soft_wrap=True)


MEANINGS = {
    "": "g, every hint replaced",
    "subnetwork_": "h(x), as defined",
    "folded_": "h(x), neutral hints folded in",
    "hinted_": "g with all hints",
    "noisy_": "g, every hint replaced, noisy labels",
}
"""Which accuracy is what."""


def hints_draw_command(arguments: HintsDrawArguments) -> None:
    runs = in_order([Run.at(path) for path in find_folders(arguments.runs, "runs")])
    present(runs, arguments.out, arguments.json, quiet=False)


def present(runs: Sequence[Run], folder: Path | None, as_json: bool, quiet: bool) -> None:
    """The runs as a table or as JSON, and where a folder is given as a figure and files."""
    ends = end_rows(runs)
    methods = method_rows(ends)
    if folder is not None:
        write_comparison(runs, ends, methods, folder)
    if as_json:
        places = {"drawings": None if folder is None else str(folder)}
        with_paths = [{"run": str(run.path), **row} for run, row in zip(runs, ends, strict=True)]
        print(json.dumps({"runs": with_paths, "methods": methods, **places}))
    elif not quiet:
        console = PlainConsole()
        console.print(
            results_table(f"{_title(runs)}: accuracy without hints", COLUMNS, [_cells(row) for row in methods])
        )
        if folder is not None:
            console.print(f"drawn in {folder}", soft_wrap=True)


COLUMNS = ["method", "runs", "mean", "least", "most", "h(x)", "> 95 %", "time"]
"""Accuracies without hints, over the seeds."""


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["method"],
        str(row["runs"]),
        *(percent(row[f"accuracy_{name}"]) for name in ("mean", "least", "most")),
        percent(row["subnetwork_accuracy_mean"]),
        f"{row['succeeded']} of {row['runs']}",
        duration(row["seconds_mean"]),
    ]


def _title(runs: Sequence[Run]) -> str:
    config = runs[0].identity().config
    name = (
        f"parity of {config['k']} of {config['d']} bits" if config["circuit"] == "parity" else config["circuit"]
    )
    return f"{name}, width {config['width']}, {config['steps']:,} steps of {config['batch']}"


def write_comparison(
    runs: Sequence[Run], ends: list[dict[str, Any]], methods: list[dict[str, Any]], folder: Path
) -> None:
    """hints.png and .svg, curves.csv (one row for each measurement), ends.csv (for each run), hints.json."""
    import torch

    config = runs[0].identity().config
    rows = curve_rows(runs)
    make_folder(folder, "drawings")
    save(draw_hint_accuracy(curves(rows), config["label_noise"], _title(runs)), folder / "hints")
    write_output(folder / "curves.csv", Table(rows).to_csv())
    write_output(folder / "ends.csv", Table(ends).to_csv())
    shared = {name: value for name, value in config.items() if name not in ("method", "seed")}
    record = {
        "config": shared,
        "methods": methods,
        "runs": [run.path.name for run in runs],
        "provenance": for_others(runs[0].provenance()),
        "drawn": provenance(torch.device("cpu")),
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_output(folder / "hints.json", text)


# Runs side by side -----------------------------------------------------------------------------------------

MEASURED = ("accuracy", "subnetwork_accuracy", "folded_accuracy")
METHODS: tuple[Method, ...] = get_args(Method)


def in_order(runs: Sequence[Run]) -> list[Run]:
    """By method and seed; refused unless method and seed are all in which they differ."""
    require(len(runs) >= 1, "runs", "must be at least one run")
    for run in runs:
        kind = run.identity().kind
        require(kind == "hints", "runs", f"{run.path} is a run of the kind {kind}, not hints")
        run.summary()  # refuses one that is not finished
        other = changed_fields(runs[0].identity().config, run.identity().config)
        other = [name for name in other if name not in ("method", "seed")]
        require(not other, "runs", f"{run.path} and {runs[0].path} differ in {', '.join(other)} too")
    return sorted(runs, key=lambda run: (METHODS.index(_of(run, "method")), _of(run, "seed")))


def _of(run: Run, field: str) -> Any:
    return run.identity().config[field]


def curve_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a measurement: method, seed, step, samples and the accuracies without hints."""
    return [
        {"method": _of(run, "method"), "seed": _of(run, "seed"), "step": row["step"], "samples": row["samples"]}
        | {name: row[name] for name in MEASURED}
        for run in runs
        for row in run.metrics("evaluation")
    ]


def end_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run: its final accuracies and what the definition says."""
    rows = []
    for run in runs:
        summary = run.summary()
        rows.append(
            {"method": _of(run, "method"), "seed": _of(run, "seed"), "steps": summary["steps"]}
            | {name: summary[name] for name in (*MEASURED, "hinted_accuracy", "noisy_accuracy")}
            | {"risk_gap": summary["risk_gap"], "internalized": summary["internalized"]}
            | {"seconds": run.status()["seconds"]}
        )
    return rows


def curves(
    rows: Sequence[dict[str, Any]], value: str = "accuracy"
) -> dict[str, list[list[tuple[float, float]]]]:
    """Rows with method, seed, samples and the value → method → for every seed its points."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        found.setdefault(row["method"], {}).setdefault(row["seed"], []).append((row["samples"], row[value]))
    return {method: list(seeds.values()) for method, seeds in found.items()}


def method_rows(ends: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a method: mean, least and most accuracy, and how many runs succeeded."""
    rows = []
    for method in dict.fromkeys(row["method"] for row in ends):
        own = [row for row in ends if row["method"] == method]
        row: dict[str, Any] = {"method": method, "runs": len(own)}
        for name in MEASURED:
            values = [run[name] for run in own]
            row |= {f"{name}_mean": fmean(values), f"{name}_least": min(values), f"{name}_most": max(values)}
        succeeded = Rate(sum(run["accuracy"] > SUCCESS for run in own), len(own))
        row |= {"succeeded": succeeded.successes, "succeeded_low": succeeded.interval.low}
        row |= {"succeeded_high": succeeded.interval.high, "internalized": sum(r["internalized"] for r in own)}
        row["seconds_mean"] = fmean(run["seconds"] for run in own)
        rows.append(row)
    return rows
