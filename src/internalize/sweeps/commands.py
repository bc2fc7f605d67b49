"""`internalize sweep`, `internalize collect` and `internalize plan`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from internalize.configs.named import TrustOption, others_files, own_files
from internalize.display.terminal import fleet_view, plain
from internalize.errors import BadInput, require
from internalize.runs.commands import require_files, write_files
from internalize.runs.location import runs_folder
from internalize.runs.table import latex_table, markdown_table
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.pool import local_pool
from internalize.sweeps.collection import Collected, FieldGroup, collect, groups, settings
from internalize.sweeps.drawing import Picture, draw_sweep, require_picture
from internalize.sweeps.plan import DEFAULT_UTILISATION, Costs, expected_seconds, find_gpu, plan, together
from internalize.sweeps.recorded import recorded_in, without_recorded
from internalize.sweeps.report import (
    announcement,
    collected_text,
    groups_as_json,
    groups_caption,
    groups_cells,
    groups_table,
    outcome_as_json,
    outcome_lines,
    plans_table,
    remarks_console,
    results_console,
    warnings_beside,
)
from internalize.sweeps.run import (
    BackendName,
    RayOptions,
    Standing,
    SweepOutcome,
    require_possible,
    run_sweep,
    standing,
)
from internalize.sweeps.sweep import BadSweep, Sweep, find_sweep, require_there

SweepName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class SweepArguments(TrustOption):
    """Carry out all runs of a sweep, each once: here or on a cluster. The same command goes on."""

    file: SweepName
    """The sweep: a YAML or JSON file with kind, base, grid, zip, cases and seeds; or one made by sweep_of in
    Python, file.py:NAME or module:NAME; or the runs of a figure, file.py:FIGURE@TIER."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    dry_run: bool = False
    """Check everything, say what is to be done and how long it takes, and do nothing."""
    backend: BackendName = "local"
    """local: worker processes on this machine; ray: tasks on a Ray cluster."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores (or fit the cluster) if not given."""
    retries: int = 1
    """How often a run that failed is tried again, from its last good checkpoint."""
    retry_failed: bool = False
    """Also try runs again that an earlier sweep gave up."""
    recorded: Path | None = None
    """A table of finished runs, as collect --csv writes it: runs that have a row there are not trained again,
    wherever their folders are."""
    estimate: bool = True
    """Measure beforehand how long it will take on this machine. Not with --backend ray: the cluster would wait
    for it, and is another machine."""
    ray: RayOptions = field(default_factory=RayOptions)

    def __post_init__(self) -> None:
        require(not self.execution.fresh, "fresh", "belongs to train: a sweep does each run once")


def sweep_command(arguments: SweepArguments) -> int:
    execution = arguments.execution
    require_there(arguments.file)  # before anything that computes is loaded
    require_possible(execution, arguments.backend, arguments.workers, arguments.retries, arguments.ray)
    with others_files() if arguments.dry_run else own_files():
        sweep = _find(arguments.file)
    if sweep is None:
        return 2
    sweep = without_recorded(sweep, recorded_in(arguments.recorded))
    now = standing(sweep, execution.out, arguments.retry_failed)
    if not sweep.cases:
        remarks_console().print(f"{sweep.name}: all runs are in {arguments.recorded}", soft_wrap=True)
        nothing = (
            _plan_as_json(sweep, now, [], 0) if arguments.dry_run else outcome_as_json(SweepOutcome(sweep, ()))
        )
        if execution.json:
            print(json.dumps(nothing))
        return 0
    seconds = _seconds(sweep, now, arguments)
    _announce(sweep, now, seconds, arguments)
    if arguments.dry_run:
        return 0
    results = sweep.cases[0].prepared.kind.results
    view = None if execution.quiet else fleet_view(sweep.name, results.headline, seconds, results.unit)
    outcome = run_sweep(
        sweep,
        out=execution.out,
        backend=arguments.backend,
        workers=arguments.workers,
        retries=arguments.retries,
        retry_failed=arguments.retry_failed,
        observer=view,
        execution=execution,
        ray=arguments.ray,
    )
    _report(outcome, arguments)
    return outcome.exit_code


MOST_TOLD = 100
"""Problems of one sweep."""


def _find(name: str) -> Sweep | None:
    """The sweep; or every problem of it on a line of its own, and None."""
    try:
        return find_sweep(name)
    except BadSweep as bad:
        for problem in bad.problems[:MOST_TOLD]:
            print(f"internalize: {plain(problem)}", file=sys.stderr)
        if len(bad.problems) > MOST_TOLD:
            print(f"internalize: and {len(bad.problems) - MOST_TOLD:,} more", file=sys.stderr)
        return None


def _seconds(sweep: Sweep, now: Standing, arguments: SweepArguments) -> list[float] | None:
    """Of every run still to do; None if it is not to be measured."""
    if not arguments.estimate or arguments.backend == "ray":
        return None
    runs = [sweep.cases[index].prepared for index in now.todo]
    if arguments.execution.quiet or not sys.stderr.isatty():
        return expected_seconds(runs, arguments.execution)
    with remarks_console().status("measuring …") as status:

        def progress(done: int, all_: int) -> None:
            status.update(f"measuring shape {done + 1} of {all_} …")

        return expected_seconds(runs, arguments.execution, progress)


def _announce(sweep: Sweep, now: Standing, seconds: list[float] | None, arguments: SweepArguments) -> None:
    """What a dry run says is its result; before a real one it is a remark."""
    execution, dry = arguments.execution, arguments.dry_run
    if execution.quiet and not (dry and execution.json):
        return
    costs = Costs(execution)
    found = [costs(sweep.cases[index].prepared) for index in now.todo]
    if arguments.backend == "local":
        device = resolve_device(execution.device)
        for cost in found:
            cost.require_memory(device)
    disk = sum(cost.disk_bytes for cost in found)
    if not execution.quiet:
        local = arguments.backend == "local"  # whoever asks a cluster may have other devices than it
        workers = local_pool(execution, arguments.workers, len(now.todo)).size if local else 1
        said = announcement(sweep, now, seconds, workers, disk)
        (results_console() if dry and not execution.json else remarks_console()).print(said, soft_wrap=True)
    if dry and execution.json:
        print(json.dumps(_plan_as_json(sweep, now, seconds, disk)))


def _plan_as_json(sweep: Sweep, now: Standing, seconds: list[float] | None, disk: float) -> dict[str, Any]:
    total = None if seconds is None else sum(seconds)
    return {"sweep": sweep.name, **now.counts(), "seconds": total, "disk_bytes": disk}


def _report(outcome: SweepOutcome, arguments: SweepArguments) -> None:
    execution = arguments.execution
    if execution.json:
        print(json.dumps(outcome_as_json(outcome)))
    collecting = ["internalize", "collect", arguments.file]
    collecting += ["--out", str(execution.out)] if execution.out != runs_folder() else []
    for line in outcome_lines(outcome, shlex.join(collecting), execution.quiet):
        remarks_console().print(line, soft_wrap=True)


@dataclass(frozen=True)
class CollectArguments(TrustOption):
    """The finished runs of a sweep as one table, success rates by any field, and what is missing."""

    file: SweepName
    """The sweep: a file, file.py:NAME or module:NAME."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    recorded: Path | None = None
    """A table that --csv wrote before: its rows stand for runs whose folders are not here."""
    csv: Path | None = None
    """File to write: one line for each run, with its config and results in columns."""
    parquet: Path | None = None
    """The same for pandas, polars, duckdb and others. Needs the extra `parquet`."""
    by: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Rates for each value of this field, such as task or model.depth; may be given several times. All fields
    in which the runs differ, the seed aside, if not given."""
    rate: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A result that is yes or no, such as succeeded; may be given several times. All of them if not given."""
    plot: Path | None = None
    """Picture to write: FILE.png, .svg or .pdf."""
    show: Picture = "rates"
    """What --plot draws: rates (bars with intervals), curves (accuracy over training) or survival (the share of
    runs that has internalized by each iteration)."""
    markdown: bool = False
    """Print the rates as a Markdown table."""
    latex: bool = False
    """Print the rates as a LaTeX table, for the package booktabs."""
    json: bool = False
    """Print one JSON object: rows, groups and what is missing."""

    def __post_init__(self) -> None:
        one = self.markdown + self.latex + self.json <= 1
        require(one, "markdown", "choose one of --markdown, --latex and --json")


def collect_command(arguments: CollectArguments) -> int | None:
    sweep = _find(arguments.file)
    if sweep is None:
        return 2
    collected = collect(sweep, arguments.out, recorded_in(arguments.recorded))
    by = arguments.by or settings(sweep)
    found = groups(collected, by, arguments.rate)
    require_files(arguments.csv, arguments.parquet)
    if arguments.plot is not None:
        require_picture(arguments.plot)
    if arguments.csv is not None or arguments.parquet is not None:
        collected.require_rows()
        for line in write_files(collected.table(), arguments.csv, arguments.parquet):
            remarks_console().print(line, soft_wrap=True)
    if arguments.plot is not None:
        path = draw_sweep(collected, by, arguments.rate or collected.outcomes(), arguments.show, arguments.plot)
        remarks_console().print(f"picture: {path}", soft_wrap=True)
    if arguments.json:
        missing = [{"case": dict(case.fields), "reason": reason} for case, reason in collected.missing]
        print(json.dumps({"rows": collected.rows, "groups": groups_as_json(found), "missing": missing}))
        return None
    _present(collected, found, by, arguments)
    return None


def _present(
    collected: Collected, found: list[FieldGroup], by: Sequence[str], arguments: CollectArguments
) -> None:
    """The rates as a table for the terminal, or for a document; then what is missing."""
    results = arguments.rate or collected.outcomes()
    if arguments.markdown or arguments.latex:
        collected.require_rows()
        cells = groups_cells(found, by, results)
        caption = groups_caption(collected.sweep.name)
        print(plain(markdown_table(*cells) if arguments.markdown else latex_table(*cells, caption)))
        for said in (*warnings_beside(found), collected_text(collected)):
            remarks_console().print(said, soft_wrap=True)
        return
    console = results_console()
    if collected.rows:
        console.print(groups_table(collected.sweep.name, found, by, results))
        for said in warnings_beside(found):
            console.print(said, style="yellow", soft_wrap=True)
    console.print(collected_text(collected), soft_wrap=True)


def _whole_numbers(words: list[str]) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words)
    except ValueError:
        raise BadInput("gpus", f"must be whole numbers, got {' '.join(words)}") from None


WholeNumbers = PrimitiveConstructorSpec[tuple[int, ...]](
    nargs="*",
    metavar="[INT [INT ...]]",
    instance_from_str=_whole_numbers,
    is_instance=lambda value: isinstance(value, tuple) and all(isinstance(number, int) for number in value),
    str_from_instance=lambda numbers: [str(number) for number in numbers],
)
"""As tyro reads a tuple, but for what it says when one of the words is no number."""


@dataclass(frozen=True)
class PlanArguments(TrustOption):
    """What sweeps would take on GPUs, from counted operations and a stated utilisation: nothing is trained."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE [FILE ...]")]
    """One or more sweeps: files, file.py:NAME or module:NAME; the runs of a figure's tier as
    internalize.figures.paper.heads:FIGURE@paper."""
    gpus: Annotated[tuple[int, ...], WholeNumbers] = (1, 8, 64)
    """How many GPUs: one column for each number."""
    gpu: str = "a100"
    """Which: a100, h100 or l4. Decides peak and price unless these are given."""
    peak: float | None = None
    """TFLOP/s of one GPU, in place of the data sheet's peak for the precision of each run."""
    utilisation: float = DEFAULT_UTILISATION
    """Part of the peak that training reaches, an assumption: several small models share one GPU."""
    price: float | None = None
    """Dollars an hour of one GPU."""
    json: bool = False
    """Print one JSON list."""


def plan_command(arguments: PlanArguments) -> int | None:
    require(len(arguments.files) > 0, "files", "name at least one sweep file")
    gpu = find_gpu(arguments.gpu, arguments.peak, arguments.price)
    sweeps = [sweep for name in arguments.files if (sweep := _find(name)) is not None]
    if len(sweeps) < len(arguments.files):
        return 2
    if len(sweeps) > 1:
        sweeps.append(together(sweeps))
    plans = [plan(sweep, gpu, arguments.utilisation, arguments.gpus) for sweep in sweeps]
    if arguments.json:
        stated: dict[str, Any] = {"gpu": arguments.gpu, **asdict(gpu), "utilisation": arguments.utilisation}
        print(json.dumps({"stated": stated, "sweeps": [asdict(one) for one in plans]}))
        return None
    results_console().print(plans_table(plans, gpu, arguments.gpu, arguments.utilisation))
    return None
