"""How long a figure will take on this machine: from runs like it that are finished, else a rule of thumb."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from internalize.figures.cases import Tier, shapes_of
from internalize.figures.figure import Figure
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.hints.config import HintsConfig
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution
from internalize.runtime.kinds import ExperimentConfig
from internalize.runtime.training import run_folder
from internalize.sweeps.costs import cost_of

OPERATIONS_A_SECOND = 5e10
"""Of one core, in training steps of these shapes (`internalize bench`: 40 to 90 thousand millions)."""
SECONDS_A_STEP = 1e-3
"""Beyond what is counted: data, optimizer, bookkeeping."""
OTHER_SECONDS = {"parity": 5.0}
"""A run of another kind, of the size of this package's figures."""


@dataclass(frozen=True)
class Status:
    """How far a figure's runs are."""

    planned: int
    done: int
    seconds: float
    """Of this machine, all cores at work, until the rest is done."""


def status(figure: Figure, tier: Tier, out: Path) -> Status:
    there = _folders(out)
    planned, known, seconds = 0, [], 0.0
    for shape, seeds in shapes_of(figure.tiers[tier]).items():
        configs = [replace(shape, seed=seed) for seed in seeds]  # type: ignore[type-var]
        found = [_seconds_taken(config, out, there) for config in configs]
        taken = [entry for entry in found if entry is not None]
        waiting = len(configs) - len(taken)
        planned += len(configs)
        known += taken
        seconds += waiting * (fmean(taken) if taken else seconds_of(shape)) if waiting else 0.0
    return Status(planned, len(known), seconds / (os.cpu_count() or 1))


def _folders(out: Path) -> set[str]:
    """The readable parts of the names of all run folders."""
    return {path.name.rpartition("-")[0] for path in out.iterdir() if path.is_dir()} if out.is_dir() else set()


def _seconds_taken(config: ExperimentConfig, out: Path, there: set[str]) -> float | None:
    """How long the run took; None if it is not done. Hashes are made only where a name fits."""
    if config.label() not in there:  # labels of the paper's own tasks go into a folder's name as they are
        return None
    found = Run(run_folder(config, out)).status()
    return float(found.get("seconds", 0.0)) if found["state"] == "done" else None


def seconds_of(config: ExperimentConfig) -> float:
    """A rule of thumb for one core, from the operations counted; measuring them would take too long here."""
    if isinstance(config, HintsConfig):
        weights = config.hidden_width * (2 * (config.d or 0) + config.depth * config.hidden_width)
        return config.all_steps * (6 * config.batch * weights / OPERATIONS_A_SECOND + SECONDS_A_STEP)
    if not isinstance(config, ChainConfig):
        return OTHER_SECONDS.get(config.kind, 60.0)
    return cost_of(config, Execution()).flops / OPERATIONS_A_SECOND + config.iterations * SECONDS_A_STEP
