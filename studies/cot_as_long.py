"""Does CoT keep its accuracy out of distribution only because it is trained for so short a time?

In `methods` a run out loud ends when the chain is learned, after some 450 iterations; a run of left takes
12,530 to 31,620 at T = 25. Here CoT trains for as long as left did on the mean of its ten runs (18,000
iterations on C_3, 27,000 on C_5), with the same model and optimizer. The runs of left are those of `methods`
and had been seen. Seven seeds are the fewest with which both claims can be confirmed.
    internalize figure studies/cot_as_long.py:FIGURE --recorded results --results results/readings
"""

from dataclasses import replace

from internalize.curricula import ScheduleConfig
from internalize.figures.cases import LONG_ONE_STAGE, LONG_RECIPE, TEN_SEEDS, Grid
from internalize.figures.claims import MOSTLY, Claim, succeeds_first
from internalize.figures.numbers import Larger
from internalize.figures.paper import methods
from internalize.figures.rates import RateAbove
from internalize.kinds.chain.config import EvaluationConfig

SEEDS = range(200, 207)
AS_LONG = {"C3": 18_000, "C5": 27_000}
OUT_LOUD = replace(
    LONG_ONE_STAGE, schedule=ScheduleConfig(), evaluation=EvaluationConfig(every=1_000, samples=500)
)

FIGURE = replace(
    methods.FIGURE,
    name="cot-as-long",
    shows="CoT trained for as long as left needs: success ID and OOD",
    tiers={
        "laptop": [
            Grid(OUT_LOUD, {}, {"task": list(AS_LONG), "iterations": list(AS_LONG.values())}, seeds=SEEDS),
            Grid(LONG_RECIPE, {"method": ["left"], "task": list(AS_LONG)}, seeds=TEN_SEEDS),
        ],
        "paper": methods.TIERS["paper"],
    },
    claims=[
        Claim(
            "cot-as-long-keeps-ood",
            "CoT training that goes on for as long as left needs keeps its accuracy out of distribution: it "
            "drops by less than 5 points (not in the paper).",
            RateAbove(methods.COT, "keeps_ood", MOSTLY, by="place"),
            [succeeds_first(methods.COT, by="place")],
            ours=True,
        ),
        Claim(
            "internalized-lose-more-than-cot-as-long",
            "Internalized models lose more accuracy out of distribution than CoT training that goes on for as "
            "long.",
            Larger(methods.INTERNALIZED, methods.COT, "ood_gap", strata="place"),
            [succeeds_first(methods.CURRICULA, by="place"), succeeds_first(methods.COT, by="place")],
            ours=True,
        ),
    ],
)
