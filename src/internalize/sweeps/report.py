"""What the commands say: tables and lines for people, objects for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table as RichTable
from rich.text import Text

from internalize.configs.codec import to_json
from internalize.contract import Json, Row, RunState, named, still_speaking
from internalize.display.terminal import PlainConsole, duration, own_target, percent, results_table
from internalize.errors import BadInput, closest, require
from internalize.runs.folder import Run
from internalize.runs.provenance import seconds_in_all
from internalize.runs.table import Table, flat
from internalize.statistics import Rate
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
        named = "; ".join(map(str, cases[:MOST_NAMED]))
        more = f"; and {len(cases) - MOST_NAMED} more (--json names all)" if len(cases) > MOST_NAMED else ""
        lines.append(f"missing {len(cases)}, {reason}: {named}{more}")
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


@dataclass(frozen=True)
class Collected:
    """What a sweep has so far."""

    sweep: Sweep
    rows: list[Row] = field(default_factory=list)
    """One for each finished run, in the order of the cases: `run` (the folder's name), the config's fields by
    dotted names, then the results, `seconds` by the clock and `processor_seconds` of computing."""
    missing: list[tuple[Case, str]] = field(default_factory=list)
    """Every other case, and why it has no row: not begun, running, interrupted, or failed and with what."""
    out: Path = Path()
    """The folder of its runs."""

    def table(self) -> Table:
        """For files: lists as JSON text."""
        return Table([flat(row) for row in self.rows])

    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def outcomes(self) -> list[str]:
        """The results that are yes or no, of which rates can be made."""
        own = set(config_fields(self.sweep.cases[0]))
        yes_or_no = (
            name
            for row in self.rows
            for name, value in row.items()
            if isinstance(value, bool) and name not in own
        )
        return list(dict.fromkeys(yes_or_no))


@dataclass(frozen=True)
class FieldGroup:
    """The runs that agree in some fields."""

    fields: dict[str, Json]
    finished: int
    planned: int
    rates: dict[str, Rate]
    """Result → how many of the finished runs have it; empty where none is finished."""
    tokens: float | None = None
    """Of an answer, the mean over the finished runs, where the kind has such a thing."""
    speaking: int = 0
    """Runs that succeeded and were to lose their words, but still speak."""
    elsewhere: tuple[float, ...] = ()
    """Of the runs that ended in a stage that does not ask for q_T: accuracy on what it does ask for."""


def collect(sweep: Sweep, out: Path | str) -> Collected:
    """Read the folder of every case below `out`."""
    sweep.require_runs()
    collected = Collected(sweep, out=Path(out))
    for case in sweep.cases:
        folder = case.prepared.folder(Path(out))
        row, reason = _row(case, folder)
        if row is None:
            collected.missing.append((case, reason))
        else:
            collected.rows.append(row)
    return collected


def _row(case: Case, folder: Path) -> tuple[Row | None, str]:
    if not (folder / "config.json").exists():
        return None, "not begun"
    try:
        run = Run.at(folder)
    except BadInput as problem:
        return None, f"damaged: {problem}"
    status = run.status()
    state = run.state()
    if state != RunState.DONE or "summary" not in status:
        return None, f"{state}: {status['message']}" if status.get("message") else state
    config = config_fields(case)
    results = {f"result.{name}" if name in config else name: value for name, value in status["summary"].items()}
    times = {"seconds": status["seconds"], "processor_seconds": seconds_in_all(run)}
    return {"run": folder.name, "kind": case.config.kind, **config, **results, **times}, ""


def settings(sweep: Sweep) -> tuple[str, ...]:
    """The fields in which the sweep's configs differ, the seed aside; first those that it names itself.

    The others follow from these: a preset is no longer in a config that it has filled in.
    """
    configs = [config_fields(case) for case in sweep.cases]
    names = dict.fromkeys(name for fields in (sweep.cases[0].fields, *configs) for name in fields)
    return tuple(
        name
        for name in names
        if name != "seed" and len({_hashable(config.get(name)) for config in configs}) > 1
    )


def config_fields(case: Case) -> dict[str, Any]:
    return flat(to_json(case.config), lists_as_text=False)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def groups(collected: Collected, by: Sequence[str], results: Sequence[str] = ()) -> list[FieldGroup]:
    """Rates with Wilson intervals, by the values of config fields, in the order in which these first come.

    results: which of the results that are yes or no; all if none are named.
    """
    known = collected.outcomes()
    for name in results:
        good = name in known or not collected.rows
        require(good, "rate", f"no result {name!r} that is yes or no{closest(name, known)}; there are {known}")
    planned: dict[tuple[Any, ...], int] = {}
    for case in collected.sweep.cases:
        key = _key(config_fields(case), by)
        planned[key] = planned.get(key, 0) + 1
    finished: dict[tuple[Any, ...], list[Row]] = {key: [] for key in planned}
    for row in collected.rows:
        finished[_key(row, by)].append(row)
    return [
        FieldGroup(
            dict(zip(by, key, strict=True)),
            len(finished[key]),
            count,
            _rates(finished[key], results or known),
            _mean(finished[key], "response_length"),
            sum(bool(still_speaking(row)) for row in finished[key]),
            tuple(own for row in finished[key] if (own := own_target(row, "id_accuracy")) is not None),
        )
        for key, count in planned.items()
    ]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    known = [value for row in rows if isinstance(value := row.get(name), int | float)]
    return fmean(known) if known else None


def _rates(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Rate]:
    said = {name: [row[name] for row in rows if isinstance(row.get(name), bool)] for name in names}
    return {name: Rate(sum(map(bool, values)), len(values)) for name, values in said.items() if values}


def _key(fields: dict[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    for name in by:
        require(
            name in fields, "by", f"no field {name!r}{closest(name, list(fields))}; known: {', '.join(fields)}"
        )
    return tuple(_hashable(fields[name]) for name in by)
