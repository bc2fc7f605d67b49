"""Figure 3, left, asked again: do primes cost more, over twice as many orders?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from internalize.constructions.counter import prime_powers
from internalize.display.charts import waiting_marks
from internalize.display.plots import INK, LINES, PALETTE, new_figure
from internalize.figures.cases import (
    FRESH_SEEDS,
    LONG_RECIPE,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    Grid,
    Tiers,
)
from internalize.figures.claims import Claim, chain_learned
from internalize.figures.costs import CostsMore, CostsWith
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.rows import FigureRow, chain_columns, group
from internalize.figures.waiting import waits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure as Drawing

ORDERS = range(10, 38)
"""All of them at one T: 8 primes and 20 composites, of which 4 are prime powers."""
SEEDS = FRESH_SEEDS[:4]
KINDS = ("prime", "prime power", "other composite")

TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"task": ["C4", "C5", "C6"]}, seeds=SMOKE_SEEDS)],
    "laptop": [Grid(replace(LONG_RECIPE, horizon=8), {"task": [f"C{n}" for n in ORDERS]}, seeds=SEEDS)],
    "paper": [Grid(PAPER, {"task": [f"C{n}" for n in range(3, 18)]}, seeds=PAPER_SEEDS)],
}

COMPOSITES = group("composites", order_kind=KINDS[1:])
LEARNED = chain_learned(group("all runs"), by="order")

PRIMES_COST_MORE = CostsMore(group("primes", order_kind="prime"), COMPOSITES)
CLAIMS = [
    Claim(
        "primes-cost-more-over-more-orders",
        "Prime orders are harder to internalize than composite ones (asked again, over more orders).",
        PRIMES_COST_MORE,
        LEARNED,
        headline=True,
        looks=2,  # the figure `orders` was the first
    ),
    Claim(
        "composites-cost-by-prime-powers",
        "Composite orders with larger prime-power factors are harder to internalize than others, at equal n "
        "(the paper's guess why primes are).",
        CostsWith(COMPOSITES, "prime_powers", strata="horizon", beside="order"),
        LEARNED,
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """prime_powers: their sum over the order's factors, by which the network of theorem 3 is as wide."""
    found = chain_columns(row, cases)
    return {**found, "prime_powers": sum(prime_powers(found["order"]))}


def draw(material: DrawingMaterial) -> Drawing:
    """One mark for each run at the time when it had internalized, by order and kind of number."""
    from matplotlib.ticker import LogLocator

    orders = sorted({row["order"] for row in material.rows})
    totals = {row["order"]: row["prime_powers"] for row in material.rows}
    figure, axis = new_figure(1, 1, width=max(6.0, 0.33 * len(orders) + 1.5), height=4.2)
    waits = {
        kind: [waits_of(group("", order=n, order_kind=kind).of(material.rows)) for n in orders]
        for kind in KINDS
    }
    waiting_marks(axis, [f"{n}\n{totals[n]}" for n in orders], waits, apart=False)
    fit = PRIMES_COST_MORE.fit(material.rows)
    for prime, colour, line in ((True, PALETTE[0], LINES[0]), (False, INK, LINES[1])):
        told = f"fit to {'primes' if prime else 'composites'}"
        places = [orders.index(n) for n in fit[prime]]
        axis.plot(places, list(fit[prime].values()), line, color=colour, linewidth=1.2, label=told)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 6, 8)))  # most times are close together
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlim(-0.6, len(orders) - 0.4)
    axis.set_xlabel("order n, and the sum of its prime powers")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


FIGURE = Figure(
    name="more-orders",
    paper="Figure 3, left, asked again over more orders",
    shows="what each order of the counter costs, for primes and composites from 10 to 37",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Iterations until the left curriculum had internalized the counter C_n: one mark for each run, open "
        "where it never did within its budget. The lines are the regression of the claim on primes: mean log "
        "iterations on log n and on being prime. Below each order stands the sum of its prime powers, by "
        "which the transformer of theorem 3 is as wide; for a prime it is the order itself."
    ),
    claims=CLAIMS,
    notes=[
        "The figure `orders` has the paper's claims on primes with two widths of the MLP. Five primes and nine "
        "composites left them inconclusive. Here are more orders, other runs and the wider MLP alone, of which "
        "`orders` saw less than of the narrow one. Orders 10 to 19 are in both figures, with other runs.",
        "A run that is never internalized counts with its whole budget, so that one such run weighs heavily.",
        "The second claim is asked of composites alone, so that it does not repeat the first. It cannot tell "
        "the sum from being a prime power: 16, 25, 27 and 32 decide most of it.",
        "studies/more_orders_checks.py has fits beside these, fixed before anything was fitted.",
    ],
    columns=columns,
)
