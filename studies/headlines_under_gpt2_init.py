"""The headline claims of Figure 2 under GPT-2's own initial weights: 0.02 instead of 0.1.

The runs are those of studies/laptop-judge-init.yaml; claims, tests and controls are the figure's.
    internalize figure studies/headlines_under_gpt2_init.py:FIGURE --results results/readings
"""

from dataclasses import replace

from internalize.figures.cases import HORIZONS, LONG_RECIPE, TEN_SEEDS, Grid, with_horizons
from internalize.figures.paper import methods
from internalize.kinds.chain.config import EvaluationConfig
from internalize.kinds.chain.presets import without_stages

UNDER_002 = replace(
    LONG_RECIPE,
    iterations=40_000,
    model=replace(LONG_RECIPE.model, init_std=0.02),
    evaluation=EvaluationConfig(every=1000, samples=500),
)
OUT_LOUD = without_stages(UNDER_002, "cot")
WHERE = with_horizons(["C3", "C7"], {**HORIZONS, "C3": 17})

FIGURE = replace(
    methods.FIGURE,
    name="headlines",
    shows="Figure 2 under GPT-2's own initial weights",
    tiers={
        "laptop": [
            Grid(UNDER_002, {"method": ["left"]}, WHERE, seeds=TEN_SEEDS),
            Grid(OUT_LOUD, {"method": ["cot"]}, WHERE, seeds=TEN_SEEDS),
            Grid(replace(OUT_LOUD, iterations=30_000), {"method": ["e2e"]}, WHERE, seeds=TEN_SEEDS),
        ],
        "paper": methods.TIERS["paper"],
    },
    claims=[claim for claim in methods.CLAIMS if claim.headline],
)
