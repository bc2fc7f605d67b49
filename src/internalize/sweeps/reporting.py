"""What the commands say: tables and lines for people, objects for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table as RichTable

from internalize.display.terminal import duration, results_table
from internalize.experiments.execution import Execution
from internalize.sweeps.collecting import Collected, Group
from internalize.sweeps.costs import Costs
from internalize.sweeps.planning import Gpu, Plan
from internalize.sweeps.running import Standing, SweepOutcome
from internalize.sweeps.sweep import Case, Sweep

MOST_ROWS = 20
WIDE = 200
"""Characters a line where there is no terminal that would break it."""


def results_console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


def announcement(
    sweep: Sweep, now: Standing, seconds: Sequence[float] | None, workers: int, execution: Execution
) -> RenderableType:
    """How many runs, what is done already, how long the rest takes and how much it writes."""
    counts = now.counts()
    parts = [f"{number} {word}" for word, number in counts.items() if number or word == "to do"]
    kinds = ", ".join(dict.fromkeys(case.config.kind for case in sweep.cases))
    first = f"{sweep.name}: {len(sweep.cases):,} runs of {kinds}: {', '.join(parts)}"
    if seconds is None:
        return first
    costs = Costs(execution)
    disk = sum(costs(sweep.cases[index].config).disk_bytes for index in now.todo)
    at_least = max(sum(seconds) / workers, *seconds)
    second = f"about {duration(at_least)} on {workers} worker{'' if workers == 1 else 's'} of this machine"
    second += f" ({duration(sum(seconds))} of one core)"
    second += f" and {_bytes(disk)} on disk" if disk else ""
    return Stack(_cases_table(sweep, now, seconds), first, second)


def _cases_table(sweep: Sweep, now: Standing, seconds: Sequence[float]) -> RichTable:
    """A row for all seeds of a case."""
    each = dict(zip(now.todo, seconds, strict=True))
    rows: dict[str, list[int]] = {}
    for index, case in enumerate(sweep.cases):
        rows.setdefault(_without_seed(case), []).append(index)
    table = results_table(sweep.name, ["case", "runs", "to do", "time each"], [])
    for name, indexes in list(rows.items())[:MOST_ROWS]:
        todo = [each[index] for index in indexes if index in each]
        mean = duration(sum(todo) / len(todo)) if todo else ""
        table.add_row(name, str(len(indexes)), str(len(todo)), mean)
    if len(rows) > MOST_ROWS:
        table.add_row(f"… and {len(rows) - MOST_ROWS} more cases", "", "", "")
    return table


def _without_seed(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.fields.items() if name != "seed") or "(base)"


def outcome_lines(outcome: SweepOutcome, file: str, quiet: bool) -> list[str]:
    """What failed and why; then the totals and what to do next."""
    lines = []
    for case, ended in zip(outcome.sweep.cases, outcome.outcomes, strict=True):
        if ended.state == "failed":
            times = f" (tried {ended.attempts} times)" if ended.attempts > 1 else ""
            lines.append(f"[red]failed[/red]{times}: {case}: {ended.error}")
    if quiet:
        return lines
    counts = Counter(ended.state for ended in outcome.outcomes)
    lines.append(f"{outcome.sweep.name}: {len(outcome.done)} of {len(outcome.outcomes)} done"
                 + (f", {counts['failed']} failed" if counts["failed"] else "")
                 + (f", {len(outcome.interrupted)} not finished" if outcome.interrupted else ""))  # fmt: skip
    if outcome.interrupted:
        lines.append("interrupted; the same command goes on")
    elif outcome.failed:
        lines.append("failed runs are left as they are; --retry-failed tries them again")
    if outcome.done:
        lines.append(f"results: internalize collect {file}")
    return lines


def outcome_as_json(outcome: SweepOutcome) -> dict[str, Any]:
    return {
        "sweep": outcome.sweep.name,
        "runs": len(outcome.outcomes),
        "done": len(outcome.done),
        "failed": [
            {"case": dict(case.fields), "error": ended.error, "attempts": ended.attempts}
            for case, ended in zip(outcome.sweep.cases, outcome.outcomes, strict=True)
            if ended.state == "failed"
        ],
        "not_finished": len(outcome.interrupted),
        "folders": [str(ended.run.path) for ended in outcome.done if ended.run is not None],
    }


# Collecting ----------------------------------------------------------------------------------------------


def groups_table(name: str, groups: Sequence[Group], by: Sequence[str], results: Sequence[str]) -> RichTable:
    """Rates of the finished runs with Wilson intervals of 95 %."""
    rows = []
    for group in groups:
        finished = str(group.finished) + (f" of {group.planned}" if group.finished < group.planned else "")
        rates = [str(group.rates[result]) if result in group.rates else "–" for result in results]
        rows.append([*(str(value) for value in group.fields.values()), finished, *rates])
    headings = [*by, "runs", *(result.replace("_", " ") for result in results)]
    return results_table(f"{name}: share of finished runs, 95 % intervals (Wilson)", headings, rows)


def groups_as_json(groups: Sequence[Group]) -> list[dict[str, Any]]:
    return [
        {
            "fields": group.fields,
            "finished": group.finished,
            "planned": group.planned,
            "rates": {
                name: {"count": r.successes, "of": r.trials, "interval": [r.interval.low, r.interval.high]}
                for name, r in group.rates.items()
            },
        }
        for group in groups
    ]


def collected_text(collected: Collected) -> str:
    """How many runs are in, and each that is not, with the reason."""
    lines = [f"{len(collected.rows)} of {len(collected.sweep.cases)} runs finished"]
    reasons: dict[str, list[Case]] = {}
    for case, reason in collected.missing:
        reasons.setdefault(reason, []).append(case)
    for reason, cases in reasons.items():
        some = "; ".join(map(str, cases[:3])) + ("; …" if len(cases) > 3 else "")
        lines.append(f"missing {len(cases)}, {reason}: {some}")
    return "\n".join(lines)


# Planning ------------------------------------------------------------------------------------------------


def plans_table(plans: Sequence[Plan], gpu: Gpu, name: str, utilisation: float) -> RenderableType:
    counts = [on.gpus for on in plans[0].on]
    headings = ["sweep", "runs", "EFLOP", "disk", "memory", "longest"]
    headings += [f"{count} GPU{'s' if count > 1 else ''}" for count in counts]
    rows = [_plan_row(one) for one in plans]
    stated = (
        f"{name}: {gpu.fp32_tflops:g} TFLOP/s in fp32, {gpu.bf16_tflops:g} in bf16, {100 * utilisation:g} % of "
        f"it used, {gpu.dollars_per_hour:g} $/h.\nOperations are counted; the rest is stated, not measured."
    )
    return Stack(results_table("plan", headings, rows), stated)


def _plan_row(one: Plan) -> list[str]:
    return [
        one.name,
        f"{one.runs:,}",
        f"{one.flops / 1e18:.3g}",
        _bytes(one.disk_bytes),
        _bytes(one.memory_bytes),
        _hours(one.longest_hours),
        *(f"{_hours(on.hours)}\n{on.dollars:,.0f} $" for on in one.on),
    ]


def _hours(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.1f} h" if hours >= 0.1 else duration(3600 * hours)


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.0f} kB" if count else "–"
