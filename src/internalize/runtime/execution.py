"""How and where a run is carried out: folder, device, threads; nothing about what is computed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from internalize.configs.codec import typed
from internalize.contract import Observer
from internalize.display.page import LivePage
from internalize.display.terminal import (
    PlainConsole,
    duration,
    errors_console,
    percent,
    results_table,
    run_view,
)
from internalize.errors import BadInput, RunWarning, require
from internalize.runs.folder import Run
from internalize.runs.location import runs_folder
from internalize.runs.provenance import usable_cores
from internalize.runs.trackers import TrackerName
from internalize.runtime.kind import Prepared

KeepStages = Literal["all", "some", "none"]
MOST_THREADS = 4_096


@dataclass(frozen=True)
@typed()
class Execution:
    """Where and how a run is carried out; no part of its identity."""

    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where tensors live; auto takes a GPU if there is one."""
    threads: int | None = None
    """Processor threads of one run: 1 if not given, and on resume as many as before. Results are the same to
    the bit only for the same number of threads."""
    keep_stages: KeepStages = "all"
    """Which stage ends keep their weights: all, some (1, 2, 4, 8, … and the last) or none."""
    checkpoint_minutes: float = 5.0
    """A checkpoint is written at every stage end, and this often between them."""
    tracker: tuple[TrackerName, ...] = ()
    """Send the curves there too: tensorboard, wandb (offline unless WANDB_MODE says otherwise), mlflow."""
    fresh: bool = False
    """Start over, even if this very run is finished or half done."""
    quiet: bool = False
    """No progress, no tables: errors only."""
    json: bool = False
    """Print one JSON object with the results, last."""
    page: bool = False
    """Write RUN/live.html, a page that renews itself while the training runs."""

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "threads", f"must be at least 1, got {self.threads}")
        good = self.threads is None or self.threads <= MOST_THREADS
        require(good, "threads", f"must be at most {MOST_THREADS:,}: no machine has more, got {self.threads}")
        good = self.checkpoint_minutes > 0
        require(good, "checkpoint-minutes", f"must be more than 0, got {self.checkpoint_minutes}")


def resolve_device(name: str) -> torch.device:
    """The device of that name, refused with a clear line where this machine has none."""
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    usable = ", ".join(kind for kind, there in available.items() if there)
    require(available.get(name, False), "device", f"{name} is not available here; there is {usable}")
    return torch.device(name)


def keeps_stage(policy: KeepStages, stage: int, last: int) -> bool:
    """Whether the weights at the end of this stage are kept."""
    if policy == "some":
        return stage == last or stage & (stage - 1) == 0
    return policy == "all"


@contextmanager
def surroundings(run: Run, execution: Execution) -> Iterator[torch.device]:
    """The device and the threads to compute with: as the user wants, or as the run had them before."""
    before = run.provenance()
    device: str = execution.device
    count = execution.threads or before.get("threads", 1)
    if device == "auto" and "device" in before:
        device = torch.device(before["device"]).type
        try:
            resolve_device(device)
        except BadInput:  # the difference is noted, with all others, when the run goes on
            device = "auto"
    with threads(count):
        yield resolve_device(device)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Compute with so many processor threads while the block runs; one if not given."""
    wanted, cores = count or 1, usable_cores()
    if wanted > cores:
        _warn_of_waiting(wanted, cores)
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache  # said once, however often a command computes
def _warn_of_waiting(wanted: int, cores: int) -> None:
    """No refusal: a run that was made with more threads than cores is repeated to the bit only with as many."""
    text = f"{wanted} threads share {cores} usable core(s) and wait for each other: this will be slow"
    warnings.warn(text, RunWarning, stacklevel=2)


def announce(prepared: Prepared, execution: Execution) -> None:
    """Say beforehand how long it will take and how much memory, unless the run is there already."""
    if prepared.folder(execution.out).exists() and not execution.fresh:
        return
    device = resolve_device(execution.device)
    prepared.kind.forecast(prepared, device).require_memory(device)
    with threads(execution.threads):
        guess = prepared.kind.forecast(prepared, device, timed=True)
    errors_console().print(
        f"{prepared.label}: {guess.parameters:,} parameters; about {duration(guess.seconds or 0.0)} and "
        f"{guess.memory_bytes / 2**20:,.0f} MB",
        soft_wrap=True,
    )


def observers_for(prepared: Prepared, execution: Execution) -> list[Observer]:
    """Who watches a run that these fields ask for."""
    results = prepared.kind.results
    watching: list[Observer] = []
    if execution.page:
        watching.append(LivePage(prepared.label, results.answers() if results.answers else None))
    if not execution.quiet:
        speed = results.samples_per_step(prepared.config)
        watching.append(run_view(prepared.label, results.headline, speed))
    return watching


def result_of(run: Run) -> dict[str, Any]:
    """What a command prints of a finished run with --json."""
    return {"run": str(run.path), **run.summary(), "seconds": run.status()["seconds"]}


def report(run: Run, execution: Execution) -> None:
    """Print a finished run's results: a table for people, or one JSON object."""
    status, summary = run.status(), run.summary()
    if execution.json:
        print(json.dumps(result_of(run)))
    elif not execution.quiet:
        rows = [
            [name.replace("_", " "), readable(name, value) + _interval_beside(name, summary)]
            for name, value in summary.items()
            if not name.endswith("_interval")
        ]
        PlainConsole().print(results_table(run.path.name, ["result", ""], rows))
        PlainConsole().print(f"{duration(status['seconds'])}, {run.path}", soft_wrap=True)


def _interval_beside(name: str, summary: Mapping[str, Any]) -> str:
    """` [98.1 %, 98.6 %]` for an accuracy whose interval the summary has too."""
    interval = summary.get(name.replace("_accuracy", "_interval"))
    if not (name.endswith("_accuracy") and isinstance(interval, list)):
        return ""
    return f" [{percent(interval[0])}, {percent(interval[1])}]"


def readable(name: str, value: Any) -> str:
    """A result as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return percent(value) if name.endswith("accuracy") else f"{value:,.{0 if value >= 1000 else 2}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
