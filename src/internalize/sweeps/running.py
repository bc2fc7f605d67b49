"""Carrying a sweep out: each run once, whoever else is at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from internalize.configs.folders import require_writable
from internalize.errors import BadInput, require
from internalize.experiments.driving import Backend, FleetObserver, Outcome, settled
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.many import drive, local_pool
from internalize.experiments.training import run_folder
from internalize.sweeps.options import BackendName, RayOptions
from internalize.sweeps.sweep import Sweep


@dataclass(frozen=True)
class SweepOutcome:
    """How the runs of a sweep ended, in the order of its cases."""

    sweep: Sweep
    outcomes: tuple[Outcome, ...]

    @property
    def done(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state == "done"]

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]

    @property
    def interrupted(self) -> list[Outcome]:
        """Those that somebody asked to stop, and those that were not begun for that reason."""
        return [outcome for outcome in self.outcomes if outcome.state not in ("done", "failed")]

    @property
    def exit_code(self) -> int:
        """0 if all are done, 1 if some failed, 128 + the signal if somebody stopped the sweep."""
        stopped = max((outcome.exit_code for outcome in self.interrupted), default=0)
        return stopped or (130 if self.interrupted else 1 if self.failed else 0)


@dataclass(frozen=True)
class Standing:
    """How far a sweep is before it is carried out."""

    outcomes: list[Outcome]
    folders: list[Path]
    todo: list[int]
    """The cases to carry out, each folder once."""

    def counts(self) -> dict[str, int]:
        states = Counter(outcome.state for outcome in self.outcomes)
        return {"done": states["done"], "failed before": states["failed"], "to do": len(self.todo)}


def standing(sweep: Sweep, out: Path, retry_failed: bool = False) -> Standing:
    """What the folders below `out` say. Changes nothing."""
    folders = [run_folder(case.config, out) for case in sweep.cases]
    outcomes = [Outcome(case.config) for case in sweep.cases]
    return Standing(outcomes, folders, _unsettled(outcomes, folders, retry_failed))


def run_sweep(
    sweep: Sweep,
    *,
    out: Path | str,
    backend: BackendName = "local",
    workers: int | None = None,
    retries: int = 1,
    retry_failed: bool = False,
    observer: FleetObserver | None = None,
    execution: Execution | None = None,
    ray: RayOptions | None = None,
    **options: Any,
) -> SweepOutcome:
    """Carry out all runs of a sweep that are not done yet; the folders land in `out`, as those of any run.

    workers: how many runs at once; as many as there are cores (or fit the cluster) if not given.
    retries: how often a run that failed is tried again, from its last good checkpoint.
    retry_failed: also try runs again whose folders say that they failed before.
    execution: device, threads and so on; its folder is replaced by `out`.
    ray, options: what the backend `ray` is told, as a whole or by entry (`address=…`): see `RayOptions`.
    """
    execution = replace(execution or Execution(), out=Path(out), fresh=False)
    require(retries >= 0, "retries", f"must be 0 or more, got {retries}")
    require(workers is None or workers >= 1, "workers", f"must be at least 1, got {workers}")
    options = {**({} if ray is None else vars(ray)), **options}
    told = [name for name, value in options.items() if value != getattr(RayOptions, name, None)]
    require(backend == "ray" or not told, "".join(told[:1]), "belongs to --backend ray")
    require_writable(execution.out)
    now = standing(sweep, execution.out, retry_failed)
    outcomes, folders, todo = now.outcomes, now.folders, now.todo
    if todo:
        resolve_device(execution.device)
        drive(
            [outcomes[index] for index in todo],
            _backend(backend, execution, workers, len(todo), options),
            observer,
            retries,
            [folders[index] for index in todo],
            forgiving=retry_failed,
            names=[str(sweep.cases[index]) for index in todo],
        )
        _repeat_for_twins(outcomes, folders, todo)
    return SweepOutcome(sweep, tuple(outcomes))


def _backend(
    name: BackendName, execution: Execution, workers: int | None, runs: int, options: dict[str, Any]
) -> Backend:
    if name == "local":
        return local_pool(execution, workers, runs)
    require(name == "ray", "backend", f"must be local or ray, got {name!r}")
    try:
        from internalize.sweeps.ray import ray_backend
    except ImportError:
        raise BadInput("backend", "ray is not installed: pip install 'internalize[ray]'") from None
    return ray_backend(execution, workers, RayOptions(**options))


def _unsettled(outcomes: Sequence[Outcome], folders: Sequence[Path], retry_failed: bool) -> list[int]:
    """The cases to carry out, each folder once."""
    todo: dict[Path, int] = {}
    for index, (outcome, folder) in enumerate(zip(outcomes, folders, strict=True)):
        if settled(outcome, folder) and not (retry_failed and outcome.state == "failed"):
            continue
        outcome.state, outcome.error, outcome.exit_code = "waiting", "", 0
        todo.setdefault(folder, index)
    return list(todo.values())


def _repeat_for_twins(outcomes: list[Outcome], folders: Sequence[Path], todo: Sequence[int]) -> None:
    """A run that a sweep made by hand names twice was carried out once; both say how it ended."""
    ended = {folders[index]: outcomes[index] for index in todo}
    for index, folder in enumerate(folders):
        if outcomes[index].state == "waiting" and folder in ended:
            outcomes[index] = ended[folder]
