"""`internalize sweep`, `internalize collect` and `internalize plan`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from internalize.display.fleet import fleet_view
from internalize.display.terminal import errors_console
from internalize.errors import BadInput, require
from internalize.experiments.execution import Execution
from internalize.runs.finding import RUNS
from internalize.sweeps.collecting import Collected, collect, groups
from internalize.sweeps.costs import expected_seconds
from internalize.sweeps.options import BackendName, RayOptions
from internalize.sweeps.planning import DEFAULT_UTILISATION, find_gpu, plan, together
from internalize.sweeps.reporting import (
    announcement,
    collected_text,
    groups_as_json,
    groups_table,
    outcome_as_json,
    outcome_lines,
    plans_table,
    results_console,
)
from internalize.sweeps.running import Standing, SweepOutcome, run_sweep, standing
from internalize.sweeps.sweep import BadSweep, Sweep, read_sweep

SweepFile = Annotated[Path, tyro.conf.Positional]


@dataclass(frozen=True)
class SweepArguments:
    """Carry out all runs of a sweep file, each once: here or on a cluster. The same command goes on."""

    file: SweepFile
    """The sweep: YAML or JSON with kind, base, grid, zip, cases and seeds."""
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
    no_estimate: bool = False
    """Do not measure beforehand how long it will take."""
    ray: Annotated[RayOptions, tyro.conf.arg(name="")] = field(default_factory=RayOptions)

    def __post_init__(self) -> None:
        require(not self.execution.fresh, "fresh", "belongs to train: a sweep does each run once")
        require(self.workers is None or self.workers >= 1, "workers", f"must be at least 1, got {self.workers}")
        require(self.retries >= 0, "retries", f"must be 0 or more, got {self.retries}")


def sweep_command(arguments: SweepArguments) -> int:
    sweep = _read(arguments.file)
    if sweep is None:
        return 2
    execution = arguments.execution
    now = standing(sweep, execution.out, arguments.retry_failed)
    seconds = None if arguments.no_estimate or not now.todo else _estimate(sweep, now, execution)
    workers = arguments.workers or max(1, (os.cpu_count() or 1) // (execution.threads or 1))
    if not execution.quiet:
        said = announcement(sweep, now, seconds, workers, execution)
        # what a dry run says is its result; before a real one it is a remark
        result = arguments.dry_run and not execution.json
        (results_console() if result else errors_console()).print(said, soft_wrap=True)
    if arguments.dry_run:
        if execution.json:
            print(json.dumps({"sweep": sweep.name, **now.counts(), "seconds": sum(seconds or [])}))
        return 0
    view = None if execution.quiet else fleet_view(sweep.name, sweep.cases[0].config.headline, seconds)
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


def _read(path: Path) -> Sweep | None:
    """The sweep; or every problem of it on a line of its own, and None."""
    try:
        return read_sweep(path)
    except BadSweep as bad:
        for problem in bad.problems:
            print(f"internalize: {problem}", file=sys.stderr)
        return None


def _estimate(sweep: Sweep, now: Standing, execution: Execution) -> list[float]:
    """Seconds of every run still to do."""
    configs = [sweep.cases[index].config for index in now.todo]
    if execution.quiet or not sys.stderr.isatty():
        return expected_seconds(configs, execution)
    with errors_console().status("measuring …") as status:
        return expected_seconds(
            configs, execution, lambda done, all_: status.update(f"measuring shape {done + 1} of {all_} …")
        )


def _report(outcome: SweepOutcome, arguments: SweepArguments) -> None:
    if arguments.execution.json:
        print(json.dumps(outcome_as_json(outcome)))
    for line in outcome_lines(outcome, str(arguments.file), arguments.execution.quiet):
        errors_console().print(line, soft_wrap=True)


@dataclass(frozen=True)
class CollectArguments:
    """The finished runs of a sweep as one table, success rates by any field, and what is missing."""

    file: SweepFile
    """The sweep file."""
    out: Path = RUNS
    """Folder that holds the run folders."""
    csv: Path | None = None
    """File to write: a line a run, with its config and results in columns."""
    parquet: Path | None = None
    """The same for pandas, polars, duckdb and others. Needs the extra `parquet`."""
    by: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Rates for each value of this field, such as task or model.depth; may be given several times. All fields
    that the sweep varies, the seed aside, if not given."""
    rate: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A result that is yes or no, such as succeeded; may be given several times. All of them if not given."""
    json: bool = False
    """Print one JSON object: rows, groups and what is missing."""


def collect_command(arguments: CollectArguments) -> int | None:
    sweep = _read(arguments.file)
    if sweep is None:
        return 2
    collected = collect(sweep, arguments.out)
    by = arguments.by or tuple(name for name in sweep.cases[0].fields if name != "seed")
    found = groups(collected, by, arguments.rate)
    _write(collected, arguments)
    if arguments.json:
        missing = [{"case": dict(case.fields), "reason": reason} for case, reason in collected.missing]
        print(json.dumps({"rows": collected.rows, "groups": groups_as_json(found), "missing": missing}))
        return None
    console = results_console()
    if collected.rows:
        console.print(groups_table(sweep.name, found, by, arguments.rate or collected.outcomes()))
    console.print(collected_text(collected), soft_wrap=True)
    return None


def _write(collected: Collected, arguments: CollectArguments) -> None:
    from internalize.runs.exporting import write_csv, write_parquet

    table = collected.table()
    for path, write in ((arguments.csv, write_csv), (arguments.parquet, write_parquet)):
        if path is None:
            continue
        require(len(table) > 0, "sweep", "no run is finished: there is nothing to write")
        try:
            write(table, path)
        except OSError as error:
            raise BadInput("collect", f"cannot write {path}: {error.strerror}") from None
        errors_console().print(f"{len(table):,} runs, {len(table.columns)} columns: {path}", soft_wrap=True)


@dataclass(frozen=True)
class PlanArguments:
    """What sweeps would take on GPUs, from counted operations and a stated utilisation: nothing is run."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """One or more sweep files."""
    gpus: tuple[int, ...] = (1, 8, 64)
    """How many GPUs: a column each."""
    gpu: str = "a100"
    """Which: a100, h100 or l4. Decides peak and price unless these are given."""
    peak: float | None = None
    """TFLOP/s of one GPU, in place of the data sheet's peak for the precision of each run."""
    utilisation: float = DEFAULT_UTILISATION
    """Part of the peak that training reaches, an assumption: several runs a GPU, small models."""
    price: float | None = None
    """Dollars an hour of one GPU."""
    json: bool = False
    """Print one JSON list."""


def plan_command(arguments: PlanArguments) -> int | None:
    require(len(arguments.files) > 0, "files", "name at least one sweep file")
    require(0 < arguments.utilisation <= 1, "utilisation", f"must lie in (0, 1], got {arguments.utilisation}")
    gpu = find_gpu(arguments.gpu, arguments.peak, arguments.price)
    sweeps = [sweep for path in arguments.files if (sweep := _read(path)) is not None]
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
