"""`internalize atlas SWEEP`: a table of tasks from the finished runs of a sweep."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console

from internalize.analysis.atlas import HEADINGS, cells, places
from internalize.analysis.output import OutputFolder
from internalize.analysis.race import as_latex, as_markdown
from internalize.configs.outputs import require_writable
from internalize.configs.trust import TrustOption
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.runs.location import runs_folder
from internalize.runs.provenance import provenance
from internalize.sweeps.collection import collect
from internalize.sweeps.sweep import find_sweep


@dataclass(frozen=True)
class AtlasArguments(TrustOption):
    """What internalizing each task of a sweep cost, beside what theory says of it. Trains nothing."""

    sweep: Annotated[str, tyro.conf.Positional] = "studies/atlas.yaml"
    """A sweep over tasks, carried out by `internalize sweep`; runs that are missing are left out and named."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    drawings: Path | None = None
    """Folder for the tables; `atlas` in the folder of the runs if not given."""
    json: bool = False
    """Print one JSON object."""


def atlas_command(arguments: AtlasArguments) -> None:
    folder = OutputFolder(require_writable(arguments.drawings or arguments.out / "atlas"))
    collected = collect(find_sweep(arguments.sweep), arguments.out)
    rows = [row for row in collected.rows if row["kind"] == "chain"]
    require(len(rows) > 0, "sweep", f"{arguments.sweep} has no finished chain run in {arguments.out}")
    unknown = [row["run"] for row in rows if "operations_to_internalize" not in row]
    require(not unknown, "sweep", f"{unknown[:1]} was made before costs were counted: train it again")
    found = places(rows)
    missing = len(collected.missing)
    result = {
        "sweep": str(arguments.sweep),
        "places": [place.to_json() for place in found],
        "runs": len(rows),
        "missing": missing,
        "provenance": provenance(torch.device("cpu")),
    }
    lines = [cells(place) for place in found]
    folder.json("atlas", result)
    folder.text("atlas.md", as_markdown(HEADINGS, lines))
    folder.text("atlas.tex", as_latex(HEADINGS, lines))
    if arguments.json:
        print(json.dumps(result))
        return
    console = Console(highlight=False)
    title = f"{len(rows)} runs; {missing} of the sweep are not finished" if missing else f"{len(rows)} runs"
    console.print(results_table(title, list(HEADINGS), [list(line) for line in lines]))
    console.print(folder.note(), soft_wrap=True)
