"""`internalize train`: a transformer on a semiautomaton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.chain.presets import PresetName, preset_in
from internalize.kinds.commands import run_experiment
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)
    preset: PresetName | None = None
    """What the fields that are not given are: the paper's protocol (also without a preset), or the recipe that
    takes small models through on a laptop."""

    @classmethod
    def defaults(cls, words: Sequence[str]) -> TrainArguments | None:
        """What the words depart from, if they name a preset."""
        config = preset_in(words)
        return None if config is None else cls(config=config)


def train_command(arguments: TrainArguments) -> int | None:
    return run_experiment(arguments.config, arguments.execution, arguments.many)
