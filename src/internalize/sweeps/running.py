"""Carrying a sweep out: each run once, whoever else is at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from internalize.configs.folders import require_writable
from internalize.configs.trust import own_files
from internalize.errors import require
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
        """Those that somebody asked to stop or that lost their process, and those that were not begun."""
        return [outcome for outcome in self.outcomes if outcome.state not in ("done", "failed")]

    @property
    def exit_code(self) -> int:
        """0 if all are done, 1 if some failed or were lost, 128 + the signal if somebody stopped the sweep."""
        return max((outcome.exit_code for outcome in self.interrupted), default=1 if self.failed else 0)


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
    ray = replace(ray or RayOptions(), **options)
    sweep.require_runs()
    require_possible(execution, backend, workers, retries, ray)
    with own_files():
        now = standing(sweep, execution.out, retry_failed)
    outcomes, folders, todo = now.outcomes, now.folders, now.todo
    if todo:
        drive(
            [outcomes[index] for index in todo],
            _backend(backend, execution, workers, len(todo), ray),
            observer,
            retries,
            [folders[index] for index in todo],
            forgiving=retry_failed,
            names=[str(sweep.cases[index]) for index in todo],
        )
        _repeat_for_twins(outcomes, folders, todo)
    return SweepOutcome(sweep, tuple(outcomes))


def require_possible(
    execution: Execution, backend: str, workers: int | None, retries: int, ray: RayOptions
) -> None:
    """Refuse whatever could not be carried out so, before anything is measured, begun or made."""
    require(backend in get_args(BackendName), "backend", f"must be local or ray, got {backend!r}")
    require(retries >= 0, "retries", f"must be 0 or more, got {retries}")
    require(workers is None or workers >= 1, "workers", f"must be at least 1, got {workers}")
    require_writable(execution.out)
    if backend == "ray":  # the runs see other devices than this machine, which may have none but its processor
        there = find_spec("ray") is not None
        require(there, "backend", "ray is not installed: pip install 'internalize[ray]'")
        return
    told = next((field.name for field in fields(ray) if getattr(ray, field.name) != field.default), "")
    require(not told, told, "belongs to --backend ray")
    resolve_device(execution.device)


def _backend(
    name: BackendName, execution: Execution, workers: int | None, runs: int, ray: RayOptions
) -> Backend:
    if name == "local":
        return local_pool(execution, workers, runs)
    from internalize.sweeps.ray import ray_backend

    return ray_backend(execution, workers, ray)


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
