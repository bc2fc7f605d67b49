"""One page for all tests: a model that was really trained, three barely trained ones of other shapes, and the
hand-written one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from internalize import EvaluationConfig, Execution, ModelConfig, Run, ScheduleConfig, train
from internalize.explorer.page import find_browser, write_explorer
from internalize.explorer.subject import Subject, open_subject
from tests.conftest import SMALL
from tests.explorer.browser import Browser

OTHERS = {
    "cot": ModelConfig(depth=2, width=24, heads=4, positions="rotary", init_std=0.3),
    "e2e": ModelConfig(depth=3, width=16, heads=2, mlp=40, positions="none", init_std=0.3),
    "mixture": ModelConfig(depth=1, width=16, heads=4, init_std=0.3),
}


@dataclass(frozen=True)
class Made:
    """A page and the runs in it, the trained one first; after them the page has the construction."""

    path: Path
    subjects: list[Subject]
    data: dict[str, Any]
    """What the page says about itself."""


@pytest.fixture(scope="session")
def made(internalized: Run, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("explorer")
    runs = [internalized.path]
    for method, model in OTHERS.items():
        config = replace(
            SMALL,
            method=method,
            model=model,
            iterations=3,
            schedule=ScheduleConfig(),
            evaluation=EvaluationConfig(every=1, samples=20, final_samples=50),
        )
        runs.append(train(config, Execution(out=folder / "runs")).path)
    page = folder / "page.html"
    bundle = write_explorer(runs, page)
    return Made(page, [open_subject(run) for run in runs], bundle.data)


@pytest.fixture(scope="session")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no Node.js on this machine")
    return found


@pytest.fixture(scope="session")
def fresh_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
