"""The sizes of both constructions against n, without building anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from internalize.constructions.counter import counter_shape
from internalize.constructions.general import general_shape
from internalize.constructions.residues import prime_powers
from internalize.constructions.weights import Shape

Kind = Literal["prime", "prime power", "other composite"]


@dataclass(frozen=True)
class Sizes:
    """C_n by theorem 3 and by the general construction, same horizon."""

    n: int
    counter: Shape
    general: Shape

    @property
    def kind(self) -> Kind:
        return kind_of_order(self.n)


def kind_of_order(n: int) -> Kind:
    """What decides the width of theorem 3: whether n falls into smaller parts."""
    if prime_powers(n) != (n,):
        return "other composite"
    return "prime" if all(n % p for p in range(2, int(n**0.5) + 1)) else "prime power"


def compare_sizes(orders: Sequence[int], horizon: int) -> list[Sizes]:
    return [Sizes(n, counter_shape(n, horizon), general_shape(n, n, horizon)) for n in orders]
