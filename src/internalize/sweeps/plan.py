"""What the runs of a sweep will cost: here, by a few timed steps; on rented GPUs, by arithmetic.

Both from the forecasts that the runs' kinds make.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from internalize.errors import BadInput, closest, require
from internalize.runtime.execution import Execution, resolve_device, threads
from internalize.runtime.forecast import Forecast
from internalize.runtime.kind import Prepared, cpu
from internalize.sweeps.sweep import Sweep


class Costs:
    """The forecasts of many runs, counted on the processor; what seeds have in common is counted once."""

    def __init__(self, execution: Execution) -> None:
        self._keep_stages = execution.keep_stages
        self._known: dict[str, Forecast] = {}

    def __call__(self, prepared: Prepared) -> Forecast:
        key = json.dumps([prepared.identity.kind, {**prepared.identity.config, "seed": 0}], sort_keys=True)
        if key not in self._known:
            self._known[key] = prepared.kind.forecast(prepared, cpu(), self._keep_stages)
            prepared.release()
        return self._known[key]


def expected_seconds(
    runs: Sequence[Prepared],
    execution: Execution,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """How long each run will take alone on this machine: one of every pace is measured, the others by ratio.

    progress: told before each measurement, with how many are done and how many there are. Refuses a run that
    this machine's memory cannot hold.
    """
    costs, device = Costs(execution), resolve_device(execution.device)
    for run in runs:
        costs(run).require_memory(device)
    tried = {run.pace: run for run in reversed(runs)}
    measured: dict[str, float] = {}
    for pace, run in tried.items():
        if progress is not None:
            progress(len(measured), len(tried))
        measured[pace] = _measured_seconds(run, execution)
    return [measured[run.pace] * _times(costs(run), costs(tried[run.pace])) for run in runs]


def _times(cost: Forecast, measured: Forecast) -> float:
    """How many times as long; a kind that does not count its operations says nothing of it."""
    return cost.flops / measured.flops if measured.flops > 0 else 1.0


def _measured_seconds(run: Prepared, execution: Execution) -> float:
    """By its kind: a few steps and measurements in memory."""
    with threads(execution.threads):
        found = run.kind.forecast(run, resolve_device(execution.device), timed=True)
    run.release()
    return float(found.seconds or 0.0)


# On GPUs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU, by its maker's data sheet, and what an hour of it costs to rent."""

    fp32_tflops: float
    """Peak of plain fp32, which is what runs with precision fp32 use: no TF32."""
    bf16_tflops: float
    """Peak of dense bf16 products."""
    gigabytes: float
    """Of memory."""
    dollars_per_hour: float
    """A round number for on-demand rental; prices change by the month."""


GPUS = {
    "a100": Gpu(19.5, 312.0, 80.0, 1.50),
    "h100": Gpu(67.0, 989.0, 80.0, 2.50),
    "l4": Gpu(30.3, 121.0, 24.0, 0.60),
}
DEFAULT_UTILISATION = 0.25
"""An assumption, not a measurement: small models with many tiny heads do not fill a GPU, several runs on one
do better."""


def find_gpu(name: str, peak: float | None, price: float | None) -> Gpu:
    """The GPU of that name, with another peak (TFLOP/s, of whatever precision) or price if given."""
    if name not in GPUS:
        raise BadInput("gpu", f"unknown GPU {name!r}{closest(name, list(GPUS))}; known: {', '.join(GPUS)}")
    gpu = GPUS[name]
    for field, value in (("peak", peak), ("price", price)):
        good = value is None or 0 < value < math.inf
        require(good, field, f"must be more than 0 and finite, got {value}")
    if peak is not None:
        gpu = replace(gpu, fp32_tflops=peak, bf16_tflops=peak)
    return gpu if price is None else replace(gpu, dollars_per_hour=price)


@dataclass(frozen=True)
class OnGpus:
    """The sweep on so many GPUs."""

    gpus: int
    hours: float
    """From the first run's beginning to the last one's end: no shorter than the longest run alone."""
    dollars: float
    """For all GPUs over all these hours."""


@dataclass(frozen=True)
class Plan:
    """Of a whole sweep."""

    name: str
    runs: int
    training_flops: float
    measuring_flops: float
    disk_bytes: float
    memory_bytes: float
    """Of the largest run."""
    fits: bool
    """Whether every run that can compute on the GPU fits into its memory."""
    on_processor: int
    """Runs of kinds that compute on the processor whatever the device. Their hours only say how much there is
    to do."""
    gpu_hours: float
    longest_hours: float
    """The longest run, alone on a GPU at the stated utilisation."""
    on: tuple[OnGpus, ...]

    @property
    def flops(self) -> float:
        return self.training_flops + self.measuring_flops


def plan(
    sweep: Sweep,
    gpu: Gpu,
    utilisation: float = DEFAULT_UTILISATION,
    counts: Sequence[int] = (1, 8, 64),
    execution: Execution | None = None,
) -> Plan:
    """hours = operations / (GPUs × utilisation × peak), for each precision its own peak."""
    require(0 < utilisation <= 1, "utilisation", f"must lie in (0, 1], got {utilisation}")
    good = len(counts) > 0 and all(count >= 1 for count in counts)
    require(good, "gpus", f"must be one or more numbers from 1 up, got {tuple(counts)}")
    costs = Costs(execution or Execution())
    found = [costs(case.prepared) for case in sweep.cases]
    for cost in found:
        cost.require_sense()
    hours = [cost.flops / (1e12 * utilisation * _peak(gpu, cost)) / 3600 for cost in found]
    total, longest = sum(hours), max(hours, default=0.0)
    largest = max((cost.memory_bytes for cost in found if not cost.on_processor), default=0.0)
    return Plan(
        sweep.name,
        len(sweep.cases),
        sum(cost.training_flops for cost in found),
        sum(cost.measuring_flops for cost in found),
        sum(cost.disk_bytes for cost in found),
        max((cost.memory_bytes for cost in found), default=0.0),
        largest <= 1e9 * gpu.gigabytes,
        sum(cost.on_processor for cost in found),
        total,
        longest,
        tuple(_on(count, max(total / count, longest), gpu) for count in counts),
    )


def together(sweeps: Sequence[Sweep]) -> Sweep:
    """All runs of several sweeps, those that they share once."""
    cases = {case.prepared: case for sweep in sweeps for case in sweep.cases}
    return Sweep("all, shared runs once", tuple(cases.values()))


def _on(count: int, hours: float, gpu: Gpu) -> OnGpus:
    return OnGpus(count, hours, count * hours * gpu.dollars_per_hour)


def _peak(gpu: Gpu, cost: Forecast) -> float:
    return gpu.bf16_tflops if cost.precision == "bf16" else gpu.fp32_tflops
