"""Do the headline claims hang on the initial weights? Those that train a transformer, with GPT-2's own 0.02.

The figures at the laptop tier begin with larger weights: 0.057, 0.1, or a number for each shape
(docs/readings.md). Here are their headlines again. Cases, tests and controls are the figures' own, and only the
weights differ. The factors on p for several looks are the figures' own, too, though each study is one look; no
claim was changed when the runs of a study had been seen. One exception: FIGURE has the recipe without
rehearsal; its runs are those of studies/laptop-judge-init.yaml.
    internalize figure studies/headlines_under_gpt2_init.py:FIGURE --results results/readings   # Figure 2
    internalize figure studies/headlines_under_gpt2_init.py:CELL --results results/readings     # the C_2 cell
and so on with PLACE, SHAPES, MIXTURE, ORDERS, HEADS and DURING.
"""

from dataclasses import replace

from internalize.figures.cases import CELL as CELL_CONFIG
from internalize.figures.cases import (
    FRESH_SEEDS,
    HORIZONS,
    LONG_RECIPE,
    SIX_SEEDS,
    TEN_SEEDS,
    Grid,
    with_horizons,
)
from internalize.figures.figure import Figure
from internalize.figures.paper import (
    heads,
    isoparameter,
    left_vs_right,
    methods,
    mixture,
    more_orders,
    ood_degradation,
    scatter,
)
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig
from internalize.kinds.chain.presets import without_stages

GPT2 = 0.02


def begins_as_gpt2(config: ChainConfig) -> ChainConfig:
    """The same run with GPT-2's initial weights, at any width."""
    return replace(config, model=replace(config.model, init_std=GPT2))


def headlines(figure: Figure, name: str, grids: list[Grid]) -> Figure:
    """The headline claims of a figure, judged on other cases."""
    return replace(
        figure,
        name=name,
        shows=f"{figure.paper} under GPT-2's own initial weights",
        tiers={"laptop": grids, "paper": figure.tiers["paper"]},
        claims=[replace(claim, seen="") for claim in figure.claims if claim.headline],
    )


RECIPE = replace(
    begins_as_gpt2(LONG_RECIPE), iterations=40_000, evaluation=EvaluationConfig(every=1000, samples=500)
)
OUT_LOUD = without_stages(RECIPE, "cot")
WHERE = with_horizons(["C3", "C7"], {**HORIZONS, "C3": 17})
FIGURE = headlines(
    methods.FIGURE,
    "headlines",
    [
        Grid(RECIPE, {"method": ["left"]}, WHERE, seeds=TEN_SEEDS),
        Grid(OUT_LOUD, {"method": ["cot"]}, WHERE, seeds=TEN_SEEDS),
        Grid(replace(OUT_LOUD, iterations=30_000), {"method": ["e2e"]}, WHERE, seeds=TEN_SEEDS),
    ],
)

# The C_2 cell: depth 1 suffices, inductive against left (`scatter`); more heads, more success (`heads`)
UNDER_GPT2 = begins_as_gpt2(CELL_CONFIG)
CELL = headlines(scatter.FIGURE, "cell", [Grid(UNDER_GPT2, {"method": ["inductive", "left"]}, seeds=TEN_SEEDS)])
HEADS = headlines(
    heads.FIGURE,
    "more-heads",
    [Grid(UNDER_GPT2, {"method": ["inductive"], "model.heads": [1, 4, 16, 32]}, seeds=TEN_SEEDS)],
)

# The place of the hard step (`left-vs-right`): left is the control
EASY_STEPS = begins_as_gpt2(left_vs_right.EASY_STEPS)
PLACE = headlines(
    left_vs_right.FIGURE,
    "place",
    [
        Grid(EASY_STEPS, {"method": ["left", "right"]}, seeds=SIX_SEEDS),
        Grid(EASY_STEPS, {"method": ["right"], "keep_positions": [True]}, seeds=SIX_SEEDS),
    ],
)

# Width against depth (`isoparameter`): learning rates were chosen with other weights
SHAPES = headlines(
    isoparameter.FIGURE,
    "shapes",
    [
        isoparameter.grid(
            isoparameter.FITTED,
            ["C7"],
            isoparameter.LAPTOP_SHAPES,
            2,
            TEN_SEEDS,
            {shape: one._replace(init_std=GPT2) for shape, one in isoparameter.LAPTOP_SETTINGS.items()},
        )
    ],
)

# One model learns both lengths (`mixture`), primes (`more-orders`), OOD accuracy on the way (`ood-degradation`)
MIXTURE = headlines(
    mixture.FIGURE, "both-lengths", [Grid(begins_as_gpt2(mixture.FALLING_MIXTURE), seeds=TEN_SEEDS)]
)
ORDERS = headlines(
    more_orders.FIGURE,
    "primes",
    [
        Grid(
            begins_as_gpt2(replace(LONG_RECIPE, horizon=8)),
            {"task": [f"C{n}" for n in more_orders.ORDERS]},
            seeds=more_orders.SEEDS,
        )
    ],
)
DURING = headlines(
    ood_degradation.FIGURE,
    "on-the-way",
    [Grid(begins_as_gpt2(LONG_RECIPE), {"task": ["C3", "C4", "C5"]}, seeds=FRESH_SEEDS)],
)
