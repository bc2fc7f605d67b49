"""Which settings of a chain run have a name: the laptop's recipe, the paper's protocol, no stages at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from internalize.configs.command_line import value_in
from internalize.configs.named import own_files
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

LAPTOP_IN_ORDER = replace(
    LAPTOP,
    model=replace(LAPTOP.model, depth=2),
    schedule=replace(LAPTOP.schedule, cool_when_learned=True),
)
"""The same for tasks in which the order of the symbols matters, such as S_3: one layer is too slow for them,
and a last stage that cools from its beginning freezes half learned (docs/lab-notes.md)."""

PRESETS: dict[PresetName, ChainConfig] = {"paper": ChainConfig(), "laptop": LAPTOP}


def laptop(task: str, horizon: int, method: str = "left") -> ChainConfig:
    """What `internalize train --preset laptop` trains on this task."""
    with own_files():
        return replace(fitted_preset("laptop", method, None, None, task), task=task, horizon=horizon)


def without_stages(config: ChainConfig, method: str) -> ChainConfig:
    """Trained out loud or end to end until it is learned: nothing to rehearse, nothing to ease, no place that
    moves."""
    learned = ScheduleConfig(kind="adaptive", threshold=config.schedule.last_threshold, stop_early=True)
    plain = replace(config, method=method, schedule=learned, rehearsal=None, ease=None, keep_positions=None)
    return replace(plain, optimizer=replace(config.optimizer, cooling=None))


def preset_in(words: Sequence[str], otherwise: PresetName | None = None) -> ChainConfig | None:
    """The preset that the words of a command line name by --preset, from which their other fields depart.

    It is fitted to the task, the method and the model that the words name: `--preset laptop --method cot` and
    `--preset laptop --model.positions rotary` are as good a command. otherwise: the preset if none is named.
    """
    named = value_in(words, "--preset") or otherwise
    if named is None:
        return None
    told = (value_in(words, f"--{name}") for name in ("method", "model.positions", "model.network", "task"))
    with own_files():
        return fitted_preset(named, *told)


def preset_of_fields(named: Any, fields: Mapping[str, Any]) -> ChainConfig:
    """The same for the fields of a file: method, model, …, as JSON has them."""
    group = fields.get("model")
    model: Mapping[str, Any] = group if isinstance(group, Mapping) else {}
    told = fields.get("method"), model.get("positions"), model.get("network"), fields.get("task")
    return fitted_preset(str(named), *told)


def fitted_preset(
    named: str, method: str | None, positions: str | None, network: str | None, task: str | None
) -> ChainConfig:
    """The preset of that name for a method, a model and a task; None is what the preset itself has."""
    if named == "paper":
        return PRESETS["paper"]
    if named != "laptop":
        near = closest(named, list(PRESETS))
        raise BadInput("preset", f"must be one of {', '.join(PRESETS)}{near}; got {named!r}")
    config = LAPTOP_IN_ORDER if task is not None and _order_matters(str(task)) else LAPTOP
    chosen = str(method or config.method)
    if chosen in ("cot", "e2e", "filler") or chosen.startswith("mixture"):
        return without_stages(config, chosen)
    learned = positions in (None, "absolute") and network is None  # the only ones that can be kept
    return config if learned and not chosen.startswith("filler:") else replace(config, keep_positions=None)


def _order_matters(task: str) -> bool:
    """Not for a task that cannot be read: whoever checks the config says what is wrong with it."""
    from internalize.tasks.names import find_task

    try:
        return not find_task(task, "task", {})[0].commutes
    except BadInput:
        return False
