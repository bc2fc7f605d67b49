"""The settings that figures share, so that their runs are shared too: one base a tier.

A run is found by what it computes. Two figures whose cases agree in every field use the same run folder.
"""

from __future__ import annotations

from typing import Any

from internalize.curricula import ScheduleConfig
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig, OptimizerConfig
from internalize.models.gpt2 import ModelConfig

SMOKE = ChainConfig(
    task="C2",
    horizon=3,
    iterations=20,
    batch=8,
    model=ModelConfig(depth=1, width=8, heads=4),
    evaluation=EvaluationConfig(every=10, samples=20, final_samples=50),
    kernel="plain",
)
"""Seconds for all figures together; nothing is learned."""
SMOKE_SEEDS = (0,)

LAPTOP = ChainConfig(
    task="C2",
    horizon=12,
    iterations=6_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
)
"""The paper's protocol at T = 12 and width 64, where initial weights of 0.02 would learn too slowly: half a
minute of one core."""
ADAPTIVE = ChainConfig(
    task="C2",
    horizon=10,
    iterations=8_000,
    model=ModelConfig(depth=1, width=64, heads=32, init_std=0.1),
    schedule=ScheduleConfig(kind="adaptive", stop_early=True),
    optimizer=OptimizerConfig(lr=5e-4),
)
"""For counters beyond C_2 and for S_3: stages end when they are learned, which the hard ones need."""
ADAPTIVE_HORIZONS = {"C2": 10, "C3": 8, "C5": 6, "S3": 6}
"""Short enough for depth 1 to internalize in minutes."""
LAPTOP_SEEDS = range(6)
"""Fresh ones: settings are looked for on seeds from 100 up. Claims that pool several tasks have more runs."""
MORE_SEEDS = range(10)
"""For a figure of one task."""
AMENDED_SEEDS = range(10, 20)
"""For figures whose tests were amended once runs of seeds below 10 had been seen: fresh again."""
FEW_SEEDS = range(3)
"""For figures with many cases, whose claims pool them."""

PAPER = ChainConfig()
"""Depth 4, width 512, 128 heads, MLP 2048, T = 25, 50,000 iterations of fixed stages, AdamW at 3e-4."""
PAPER_SEEDS = range(30)
S3_ITERATIONS = 200_000


def adaptive_tasks(*tasks: str) -> dict[str, list[Any]]:
    """The zipped axes of a grid over ADAPTIVE: tasks with their horizons."""
    return {"task": list(tasks), "horizon": [ADAPTIVE_HORIZONS[task] for task in tasks]}
