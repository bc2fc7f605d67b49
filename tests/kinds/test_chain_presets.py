"""Presets, and the studies that judge them: what is judged is what the preset trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from internalize import ChainConfig
from internalize.configs.command_line import parse
from internalize.errors import BadInput
from internalize.kinds.chain.commands import LAPTOP, TrainArguments, preset_in
from internalize.sweeps.sweep import read_sweep

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize("name", ["laptop-judge", "laptop-judge-T25"])
def test_one_recipe_is_judged_for_all_tasks(name: str) -> None:
    configs = [case.config for case in read_sweep(STUDIES / f"{name}.yaml").cases]
    assert {config.seed for config in configs} == set(range(200, 210))
    for config in configs:
        assert isinstance(config, ChainConfig)
        assert config == replace(LAPTOP, task=config.task, horizon=config.horizon, seed=config.seed)


def test_the_atlas_has_many_tasks_and_other_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(STUDIES.parent)
    configs = [case.config for case in read_sweep(STUDIES / "atlas.yaml").cases]
    assert len({config.task for config in configs if isinstance(config, ChainConfig)}) >= 8
    assert all(100 <= config.seed < 200 for config in configs)


def test_words_depart_from_the_preset_that_they_name() -> None:
    words = ["--task", "C5", "--preset", "laptop", "--optimizer.lr", "2e-3"]
    arguments = parse(TrainArguments, words, "internalize train", TrainArguments.defaults(words))
    expected = replace(LAPTOP, task="C5", optimizer=replace(LAPTOP.optimizer, lr=2e-3))
    assert arguments.config == expected
    assert TrainArguments.defaults(["--task", "C5"]) is None
    assert preset_in(["--preset=paper"]) == ChainConfig()
    with pytest.raises(BadInput, match="preset"):
        preset_in(["--preset", "phone"])
