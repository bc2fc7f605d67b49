"""The paper's effect at a size that a laptop can afford: the setting of `internalize demo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from internalize import Execution
from internalize.demo import SETTING
from internalize.experiments.many import execute_many

KNOWN_TO_INTERNALIZE = 0


def internalized(seeds: list[int], out: Path) -> list[bool]:
    configs = [replace(SETTING, method="left", seed=seed) for seed in seeds]
    outcomes = execute_many(configs, Execution(out=out, keep_stages="none"))
    return [o.run is not None and bool(o.run.summary()["internalized"]) for o in outcomes]


def test_one_seed_internalizes(tmp_path: Path) -> None:
    assert internalized([KNOWN_TO_INTERNALIZE], tmp_path) == [True]


@pytest.mark.slow
def test_most_seeds_internalize(tmp_path: Path) -> None:
    assert sum(internalized([0, 1, 2, 3, 4], tmp_path)) >= 4
