"""A small mixture model that was really trained, for whoever looks at length tokens."""

from __future__ import annotations

import pytest

from internalize import ChainConfig, EvaluationConfig, Execution, ModelConfig, OptimizerConfig, Run, train
from internalize.analysis.open_run import OpenChain, open_chain

MIXTURE = ChainConfig(
    task="C2",
    horizon=3,
    method="mixture",
    iterations=1_500,
    batch=64,
    model=ModelConfig(depth=1, width=64, heads=32),
    optimizer=OptimizerConfig(lr=2e-3),
    evaluation=EvaluationConfig(every=10_000, samples=200, final_samples=1_000),
)


@pytest.fixture(scope="session")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> OpenChain:
    return open_chain(train(MIXTURE, Execution(out=tmp_path_factory.mktemp("mixture"))).path, "cpu")


@pytest.fixture(scope="session")
def chain(internalized: Run) -> OpenChain:
    """C2, T = 4, left, all stages kept."""
    return open_chain(internalized.path, "cpu")
