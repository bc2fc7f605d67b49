"""Carrying a sweep out: each run once, whoever else is at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from tyro.conf import arg

from internalize.configs.files import require_writable
from internalize.contract import RunState
from internalize.errors import BadInput, require
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.driver import OVER, Backend, FleetObserver, Outcome, drive, settled
from internalize.runtime.fleet.pool import local_pool
from internalize.sweeps.sweep import Sweep

BackendName = Literal["local", "ray"]


@dataclass(frozen=True)
class SweepOutcome:
    """How the runs of a sweep ended, in the order of its cases."""

    sweep: Sweep
    outcomes: tuple[Outcome, ...]

    @property
    def done(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state == RunState.DONE]

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state == RunState.FAILED]

    @property
    def interrupted(self) -> list[Outcome]:
        """Those that somebody asked to stop or that lost their process, and those that were not begun."""
        return [outcome for outcome in self.outcomes if outcome.state not in OVER]

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
        return {
            "done": states[RunState.DONE],
            "failed before": states[RunState.FAILED],
            "to do": len(self.todo),
        }


def standing(sweep: Sweep, out: Path, retry_failed: bool = False) -> Standing:
    """What the folders below `out` say. Changes nothing."""
    folders = [case.prepared.folder(out) for case in sweep.cases]
    outcomes = [Outcome(case.prepared) for case in sweep.cases]
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
        if settled(outcome, folder) and not (retry_failed and outcome.state == RunState.FAILED):
            continue
        outcome.state, outcome.error, outcome.exit_code = RunState.WAITING, "", 0
        todo.setdefault(folder, index)
    return list(todo.values())


def _repeat_for_twins(outcomes: list[Outcome], folders: Sequence[Path], todo: Sequence[int]) -> None:
    """A run that a sweep made by hand names twice was carried out once; both say how it ended."""
    ended = {folders[index]: outcomes[index] for index in todo}
    for index, folder in enumerate(folders):
        if outcomes[index].state == RunState.WAITING and folder in ended:
            outcomes[index] = ended[folder]


# What the backends can be told, readable without Ray -----------------------------------------------------


@dataclass(frozen=True)
class RayOptions:
    """What the backend `ray` can be told."""

    address: Annotated[str | None, arg(aliases=("--address",))] = None
    """ray: address of a cluster to join (`auto`, or host:port); one of our own on this machine if not given."""
    cpus: Annotated[float | None, arg(aliases=("--cpus",))] = None
    """ray: processors that a run asks for; as many as it has threads if not given."""
    gpus: Annotated[float, arg(aliases=("--gpus",))] = 0.0
    """ray: GPUs that a run asks for; 0.25 lets four runs share one."""
    lost: Annotated[int, arg(aliases=("--lost",))] = 5
    """ray: how often a run goes on elsewhere after its worker or its node was lost."""
    results: Literal["auto", "shared", "fetched"] = "auto"
    """ray: shared if all nodes see the folder of runs, fetched if checkpoints and results are to be sent here;
    auto looks."""

    def __post_init__(self) -> None:
        require(self.cpus is None or self.cpus > 0, "cpus", f"must be more than 0, got {self.cpus}")
        good = 0 <= self.gpus < 1 or float(self.gpus).is_integer()
        require(good, "gpus", f"must be a part of one GPU or a whole number of them, got {self.gpus}")
        require(self.gpus >= 0, "gpus", f"must be 0 or more, got {self.gpus}")
        require(self.lost >= 0, "lost", f"must be 0 or more, got {self.lost}")
        client = self.address is not None and self.address.startswith("ray://")
        require(not client, "address", "issue the sweep on a node of the cluster and give host:port or auto")

    def room(self, nodes: Sequence[Mapping[str, float]], cpus: float) -> int:
        """How many runs fit at once, each on one node.

        nodes: what each of them has, `CPU` and `GPU`. cpus: processors that a run asks for.
        """
        fits = [node.get("CPU", 0.0) / cpus for node in nodes]
        if self.gpus:
            fits = [min(fit, node.get("GPU", 0.0) / self.gpus) for fit, node in zip(fits, nodes, strict=True)]
        return sum(map(int, fits))

    def shortage(self, nodes: Sequence[Mapping[str, float]], cpus: float) -> BadInput | None:
        """Why not a single run fits; None if one does. The arguments are those of `room`."""
        if self.room(nodes, cpus) > 0:
            return None
        for field, name, wanted in (("gpus", "GPU", self.gpus), ("cpus", "CPU", cpus)):
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < wanted:
                return BadInput(field, f"a run asks for {wanted:g}, and no node has more than {most:g}")
        return BadInput("cpus", f"a run asks for {cpus:g} with --gpus {self.gpus:g}, and no node has both")
