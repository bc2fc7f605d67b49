"""Which settings of a chain run have a name: the laptop's recipe, the paper's protocol, no stages at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from internalize.configs.command_line import value_in
from internalize.curricula import ScheduleConfig
from internalize.errors import BadInput, closest
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.models.config import ModelConfig

PresetName = Literal["paper", "laptop"]

LAPTOP = ChainConfig(
    method="left",
    iterations=60_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
    optimizer=OptimizerConfig(lr=1e-3, warmup=200, cooling=1_000),
    schedule=ScheduleConfig(
        kind="controller",
        threshold=0.1,
        last_threshold=0.02,
        dwell=50,
        patience=4_000,
        stop_early=True,
        settle_for_less=True,
    ),
    evaluation=EvaluationConfig(every=1_000, samples=500),
    ease=300,
    keep_positions=True,
)
"""A small model whose states keep their positions, to which a new step is at first an easy one, and which goes
back where it gets lost all the same."""

PRESETS: dict[PresetName, ChainConfig] = {"paper": ChainConfig(), "laptop": LAPTOP}


def as_laptop(config: ChainConfig) -> ChainConfig:
    """The laptop's recipe on the same task."""
    return replace(LAPTOP, task=config.task, horizon=config.horizon)


def without_stages(config: ChainConfig, method: str) -> ChainConfig:
    """Trained out loud or end to end until it is learned: nothing to rehearse, nothing to ease, no place that
    moves."""
    learned = ScheduleConfig(kind="adaptive", threshold=config.schedule.last_threshold, stop_early=True)
    plain = replace(config, method=method, schedule=learned, rehearsal=None, ease=None, keep_positions=None)
    return replace(plain, optimizer=replace(config.optimizer, cooling=None))


def fitted(config: ChainConfig, method: str) -> ChainConfig:
    """The preset for this method: one without stages takes only what it can use."""
    if config != LAPTOP:
        return config
    if method in ("cot", "e2e", "filler") or method.startswith("mixture"):
        return without_stages(config, method)
    return replace(config, keep_positions=None) if method.startswith("filler:") else config


def preset_in(words: Sequence[str]) -> ChainConfig | None:
    """The preset that the words of a command line name by --preset, from which their other fields depart.

    It is fitted to the method and the model that the words name: `--preset laptop --method cot` and
    `--preset laptop --model.positions rotary` are as good a command.
    """
    named = value_in(words, "--preset")
    if named is None:
        return None
    told = {name: value_in(words, f"--{name}") for name in ("method", "model.positions", "model.network")}
    return fitted_preset(named, told["method"], told["model.positions"], told["model.network"])


def preset_of_fields(named: Any, fields: Mapping[str, Any]) -> ChainConfig:
    """The same for the fields of a file: method, model, …, as JSON has them."""
    group = fields.get("model")
    model: Mapping[str, Any] = group if isinstance(group, Mapping) else {}
    return fitted_preset(str(named), fields.get("method"), model.get("positions"), model.get("network"))


def fitted_preset(named: str, method: str | None, positions: str | None, network: str | None) -> ChainConfig:
    """The preset of that name for a method and a model; None is what the preset itself has."""
    for name, config in PRESETS.items():
        if name == named:
            chosen = fitted(config, str(method or config.method))
            learned = positions in (None, "absolute") and network is None
            return chosen if learned else replace(chosen, keep_positions=None)  # which only learned ones have
    raise BadInput(
        "preset", f"must be one of {', '.join(PRESETS)}{closest(named, list(PRESETS))}; got {named!r}"
    )
