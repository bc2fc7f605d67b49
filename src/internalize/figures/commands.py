"""`internalize figures`, `internalize figure` and `internalize report`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table as RichTable

from internalize.configs.folders import make_folder, require_writable
from internalize.configs.outputs import is_standard_output, write_output
from internalize.display.fleet import fleet_view
from internalize.display.terminal import duration, errors_console, results_table
from internalize.errors import BadInput, require
from internalize.figures.catalogue import NAMES, find_figure
from internalize.figures.claims import UNDETECTABLE
from internalize.figures.estimates import status
from internalize.figures.figure import Figure
from internalize.figures.grids import TIERS, Tier
from internalize.figures.making import VERDICT, Made, plan, read, results_folder, train_missing, write
from internalize.figures.verdicts import told_p
from internalize.runs.atomic import read_json
from internalize.runs.finding import runs_folder
from internalize.sweeps import Sweep, SweepOutcome
from internalize.sweeps.run import BackendName, RayOptions

MOST_MISSING = 5
"""Missing runs that are named; of more, how many there are is said."""


@dataclass(frozen=True)
class FiguresArguments:
    """The figures of the paper: what each shows, how far its runs are, and the verdicts on its claims."""

    out: Path = field(default_factory=runs_folder)
    """Folder of the runs."""
    results: Path = Path("results")
    """Folder of the finished figures."""
    json: bool = False
    """Print one JSON object, last."""


def figures_command(arguments: FiguresArguments) -> None:
    for field_name, folder in (("out", arguments.out), ("results", arguments.results)):
        require(folder.is_dir() or not folder.exists(), field_name, f"{folder} is not a folder")
    entries = [_entry(find_figure(name), arguments) for name in NAMES]
    if arguments.json:
        print(json.dumps({"figures": entries}))
        return
    rows = []
    for entry in entries:
        progress = (_progress(entry["runs"][tier]) for tier in TIERS[1:])
        rows.append([entry["figure"], entry["shows"], *progress, entry["verdicts"]])
    columns = ["figure", "shows", "laptop", "paper", "claims"]
    Console(highlight=False).print(_wide_table(columns, rows))
    Console(highlight=False).print(
        "internalize figure NAME [--tier laptop] makes one; --plan shows its claims."
    )


def _entry(figure: Figure, arguments: FiguresArguments) -> dict[str, Any]:
    found = {tier: status(figure, tier, arguments.out) for tier in TIERS}
    entry: dict[str, Any] = {
        "figure": figure.name,
        "paper": figure.paper,
        "shows": figure.shows,
        "runs": {tier: vars(state) for tier, state in found.items()},
    }
    entry["verdicts"] = _verdicts_told(results_folder(arguments.results, figure, "laptop"))
    return entry


def _progress(found: dict[str, Any]) -> str:
    """`12/45, 20 min left`."""
    if not found["planned"]:
        return "no runs"
    left = "" if found["done"] == found["planned"] else f"\n{duration(found['seconds'])}"
    return f"{found['done']}/{found['planned']}{left}"


def _verdicts_told(folder: Path) -> str:
    """`3 confirmed, 1 not confirmed`, from the results that are there."""
    try:
        words = [claim["verdict"] for claim in read_json(folder / VERDICT)["claims"]]
    except (OSError, ValueError, KeyError):
        return "not made"
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "not judged"


def _wide_table(columns: list[str], rows: list[list[str]]) -> RichTable:
    table = RichTable(title="Figures of the paper: runs done, and the time the others take here")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    return table


@dataclass(frozen=True)
class FigureArguments:
    """One figure of the paper: run what is missing, draw it, and judge its claims."""

    name: Annotated[str, tyro.conf.Positional]
    """Which: see `internalize figures`."""
    tier: Tier = "laptop"
    """smoke: seconds, nothing is judged; laptop: minutes to an hour; paper: the paper's own sizes."""
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
        _print_plan(figure, arguments)
        return 0
    folder = require_writable(results_folder(arguments.results, figure, arguments.tier), "results")
    ended = _train(figure, arguments) if arguments.train else None
    if ended is not None and ended.interrupted:
        told = f"{len(ended.interrupted)} of {len(ended.outcomes)} runs are left; the same command goes on"
        errors_console().print(f"interrupted: {told}, --no-train draws what is there", soft_wrap=True)
        return ended.exit_code
    made = read(figure, arguments.tier, arguments.out)
    if not made.material.rows:
        what = f"{len(made.missing)} runs are missing, for example {made.missing[0]}"
        raise BadInput("figure", f"nothing to draw of {figure.name} in {arguments.out}: {what}")
    written = write(made, folder)
    if arguments.json:
        print(json.dumps(read_json(folder / VERDICT)))
    elif not arguments.quiet:
        _print_made(made, written)
    return ended.exit_code if ended is not None else 0


def _train(figure: Figure, arguments: FigureArguments) -> SweepOutcome | None:
    found = status(figure, arguments.tier, arguments.out)
    todo = found.planned - found.done
    headline: Mapping[str, str] = {}
    unit = "steps"
    if todo and not arguments.quiet:
        errors_console().print(
            f"{figure.name}: {found.done} of {found.planned} runs are there; the others take about "
            f"{duration(found.seconds)}"
        )
        sweep = figure.sweep(arguments.tier)
        results = sweep.cases[0].prepared.kind.results
        headline, unit = results.headline, results.unit
        if arguments.tier != "smoke":
            _warn_of_blind_claims(figure, sweep)
    view = fleet_view(f"{figure.name}, {arguments.tier}", headline, unit=unit) if headline else None
    where = {"backend": arguments.backend, "workers": arguments.workers, "ray": arguments.ray}
    return train_missing(figure, arguments.tier, arguments.out, view, **where)


def _warn_of_blind_claims(figure: Figure, sweep: Sweep) -> None:
    """Say before the runs which claims no outcome of them could confirm by itself."""
    blind = [
        entry["claim"] for entry in plan(figure, figure.planned(sweep)) if entry["detects"] == UNDETECTABLE
    ]
    if blind:
        told = "too few seeds to be confirmed, unless Holm's correction leaves them more room"
        errors_console().print(f"{figure.name}: {', '.join(blind)}: {told}", soft_wrap=True)


def _print_plan(figure: Figure, arguments: FigureArguments) -> None:
    sweep = figure.sweep(arguments.tier)
    planned = plan(figure, figure.planned(sweep))
    if arguments.json:
        print(
            json.dumps(
                {"figure": figure.name, "tier": arguments.tier, "runs": len(sweep.cases), "claims": planned}
            )
        )
        return
    console = Console(highlight=False)
    console.print(f"{figure.name} ({figure.paper}), {arguments.tier} tier: {len(sweep.cases)} runs")
    for line in figure.caption_lines(arguments.tier):
        console.print(line)
    for entry in planned:
        console.print(f"\n[bold]{entry['claim']}[/bold]: {entry['sentence']}")
        console.print(f"  {entry['method']}")
        console.print(f"  the least it can see: {entry['detects']}")
    if arguments.tier == "smoke":
        console.print("\nNo claim is judged at the smoke tier.")


def _print_made(made: Made, written: list[Path]) -> None:
    console = Console(highlight=False)
    if made.missing:
        console.print(f"{len(made.missing)} of {len(made.sweep.cases)} runs are missing:")
        for line in made.missing[:MOST_MISSING]:
            console.print(f"  {line}")
        if len(made.missing) > MOST_MISSING:
            console.print(f"  and {len(made.missing) - MOST_MISSING} more")
    if made.verdicts:
        rows = [
            [verdict.claim.name, verdict.word, told_p(verdict.to_json()), verdict.evidence.numbers]
            for verdict in made.verdicts
        ]
        console.print(
            results_table(f"{made.figure.name}, {made.tier}", ["claim", "verdict", "p", "found"], rows)
        )
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
    """Print the claims as a Markdown table instead of writing the page."""
    json: bool = False
    """Print one JSON object, last."""


def report_command(arguments: ReportArguments) -> None:
    from internalize.figures.markdown import claims_table
    from internalize.figures.report import find_records, report_page

    records = find_records(arguments.results)
    require(
        bool(records), "results", f"no figure in {arguments.results}: make one with internalize figure NAME"
    )
    require(not (arguments.markdown and arguments.json), "markdown", "is for people: not with --json")
    both = arguments.json and arguments.page is not None and is_standard_output(arguments.page)
    require(not both, "page", "standard output cannot hold both the page and --json: name a file")
    if arguments.markdown:
        print(claims_table(records))
        return
    path = arguments.page or arguments.results / "report.html"
    require(not path.is_dir(), "page", f"{path} is a folder: name a file")
    if not is_standard_output(path):
        make_folder(path.parent, "page")
    try:
        write_output(path, report_page(records))
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
