"""Runs or groups of runs side by side, paired by seed where there are several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from internalize.configs.codec import changed_fields
from internalize.contract import RunState, named
from internalize.display.terminal import interval_of, plain
from internalize.errors import BadInput, require
from internalize.runs.folder import Run
from internalize.runs.location import find_folders, is_pattern, run_folders
from internalize.runs.table import flat
from internalize.statistics import Rate, wilson
from internalize.statistics.groups import mcnemar, paired_difference


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
    if is_pattern(name):
        folders = find_folders([name], "runs")
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


def _values(one: Run, other: Run) -> dict[str, list[Any]]:
    """Field → its value in the one run and in the other."""
    both = [flat(run.identity().to_json()) for run in (one, other)]
    names = dict.fromkeys(name for values in both for name in values)
    found = {name.removeprefix("config."): [values.get(name) for values in both] for name in names}
    return {name: values for name, values in found.items() if values[0] != values[1]}


def _alone(group: Group, metric: str, values: dict[int, float]) -> dict[str, Any]:
    """The metric's mean with its interval, and the share of successes with Wilson's."""
    successes = _successes(group.runs.values())
    rate = None if successes is None else wilson(sum(successes), len(successes))
    return {
        "name": group.name,
        "runs": len(group.runs),
        "unfinished": group.unfinished,
        "damaged": group.damaged,
        "mean": fmean(values.values()),
        "mean_interval": _interval(group, metric, list(values.values())),
        "succeeded": None if successes is None else sum(successes),
        "success_interval": None if rate is None else [rate.low, rate.high],
    }


def _successes(runs: Iterable[Run]) -> list[bool] | None:
    """Which of the runs succeeded; None for kinds that know no success."""
    found = [run.summary().get("succeeded") for run in runs]
    return None if None in found else [bool(won) for won in found]


def _interval(group: Group, metric: str, values: list[float]) -> list[float] | None:
    """Student's over several runs; for one run, that of its measurement, where it has one."""
    if len(values) == 1:
        (run,) = group.runs.values()
        found: list[float] | None = run.summary().get(interval_of(metric))
        return found if metric.endswith("accuracy") else None
    spread = paired_difference([0.0] * len(values), values).interval
    return None if spread is None else [spread.low, spread.high]


def _against(first: Group, other: Group, before: dict[int, float], after: dict[int, float]) -> dict[str, Any]:
    """Over the seeds that both have; what else differs between the two configs is named."""
    seeds = sorted(before.keys() & after.keys())
    if len(before) == len(after) == 1:  # two single runs are one pair, whatever their seeds
        pairs = [(next(iter(before)), next(iter(after)))]
    else:
        pairs = [(seed, seed) for seed in seeds]
    examples = next(iter(first.runs.values())), next(iter(other.runs.values()))
    result: dict[str, Any] = {
        "first": first.name,
        "second": other.name,
        "fields": _different_fields(*examples),
        "values": _values(*examples),
        "pairs": len(pairs),
    }
    if not pairs:
        return result
    found = paired_difference([before[a] for a, _ in pairs], [after[b] for _, b in pairs])
    won = [_successes(group.runs[pair[i]] for pair in pairs) for i, group in enumerate((first, other))]
    return {
        **result,
        "difference": found.mean,
        "interval": None if found.interval is None else [found.interval.low, found.interval.high],
        "mcnemar_p": None if won[0] is None or won[1] is None else mcnemar(won[0], won[1]),
    }


def comparison_cells(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What `compare` found as headings and rows, for documents: one row for each group."""
    rows = []
    for group, pair in zip(result["groups"], [None, *result["differences"]], strict=True):
        paired = pair is not None and bool(pair["pairs"])
        rows.append(
            [
                plain(group["name"]),
                str(group["runs"]),
                _with_interval(result["metric"], group["mean"], group["mean_interval"]),
                "–" if group["succeeded"] is None else str(Rate(group["succeeded"], group["runs"])),
                _with_interval(result["metric"], pair["difference"], pair["interval"], "+") if paired else "–",
                f"{pair['mcnemar_p']:.3g}" if paired and pair["mcnemar_p"] is not None else "–",
            ]
        )
    return ["runs of", "runs", f"mean {named(result['metric'])}", "succeeded", "difference", "McNemar p"], rows


def _with_interval(metric: str, value: float, interval: list[float] | None, sign: str = "") -> str:
    """`98.3 % [97.9, 98.6]` of an accuracy, `+1.2 points [+0.3, +2.1]` of a difference; others as they are."""
    share = metric.endswith("accuracy")
    unit = "" if not share else " points" if sign else " %"
    told = [f"{100 * v:{sign}.1f}" if share else f"{v:{sign}.4g}" for v in (value, *(interval or ()))]
    return f"{told[0]}{unit}" + (f" [{told[1]}, {told[2]}]" if interval else "")


def _told(values: dict[str, list[Any]]) -> str:
    """`method (left, cot), model.width (32, 64)`: the first run's value, then the second's."""
    shown = {name: ["–" if v is None else str(v) for v in pair] for name, pair in values.items()}
    return ", ".join(f"{name} ({one}, {other})" for name, (one, other) in shown.items()) or "nothing"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _success_told(group: dict[str, Any]) -> str:
    if group["succeeded"] is None:
        return ""
    low, high = group["success_interval"]
    return f"; succeeded {group['succeeded']} of {group['runs']} [{100 * low:.0f} %, {100 * high:.0f} %]"


def comparison_text(result: dict[str, Any]) -> str:
    """What `compare` found, for people."""
    lines = [named(result["metric"])]
    for group in result["groups"]:
        mean = _with_interval(result["metric"], group["mean"], group["mean_interval"])
        left_out = f", {group['unfinished']} unfinished left out" if group["unfinished"] else ""
        runs = _counted(group["runs"], "run")
        lines.append(f"  {group['name']}: mean {mean} over {runs}{_success_told(group)}{left_out}")
        lines += [f"  {group['name']}: left out, damaged: {reason}" for reason in group["damaged"]]
    for pair in result["differences"]:
        lines += ["", f"{pair['second']} against {pair['first']}", f"  differ in: {_told(pair['values'])}"]
        if not pair["pairs"]:
            lines.append("  no seed in common: nothing to pair")
            continue
        found = _with_interval(result["metric"], pair["difference"], pair["interval"], "+")
        alone = "" if pair["interval"] else ": no interval"
        lines.append(f"  difference {found}, over {_counted(pair['pairs'], 'pair')}{alone}")
        if pair["pairs"] > 1 and pair["mcnemar_p"] is not None:  # one pair tells nothing about seeds
            lines.append(f"  successes: McNemar's exact test p = {pair['mcnemar_p']:.3g}")
    return plain("\n".join(lines))
