"""What the commands say: tables and lines for people, objects for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table as RichTable
from rich.text import Text

from internalize.contract import RunState, named
from internalize.display.terminal import PlainConsole, duration, percent, results_table
from internalize.sweeps.collection import Collected, FieldGroup
from internalize.sweeps.plan import Gpu, Plan
from internalize.sweeps.run import Standing, SweepOutcome
from internalize.sweeps.sweep import Case, Sweep

MOST_ROWS = 20
MOST_NAMED = 50
"""Missing runs that are named for one reason; the JSON has all."""
WIDE = 200
"""Characters a line where there is no terminal that would break it."""

# Names and errors are somebody's text: `list[int]` is no markup here, and `:x:` no picture.


def results_console() -> Console:
    width = None if sys.stdout.isatty() else WIDE
    return PlainConsole(markup=False, emoji=False, width=width)


def remarks_console() -> Console:
    """For the error stream, so that results can be piped."""
    return PlainConsole(stderr=True, markup=False, emoji=False)


def announcement(
    sweep: Sweep, now: Standing, seconds: Sequence[float] | None, workers: int, disk: float
) -> RenderableType:
    """How many runs, what is done already, how long the rest takes and how much it writes.

    seconds: of each run to do; None if nobody knows. disk: bytes of them all.
    """
    parts = [f"{number} {word}" for word, number in now.counts().items() if number or word == "to do"]
    kinds = ", ".join(dict.fromkeys(case.config.kind for case in sweep.cases))
    lines = [f"{sweep.name}: {len(sweep.cases):,} runs of {kinds}: {', '.join(parts)}"]
    if disk:
        lines.append(f"about {_bytes(disk)} on disk")
    if not seconds:
        return Stack(*lines)
    at_least = max(sum(seconds) / workers, *seconds)
    where = f"on {workers} worker{'' if workers == 1 else 's'} of this machine"
    lines.append(f"about {duration(at_least)} {where} ({duration(sum(seconds))} of one core)")
    return Stack(_cases_table(sweep, now, seconds), *lines)


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


def outcome_lines(outcome: SweepOutcome, collecting: str, quiet: bool) -> list[Text]:
    """What failed and why; then the totals and what to do next.

    collecting: the command that reads the results.
    """
    lines = []
    for case, ended in zip(outcome.sweep.cases, outcome.outcomes, strict=True):
        lost = (
            ended.state == RunState.INTERRUPTED and ended.exit_code == 1
        )  # its worker was killed, again and again
        if ended.state == RunState.FAILED or lost:
            times = f" (tried {ended.attempts} times)" if ended.attempts > 1 else ""
            lines.append(Text.assemble((ended.state, "red"), f"{times}: {case}: {ended.error}"))
    if quiet:
        return lines
    counts = Counter(ended.state for ended in outcome.outcomes)
    said = [f"{outcome.sweep.name}: {len(outcome.done)} of {len(outcome.outcomes)} done"
            + (f", {counts[RunState.FAILED]} failed" if counts[RunState.FAILED] else "")
            + (f", {len(outcome.interrupted)} not finished" if outcome.interrupted else "")]  # fmt: skip
    if outcome.interrupted:
        said.append("interrupted; the same command goes on")
    elif outcome.failed:
        said.append("failed runs are left as they are; --retry-failed tries them again")
    if outcome.done:
        said.append(f"results: {collecting}")
    return lines + [Text(line) for line in said]


def outcome_as_json(outcome: SweepOutcome) -> dict[str, Any]:
    return {
        "sweep": outcome.sweep.name,
        "runs": len(outcome.outcomes),
        "done": len(outcome.done),
        "failed": [
            {"case": dict(case.fields), "error": ended.error, "attempts": ended.attempts}
            for case, ended in zip(outcome.sweep.cases, outcome.outcomes, strict=True)
            if ended.state == RunState.FAILED
        ],
        "not_finished": len(outcome.interrupted),
        "folders": [str(ended.run.path) for ended in outcome.done if ended.run is not None],
    }


# Collecting ----------------------------------------------------------------------------------------------


def groups_caption(name: str) -> str:
    return f"{name}: share of finished runs, 95 % intervals (Wilson)"


def groups_cells(
    groups: Sequence[FieldGroup], by: Sequence[str], results: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: rates of the finished runs with Wilson intervals of 95 %, and the mean of tokens."""
    spoken = any(group.tokens is not None for group in groups)
    rows = []
    for group in groups:
        finished = str(group.finished) + (f" of {group.planned}" if group.finished < group.planned else "")
        rates = [str(group.rates[result]) if result in group.rates else "–" for result in results]
        tokens = ["–" if group.tokens is None else f"{group.tokens:.1f}"] if spoken else []
        rows.append([*(str(value) for value in group.fields.values()), finished, *rates, *tokens])
    headings = [*by, "runs", *(named(result) for result in results), *(["tokens"] if spoken else [])]
    return headings, rows


def groups_table(
    name: str, groups: Sequence[FieldGroup], by: Sequence[str], results: Sequence[str]
) -> RichTable:
    return results_table(groups_caption(name), *groups_cells(groups, by, results))


def warnings_beside(groups: Sequence[FieldGroup]) -> list[str]:
    """What has to stand beside rates of success; nothing where all runs got to the end, and are silent."""
    found, count = [], sum(group.speaking for group in groups)
    if count:
        what = f"{count} of the successes are runs that were to lose their words and still speak"
        found.append(f"warning: {what}; `internalized` does not count them (tokens: 2 is at once)")
    own = [value for group in groups for value in group.elsewhere]
    if own:
        runs = "1 run" if len(own) == 1 else f"{len(own)} runs"
        what = f"{runs} ended in a stage that does not ask for q_T, and `succeeded` is about q_T"
        found.append(f"warning: {what}; what the stage asks for is right in {percent(fmean(own))} on average")
    return found


def groups_as_json(groups: Sequence[FieldGroup]) -> list[dict[str, Any]]:
    return [
        {
            "fields": group.fields,
            "finished": group.finished,
            "planned": group.planned,
            "rates": {name: rate.to_json() for name, rate in group.rates.items()},
            "tokens": group.tokens,
            "still_speaking": group.speaking,
            "ended_before_q_T": len(group.elsewhere),
        }
        for group in groups
    ]


def collected_text(collected: Collected) -> str:
    """How many runs are in, and those that are not, by reason."""
    lines = [f"{len(collected.rows)} of {len(collected.sweep.cases)} runs finished"]
    reasons: dict[str, list[Case]] = {}
    for case, reason in collected.missing:
        reasons.setdefault(reason, []).append(case)
    for reason, cases in reasons.items():
        named = _named_by_setting(cases)
        more = f"; and {len(named) - MOST_NAMED} more (--json names all)" if len(named) > MOST_NAMED else ""
        lines.append(f"missing {len(cases)}, {reason}: {'; '.join(named[:MOST_NAMED])}{more}")
    return "\n".join([*lines, *([] if collected.is_begun() else [collected.whereabouts()])])


def _named_by_setting(cases: Sequence[Case]) -> list[str]:
    """Each setting once, with all its seeds: `method=left seed=0–4, 7`."""
    seeds: dict[str, list[int]] = {}
    for case in cases:
        setting = " ".join(f"{name}={value}" for name, value in case.fields.items() if name != "seed")
        seeds.setdefault(setting, []).append(case.config.seed)
    return [f"{setting} seed={_ranges(own)}".strip() for setting, own in seeds.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """Neighbours joined: 0–4, 7."""
    ends: list[list[int]] = []
    for number in sorted(numbers):
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in ends)


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
    return Stack(results_table("plan", headings, rows), stated, *_cautions(plans, gpu, name))


def _cautions(plans: Sequence[Plan], gpu: Gpu, name: str) -> list[str]:
    """What the hours of these plans do not tell."""
    said = [
        f"{one.name}: its largest run needs more memory than the {gpu.gigabytes:g} GB of {name}"
        for one in plans
        if not one.fits
    ]
    processor = [f"{one.name}: {one.on_processor:,}" for one in plans if one.on_processor]
    if processor:
        said.append(
            f"Some runs compute on the processor whatever the device ({'; '.join(processor)}). Their "
            f"hours on a GPU only say how much there is to do."
        )
    return said


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
