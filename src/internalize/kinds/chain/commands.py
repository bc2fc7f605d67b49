"""`internalize train`: a transformer on a semiautomaton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Annotated, Literal

import tyro

from internalize.curricula import ScheduleConfig
from internalize.errors import BadInput, closest
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.kinds.entrance import run_experiment
from internalize.models.gpt2 import ModelConfig
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


PresetName = Literal["paper", "laptop"]

LAPTOP = ChainConfig(
    method="left",
    iterations=60_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
    optimizer=OptimizerConfig(lr=1e-3, warmup=200),
    schedule=ScheduleConfig(
        kind="controller", threshold=0.1, last_threshold=0.05, dwell=50, patience=4_000, stop_early=True
    ),
    evaluation=EvaluationConfig(every=1_000, samples=500),
    rehearsal=0.25,
    keep_positions=True,
)
"""A small model whose states keep their positions, which rehearses the stage before, and which goes back where
it gets lost all the same."""

PRESETS: dict[PresetName, ChainConfig] = {"paper": ChainConfig(), "laptop": LAPTOP}


def preset_in(words: Sequence[str]) -> ChainConfig | None:
    """The preset that the words of a command line name by --preset, from which their other fields depart."""
    named = None
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == "--preset":
            named = following
        elif word.startswith("--preset="):
            named = word.removeprefix("--preset=")
    if named is None:
        return None
    for name, config in PRESETS.items():
        if name == named:
            return config
    raise BadInput(
        "preset", f"must be one of {', '.join(PRESETS)}{closest(named, list(PRESETS))}; got {named!r}"
    )
