"""What else could explain that orders differ in cost? Fits beside those that `figure more-orders` judges.

    python studies/more_orders_checks.py results/more-orders/more-orders.csv > results/more-orders/checks.csv

They were fixed before anything was fitted. No claim is judged by them. They say whether what is found hangs
on the shape of the curve in n, on even orders (no prime here is even), on orders that `figure orders` had seen,
on the four prime powers, or on single runs that took very long. One row for each fit: a factor of iterations
with its interval (95 %, Student's, over orders).
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from internalize.errors import BadInput, require
from internalize.figures.recorded import EARLY
from internalize.statistics import effect_of
from internalize.sweeps.recorded import table_rows


@dataclass(frozen=True)
class Order:
    """What its runs tell of a counter."""

    n: int
    kind: str
    prime_powers: int
    iterations: tuple[float, ...]


Orders = Sequence[Order]
Number = Callable[[Order], float]


def is_prime(order: Order) -> float:
    return float(order.kind == "prime")


def log_sum(order: Order) -> float:
    """Doubled sums: a coefficient of this is what twice the sum adds."""
    return math.log2(order.prime_powers)


def log_size(order: Order) -> float:
    return math.log(order.n)


def squared(order: Order) -> float:
    return math.log(order.n) ** 2


def is_even(order: Order) -> float:
    return float(order.n % 2 == 0)


def mean_cost(order: Order) -> float:
    return fmean(map(math.log, order.iterations))


def median_cost(order: Order) -> float:
    return math.log(median(order.iterations))


@dataclass(frozen=True)
class Check:
    """A fit of the log cost of orders on a cause and on what is beside it."""

    question: str
    cause: Number
    beside: Sequence[Number] = (log_size,)
    among: Callable[[Order], bool] = lambda order: True
    cost: Number = mean_cost

    def row(self, orders: Orders) -> dict[str, str | int]:
        known = [order for order in orders if self.among(order)]
        x = [[number(order) for number in self.beside] for order in known]
        found = effect_of([self.cause(order) for order in known], [self.cost(order) for order in known], x)
        ends = (found.interval.low, found.interval.high) if found.interval else (math.nan, math.nan)
        low, high = (f"{math.exp(end):.3f}" for end in ends)
        factor = f"{math.exp(found.coefficient):.3f}"
        return {"check": self.question, "orders": len(known), "factor": factor, "low": low, "high": high}


def is_composite(order: Order) -> bool:
    return order.kind != "prime"


def is_no_power(order: Order) -> bool:
    return order.kind != "prime power"


def is_mixed(order: Order) -> bool:
    """It has several prime factors."""
    return order.kind == "other composite"


CHECKS = (
    Check("primes against composites, as judged", is_prime),
    Check("primes, with a curve in log n", is_prime, beside=(log_size, squared)),
    Check("primes, beside being even", is_prime, beside=(log_size, is_even)),
    Check("primes against odd composites", is_prime, among=lambda order: order.n % 2 == 1),
    Check("primes, orders 20 to 37 alone", is_prime, among=lambda order: order.n >= 20),
    Check("primes against composites that are no prime powers", is_prime, among=is_no_power),
    Check("primes, by the median of runs", is_prime, cost=median_cost),
    Check("sum of prime powers twice as large, composites, as judged", log_sum, among=is_composite),
    Check("sum of prime powers, with a curve in log n", log_sum, (log_size, squared), is_composite),
    Check("sum of prime powers, beside being even", log_sum, (log_size, is_even), is_composite),
    Check("sum of prime powers, without prime powers", log_sum, among=is_mixed),
    Check("sum of prime powers, by the median of runs", log_sum, among=is_composite, cost=median_cost),
)


def read_orders(table: Path) -> list[Order]:
    times: dict[tuple[int, str, int], list[float]] = {}
    rows = table_rows(table)
    for name in ("order", "order_kind", "prime_powers", "iterations_until"):
        require(all(row.get(name) is not None for row in rows), "table", f"{table} has rows without {name!r}")
    for row in rows:
        if row.get(EARLY):
            continue  # the figure does not look at it yet, either
        key = row["order"], row["order_kind"], row["prime_powers"]
        times.setdefault(key, []).append(row["iterations_until"])
    return [Order(*key, tuple(found)) for key, found in sorted(times.items())]


def main() -> None:
    words = argparse.ArgumentParser(description="Fits beside those of the figure more-orders, as CSV.")
    words.add_argument("table", type=Path, help="more-orders.csv")
    table = words.parse_args().table
    try:
        orders = read_orders(table)
    except BadInput as problem:
        words.error(str(problem))
    writer = csv.DictWriter(sys.stdout, ["check", "orders", "factor", "low", "high"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(check.row(orders) for check in CHECKS)


if __name__ == "__main__":
    main()
