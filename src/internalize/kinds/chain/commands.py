"""`internalize train`: a transformer on a semiautomaton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from internalize.configs.named import own_files
from internalize.display.terminal import duration
from internalize.errors import require
from internalize.kinds import prepare
from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.presets import PresetName, laptop, preset_in
from internalize.kinds.entrance import ConfigOption, config_in, run_experiment
from internalize.models.config import ModelConfig
from internalize.runtime.execution import Execution, resolve_device
from internalize.runtime.fleet.seeds import SideBySide
from internalize.runtime.kind import Prepared, cpu


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)
    preset: PresetName | None = None
    """Where options that you do not give take their values from. laptop: a small model, minutes; paper: the
    paper's own protocol, days."""
    config_file: ConfigOption = None
    """The same, from a file (JSON, YAML, or a run's config.json) or from a run."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> TrainArguments | None:
        """What the words depart from, if they name a preset or a file."""
        preset, file = preset_in(words), config_in(words, ChainConfig, "chain")
        both = preset is not None and file is not None
        require(not both, "config", "gives all fields: leave --preset out")
        config = preset or file
        return None if config is None else cls(config=config)


LONG = 3600.0
"""Seconds that nobody has to wait who has not chosen a model."""


def train_command(arguments: TrainArguments) -> int | None:
    if arguments.preset is None and arguments.config_file is None:
        require_chosen(arguments.config, arguments.execution)
    return run_experiment(arguments.config, arguments.execution, arguments.many)


def require_chosen(config: ChainConfig, execution: Execution) -> None:
    """Refuse hours of work on the paper's own model where the user has said nothing about the model."""
    if config.model != ModelConfig():
        return
    with own_files():
        prepared = prepare(config)
    if resolve_device(execution.device).type != "cpu":
        return
    if prepared.folder(execution.out).exists():  # it was asked for before
        return
    seconds, small = (_rough_seconds(of) for of in (prepared, prepare(laptop(config.task, config.horizon))))
    model = f"depth {config.model.depth}, width {config.model.width}, {config.iterations:,} iterations"
    text = (
        f"{config.task}, T = {config.horizon}, {config.method} with the paper's model ({model}) takes about "
        f"{duration(seconds)} of one core, so it is not started unasked. Type --preset laptop for a small "
        f"model (at most about {duration(small)}), --preset paper for this one, or --model.width for your own"
    )
    require(seconds <= LONG, "train", text)


def _rough_seconds(prepared: Prepared) -> float:
    forecast = prepared.kind.forecast(prepared, cpu())
    forecast.require_memory(cpu())
    return forecast.rough_seconds
