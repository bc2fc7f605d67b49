"""What many tests share: one processor thread, no network, and one small model that was really trained."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports transformers
os.environ.pop("INTERNALIZE_RUNS", None)  # before the package: whose runs a tester has is no part of a test
os.environ["INTERNALIZE_CONFIG"] = tempfile.mkdtemp(prefix="internalize-config-")  # nor what a tester trusts
# before Ray: the tests' clusters listen at 127.0.0.1 alone, which drivers would else turn into an outer address
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import pytest
import torch
from hypothesis import settings

from tests.shapes import check_shapes

check_shapes()  # before anything of the package is imported

from internalize import (  # noqa: E402
    ChainConfig,
    EvaluationConfig,
    Execution,
    ModelConfig,
    OptimizerConfig,
    Run,
    ScheduleConfig,
    train,
)
from internalize.configs.named import own_files  # noqa: E402

torch.set_num_threads(1)
atexit.register(shutil.rmtree, os.environ["INTERNALIZE_CONFIG"], ignore_errors=True)
settings.register_profile("here", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("here")

SMALL = ChainConfig(
    task="C2",
    horizon=4,
    method="left",
    iterations=4_000,
    seed=0,
    batch=64,
    model=ModelConfig(depth=1, width=32, heads=16, init_std=0.02),
    schedule=ScheduleConfig(kind="adaptive", shortest=50, stop_early=True),
    optimizer=OptimizerConfig(lr=3e-3),
    evaluation=EvaluationConfig(every=10_000, samples=500, final_samples=2_000),
    kernel="plain",  # auto measures, and what it takes differs from day to day
)
"""Internalizes in about a thousand iterations, seconds of one core: 8 of 8 seeds and learning rates tried."""


@pytest.fixture(scope="session")
def internalized(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of `SMALL`. Read only."""
    return train(SMALL, Execution(out=tmp_path_factory.mktemp("internalized")))


@pytest.fixture
def named_by_the_user() -> Iterator[None]:
    """For tests that look behind a name by themselves, as a training does."""
    with own_files():
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
