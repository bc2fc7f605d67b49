"""What algebra says of a task: which transformations its symbols generate, and whether they are solvable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from internalize.tasks.semiautomaton import Semiautomaton

Map = tuple[int, ...]
"""A transformation of the states: where each of them goes."""
LARGEST = 2_000
"""Transformations beyond which a task's structure is not looked into: the search takes squares of this."""


@dataclass(frozen=True)
class Structure:
    """The semigroup of transformations of a semiautomaton."""

    size: int
    """How many transformations its symbols generate."""
    is_group: bool
    """Whether every one can be undone."""
    abelian: bool
    """Whether their order does not matter."""
    solvable: bool
    """Whether all groups in it are solvable: then constant depth may do (Krohn and Rhodes, Barrington)."""
    aperiodic: bool
    """Whether all groups in it are trivial, as in a flip-flop."""
    prime_powers: tuple[int, ...] | None
    """An abelian group as a product of cyclic groups of these orders; None for anything else."""


def structure_of(task: Semiautomaton) -> Structure | None:
    """None where the symbols generate more transformations than can be looked into."""
    symbols = [tuple(column) for column in task.table.T.tolist()]
    maps = generated(symbols)
    if maps is None:
        return None
    is_group = all(len(set(symbol)) == task.states for symbol in symbols)
    groups = [maps] if is_group else list(_maximal_groups(maps))
    abelian = all(after(a, b) == after(b, a) for a in symbols for b in symbols)
    return Structure(
        size=len(maps),
        is_group=is_group,
        abelian=abelian,
        solvable=all(is_solvable(group) for group in groups),
        aperiodic=all(len(group) == 1 for group in groups),
        prime_powers=cyclic_orders(maps) if is_group and abelian else None,
    )


def after(first: Map, second: Map) -> Map:
    """First the one, then the other."""
    return tuple(second[state] for state in first)


def generated(generators: Sequence[Map]) -> set[Map] | None:
    """All products of one and more generators; None if there are too many."""
    found, new = set(generators), list(dict.fromkeys(generators))
    while new:
        products = {after(made, generator) for made in new for generator in generators} - found
        found |= products
        if len(found) > LARGEST:
            return None
        new = list(products)
    return found


def _maximal_groups(maps: set[Map]) -> Iterable[set[Map]]:
    """For every e with ee = e: what e leaves alone and what can be undone up to e."""
    for unit in maps:
        if after(unit, unit) != unit:
            continue
        local = {m for m in maps if after(unit, m) == m == after(m, unit)}
        yield {m for m in local if any(after(m, other) == unit == after(other, m) for other in local)}


def is_solvable(group: set[Map]) -> bool:
    """Whether taking commutators again and again leaves nothing but the unit."""
    while len(group) > 1:
        inverses = _inverses(group)
        commutators = {after(after(inverses[a], inverses[b]), after(a, b)) for a in group for b in group}
        derived = generated(sorted(commutators))
        assert derived is not None  # no larger than the group
        if len(derived) == len(group):
            return False
        group = derived
    return True


def _inverses(group: set[Map]) -> dict[Map, Map]:
    unit = next(m for m in group if after(m, m) == m)
    found = {}
    for element in group:
        power = element
        while after(power, element) != unit:
            power = after(power, element)
        found[element] = power if element != unit else unit
    return found


def cyclic_orders(group: set[Map]) -> tuple[int, ...]:
    """The orders, powers of primes, of the cyclic groups that an abelian group is the product of.

    In a product of such groups for a prime p, those of order at least p^k are as many as the p-logarithm of
    (elements whose order divides p^k) / (elements whose order divides p^(k-1)).
    """
    orders = [_order(element) for element in group]
    found: list[int] = []
    for prime in (
        p for p in range(2, len(group) + 1) if len(group) % p == 0 and all(p % q for q in range(2, p))
    ):
        counts, power = [1], prime
        while True:
            count = sum(power % order == 0 for order in orders)
            if count == counts[-1]:
                break
            counts.append(count)
            power *= prime
        ranks = [_logarithm(b // a, prime) for a, b in pairwise(counts)]
        for k, (rank, following) in enumerate(zip(ranks, [*ranks[1:], 0], strict=True), start=1):
            found += [prime**k] * (rank - following)
    return tuple(sorted(found))


def _order(element: Map) -> int:
    power, count = element, 1
    while after(power, element) != element:
        power, count = after(power, element), count + 1
    return count


def _logarithm(value: int, base: int) -> int:
    found = 0
    while value > 1:
        value, found = value // base, found + 1
    return found
