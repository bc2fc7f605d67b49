"""Figure 3, left: which counters are internalized, by the order n and the width of the MLP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.display.charts import success_bars, task_name, waiting_marks
from internalize.display.plots import INK, new_figure
from internalize.figures.cases import (
    PAPER,
    PAPER_SEEDS,
    RECIPE,
    SMOKE,
    SMOKE_SEEDS,
    THREE_SEEDS,
    TOY_ADAPTIVE,
    Grid,
    Tiers,
)
from internalize.figures.claims import Claim, chain_learned
from internalize.figures.costs import CostsMore, GainsMore
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.rows import FigureRow, chain_columns, group, rate
from internalize.figures.waiting import EachSooner, Sooner, waits_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from matplotlib.figure import Figure as Drawing

TOY_ORDERS = replace(TOY_ADAPTIVE, horizon=6)
NEIGHBOURS = {10: range(6, 10), 8: range(10, 20)}
"""T → orders that are compared at it: neighbours with a prime among them, all of which keep the premise."""

TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"task": ["C3", "C4", "C6"], "model.mlp": [4, None]}, seeds=SMOKE_SEEDS)],
    "toy": [
        Grid(TOY_ORDERS, {"task": [f"C{n}" for n in range(3, 11)], "model.mlp": [64, None]}, seeds=range(3))
    ],
    "laptop": [
        Grid(
            replace(RECIPE, horizon=horizon),
            {"task": [f"C{n}" for n in orders], "model.mlp": [64, None]},
            seeds=THREE_SEEDS,
        )
        for horizon, orders in NEIGHBOURS.items()
    ],
    "paper": [
        Grid(PAPER, {"task": [f"C{n}" for n in range(3, 18)], "model.mlp": [256, None]}, seeds=PAPER_SEEDS)
    ],
}

ALL = group("all runs")
PRIMES = group("primes", order_kind="prime")
POWERS = group("prime powers", order_kind="prime power")
COMPOSITES = group("composites", order_kind=("prime power", "other composite"))
WIDE, NARROW = group("wide MLP", wide=True), group("narrow MLP", wide=False)
WIDE_PRIMES = group("primes", order_kind="prime", wide=True)
WIDE_COMPOSITES = group("composites", order_kind=("prime power", "other composite"), wide=True)
LEARNED = chain_learned(ALL, by="order")

CLAIMS = [
    Claim(
        "primes-cost-more",
        "Prime orders are harder to internalize than composite ones (with either MLP).",
        CostsMore(PRIMES, COMPOSITES),
        LEARNED,
    ),
    Claim(
        "primes-cost-more-than-powers",
        "Prime orders are harder to internalize than prime powers such as 16 (with either MLP).",
        CostsMore(PRIMES, POWERS),
        LEARNED,
    ),
    Claim(
        "prime-gap-persists-when-wide",
        "The difference between primes and composites persists for the wider MLP.",
        CostsMore(WIDE_PRIMES, WIDE_COMPOSITES),
        LEARNED,
    ),
    Claim(
        "c10-c12-before-c11",
        "C_10 and C_12, trained, are each internalized more easily than C_11.",
        EachSooner(
            (group("C_10", order=10), group("C_12", order=12)), (group("C_11", order=11),), strata="mlp_width"
        ),
        LEARNED,
        seen="changed",
    ),
    Claim(
        "c13-c17-after-c14-c15-c16",
        "C_13 and C_17 are each more difficult to internalize than each of C_14, C_15 and C_16.",
        EachSooner(
            tuple(group(f"C_{n}", order=n) for n in (14, 15, 16)),
            tuple(group(f"C_{n}", order=n) for n in (13, 17)),
            strata="mlp_width",
        ),
        LEARNED,
        seen="added",
    ),
    Claim(
        "width-helps",
        "Increasing the MLP width helps: internalization takes fewer iterations (the paper speaks of its "
        "odds).",
        Sooner(WIDE, NARROW, strata="order"),
        LEARNED,
    ),
    Claim(
        "width-helps-in-operations",
        "The same, counted in operations, of which the wider MLP takes more for each iteration "
        "(not in the paper).",
        Sooner(WIDE, NARROW, strata="order", time="operations_until"),
        LEARNED,
        seen="added",
        restates="width-helps",
        ours=True,
    ),
    Claim(
        "width-helps-primes-less",
        "Width helps to a lesser extent where the order is prime.",
        GainsMore(COMPOSITES, PRIMES, "order", after=WIDE, before=NARROW),
        LEARNED,
        seen="changed",
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """wide: the MLP has the wider of the two widths, which is four times the model's."""
    return {**chain_columns(row, cases), "wide": row["model.mlp"] is None}


def draw(material: DrawingMaterial) -> Drawing:
    """Rates and times by order; what kind of number it is stands below it."""
    orders = sorted({row["order"] for row in material.rows})
    kinds = {row["order"]: row["order_kind"] for row in material.rows}
    words = {"prime": "prime", "prime power": "power", "other composite": ""}
    widths = sorted({row["mlp_width"] for row in material.rows})
    size = {"width": max(6.0, 0.75 * len(orders) + 1.5), "height": 6.6}
    figure, (axis, costs) = new_figure(2, 1, sharex=True, **size)
    series = {
        f"MLP {width}": [
            rate(group("", order=n, mlp_width=width).of(material.rows), "internalized") for n in orders
        ]
        for width in widths
    }
    places = [f"{task_name(f'C{n}')}\n{words[kinds[n]]}" for n in orders]
    success_bars(axis, places, series, counts=len(orders) <= 16, what="runs that have internalized")
    waits = {
        f"MLP {width}": [waits_of(group("", order=n, mlp_width=width).of(material.rows)) for n in orders]
        for width in widths
    }
    waiting_marks(costs, places, waits)
    for place, n in enumerate(orders):
        if kinds[n] == "prime":
            for panel in (axis, costs):
                panel.axvspan(place - 0.5, place + 0.5, color="#888888", alpha=0.12, linewidth=0, zorder=0)
    _part_horizons(costs, [row["horizon"] for n in orders for row in group("", order=n).of(material.rows)[:1]])
    axis.set_xlim(-0.6, len(orders) - 0.4)
    axis.set_title("at the end of the run", fontsize=10)
    costs.set_title("when it had internalized first; open: never within the budget", fontsize=10)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _part_horizons(panel: Any, horizons: Sequence[int]) -> None:
    """A line where T changes from one order to the next, and every T at its first order: times of another T are
    no neighbours."""
    for place, horizon in enumerate(horizons):
        if place and horizon == horizons[place - 1]:
            continue
        if place:
            panel.axvline(place - 0.5, color=INK, linewidth=1.0, linestyle=":")
        panel.annotate(f"T = {horizon}", (place - 0.45, 0.02), xycoords=("data", "axes fraction"), fontsize=9)


FIGURE = Figure(
    name="orders",
    paper="Figure 3, left",
    shows="success by the order of the counter, for two widths of the MLP",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of runs of the left curriculum that answer at once with more than 95 % final-state accuracy, on "
        "the counters C_n (Wilson intervals, 95 %), and how many iterations it took them: one mark for "
        "each run, open where it never did within its budget. A run that internalized on the way and lost it "
        "again counts below, not above. Prime orders are shaded, prime powers marked. Times are comparable "
        "within one T alone."
    ),
    claims=CLAIMS,
    notes=[
        "The unit of the claims about primes is the order, not the run. Primes are compared with prime powers "
        "apart too: the width of theorem 3 does not separate C_16 (70) from C_17 (74)."
    ],
    columns=columns,
)
