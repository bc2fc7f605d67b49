"""How long a figure will take on this machine: from runs like it that are finished, else a rule of thumb."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from internalize.contract import RunState
from internalize.figures.cases import Tier, shapes_of
from internalize.figures.figure import Figure
from internalize.kinds import kind_of, prepare
from internalize.runs.folder import Run
from internalize.runs.provenance import usable_cores
from internalize.runtime.execution import Execution
from internalize.runtime.kind import ExperimentConfig
from internalize.sweeps.plan import Costs


@dataclass(frozen=True)
class Status:
    """How far a figure's runs are."""

    planned: int
    done: int
    seconds: float
    """Of this machine, all cores at work, until the rest is done."""


def status(figure: Figure, tier: Tier, out: Path) -> Status:
    there, costs = _folders(out), Costs(Execution())
    planned, known, seconds = 0, [], 0.0
    for shape, seeds in shapes_of(figure.tiers[tier]).items():
        configs = [replace(shape, seed=seed) for seed in seeds]  # type: ignore[type-var]
        found = [_seconds_taken(config, out, there) for config in configs]
        taken = [entry for entry in found if entry is not None]
        waiting = len(configs) - len(taken)
        planned += len(configs)
        known += taken
        if waiting:
            seconds += waiting * (fmean(taken) if taken else costs(prepare(shape)).rough_seconds)
    return Status(planned, len(known), seconds / usable_cores())


def _folders(out: Path) -> set[str]:
    """The readable parts of the names of all run folders."""
    return {path.name.rpartition("-")[0] for path in out.iterdir() if path.is_dir()} if out.is_dir() else set()


def _seconds_taken(config: ExperimentConfig, out: Path, there: set[str]) -> float | None:
    """How long the run took; None if it is not done. Hashes are made only where a name fits."""
    # labels of the paper's own tasks go into a folder's name as they are
    if kind_of(config).results.label(config) not in there:
        return None
    found = Run(prepare(config).folder(out)).status()
    return float(found.get("seconds", 0.0)) if found["state"] == RunState.DONE else None
