"""Configs as JSON: a round trip changes nothing, and every mistake is named by its field."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from internalize import ChainConfig, EvaluationConfig, ModelConfig, OptimizerConfig, ScheduleConfig
from internalize.configs.codec import changed_fields, from_json, to_json
from internalize.errors import BadInput
from internalize.kinds import prepare

UNUSUAL = ChainConfig(
    task="C2xC3",
    horizon=7,
    method="mixture:right",
    iterations=123,
    seed=2**62,
    model=ModelConfig(depth=2, width=48, heads=12, mlp=7, positions="rotary", init_std=0.1),
    schedule=ScheduleConfig("adaptive", "accuracy", 0.5, "mean", 3, 4, 5, stop_early=True),
    optimizer=OptimizerConfig(lr=1e-7, betas=(0.0, 0.5), weight_decay=0.0, reset=False),
    evaluation=EvaluationConfig(every=3, samples=4, final_samples=5),
    batch=1,
    inputs="weights:1,2,3,4,5,6",
    ood_inputs="uniform",
    initial_state=5,
    init_from="somewhere@3",
    log_every=7,
    kernel="plain",
    precision="bf16",
)


@pytest.mark.parametrize("config", [ChainConfig(), UNUSUAL])
def test_round_trip_through_text(config: ChainConfig) -> None:
    text = json.dumps(to_json(config, settled=False))
    assert from_json(ChainConfig, json.loads(text)) == config


def test_what_was_left_open_is_written_as_a_number_and_read_as_the_same_run() -> None:
    """Also after the width was changed, which it follows."""
    wide = ChainConfig()
    narrow = replace(wide, model=replace(wide.model, width=128, heads=2))
    for config, spread in ((wide, 0.02), (narrow, 0.04)):
        written = to_json(config)
        assert written["model"]["init_std"] == spread
        assert to_json(from_json(ChainConfig, written)) == written
        assert prepare(from_json(ChainConfig, written)) == prepare(config)


def test_the_unusual_config_differs_everywhere() -> None:
    """Else the round trip would not notice a field that is lost."""
    usual, unusual = to_json(ChainConfig()), to_json(UNUSUAL)
    leaves = [name for name, value in usual.items() if not isinstance(value, dict)]
    leaves += [f"{k}.{name}" for k, value in usual.items() if isinstance(value, dict) for name in value]
    assert sorted(changed_fields(usual, unusual)) == sorted(leaves)


def test_missing_keys_take_defaults_and_whole_floats_are_integers() -> None:
    assert from_json(ChainConfig, {}) == ChainConfig()
    found = from_json(ChainConfig, {"horizon": 12.0, "model": {"depth": 1}, "optimizer": {"lr": 1}})
    assert found == ChainConfig(horizon=12, model=ModelConfig(depth=1), optimizer=OptimizerConfig(lr=1.0))
    assert isinstance(found.horizon, int)
    assert isinstance(found.optimizer.lr, float)


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        ({"horizn": 3}, "horizn", "unknown field (did you mean 'horizon'?); known: task, horizon"),
        ({"model": {"dept": 3}}, "model.dept", "unknown field (did you mean 'depth'?)"),
        ({"kind": "chain"}, "kind", "unknown field"),
        ({"horizon": "3"}, "horizon", "must be a whole number, got '3'"),
        ({"horizon": 2.5}, "horizon", "must be a whole number, got 2.5"),
        ({"horizon": True}, "horizon", "must be a whole number, got True"),
        ({"horizon": None}, "horizon", "must be a whole number, got None"),
        ({"horizon": float("nan")}, "horizon", "must be a whole number, got nan"),
        ({"horizon": 10**400}, "horizon", "must be less than 2^64, got a number of 1329 bits"),
        ({"horizon": 1e300}, "horizon", "must be less than 2^64, got a number of 997 bits"),
        ({"optimizer": {"lr": 10**400}}, "optimizer.lr", "must be less than 2^64, got a number of 1329 bits"),
        (
            {"optimizer": {"lr": -(10**5000)}},
            "optimizer.lr",
            "must be less than 2^64, got a number of 16610 bits",
        ),
        ({"horizon": 0}, "horizon", "must be at least 1, got 0"),
        ({"task": 3}, "task", "must be text, got 3"),
        ({"optimizer": {"lr": "a"}}, "optimizer.lr", "must be a number, got 'a'"),
        ({"optimizer": {"reset": 1}}, "optimizer.reset", "must be true or false, got 1"),
        ({"optimizer": {"betas": [0.9]}}, "optimizer.betas", "must have 2 entries, got 1"),
        ({"optimizer": {"betas": [0.9, "b"]}}, "optimizer.betas[1]", "must be a number, got 'b'"),
        ({"optimizer": {"betas": 0.9}}, "optimizer.betas", "must be a list, got 0.9"),
        ({"model": 3}, "model", "must be an object of fields, got 3"),
        ({"model": {"positions": "rotray"}}, "model.positions", "(did you mean 'rotary'?); got 'rotray'"),
        ({"model": {"mlp": "x"}}, "model.mlp", "must be a whole number, got 'x'"),
        ({"model": {"width": 10, "heads": 3}}, "model.heads", "must divide model.width = 10, got 3"),
        ({"schedule": {"kind": 3}}, "schedule.kind", "must be one of fixed, adaptive, controller; got 3"),
        ([], "ChainConfig", "must be an object of fields, got []"),
    ],
)
def test_mistakes_are_named_by_their_field(data: Any, field: str, words: str) -> None:
    with pytest.raises(BadInput) as problem:
        from_json(ChainConfig, data)
    assert problem.value.field == field
    assert words in problem.value.message


def test_changed_fields_are_dotted() -> None:
    old, new = {"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 1, "d": 3}, "e": 0}
    assert changed_fields(old, new) == ["b.d", "e"]
    assert changed_fields(old, old) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"iterations": 0}, "iterations"),
        ({"batch": 0}, "batch"),
        ({"batch": -1}, "batch"),
        ({"log_every": 0}, "log-every"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"optimizer": {"lr": 0.0}}, "optimizer.lr"),
        ({"optimizer": {"lr": float("nan")}}, "optimizer.lr"),
        ({"optimizer": {"lr": float("inf")}}, "optimizer.lr"),
        ({"optimizer": {"betas": [0.9, 1.0]}}, "optimizer.betas"),
        ({"optimizer": {"weight_decay": -0.1}}, "optimizer.weight-decay"),
        ({"optimizer": {"weight_decay": float("inf")}}, "optimizer.weight-decay"),
        ({"evaluation": {"every": 0}}, "evaluation.every"),
        ({"evaluation": {"samples": 0}}, "evaluation.samples"),
        ({"evaluation": {"final_samples": -3}}, "evaluation.final-samples"),
        ({"model": {"depth": 0}}, "model.depth"),
        ({"model": {"width": 0}}, "model.width"),
        ({"model": {"heads": 0}}, "model.heads"),
        ({"model": {"mlp": 0}}, "model.mlp"),
        ({"model": {"width": 9, "heads": 3, "positions": "rotary"}}, "model.positions"),
    ],
)
def test_impossible_numbers_are_named_as_on_the_command_line(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as problem:
        from_json(ChainConfig, fields)
    assert problem.value.field == field


def test_a_wrong_number_among_numbers() -> None:
    @dataclass(frozen=True)
    class Config:
        size: Literal[1, 2, 3] = 1

    with pytest.raises(BadInput, match="size: must be one of 1, 2, 3; got 4"):
        from_json(Config, {"size": 4})
