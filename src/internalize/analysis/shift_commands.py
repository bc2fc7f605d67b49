"""`internalize pds INSTANCE`: a positive distribution shift trained, measured and drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console

from internalize.analysis.output import OutputFolder
from internalize.analysis.shift import INSTANCES, Finding, InstanceName, arms_of, findings
from internalize.configs.codec import to_json
from internalize.configs.folders import require_writable
from internalize.display.fleet import fleet_view
from internalize.display.learning_curves import draw_target_loss
from internalize.display.terminal import results_table
from internalize.errors import RunFailed, closest, require
from internalize.kinds import kind_of
from internalize.kinds.entrance import train_many
from internalize.runs.provenance import provenance
from internalize.runtime.execution import Execution, threads

TITLES: dict[InstanceName, str] = {
    "original": "Original PDS: biased inputs teach a parity of uniform ones",
    "hints": "Hinted parity: the mixture over stages teaches the subnetwork",
    "mixture": "CoT mixture: answers of all lengths teach the direct one",
}


@dataclass(frozen=True)
class ShiftArguments:
    """Positive distribution shift: train on easier contexts, measure on the hard target, several seeds."""

    instance: Annotated[InstanceName, tyro.conf.Positional]
    """original (biased inputs), hints (hinted parity) or mixture (chains of all lengths)."""
    seeds: int = 3
    """Runs of each arm, with the seeds 0, 1, …"""
    steps: int | None = None
    """Training steps of a run; as many as the instance needs if not given."""
    epsilon: float = 0.05
    """ε: how near to the best in the class counts as learned."""
    samples: int = 10_000
    """Fresh inputs for the target loss of a final model."""
    workers: int | None = None
    """Runs at the same time; as many as there are cores if not given."""
    drawings: Path | None = None
    """Folder for the figure and the tables; `pds` in the folder of the runs if not given."""
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)

    def __post_init__(self) -> None:
        near = closest(str(self.instance), list(INSTANCES))
        good = self.instance in INSTANCES
        require(good, "instance", f"must be one of {', '.join(INSTANCES)}{near}; got {self.instance!r}")
        for name, count in (("seeds", self.seeds), ("samples", self.samples)):
            require(count >= 1, name, f"must be at least 1, got {count}")
        require(self.steps is None or self.steps >= 1, "steps", f"must be at least 1, got {self.steps}")
        require(0 < self.epsilon < 1, "epsilon", f"must lie between 0 and 1, got {self.epsilon}")


def shift_command(arguments: ShiftArguments) -> None:
    execution, instance = arguments.execution, arguments.instance
    folder = OutputFolder(require_writable(arguments.drawings or execution.out / "pds"))
    arms = arms_of(instance, range(arguments.seeds), arguments.steps)
    # seed by seed, so that a comparison is there early
    configs = [config for group in zip(*arms.values(), strict=True) for config in group]
    view = (
        None
        if execution.quiet
        else fleet_view(f"{instance}, {len(configs)} runs", kind_of(configs[0]).results.headline)
    )
    outcomes = train_many(configs, execution, arguments.workers, view)
    runs = {}
    for outcome in outcomes:
        if outcome.run is None or outcome.state != "done":
            raise RunFailed(f"{outcome.prepared.label} {outcome.state}: {outcome.error}")
        runs[outcome.config] = outcome.run
    found: list[Finding] = []
    with threads(execution.threads):
        for arm, own in arms.items():
            found += findings(instance, arm, [runs[config] for config in own], arguments.samples)
    write(folder, arguments, {arm: to_json(own[0]) for arm, own in arms.items()}, found)
    rows = [finding.row(arguments.epsilon) for finding in found]
    if execution.json:
        print(json.dumps({"instance": instance, "findings": rows, "drawings": str(folder.path)}))
    elif not execution.quiet:
        console = Console(highlight=False)
        columns = [
            "trained on",
            "answered by",
            "target loss",
            "best",
            f"samples to best + {arguments.epsilon:g}",
        ]
        console.print(results_table(TITLES[instance], columns, [_cells(row) for row in rows]))
        console.print(folder.note(), soft_wrap=True)


def _cells(row: dict[str, Any]) -> list[str]:
    spread = f"{row['final_mean']:.3f} ({row['final_least']:.3f} … {row['final_most']:.3f})"
    needed = "not reached" if row["samples_needed"] is None else f"{row['samples_needed']:,.0f}"
    return [row["arm"], row["meaning"], spread, f"{row['best']:g}", needed]


def write(
    folder: OutputFolder, arguments: ShiftArguments, configs: dict[str, Any], found: list[Finding]
) -> None:
    """INSTANCE.png, .svg, .csv (a row a measurement) and .json (final losses, settings, where from)."""
    name = arguments.instance
    panels: dict[str, dict[str, list[list[tuple[float, float]]]]] = {}
    for finding in found:
        panels.setdefault(finding.meaning, {})[finding.arm] = finding.curves
    folder.figure(name, draw_target_loss(panels, found[0].best, TITLES[name]))
    rows = [
        {"arm": f.arm, "budget": f.budget, "seed": seed, "samples": samples, "target_loss": loss}
        for f in found
        for seed, curve in zip(f.seeds, f.curves, strict=True)
        for samples, loss in curve
    ]
    folder.csv(name, rows)
    folder.json(
        name,
        {
            "instance": name,
            "seeds": list(range(arguments.seeds)),
            "findings": [finding.row(arguments.epsilon) | {"final": finding.final} for finding in found],
            "configs": configs,
            "provenance": provenance(torch.device("cpu")),
        },
    )
