"""How and where a run is carried out: folder, device, threads; nothing about what is computed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from internalize.configs.codec import typed
from internalize.contract import Observer, named, shortcomings, still_speaking
from internalize.display.live import Watched, run_view
from internalize.display.page import LivePage
from internalize.display.terminal import (
    PlainConsole,
    duration,
    errors_console,
    interval_beside,
    readable,
    results_table,
)
from internalize.errors import BadInput, RunWarning, require
from internalize.runs.folder import Run
from internalize.runs.location import runs_folder
from internalize.runs.provenance import usable_cores
from internalize.runs.trackers import TrackerName
from internalize.runtime.kind import Prepared

if TYPE_CHECKING:
    import torch

KeepStages = Literal["all", "some", "none"]
MOST_THREADS = 4_096


@dataclass(frozen=True)
@typed()
class Execution:
    """Where and how a run is carried out; no part of its identity."""

    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where tensors live; auto takes a GPU of CUDA if there is one. cuda and mps were never tried on real
    hardware."""
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
    import torch

    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":  # Apple's GPUs were never tried: only whoever asks gets them
        return torch.device("cuda" if available["cuda"] else "cpu")
    usable = ", ".join(kind for kind, there in available.items() if there)
    require(available.get(name, False), "device", f"{name} is not available here; there is {usable}")
    return torch.device(name)


def visible_gpus(name: str) -> list[str]:
    """The GPUs for runs on that device, as CUDA_VISIBLE_DEVICES calls them; none for other devices."""
    import torch

    if resolve_device(name).type != "cuda":
        return []
    count, named = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return named.split(",")[:count] if named else [str(i) for i in range(count)]


def keeps_stage(policy: KeepStages, stage: int, last: int) -> bool:
    """Whether the weights at the end of this stage are kept."""
    if policy == "some":
        return stage == last or stage & (stage - 1) == 0
    return policy == "all"


@contextmanager
def surroundings(run: Run, execution: Execution) -> Iterator[torch.device]:
    """The device and the threads to compute with: as the user wants, or as the run had them before."""
    import torch

    before = run.provenance()
    device: str = execution.device
    threads_then, device_then = before.get("threads"), before.get("device")
    sane = type(threads_then) is int and 1 <= threads_then <= MOST_THREADS  # the file may be somebody else's
    count = execution.threads or (threads_then if sane else 1)
    if device == "auto" and isinstance(device_then, str):
        try:
            device = resolve_device(torch.device(device_then).type).type
        except (BadInput, RuntimeError):  # the difference is noted, with all others, when the run goes on
            device = "auto"
    with threads(count):
        yield resolve_device(device)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Compute with so many processor threads while the block runs; one if not given."""
    import torch

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
    there = "1 usable core" if cores == 1 else f"{cores} usable cores"
    text = f"{wanted} threads share {there} and wait for each other: this will be slow"
    warnings.warn(text, RunWarning, stacklevel=2)


def say_if_done(prepared: Prepared, folder: Path, advice: str = "--fresh trains it anew") -> None:
    """That nothing is trained, and since when, where the run in this folder is finished."""
    if Run(folder).is_done:
        done = datetime.fromtimestamp((folder / "status.json").stat().st_mtime)
        said = f"{prepared.label}: already done ({done:%Y-%m-%d %H:%M}); {advice}"
        errors_console().print(said, soft_wrap=True, markup=False)


def announce(prepared: Prepared, execution: Execution) -> None:
    """Say beforehand how long it will take and how much memory, or that the run is done already."""
    folder = prepared.folder(execution.out)
    if folder.exists() and not execution.fresh:
        say_if_done(prepared, folder)
        return
    device = resolve_device(execution.device)
    prepared.kind.forecast(prepared, device).require_memory(device)
    with threads(execution.threads):
        guess = prepared.kind.forecast(prepared, device, timed=True)
    most = "at most about" if _may_end_early(prepared.config) else "about"
    errors_console().print(
        f"{prepared.label}: {guess.parameters:,} parameters; {most} {duration(guess.seconds or 0.0)} and "
        f"{guess.memory_bytes / 2**20:,.0f} MB",
        soft_wrap=True,
    )


def _may_end_early(config: Any) -> bool:
    """Whether the iterations are only the most that a run may take: it ends when all is learned."""
    return bool(getattr(getattr(config, "schedule", None), "stop_early", False))


def observers_for(prepared: Prepared, execution: Execution) -> list[Observer]:
    """Who watches a run that these fields ask for."""
    if execution.quiet and not execution.page:
        return []
    results = prepared.kind.results
    experiment = prepared.build(resolve_device(execution.device))
    watched = Watched(
        prepared.label,
        results.headline,
        results.samples_per_step(prepared.config),
        results.chance(experiment),
        results.answers() if results.answers else None,
    )
    watching: list[Observer] = [LivePage(watched)] if execution.page else []
    return [*watching, *([] if execution.quiet else [run_view(watched)])]


def result_of(run: Run) -> dict[str, Any]:
    """What a command prints of a finished run with --json."""
    summary = run.summary()
    warning = {"warning": said} if (said := still_speaking(summary)) else {}
    return {"run": str(run.path), **summary, **warning, "seconds": run.status()["seconds"]}


def report(run: Run, execution: Execution) -> None:
    """Print a finished run's results: a table for people, or one JSON object."""
    status, summary = run.status(), run.summary()
    if execution.json:
        print(json.dumps(result_of(run)))
    elif not execution.quiet:
        rows = [
            [named(name), readable(name, value) + interval_beside(name, summary)]
            for name, value in summary.items()
            if value is not None and not isinstance(value, list)  # intervals stand beside; `runs show` has all
        ]
        PlainConsole().print(results_table(run.path.name, ["result", ""], rows))
        for said in shortcomings(summary, str(run.path), run.identity().config):
            PlainConsole().print(f"warning: {said}", style="yellow", soft_wrap=True, markup=False)
        PlainConsole().print(f"{duration(status['seconds'])}, {run.path}", soft_wrap=True)
