"""What came out of a sweep: one row for each finished run, and groups of them by the fields that vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from internalize.contract import Json, Row, RunState, still_speaking
from internalize.display.terminal import own_target
from internalize.errors import BadInput, closest, require
from internalize.runs.folder import Run
from internalize.runs.location import run_folders
from internalize.runs.provenance import seconds_in_all
from internalize.runs.table import Table, dotted_fields, flat
from internalize.statistics import Rate, rates_of
from internalize.sweeps.recorded import Recorded, recorded_row
from internalize.sweeps.sweep import Case, Sweep

NOT_BEGUN = "not begun"


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

    def is_begun(self) -> bool:
        """Whether any of its runs is there."""
        return bool(self.rows) or any(reason != NOT_BEGUN for _, reason in self.missing)

    def whereabouts(self) -> str:
        """Where the runs were looked for, and how to name another folder."""
        names = {case.prepared.folder(self.out).name for case in self.sweep.cases}
        found = (Path(path) for path, _ in run_folders(self.out))
        nearest = next((path.parent for path in found if path.name in names), "FOLDER")
        looked = f"none of them is in {self.out}" + ("" if self.out.is_dir() else ", which is not there")
        return f"{looked}; if the sweep wrote elsewhere, name that folder: --out {nearest}"

    def require_rows(self) -> None:
        """For whoever writes or draws them."""
        where = "" if self.is_begun() else f"; {self.whereabouts()}"
        require(bool(self.rows), "sweep", f"no run is finished: there is nothing to write{where}")

    def table(self) -> Table:
        """For files: lists as JSON text."""
        return Table([flat(row) for row in self.rows])

    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def outcomes(self) -> list[str]:
        """The results that are yes or no, of which rates can be made."""
        own = {name for case in self.sweep.cases for name in dotted_fields(case.config)}  # some cases set fewer
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


def collect(sweep: Sweep, out: Path | str, recorded: Recorded | None = None) -> Collected:
    """Read the folder of every case below `out`. recorded: rows that stand for runs which are not there."""
    sweep.require_runs()
    collected = Collected(sweep, out=Path(out))
    for case in sweep.cases:
        folder = case.prepared.folder(Path(out))
        row, reason = _row(case, folder)
        if row is None:
            row = recorded_row(case, recorded or {})
        if row is None:
            collected.missing.append((case, reason))
        else:
            collected.rows.append(row)
    return collected


def _row(case: Case, folder: Path) -> tuple[Row | None, str]:
    if not (folder / "config.json").exists():
        return None, NOT_BEGUN
    try:
        run = Run.at(folder)
    except BadInput as problem:
        return None, f"damaged: {problem}"
    status = run.status()
    state = run.state()
    if state != RunState.DONE or "summary" not in status:
        return None, f"{state}: {status['message']}" if status.get("message") else state
    config = dotted_fields(case.config)
    results = {f"result.{name}" if name in config else name: value for name, value in status["summary"].items()}
    times = {"seconds": status["seconds"], "processor_seconds": seconds_in_all(run)}
    return {"run": folder.name, "kind": case.config.kind, **config, **results, **times}, ""


def settings(sweep: Sweep) -> tuple[str, ...]:
    """The fields in which the sweep's configs differ, the seed aside; first those that it names itself.

    Of the others, those that its own fields do not decide: a preset is no longer in a config that it has filled
    in, but what it gave for each method follows from the method.
    """
    configs = [dotted_fields(case.config) for case in sweep.cases]
    names = dict.fromkeys(name for fields in (sweep.cases[0].fields, *configs) for name in fields)
    named = sweep.cases[0].fields
    differing = [
        name
        for name in names
        if name != "seed" and len({_hashable(config.get(name)) for config in configs}) > 1
    ]
    chosen = [name for name in differing if name in named]

    def is_decided(name: str) -> bool:
        """Whether runs that agree in the sweep's own fields agree in this one, too."""
        known: dict[tuple[Any, ...], Any] = {}
        keys = (tuple(_hashable(config.get(other)) for other in chosen) for config in configs)
        values = [_hashable(config.get(name)) for config in configs]
        return all(known.setdefault(key, value) == value for key, value in zip(keys, values, strict=True))

    return tuple(name for name in differing if name in named or not is_decided(name))


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
    configs = [dotted_fields(case.config) for case in collected.sweep.cases]
    fields = list(dict.fromkeys(name for config in configs for name in config))
    for name in by:
        good = name in fields
        require(good, "by", f"no field {name!r}{closest(name, fields)}; known: {', '.join(fields)}")
    planned: dict[tuple[Any, ...], int] = {}
    for config in configs:
        key = _key(config, by)
        planned[key] = planned.get(key, 0) + 1
    finished: dict[tuple[Any, ...], list[Row]] = {key: [] for key in planned}
    for row in collected.rows:
        finished[_key(row, by)].append(row)
    return [
        FieldGroup(
            dict(zip(by, key, strict=True)),
            len(finished[key]),
            count,
            rates_of(finished[key], results or known),
            _mean(finished[key], "response_length"),
            sum(bool(still_speaking(row)) for row in finished[key]),
            tuple(own for row in finished[key] if (own := own_target(row, "id_accuracy")) is not None),
        )
        for key, count in planned.items()
    ]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    known = [value for row in rows if isinstance(value := row.get(name), int | float)]
    return fmean(known) if known else None


def _key(fields: dict[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    """A field that a config leaves out, because it is not given there, is None."""
    return tuple(_hashable(fields.get(name)) for name in by)
