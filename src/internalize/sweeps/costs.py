"""What the runs of a sweep will cost: operations counted from the config, time measured on a few steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from internalize.configs.codec import to_json
from internalize.experiments.chain.config import ChainConfig
from internalize.experiments.execution import Execution, resolve_device
from internalize.experiments.kinds import ExperimentConfig
from internalize.experiments.streams import Streams
from internalize.experiments.training import threads

TRIAL_SECONDS = 1.0
"""After so long a trial of an experiment ends, once it has made some progress."""
NO_SHAPE = ("seed", "task", "iterations", "optimizer", "inputs", "ood_inputs", "initial_state", "init_from")
"""Fields of a chain run that do not decide how fast a step is; the operations counted tell what they change."""


@dataclass(frozen=True)
class RunCost:
    """Of one run."""

    training_flops: float
    measuring_flops: float = 0.0
    disk_bytes: float = 0.0
    memory_bytes: float = 0.0

    @property
    def flops(self) -> float:
        return self.training_flops + self.measuring_flops


@dataclass(frozen=True)
class Trial:
    """The first steps of an experiment, carried out in memory and thrown away."""

    share: float
    """Of all its steps."""
    seconds: float
    flops: float


def cost_of(config: ExperimentConfig, execution: Execution) -> RunCost:
    """Counted from the shapes for chains; for other kinds, Torch counts the products of the first steps."""
    if isinstance(config, ChainConfig):
        from internalize.experiments.chain.counting import count

        counted = count(config, execution.keep_stages)
        return RunCost(
            counted.training_flops, counted.measuring_flops, counted.disk_bytes, counted.memory_bytes
        )
    trial = try_out(config, execution, counting=True)
    return RunCost(trial.flops / trial.share)


class Costs:
    """The costs of many configs; what seeds have in common is counted once."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._known: dict[str, RunCost] = {}

    def __call__(self, config: ExperimentConfig) -> RunCost:
        key = _text_without(config, ("seed",))
        if key not in self._known:
            self._known[key] = cost_of(config, self._execution)
        return self._known[key]


def expected_seconds(
    configs: Sequence[ExperimentConfig],
    execution: Execution,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """How long each run will take alone on this machine: every shape is measured once.

    progress: told before each measurement, with how many are done and how many there are.
    """
    shapes = {shape_of(config): config for config in reversed(configs)}
    measured: dict[str, float] = {}
    costs = Costs(execution)
    for shape, config in shapes.items():
        if progress is not None:
            progress(len(measured), len(shapes))
        measured[shape] = _measured_seconds(config, execution)
    found = []
    for config in configs:
        shape = shape_of(config)
        twin = shapes[shape]
        ratio = costs(config).flops / costs(twin).flops if isinstance(config, ChainConfig) else 1.0
        found.append(measured[shape] * ratio)
    return found


def shape_of(config: ExperimentConfig) -> str:
    """What configs that take the same time a step have in common."""
    return _text_without(config, NO_SHAPE if isinstance(config, ChainConfig) else ("seed",))


def _text_without(config: ExperimentConfig, left_out: Sequence[str]) -> str:
    data = {name: value for name, value in to_json(config).items() if name not in left_out}
    return json.dumps([config.kind, data], sort_keys=True)


def _measured_seconds(config: ExperimentConfig, execution: Execution) -> float:
    if isinstance(config, ChainConfig):
        from internalize.experiments.chain.estimate import estimate

        with threads(execution.threads):
            return estimate(replace(config, init_from=None), resolve_device(execution.device)).seconds
    trial = try_out(config, execution)
    return trial.seconds / trial.share


def try_out(config: ExperimentConfig, execution: Execution, counting: bool = False) -> Trial:
    """Begin the experiment in memory, for about a second but at least until a step is done."""
    from torch.utils.flop_counter import FlopCounterMode

    device = resolve_device(execution.device)
    with threads(execution.threads):
        experiment = config.build(device, {})
        streams = Streams(config.seed, device)
        state = experiment.init(streams)
        counter = FlopCounterMode(display=False)
        start = time.perf_counter()
        with counter if counting else torch.enable_grad():
            while experiment.stage(state).step == 0 or time.perf_counter() - start < TRIAL_SECONDS:
                state, _ = experiment.advance(state, streams)
                if experiment.done(state):
                    break
        seconds = time.perf_counter() - start
    stage = experiment.stage(state)
    return Trial(stage.step / max(1, stage.steps), seconds, counter.get_total_flops() if counting else 0.0)
