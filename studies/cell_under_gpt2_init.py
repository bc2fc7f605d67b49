"""Headlines of the paper's own C_2 cell under GPT-2's own initial weights: 0.02 instead of 0.057.

Cases, claims and tests are those of `figure scatter`, at depth 1, on ten seeds; twenty runs, about two and a
half hours of one core. With 0.02 one of five runs on tuning seeds came through (docs/readings.md).
    internalize figure studies/cell_under_gpt2_init.py:FIGURE --results results/readings
"""

from dataclasses import replace

from internalize.figures.cases import CELL, TEN_SEEDS, Grid
from internalize.figures.paper import scatter

UNDER_002 = replace(CELL, model=replace(CELL.model, init_std=0.02))

FIGURE = replace(
    scatter.FIGURE,
    name="cell",
    shows="the C_2 cell under GPT-2's own initial weights",
    tiers={
        "laptop": [Grid(UNDER_002, {"method": ["inductive", "left"]}, seeds=TEN_SEEDS)],
        "paper": scatter.TIERS["paper"],
    },
    claims=[claim for claim in scatter.CLAIMS if claim.headline],
)
