"""Figure 5, bottom: one model, trained on a mixture of lengths, answers at once or with the whole chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from internalize.curricula import ScheduleConfig
from internalize.display.charts import success_bars, task_name
from internalize.display.plots import new_figure
from internalize.figures.cases import (
    HORIZONS,
    LONG_RECIPE,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    Grid,
    Tiers,
    with_horizons,
)
from internalize.figures.claims import EXISTS, MOSTLY, Claim, succeeds_first
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.numbers import Larger
from internalize.figures.rates import MoreOften, OftenWithout, RateAbove, RateBelow
from internalize.figures.rows import FigureRow, chain_columns, group, rate
from internalize.kinds.chain.presets import without_stages

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

METHODS = ("mixture", "left")
PAPER_TASKS: dict[str, list[Any]] = {"task": ["C3", "C5", "C7"]}
TOY_SAMPLES = replace(TOY_ADAPTIVE, iterations=10_000, schedule=ScheduleConfig())
"""Fixed stages: a run that stops when it has learned would have seen fewer samples."""
ASKED_BOTH_WAYS = replace(
    LONG_RECIPE,
    task="C7",
    horizon=HORIZONS["C7"],
    iterations=40_000,
    length_token=True,
    keep_positions=None,
)
"""The laptop's recipe with a token that tells the length, so that the curriculum's model can be asked for the
full chain too. Positions that are kept would be those of one length alone."""
TWO_LAYERS = replace(ASKED_BOTH_WAYS, model=replace(ASKED_BOTH_WAYS.model, depth=2))
"""For the mixture and the curriculum beside it: with one layer the mixture learns the chain and not the direct
answer. Presumably since positions of states differ between lengths, and a state must ask the length token
before it looks for its symbol."""
_plain = without_stages(replace(TWO_LAYERS, length_token=None), "mixture")
FALLING_MIXTURE = replace(
    _plain,
    optimizer=replace(_plain.optimizer, cooling=10_000),
    schedule=replace(_plain.schedule, threshold=0.005),
)
"""The learning rate falls by half every 10,000 iterations: at a constant one the direct answer stays noisy.
Chosen on a tuning seed: docs/lab-notes.md."""
SHARE = 0.5
"""Of the steps, those in which an earlier stage is rehearsed. Chosen on a tuning seed: docs/lab-notes.md."""
REHEARSAL: dict[str, list[Any]] = {"rehearsal": [None, SHARE], "rehearse": [None, "all"]}
"""The curriculum as it is, and one that rehearses all its earlier stages."""
TIERS: Tiers = {
    "smoke": [
        Grid(SMOKE, {"task": ["C2"], "method": METHODS}, seeds=SMOKE_SEEDS),
        Grid(replace(SMOKE, method="left", length_token=True), zipped=REHEARSAL, seeds=SMOKE_SEEDS),
    ],
    "toy": [
        Grid(TOY_SAMPLES, {"method": METHODS}, with_horizons(["C5"], TOY_HORIZONS), seeds=range(10, 20)),
    ],
    "laptop": [
        Grid(ASKED_BOTH_WAYS, zipped=REHEARSAL, seeds=TEN_SEEDS),
        Grid(FALLING_MIXTURE, seeds=TEN_SEEDS),
        Grid(TWO_LAYERS, seeds=TEN_SEEDS),
    ],
    "paper": [
        Grid(PAPER, {**PAPER_TASKS, "method": METHODS}, seeds=PAPER_SEEDS),
        Grid(replace(PAPER, method="left", length_token=True), PAPER_TASKS, REHEARSAL, seeds=PAPER_SEEDS),
    ],
}

MIXTURE = group("mixture", way="mixture")
CURRICULUM = group("curriculum", way="curriculum", beside_mixture=True)
REHEARSED = group("curriculum with rehearsal", way="rehearsed")
MIXTURE_THAT_ANSWERS = group("mixture that succeeds ID at once", way="mixture", succeeded=True)
REHEARSED_THAT_ANSWERS = group("curriculum with rehearsal that succeeds ID", way="rehearsed", succeeded=True)
"""A direct answer that was never learned loses nothing out of distribution."""
PLAIN = group("curriculum", way="curriculum", beside_rehearsed=True)
CURRICULUM_ASKED = group(
    "curriculum that succeeds ID",
    way="curriculum",
    beside_rehearsed=True,
    length_token=True,
    succeeded=True,
)
"""Only a model that was shown the token for a length can be asked for it."""

CLAIMS = [
    Claim(
        "one-model-learns-both",
        "A single model trained on the mixture can both answer directly and generate the full chain.",
        RateAbove(MIXTURE, "both_succeeded", EXISTS, by="task"),
        headline=True,
    ),
    Claim(
        "chain-keeps-ood",
        "With the full chain the mixture model recovers OOD performance, the curriculum model does not.",
        MoreOften(
            group("mixture, full chain", way="mixture"),
            CURRICULUM,
            "chain_ood_succeeded",
            outcome_of_less="ood_succeeded",
            strata="task",
        ),
        [succeeds_first(CURRICULUM, by="task")],
    ),
    Claim(
        "asked-for-the-chain-the-mixture-keeps-ood",
        "Both asked for the full chain, the mixture model succeeds out of distribution more often than the "
        "curriculum model (not in the paper, which asks the latter for its direct answer).",
        MoreOften(
            group("mixture, full chain", way="mixture"),
            group("curriculum, full chain", way="curriculum", beside_mixture=True, length_token=True),
            "chain_ood_succeeded",
            strata="task",
        ),
        [succeeds_first(CURRICULUM, by="task")],
        seen="added",
        ours=True,
    ),
    Claim(
        "chain-above-direct-ood",
        "The same model does better out of distribution with the full chain than when it answers directly.",
        OftenWithout(MIXTURE_THAT_ANSWERS, "chain_ood_succeeded", "ood_succeeded"),
        [succeeds_first(MIXTURE, by="task")],
    ),
    Claim(
        "curriculum-forgets-the-chain",
        "Asked for the full chain, the curriculum's model no longer ends at the right state (not in the "
        "paper).",
        RateBelow(CURRICULUM_ASKED, "chain_succeeded", MOSTLY, by="task"),
        [succeeds_first(PLAIN, by="task")],
        ours=True,
    ),
    Claim(
        "rehearsal-keeps-both",
        "A curriculum that rehearses its earlier stages ends in one model that answers directly and generates "
        "the full chain (not in the paper).",
        RateAbove(REHEARSED, "both_succeeded", MOSTLY, by="task"),
        ours=True,
    ),
    Claim(
        "rehearsal-keeps-ood",
        "Rehearsing longer chains keeps more of the direct answer's OOD accuracy (not in the paper).",
        Larger(CURRICULUM_ASKED, REHEARSED_THAT_ANSWERS, "ood_gap", strata="task"),
        [succeeds_first(PLAIN, by="task"), succeeds_first(REHEARSED, by="task")],
        ours=True,
    ),
]


def way_of(row: FigureRow) -> str:
    """How the model came to know several lengths, if it does."""
    rehearsed = "rehearsed" if row.get("rehearsal") else "curriculum"
    return "mixture" if row["method"] == "mixture" else rehearsed


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """way; beside_mixture, beside_rehearsed: whether the same model was trained in these ways, too."""

    def shape(case: FigureRow) -> list[Any]:
        return [case["task"], case["horizon"], case["model.depth"], case["model.width"]]

    ways = {way_of(case) for case in cases if shape(case) == shape(row)}
    beside = {f"beside_{way}": way in ways for way in ("mixture", "rehearsed")}
    return {**chain_columns(row, cases), "way": way_of(row), **beside}


ASKED_FOR_CHAIN, DIRECT = ("chain_succeeded", "chain_ood_succeeded"), ("succeeded", "ood_succeeded")
WAYS = {
    "mixture, asked for the chain": ("mixture", *ASKED_FOR_CHAIN),
    "mixture, direct": ("mixture", *DIRECT),
    "curriculum, asked for the chain": ("curriculum", *ASKED_FOR_CHAIN),
    "curriculum, direct": ("curriculum", *DIRECT),
    "curriculum with rehearsal, asked for the chain": ("rehearsed", *ASKED_FOR_CHAIN),
    "curriculum with rehearsal, direct": ("rehearsed", *DIRECT),
}
"""How a model is asked: how it was trained, and the names of its results ID and OOD."""


def draw(material: DrawingMaterial) -> Drawing:
    """A group of bars for each task and depth. Only the ways that some run was asked in: the first curricula
    knew one length alone."""
    places = list(dict.fromkeys((row["task"], row["model.depth"]) for row in material.rows))
    deep = len({depth for _, depth in places}) > 1
    names = [f"{task_name(task)}, depth {depth}" if deep else task_name(task) for task, depth in places]
    ways = {way: of for way, of in WAYS.items() if rate(group("", way=of[0]).of(material.rows), of[1]).trials}
    figure, axes = new_figure(1, 2, width=max(8.0, 3 + 2.2 * len(places)), height=4.3, sharey=True)
    for i, (axis, title) in enumerate(zip(axes, ("in distribution", "out of distribution"), strict=True)):
        series = {
            told: [
                rate(group("", way=way, task=task, model__depth=depth).of(material.rows), outcomes[i])
                for task, depth in places
            ]
            for told, (way, *outcomes) in ways.items()
        }
        success_bars(axis, names, series)
        axis.set_title(title)
    axes[1].set_ylabel("")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


FIGURE = Figure(
    name="mixture",
    paper="Figure 5, bottom",
    shows="a mixture model asked for the whole chain and for a direct answer, beside the curriculum",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of seeds with more than 95 % final-state accuracy. A token tells the model the length of its "
        "answer: LEN_{T+1} asks for the full chain, LEN_2 for a direct answer. The mixture shows all lengths "
        "from the beginning; the curriculum takes states away from the left, and with rehearsal half of its "
        "steps show an earlier stage (Wilson intervals, 95 %)."
    ),
    claims=CLAIMS,
    notes=[
        "The paper does not say which counters; ours are those of its other figures.",
        "The curriculum with rehearsal is not in the paper.",
        "Success asked for the chain counts the last state alone, with or without a chain before it.",
    ],
    columns=columns,
)
