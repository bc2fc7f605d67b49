"""`internalize figures`, `internalize figure` and `internalize report`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated

import tyro

from internalize.configs.files import is_standard_output, make_folder, require_writable, write_output
from internalize.contract import RunState
from internalize.display.terminal import (
    PlainConsole,
    duration,
    errors_console,
    fleet_view,
    plain,
)
from internalize.errors import BadInput, require
from internalize.figures.cases import Tier, shapes_of
from internalize.figures.claims import UNDETECTABLE, told_p
from internalize.figures.doubts import doubts
from internalize.figures.figure import Figure
from internalize.figures.paper import VERDICT, find_figure
from internalize.figures.recorded import recorded_runs
from internalize.figures.results import Made, plan, read, results_folder, train_missing, write
from internalize.kinds import prepare
from internalize.runs.folder import Run
from internalize.runs.location import runs_folder
from internalize.runs.provenance import usable_cores
from internalize.runs.storage import read_json
from internalize.runtime.execution import Execution
from internalize.sweeps import Sweep, SweepOutcome
from internalize.sweeps.plan import Costs
from internalize.sweeps.recorded import Recorded
from internalize.sweeps.run import BackendName, RayOptions

MOST_MISSING = 5
"""Missing runs that are named; of more, how many there are is said."""


@dataclass(frozen=True)
class FigureArguments:
    """One figure of the paper: run what is missing, draw it, and judge its claims."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FIGURE")]
    """Which: see `internalize figures`."""
    tier: Tier = "laptop"
    """smoke: seconds, nothing is judged; toy: minutes, sizes at which inputs repeat; laptop: hours, the paper's
    premise holds; paper: the paper's own sizes."""
    out: Path = field(default_factory=runs_folder)
    """Folder of the runs, shared by all figures."""
    results: Path = Path("results")
    """Folder for the picture, table and verdict, in a folder of the figure's name."""
    backend: BackendName = "local"
    """Where missing runs are carried out: worker processes on this machine, or tasks on a Ray cluster."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""
    train: bool = True
    """Carry out what is missing; otherwise draw with the runs that are there, and say what is missing."""
    draw: bool = True
    """Draw; otherwise judge what is there, write the verdict, and leave picture and table as they are."""
    later: bool = False
    """Carry out also the runs that are only planned."""
    recorded: Path | None = None
    """A folder of finished figures, such as results: a run that has a row in one of their tables is not trained
    again. Not for attention-parity, which is drawn from run folders."""
    plan: bool = False
    """Show the claims, their tests and what they can detect, and do nothing."""
    quiet: bool = False
    """No progress, no tables: errors only."""
    json: bool = False
    """Print the verdict as one JSON object, last."""
    ray: RayOptions = field(default_factory=RayOptions)

    def __post_init__(self) -> None:
        require(self.workers is None or self.workers >= 1, "workers", f"must be at least 1, got {self.workers}")


def figure_command(arguments: FigureArguments) -> int:
    figure = find_figure(arguments.name)
    if arguments.plan:
        _tell_doubts(figure, arguments.tier)
        _print_plan(figure, arguments)
        return 0
    folder = require_writable(results_folder(arguments.results, figure, arguments.tier), "results")
    known = {} if arguments.recorded is None else recorded_runs(arguments.recorded, figure)
    ended = _train(figure, arguments, known) if arguments.train else None
    if ended is not None and ended.interrupted:
        told = f"{len(ended.interrupted)} of {len(ended.outcomes)} runs are left; the same command goes on"
        errors_console().print(f"interrupted: {told}, --no-train draws what is there", soft_wrap=True)
        return ended.exit_code
    made = read(figure, arguments.tier, arguments.out, known)
    if not made.material.rows and made.missing:
        what = f"{len(made.missing)} runs are missing, for example {made.missing[0]}"
        errors_console().print(f"nothing to draw of {figure.name} in {arguments.out}: {what}", soft_wrap=True)
    written = write(made, folder, arguments.draw)
    if arguments.json:
        print(json.dumps(read_json(folder / VERDICT)))
    elif not arguments.quiet:
        _print_made(made, written)
    return ended.exit_code if ended is not None else 0


def _train(figure: Figure, arguments: FigureArguments, known: Recorded) -> SweepOutcome | None:
    found = status(figure, arguments.tier, arguments.out, known, arguments.later)
    todo = found.planned - found.done
    headline: Mapping[str, str] = {}
    unit = "steps"
    if todo and not arguments.quiet:
        errors_console().print(
            f"{figure.name}: {found.done} of {found.planned} runs are there; the others take about "
            f"{duration(found.seconds)}"
        )
        sweep = figure.sweep(arguments.tier, arguments.later)
        results = sweep.cases[0].prepared.kind.results
        headline, unit = results.headline, results.unit
        if arguments.tier != "smoke":
            _tell_doubts(figure, arguments.tier)
            _warn_of_blind_claims(figure, sweep)
    view = fleet_view(f"{figure.name}, {arguments.tier}", headline, unit=unit) if headline else None
    where = {"backend": arguments.backend, "workers": arguments.workers, "ray": arguments.ray}
    return train_missing(figure, arguments.tier, arguments.out, view, arguments.later, known, **where)


def _tell_doubts(figure: Figure, tier: Tier) -> None:
    for line in doubts(figure, tier):
        errors_console().print(f"warning: claim {line}", style="yellow", markup=False, soft_wrap=True)


def _warn_of_blind_claims(figure: Figure, sweep: Sweep) -> None:
    """Say before the runs which claims no outcome of them could confirm by itself."""
    blind = [
        entry["claim"] for entry in plan(figure, figure.planned(sweep)) if entry["detects"] == UNDETECTABLE
    ]
    if blind:
        told = "too few seeds to be confirmed, unless Holm's correction leaves them more room"
        errors_console().print(f"{figure.name}: {', '.join(blind)}: {told}", soft_wrap=True)


def _print_plan(figure: Figure, arguments: FigureArguments) -> None:
    known = {} if arguments.recorded is None else recorded_runs(arguments.recorded, figure)
    sweep = figure.sweep(arguments.tier, later=True)
    later = len(sweep.cases) - len(figure.sweep(arguments.tier).cases)
    planned = plan(figure, figure.planned(sweep))
    if arguments.json:
        print(
            json.dumps(
                {
                    "figure": figure.name,
                    "tier": arguments.tier,
                    "runs": len(sweep.cases),
                    "later": later,
                    "claims": planned,
                }
            )
        )
        return
    console = PlainConsole()
    only_planned = f", {later} of them only planned (--later)" if later else ""
    console.print(
        f"{figure.name} ({figure.paper}), {arguments.tier} tier: {len(sweep.cases)} runs{only_planned}"
    )
    for line in figure.caption_lines(arguments.tier):
        console.print(line)
    found = status(figure, arguments.tier, arguments.out, known, later=True)
    if todo := found.planned - found.done:
        most = duration(found.seconds * usable_cores())
        console.print(f"{todo} of them are not done here, and take about {most} of one core.")
    for entry in planned:
        console.print(f"\n[bold]{entry['claim']}[/bold]: {entry['sentence']}")
        console.print(f"  {entry['method']}")
        if entry["controls"]:
            console.print(f"  only if: {entry['controls']}")
        console.print(f"  the least it can see: {entry['detects']}")
    if arguments.tier == "smoke":
        console.print("\nNo claim is judged at the smoke tier.")


def _print_made(made: Made, written: list[Path]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = PlainConsole()
    if made.missing:
        planned = len(made.figure.sweep(made.tier).cases)
        console.print(f"{len(made.missing)} of {planned} runs are missing:")
        for line in made.missing[:MOST_MISSING]:
            console.print(f"  {line}")
        if len(made.missing) > MOST_MISSING:
            console.print(f"  and {len(made.missing) - MOST_MISSING} more")
    if made.judgements:
        console.print(f"[bold]{made.figure.name}, {made.tier} tier[/bold]")
        for one in made.judgements:
            p = told_p(one.to_json())
            told = [one.scale, "" if p == "–" else f"p {p}" if p.startswith("<") else f"p = {p}"]
            beside = ", ".join(part for part in told if part)
            console.print(f"[bold]{one.word}[/bold]: {one.claim.name}{f' ({beside})' if beside else ''}")
            console.print(Padding(Text(one.numbers), (0, 0, 0, 2)))
    else:
        console.print("No claim is judged at the smoke tier.")
    console.print(
        f"written to {written[-1].parent}: {', '.join(path.name for path in written)}", soft_wrap=True
    )


@dataclass(frozen=True)
class ReportArguments:
    """All figures that there are in one page: pictures, captions, verdicts, configs, versions, machine."""

    results: Path = Path("results")
    """Folder of the finished figures."""
    page: Path | None = None
    """The page to write, - for standard output; report.html in the folder of results if not given."""
    markdown: bool = False
    """Print the headline claims as a Markdown table instead of writing the page: the README's."""
    claims: bool = False
    """Print all claims as a Markdown document instead of writing the page: docs/claims.md."""
    json: bool = False
    """Print one JSON object, last."""


def report_command(arguments: ReportArguments) -> None:
    from internalize.figures.claim_tables import claims_document, headline_table
    from internalize.figures.report import find_records, find_studies, report_page

    records = find_records(arguments.results)
    require(
        bool(records), "results", f"no figure in {arguments.results}: make one with internalize figure NAME"
    )
    chosen = [name for name in ("markdown", "claims", "json") if getattr(arguments, name)]
    require(len(chosen) <= 1, chosen[0] if chosen else "", f"not with --{chosen[-1] if chosen else ''}")
    both = arguments.json and arguments.page is not None and is_standard_output(arguments.page)
    require(not both, "page", "standard output cannot hold both the page and --json: name a file")
    if arguments.markdown:
        print(plain(headline_table(records)))
        return
    if arguments.claims:
        print(plain(claims_document(records, find_studies(arguments.results))), end="")
        return
    path = arguments.page or arguments.results / "report.html"
    require(not path.is_dir(), "page", f"{path} is a folder: name a file")
    if not is_standard_output(path):
        make_folder(path.parent, "page")
    try:
        write_output(path, report_page(records, find_studies(arguments.results)))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInput("page", f"cannot write {path}: {error.strerror}") from None
    if is_standard_output(path):
        return
    if arguments.json:
        print(json.dumps({"page": str(path), "figures": [record["figure"] for record, _ in records]}))
    else:
        print(path.resolve())


@dataclass(frozen=True)
class Status:
    """How far a figure's runs are."""

    planned: int
    done: int
    seconds: float
    """Of this machine, all cores at work, until the rest is done."""


def status(
    figure: Figure,
    tier: Tier,
    out: Path,
    recorded: Recorded | None = None,
    later: bool = False,
) -> Status:
    """recorded: runs that a table knows; they count as done. later: with the runs that are only planned."""
    known_runs = recorded or {}
    costs = Costs(Execution())
    planned, known, seconds = 0, [], 0.0
    for shape, seeds in shapes_of(figure.grids(tier), later):
        whole = prepare(shape)
        found = [_seconds_taken(whole.folder_of_seed(seed, out), known_runs) for seed in seeds]
        taken = [entry for entry in found if entry is not None]
        waiting = len(seeds) - len(taken)
        planned += len(seeds)
        known += taken
        if waiting:
            seconds += waiting * (fmean(taken) if taken else costs(whole).rough_seconds)
    return Status(planned, len(known), seconds / usable_cores())


def _seconds_taken(folder: Path, recorded: Recorded) -> float | None:
    """How long the run took; None if it is not done."""
    found = Run(folder).status()
    if found["state"] == RunState.DONE:
        return float(found.get("seconds", 0.0))
    known = recorded.get(folder.name)
    return None if known is None else float(known.results.get("seconds") or 0.0)
