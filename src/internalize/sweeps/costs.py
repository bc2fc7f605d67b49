"""What the runs of a sweep will cost: operations and bytes counted, time measured on a few steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

from internalize.configs.codec import to_json
from internalize.kinds.chain.config import ChainConfig
from internalize.runtime.counted import Counted
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.kinds import KINDS, ExperimentConfig
from internalize.runtime.training import threads

NO_SHAPE = ("seed", "task", "iterations", "optimizer", "inputs", "ood_inputs", "initial_state", "init_from")
"""Fields of a chain run that do not decide how fast a step is; the operations counted tell what they change."""


def cost_of(config: ExperimentConfig, execution: Execution) -> Counted:
    """Counted by the config's kind; nothing is trained."""
    counted: Counted = _beside(config, "counting").count(config, execution.keep_stages)
    return counted


def _measured_seconds(config: ExperimentConfig, execution: Execution) -> float:
    """Of one run, by its kind: a few steps and measurements in memory."""
    with threads(execution.threads):
        seconds = _beside(config, "estimate").seconds_of_run(config, resolve_device(execution.device))
    return float(seconds)


def _beside(config: ExperimentConfig, name: str) -> ModuleType:
    """The module of that name in the folder of the config's kind."""
    folder = KINDS[config.kind].partition(":")[0].rpartition(".")[0]
    return import_module(f"{folder}.{name}")


class Costs:
    """The costs of many configs; what seeds have in common is counted once."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._known: dict[str, Counted] = {}

    def __call__(self, config: ExperimentConfig) -> Counted:
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
        ratio = costs(config).flops / costs(shapes[shape]).flops if isinstance(config, ChainConfig) else 1.0
        found.append(measured[shape] * ratio)
    return found


def shape_of(config: ExperimentConfig) -> str:
    """What configs that take the same time a step have in common."""
    return _text_without(config, NO_SHAPE if isinstance(config, ChainConfig) else ("seed",))


def _text_without(config: ExperimentConfig, left_out: Sequence[str]) -> str:
    data = {name: value for name, value in to_json(config).items() if name not in left_out}
    return json.dumps([config.kind, data], sort_keys=True)
