"""Runs or groups of runs side by side, paired by seed where there are several."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from internalize.configs.codec import changed_fields
from internalize.configs.files import is_standard_output
from internalize.contract import RunState
from internalize.display.terminal import plain
from internalize.errors import BadInput, require
from internalize.runs.folder import Run
from internalize.runs.index import Entry, Filter, Store
from internalize.runs.location import run_folders, runs_folder
from internalize.runs.view import as_json, listing
from internalize.statistics import wilson
from internalize.statistics.groups import mcnemar, paired_difference

if TYPE_CHECKING:
    from internalize.runs.table import Table


@dataclass(frozen=True)
class Group:
    """Runs under one name; by seed, finished ones only."""

    name: str
    runs: dict[int, Run]
    unfinished: int
    damaged: list[str] = field(default_factory=list)
    """Of each run that cannot be read: file and reason."""

    def values(self, metric: str) -> dict[int, float]:
        found = {}
        for seed, run in self.runs.items():
            summary = run.summary()
            known = ", ".join(name for name, v in summary.items() if isinstance(v, int | float))
            require(metric in summary, "metric", f"{run.path} has no {metric}; known: {known}")
            value = summary[metric]
            require(isinstance(value, int | float), "metric", f"{metric} is not a number; known: {known}")
            found[seed] = float(value)
        return found


def compare(names: Sequence[str], metric: str) -> dict[str, Any]:
    """Every group by itself, and each against the first."""
    groups = [find_group(name) for name in names]
    values = [group.values(metric) for group in groups]
    return {
        "metric": metric,
        "groups": [_alone(group, metric, found) for group, found in zip(groups, values, strict=True)],
        "differences": [
            _against(groups[0], group, values[0], found)
            for group, found in zip(groups[1:], values[1:], strict=True)
        ],
    }


def find_group(name: str) -> Group:
    """The runs that a folder, a hash, a folder of runs or a pattern names."""
    path = Path(name)
    if any(letter in name for letter in "*?["):
        folders = [found for found in sorted(path.parent.glob(path.name)) if (found / "config.json").is_file()]
        require(bool(folders), "runs", f"no run matches {name}")
    elif path.is_dir() and not (path / "config.json").is_file():
        folders = [Path(folder) for folder, _ in run_folders(path)]
        require(bool(folders), "runs", f"there are no runs in {name}")
    else:
        folders = [Run.open(name, "runs").path]
    runs: dict[int, Run] = {}
    unfinished = 0
    damaged: list[str] = []
    for folder in folders:
        try:
            run = Run.at(folder, "runs")
            seed, status = _seed(run), run.status()
        except BadInput as error:
            if len(folders) == 1:
                raise
            damaged.append(error.message)
            continue
        if status["state"] == RunState.DAMAGED:
            damaged.append(status["message"])
            continue
        if status["state"] != RunState.DONE:
            unfinished += 1
            continue
        if seed in runs:
            fields = _different_fields(runs[seed], run)
            raise BadInput(
                "runs", f"{name} has two runs of seed {seed} that differ in {fields}: name them apart"
            )
        runs[seed] = run
    why = f"; damaged: {'; '.join(damaged[:3])}" if damaged else ""
    require(bool(runs), "runs", f"{name} has no finished run{why}")
    return Group(name, runs, unfinished, damaged)


def _seed(run: Run) -> int:
    seed = run.identity().config.get("seed", 0)
    good = isinstance(seed, int) and not isinstance(seed, bool)
    require(good, "runs", f"{run.path / 'config.json'} has a seed that is no whole number")
    return int(seed)


def _different_fields(one: Run, other: Run) -> str:
    changed = changed_fields(one.identity().to_json(), other.identity().to_json())
    return ", ".join(name.removeprefix("config.") for name in changed) or "nothing"


def _alone(group: Group, metric: str, values: dict[int, float]) -> dict[str, Any]:
    """The metric's mean with its interval, and the share of successes with Wilson's."""
    successes = [bool(run.summary().get("succeeded")) for run in group.runs.values()]
    rate = wilson(sum(successes), len(successes))
    return {
        "name": group.name,
        "runs": len(group.runs),
        "unfinished": group.unfinished,
        "damaged": group.damaged,
        "mean": fmean(values.values()),
        "mean_interval": _interval(group, metric, list(values.values())),
        "succeeded": sum(successes),
        "success_interval": [rate.low, rate.high],
    }


def _interval(group: Group, metric: str, values: list[float]) -> list[float] | None:
    """Student's over several runs; for one run, that of its measurement, where it has one."""
    if len(values) == 1:
        (run,) = group.runs.values()
        found: list[float] | None = run.summary().get(metric.replace("_accuracy", "_interval"))
        return found if metric.endswith("_accuracy") else None
    spread = paired_difference([0.0] * len(values), values).interval
    return None if spread is None else [spread.low, spread.high]


def _against(first: Group, other: Group, before: dict[int, float], after: dict[int, float]) -> dict[str, Any]:
    """Over the seeds that both have; what else differs between the two configs is named."""
    seeds = sorted(before.keys() & after.keys())
    if len(before) == len(after) == 1:  # two single runs are one pair, whatever their seeds
        pairs = [(next(iter(before)), next(iter(after)))]
    else:
        pairs = [(seed, seed) for seed in seeds]
    changed = _different_fields(next(iter(first.runs.values())), next(iter(other.runs.values())))
    result: dict[str, Any] = {"first": first.name, "second": other.name, "fields": changed, "pairs": len(pairs)}
    if not pairs:
        return result
    found = paired_difference([before[a] for a, _ in pairs], [after[b] for _, b in pairs])
    won = [
        [bool(group.runs[pair[i]].summary().get("succeeded")) for pair in pairs]
        for i, group in enumerate((first, other))
    ]
    return {
        **result,
        "difference": found.mean,
        "interval": None if found.interval is None else [found.interval.low, found.interval.high],
        "mcnemar_p": mcnemar(won[0], won[1]),
    }


def comparison_text(result: dict[str, Any]) -> str:
    """What `compare` found, for people."""
    lines = [f"{result['metric']}"]
    for group in result["groups"]:
        low, high = group["success_interval"]
        mean = group["mean_interval"]
        spread = f" [{mean[0]:.4g}, {mean[1]:.4g}]" if mean else ""
        left_out = f", {group['unfinished']} unfinished left out" if group["unfinished"] else ""
        lines.append(
            f"  {group['name']}: mean {group['mean']:.4g}{spread} over {group['runs']} run(s); succeeded "
            f"{group['succeeded']} of {group['runs']} [{100 * low:.0f} %, {100 * high:.0f} %]{left_out}"
        )
        lines += [f"  {group['name']}: left out, damaged: {reason}" for reason in group["damaged"]]
    for pair in result["differences"]:
        lines += ["", f"{pair['second']} against {pair['first']}", f"  differ in: {pair['fields']}"]
        if not pair["pairs"]:
            lines.append("  no seed in common: nothing to pair")
            continue
        interval = pair["interval"]
        spread = (
            f"95 % interval [{interval[0]:+.4g}, {interval[1]:+.4g}]" if interval else "one pair: no interval"
        )
        lines.append(f"  difference {pair['difference']:+.4g} over {pair['pairs']} pair(s), {spread}")
        lines.append(f"  successes: McNemar's exact test p = {pair['mcnemar_p']:.3g}")
    return plain("\n".join(lines))


State = Literal["new", "running", "interrupted", "failed", "done", "damaged"]


@dataclass(frozen=True)
class Selection:
    """Which runs."""

    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    task: str | None = None
    """Only runs of this task, circuit or game, such as C7."""
    method: str | None = None
    """Only runs of this method, such as left."""
    status: State | None = None
    """Only runs in this state."""
    min_accuracy: float | None = None
    """Only finished runs with at least this accuracy in distribution, between 0 and 1."""

    def __post_init__(self) -> None:
        good = self.min_accuracy is None or 0 <= self.min_accuracy <= 1
        require(good, "min-accuracy", f"must lie in 0…1, got {self.min_accuracy}")

    def filter(self) -> Filter:
        return Filter(self.task, self.method, self.status, self.min_accuracy)

    def entries(self) -> list[Entry]:
        return Store(self.out).entries(self.filter())


@dataclass(frozen=True)
class RunsArguments:
    """List runs: all of them, or those of a task, a method, a state or an accuracy."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    rebuild: bool = False
    """Make the index anew from the folders first."""
    json: bool = False
    """Print one JSON list."""


def runs_command(arguments: RunsArguments) -> None:
    if arguments.rebuild:
        Store(arguments.which.out).rebuild()
    entries = arguments.which.entries()
    if arguments.json:
        print(json.dumps([as_json(entry) for entry in entries]))
        return
    if entries:
        # a file or another program gets whole names, whatever the width of the terminal beside it
        print(listing(entries, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    print(f"{len(entries):,} run{'' if len(entries) == 1 else 's'} in {arguments.which.out}")


@dataclass(frozen=True)
class RunsShowArguments:
    """A run's config, results and curves."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder, or the beginning of its hash."""
    json: bool = False
    """Print one JSON object, with all rows of metrics."""


def runs_show_command(arguments: RunsShowArguments) -> None:
    from internalize.runs.folder import Run
    from internalize.runs.view import described, description

    run = Run.open(arguments.run)
    print(json.dumps(described(run)) if arguments.json else description(run))


@dataclass(frozen=True)
class RunsCompareArguments:
    """Runs or groups of runs side by side, with intervals; groups are paired by seed."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Two or more of: a run's folder, the beginning of a hash, a folder of runs, or a pattern of names such as
    'runs/C7-T25-left-*'. The first is what the others are compared with."""
    metric: str = "id_accuracy"
    """The entry of the results whose differences are looked at."""
    json: bool = False
    """Print one JSON object."""


def runs_compare_command(arguments: RunsCompareArguments) -> None:
    require(len(arguments.runs) >= 2, "runs", f"needs at least two to compare, got {len(arguments.runs)}")
    result = compare(arguments.runs, arguments.metric)
    print(json.dumps(result) if arguments.json else comparison_text(result))


@dataclass(frozen=True)
class RunsExportArguments:
    """All runs as one table: a line a run, with its config and results in columns."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    csv: Path | None = None
    """File to write, with commas between the columns; - is standard output."""
    parquet: Path | None = None
    """File to write, for pandas, polars, duckdb and others. Needs the extra `parquet`."""
    public: bool = False
    """Before the folders are handed on: look in each for what its owner would not publish (paths, names, keys,
    own files, strangers' files). What is found is listed, nothing is written, and the exit code is 1."""


def runs_export_command(arguments: RunsExportArguments) -> int:
    from internalize.runs.table import export_table

    named = arguments.csv is not None or arguments.parquet is not None
    require(named or arguments.public, "csv", "name a file to write: --csv FILE or --parquet FILE")
    entries = arguments.which.entries()
    if arguments.public and _has_private_matters(arguments.which.out, entries):
        return 1
    for line in write_files(export_table(entries), arguments.csv, arguments.parquet):
        print(line)
    return 0


def _has_private_matters(out: Path, entries: list[Entry]) -> bool:
    """Say what the folders of these runs hold that is nobody's business."""
    from internalize.display.terminal import plain
    from internalize.runs.doctor import private_matters

    found = [f"{out / entry.path}/{line}" for entry in entries for line in private_matters(out / entry.path)]
    for line in found:
        print(plain(line))
    print(f"{len(entries):,} runs looked at, {len(found):,} remarks", file=sys.stderr)
    return bool(found)


def write_files(table: Table, csv: Path | None, parquet: Path | None) -> list[str]:
    """Write a table of runs to the files that are named; returns a line about each."""
    from internalize.runs.table import write_csv, write_parquet

    lines = []
    for option, path, write in (("csv", csv, write_csv), ("parquet", parquet, write_parquet)):
        if path is None:
            continue
        try:
            write(table, path)
        except BrokenPipeError:  # its reader has seen enough
            raise
        except OSError as error:
            raise BadInput(option, f"cannot write {path}: {error.strerror}") from None
        if not is_standard_output(path):  # a remark would stand among the rows
            lines.append(f"{len(table):,} runs, {len(table.columns)} columns: {path}")
    return lines
