"""`internalize train`: a transformer on a semiautomaton."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from internalize.kinds.chain.config import ChainConfig
from internalize.kinds.commands import run_experiment
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide


@dataclass(frozen=True)
class TrainArguments:
    """Train a transformer on a semiautomaton: out loud, directly, or taking the words away step by step."""

    config: Annotated[ChainConfig, tyro.conf.arg(name="")] = field(default_factory=ChainConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)


def train_command(arguments: TrainArguments) -> int | None:
    return run_experiment(arguments.config, arguments.execution, arguments.many)
