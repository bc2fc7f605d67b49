"""The paper's effect at sizes that a laptop can afford."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from internalize import Execution
from internalize.demo import SETTING
from internalize.kinds.chain.config import ChainConfig
from internalize.models.config import ModelConfig
from tests.entering import train_many

LEFT = replace(SETTING, method="left")
"""What `internalize demo` trains."""
INDUCTIVE = ChainConfig(
    task="C2",
    horizon=12,
    method="inductive",
    iterations=6_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
)
KNOWN_TO_INTERNALIZE = 0


def internalized(config: ChainConfig, seeds: list[int], out: Path) -> list[bool]:
    configs = [replace(config, seed=seed) for seed in seeds]
    outcomes = train_many(configs, Execution(out=out, keep_stages="none"))
    return [o.run is not None and bool(o.run.summary()["internalized"]) for o in outcomes]


def test_one_seed_internalizes(tmp_path: Path) -> None:
    assert internalized(INDUCTIVE, [KNOWN_TO_INTERNALIZE], tmp_path) == [True]


@pytest.mark.slow
@pytest.mark.parametrize(("config", "at_least"), [(LEFT, 4), (INDUCTIVE, 3)], ids=["left", "inductive"])
def test_most_seeds_internalize(config: ChainConfig, at_least: int, tmp_path: Path) -> None:
    assert sum(internalized(config, [0, 1, 2, 3, 4], tmp_path)) >= at_least


@pytest.mark.slow
def test_as_many_seeds_with_products_in_bfloat16(tmp_path: Path) -> None:
    halved = replace(INDUCTIVE, precision="bf16")
    assert sum(internalized(halved, [0, 1, 2, 3, 4], tmp_path)) >= 5
