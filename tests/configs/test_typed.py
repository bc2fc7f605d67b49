"""Configs made in Python: of the right types or refused by the field's name, before a folder is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from internalize import (
    ChainConfig,
    Curriculum,
    Execution,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    parse_task,
    train,
)
from internalize.configs.codec import checked, to_json
from internalize.errors import BadInput
from internalize.kinds.hints.config import HintsConfig, HintsEvaluation
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.runtime.kind import ExperimentConfig
from tests.runtime.test_training import BRIEF

WRONG: dict[str, Callable[[], Any]] = {
    "batch: must be a whole number, got 16.5": lambda: replace(BRIEF, batch=16.5),  # type: ignore[arg-type]
    "seed: must be a whole number, got True": lambda: replace(BRIEF, seed=True),
    "precision: must be one of fp32, bf16": lambda: replace(BRIEF, precision="fp16"),  # type: ignore[arg-type]
    "kernel: must be one of auto, plain, fast": lambda: replace(BRIEF, kernel="quick"),  # type: ignore[arg-type]
    "model.positions: must be one of absolute, none, rotary": lambda: replace(
        BRIEF,
        model=ModelConfig(positions="rotery"),  # type: ignore[arg-type]
    ),
    "model.dept: unknown field (did you mean 'depth'?)": lambda: replace(BRIEF, model={"dept": 1}),  # type: ignore[arg-type]
    "optimizer.reset: must be true or false, got 'yes'": lambda: replace(
        BRIEF,
        optimizer=OptimizerConfig(reset="yes"),  # type: ignore[arg-type]
    ),
    "task: must be text, got a Semiautomaton: name your own object as module:attribute": lambda: replace(
        BRIEF,
        task=parse_task("C2"),  # type: ignore[arg-type]
    ),
    "method: must be text, got the class Curriculum: name your own object as module:attribute": lambda: replace(
        BRIEF,
        method=Curriculum,  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize(("words", "make"), WRONG.items(), ids=[words.partition(":")[0] for words in WRONG])
def test_train_refuses_before_a_folder_is_made(words: str, make: Callable[[], Any], tmp_path: Path) -> None:
    with pytest.raises(BadInput) as problem:
        train(make(), out=tmp_path / "runs")
    assert str(problem.value).startswith(words)
    assert not (tmp_path / "runs").exists()


def test_what_means_the_same_is_the_same_run(tmp_path: Path) -> None:
    """By its bytes and its folder: 3.0 symbols and a dict for the model are what JSON would say."""
    usual = replace(BRIEF, iterations=3)
    same = replace(usual, horizon=3.0, iterations=3.0, model=to_json(usual.model, settled=False))  # type: ignore[arg-type]
    assert checked(same) == usual
    assert isinstance(checked(same).horizon, int)
    run = train(usual, out=tmp_path)
    assert train(same, out=tmp_path).path == run.path
    assert [path.name for path in tmp_path.iterdir()] == [run.path.name]


@pytest.mark.parametrize(
    "config",
    [
        ChainConfig(),
        ParityConfig(d=5, k=2, support=(4, 1)),
        HintsConfig(preset="laptop", biased_share=0.5, bias=0.3, evaluation=HintsEvaluation(every=7)),
        SelfPlayConfig(starts="empty"),
    ],
)
def test_a_good_config_of_any_kind_is_left_as_it_is(config: ExperimentConfig) -> None:
    assert checked(config) == config


@pytest.mark.parametrize(
    ("make", "fields", "field"),
    [
        (ScheduleConfig, {"memory": "5"}, "schedule.memory"),
        (ScheduleConfig, {"kind": "Fixed"}, "schedule.kind"),
        (ParityConfig, {"d": "8"}, "d"),
        (ParityConfig, {"regime": "theorm"}, "regime"),
        (ParityConfig, {"support": (1, 2.5), "k": 2}, "support[1]"),
        (HintsConfig, {"batch": "64"}, "batch"),
        (HintsConfig, {"preset": "lap"}, "preset"),
        (HintsConfig, {"method": "mix"}, "method"),
        (HintsConfig, {"circuit": parse_task}, "circuit"),
        (HintsEvaluation, {"every": "often"}, "evaluation.every"),
        (SelfPlayConfig, {"rounds": "two"}, "rounds"),
        (SelfPlayConfig, {"starts": "nowhere"}, "starts"),
        (Execution, {"threads": "2"}, "threads"),
        (Execution, {"out": 3}, "out"),
        (Execution, {"keep_stages": "last"}, "keep_stages"),
        (Execution, {"tracker": "wandb"}, "tracker"),
    ],
)
def test_types_are_looked_at_before_anything_is_compared(make: Any, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as problem:
        make(**fields)
    assert problem.value.field == field


def test_only_a_config_can_be_trained(tmp_path: Path) -> None:
    for wrong in ({"task": "C2"}, ChainConfig):
        with pytest.raises(BadInput, match=r"^config: must be the config of an experiment"):
            train(wrong, out=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (ScheduleConfig, {"threshold": 0.5}, "schedule.threshold: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"signal": "accuracy"}, "schedule.signal: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"judge": "mean"}, "schedule.judge: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"memory": 49}, "schedule.memory: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"shortest": 99}, "schedule.shortest: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"cap": 100}, "schedule.cap: belongs to --schedule.kind adaptive"),
        (ScheduleConfig, {"stop_early": True}, "schedule.stop-early: belongs to --schedule.kind adaptive"),
        (ParityConfig, {"threshold": 1e-7}, "threshold: belongs to --regime threshold"),
        (HintsConfig, {"bias": 0.2}, "bias: belongs to biased inputs"),
    ],
)
def test_fields_without_effect_are_refused(make: Any, fields: dict[str, Any], message: str) -> None:
    """Else they would make another run of the same computation. Where they have an effect they are taken."""
    with pytest.raises(BadInput) as problem:
        make(**fields)
    assert str(problem.value).startswith(message)
    effective: dict[Any, dict[str, Any]] = {
        ScheduleConfig: {"kind": "adaptive"},
        ParityConfig: {"regime": "threshold"},
        HintsConfig: {"biased_share": 0.5},
    }
    assert vars(make(**fields, **effective[make])).items() >= fields.items()
