"""From runs to a folder of results: run what is missing, read what is there, judge, draw, write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.codec import to_json
from internalize.configs.files import make_folder, write_output
from internalize.display.terminal import duration
from internalize.errors import Interrupted, require
from internalize.figures.cases import Tier, in_progress, planned_rows, varied
from internalize.figures.claims import (
    UNDETECTABLE,
    Claim,
    Judgement,
    Plan,
    is_counted,
    judge,
    strictest_level,
    without_planned_toys,
)
from internalize.figures.figure import PAPER_TIER, Curve, DrawingMaterial, Figure
from internalize.figures.paper import VERDICT
from internalize.figures.recorded import (
    EARLY,
    curves_beside,
    provenance_of,
    recorded_curves,
    recorded_runs,
    rows_of_tables,
)
from internalize.figures.rows import FigureRow, scale_of_all
from internalize.runs.folder import Run
from internalize.runs.location import runs_folder
from internalize.runs.provenance import provenance
from internalize.runs.storage import Shape, read_json, require_shape
from internalize.runs.table import Table, flat, write_csv
from internalize.runtime.execution import Execution
from internalize.sweeps import Case, Sweep, SweepOutcome, collect, run_sweep
from internalize.sweeps.plan import Costs
from internalize.sweeps.recorded import RUN, Recorded, run_name, without_recorded

if TYPE_CHECKING:
    from internalize.runtime.fleet.driver import FleetObserver
    from internalize.runtime.kind import Prepared

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Made:
    """A figure's material with its verdicts."""

    figure: Figure
    tier: Tier
    sweep: Sweep
    material: DrawingMaterial
    missing: Sequence[str]
    """The cases without a finished run, and why; those for later are not among them."""
    judgements: Sequence[Judgement]
    """Empty at the smoke tier: nothing is judged there."""
    early: Sequence[FigureRow] = ()
    """Runs for later whose siblings are not all there: they stand in the table, and are not looked at yet."""
    tables: Mapping[str, Path] = field(default_factory=dict)
    """Of each run that is not here and has a row in a table: that table."""

    def _repr_html_(self) -> str:
        """For notebooks: the picture, the caption, the verdicts."""
        from internalize.display import page
        from internalize.display.plots import inline_svg

        picture = inline_svg(self.figure.draw(with_curves(self).material), self.figure.shows)
        caption = " ".join(self.figure.caption_lines(self.tier, _names(self)))
        verdicts = [page.statement(one.word, one.claim.sentence, [one.numbers]) for one in self.judgements]
        return page.figure(picture, caption) + "".join(verdicts)


def make(
    figure: Figure,
    tier: Tier = "laptop",
    *,
    out: Path | str | None = None,
    results: Path | str = "results",
    recorded: Path | str | None = None,
    **how: Any,
) -> Made:
    """Run what is missing, judge, draw and write: what `internalize figure` does, for Python.

    recorded: a folder of finished figures, whose rows stand for runs that are not in `out`.
    """
    folder = runs_folder() if out is None else Path(out)
    known = {} if recorded is None else recorded_runs(Path(recorded), figure)
    ended = train_missing(figure, tier, folder, recorded=known, **how)
    if ended is not None and ended.interrupted:
        raise Interrupted(ended.exit_code - 128, None)
    made = read(figure, tier, folder, known)
    require(bool(made.material.rows), "figure", f"nothing to draw of {figure.name}: no run is finished")
    write(made, results_folder(Path(results), figure, tier))
    return made


def train_missing(
    figure: Figure,
    tier: Tier,
    out: Path,
    observer: FleetObserver | None = None,
    later: bool = False,
    recorded: Recorded | None = None,
    **how: Any,
) -> SweepOutcome | None:
    """Carry out the runs that are not there yet; None for a figure that needs none.

    later: also those that are only planned. recorded: runs that a table knows. how: backend, workers and so
    on, as for `run_sweep`.
    """
    sweep = without_recorded(figure.sweep(tier, later), recorded or {})
    if figure.table is not None or not sweep.cases:
        return None
    execution = Execution(keep_stages="all" if figure.keeps_stages else "none", quiet=True)
    return run_sweep(sweep, out=out, observer=observer, execution=execution, **how)


def read(figure: Figure, tier: Tier, out: Path, recorded: Recorded | None = None) -> Made:
    """What there is, judged. Trains nothing. recorded: runs that a table knows, for those not in `out`."""
    sweep = figure.sweep(tier, later=True)
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    absent: list[dict[str, Any]] = []
    tables: dict[str, Path] = {}
    early: list[dict[str, Any]] = []
    if figure.table is not None:
        rows = figure.table_rows(tier)
    elif sweep.cases:
        found = collect(sweep, out)
        told = rows_of_tables([case for case, _ in found.missing], recorded or {})
        known = {row[RUN] for row in told}
        still = {case.prepared: f"{case}: {why}" for case, why in found.missing if run_name(case) not in known}
        tables = {row[RUN]: recorded[row[RUN]].table for row in told} if recorded else {}
        place = {run_name(case): place for place, case in enumerate(sweep.cases)}
        all_rows = [*figure.rows(found.rows, sweep, out), *figure.rows(told, sweep, None)]
        all_rows.sort(key=lambda row: place[row[RUN]])
        begun = in_progress(figure.tiers[tier], still)
        unfinished = {run_name(case) for case in sweep.cases if case.prepared in begun}
        rows = [row for row in all_rows if row[RUN] not in unfinished]
        early = [row for row in all_rows if row[RUN] in unfinished]
        now = {case.prepared for case in figure.sweep(tier).cases}
        missing = [line for one, line in still.items() if one in now]
        planned = zip(sweep.cases, figure.planned(sweep), strict=True)
        absent = [row for case, row in planned if case.prepared in now and case.prepared in still]
    judged = (
        judge(figure.claims, rows, lambda claim: plan_of_claim(figure, tier, claim), absent=absent)
        if tier != "smoke"
        else []
    )
    return Made(figure, tier, sweep, DrawingMaterial(tier, rows, out), missing, judged, early, tables)


def with_curves(made: Made) -> Made:
    """With what a figure that draws curves shows of its runs: of those that are here, from their folders; of
    rows that a table stands for, from the table of curves beside it."""
    figure, out = made.figure, made.material.out
    if figure.curve_of_run is None:
        return made
    here = [row[RUN] for row in (*made.material.rows, *made.early) if row[RUN] not in made.tables]
    curves: dict[str, Curve] = {name: figure.curve_of_run(Run(out / name)) for name in here}
    return replace(
        made, material=replace(made.material, curves={**recorded_curves(figure, made.tables), **curves})
    )


def plan_of_claim(figure: Figure, tier: Tier, claim: Claim) -> Plan:
    """Of the runs of a claim without data: those at this tier, or where it has none at the paper's."""
    for which, later in ((tier, False), (tier, True), (PAPER_TIER, True)):
        if which not in figure.tiers:
            continue
        sweep = figure.sweep(which, later)
        wanted = [
            (case.prepared, row)
            for case, row in zip(sweep.cases, figure.planned(sweep), strict=True)
            if any(members.planned([row]) for members in claim.test.groups)
        ]
        if wanted:
            costs = Costs(Execution())
            seconds = sum(costs(prepared).rough_seconds for prepared, _ in wanted)
            told = f"{len(wanted)} runs at the {which} tier, about {duration(seconds)} of one core"
            return Plan(told, scale_of_all(row["scale"] for _, row in wanted))
    return Plan("no runs are planned")


def results_folder(results: Path, figure: Figure, tier: Tier) -> Path:
    """The laptop tier has the figure's own name; the others say what they are."""
    return results / (figure.name if tier == "laptop" else f"{figure.name}-{tier}")


def write(made: Made, folder: Path, draw: bool = True) -> list[Path]:
    """NAME.png, .svg, .pdf and .csv, NAME-curves.csv, and verdict.json: last, when all else is there.

    Without any run there is nothing to draw: then the verdict alone, with all claims planned. draw: otherwise
    the verdict alone, too.
    """
    from internalize.display.plots import save

    _require_no_loss(made, folder)
    make_folder(folder, "results")
    written = []
    if made.material.rows and draw:
        made = with_curves(made)
        written += save(made.figure.draw(made.material), folder / made.figure.name, FORMATS)
        table = folder / f"{made.figure.name}.csv"
        rows = [*made.material.rows, *({**row, EARLY: True} for row in made.early)]
        write_csv(Table([flat(dict(row)) for row in rows]), table)
        written.append(table)
        known = [(row[RUN], made.material.curves.get(row[RUN], ())) for row in rows if RUN in row]
        points = [{**flat(dict(point)), RUN: name} for name, curve in known for point in curve]
        if points:
            write_csv(Table(points), curves_beside(table))
            written.append(curves_beside(table))
    record = verdict_record(made)
    if not draw:  # the picture is as it was, and so is what it shows
        with suppress(OSError, ValueError):
            shape: Shape = {"caption": (str,), "notes": (list,)}
            before = require_shape(read_json(folder / VERDICT), shape, needed=list(shape))
            record |= {name: before[name] for name in shape}
    write_output(folder / VERDICT, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return [*written, folder / VERDICT]


def _require_no_loss(made: Made, folder: Path) -> None:
    """Runs take hours and a verdict a moment: one that was made of many runs is not replaced by one of few."""
    known, found = 0, len(made.material.rows) + len(made.early)
    with suppress(OSError, ValueError):
        before = require_shape(read_json(folder / VERDICT), {"runs": (dict,)}, needed=["runs"])["runs"]
        counts = require_shape(before, {"done": (int,), "early": (int,)}, needed=["done"])
        known = counts["done"] + counts.get("early", 0)
    require(
        made.figure.table is not None or found >= known,
        "results",
        f"{folder} was made of {known:,} runs, of which {found:,} are found now, in {made.material.out}; "
        f"nothing was written. If its table has the others: --recorded {folder.parent}; to write "
        "elsewhere: --results",
    )


def verdict_record(made: Made) -> dict[str, Any]:
    """Everything that a reader of the picture should know."""
    figure, tier = made.figure, made.tier
    now = figure.sweep(tier)
    return {
        "figure": figure.name,
        "paper": figure.paper,
        "shows": figure.shows,
        "tier": tier,
        "caption": figure.caption,
        "notes": figure.notes_at(tier, _names(made)),
        "differences": figure.differences(tier, _names(made)),
        "judged": tier != "smoke",
        "claims": [judgement.to_json() for judgement in made.judgements],
        "plan": plan(figure, figure.planned(made.sweep)),
        "runs": {
            "planned": len(now.cases),
            "later": len(made.sweep.cases) - len(now.cases),
            "done": len(made.material.rows) if figure.table is None else 0,
            "early": len(made.early),
            "missing": list(made.missing),
            "seconds": sum(float(row.get("seconds") or 0.0) for row in made.material.rows),
            "waiting": _waiting(made),
        },
        "config": {"base": _base(made.sweep), "varied": varied(planned_rows(made.sweep))},
        "provenance": _provenance(made),
    }


def _waiting(made: Made) -> list[dict[str, Any]]:
    """The runs for later that are not there: of what, how many, and at most how many seconds of one core."""
    there = {row[RUN] for row in (*made.material.rows, *made.early) if RUN in row}
    now = {case.prepared for case in made.figure.sweep(made.tier).cases}
    groups: dict[str, list[Prepared]] = {}
    for case in made.sweep.cases:
        if case.prepared not in now and run_name(case) not in there:
            groups.setdefault(_without_seed(case), []).append(case.prepared)
    costs = Costs(Execution())
    return [
        {"of": what, "runs": len(those), "seconds": round(sum(costs(one).rough_seconds for one in those))}
        for what, those in groups.items()
    ]


def _without_seed(case: Case) -> str:
    """`C3 T25 left, 2 layers`."""
    label = case.prepared.label.rpartition("-s")[0].replace("-", " ")
    layers = getattr(getattr(case.config, "model", None), "depth", 1)
    return label if layers == 1 else f"{label}, {layers} layers"


def _names(made: Made) -> set[str] | None:
    """Of the runs that are there; None where there are none yet, or none are needed."""
    return {row[RUN] for row in made.material.rows if RUN in row} or None


def _detects(claim: Claim, planned: Sequence[FigureRow], level: float) -> str:
    """Of a claim about runs that succeed, or that fail, nobody knows before how many these are."""
    told = claim.test.detects(without_planned_toys(claim, planned), level)
    chosen = any(members != members.whatever_came_out() for members in claim.test.groups)
    if told == UNDETECTABLE or not chosen:
        return told
    return f"{told}, if all planned runs count; how many do depends on what comes out"


def plan(figure: Figure, planned: Sequence[FigureRow]) -> list[dict[str, str]]:
    """Every claim with its test and the smallest effect that the planned runs can show."""
    counted = [claim for claim in figure.claims if _takes_part(claim, planned)]
    level = strictest_level(counted)
    return [
        {
            "claim": claim.name,
            "sentence": claim.sentence,
            "method": claim.test.method,
            "controls": "; ".join(dict.fromkeys(control.sentence for control in claim.controls)),
            "detects": _detects(claim, planned, level / claim.looks),
        }
        for claim in figure.claims
    ]


def _takes_part(claim: Claim, planned: Sequence[FigureRow]) -> bool:
    """Whether other claims are corrected for it: not if it says another again or needs no test, nor if its runs
    are too few."""
    rows, alone = without_planned_toys(claim, planned), strictest_level([claim]) / claim.looks
    if claim.restates is not None or is_counted(claim.test.method):
        return False
    return claim.test.detects(rows, alone) != UNDETECTABLE


def _base(sweep: Sweep) -> dict[str, Any]:
    return dict(to_json(sweep.cases[0].config)) if sweep.cases else {}


def _provenance(made: Made) -> dict[str, Any]:
    """Of the drawing, and of the runs: on which machines and with which versions they were made."""
    import torch

    here = provenance(torch.device("cpu"))
    if made.figure.table is not None:
        return here
    names = ("internalize", "torch", "processor", "device", "threads", "revision", "python")
    folders = [made.material.out / row[RUN] for row in (*made.material.rows, *made.early)]
    kept = [Run(folder).provenance() for folder in folders if folder.is_dir()]
    told: list[dict[str, list[Any]]] = [{name: [run.get(name)] for name in names} for run in kept]
    told += [provenance_of(table) for table in dict.fromkeys(made.tables.values())]
    runs: dict[str, list[Any]] = {name: [] for name in names}
    for source in told:
        for name in names:
            runs[name] += [value for value in source.get(name, []) if value not in runs[name]]
    if not made.tables:
        return {**here, "runs": runs}
    counts = Counter(f"{table.parent.name}/{table.name}" for table in made.tables.values())
    return {**here, "runs": runs, "rows_of_tables": dict(counts)}
