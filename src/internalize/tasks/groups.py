"""The shipped semiautomata: counters, permutation groups, dihedral groups, quaternions, flip-flops.

A permutation group acts on *places*: a symbol moves what stands in the places, and a state is an
arrangement (a, b, c, …) of the items, numbered by its Lehmer rank (its place in lexicographic order).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import factorial

from internalize.errors import BadInput, require
from internalize.tasks.semiautomaton import LARGEST_TABLE, Semiautomaton, semiautomaton

Permutation = tuple[int, ...]
"""A rearrangement of places: the item now in place i came from place p[i] (counted from 0)."""


def counter(n: int) -> Semiautomaton:
    """C_n: the sum modulo n of the symbols so far."""
    require(n >= 2, "task", f"a counter C_n needs n ≥ 2, got {n}")
    require(n * n <= LARGEST_TABLE, "task", f"C_{n} would have {n * n} transitions, at most {LARGEST_TABLE}")
    return semiautomaton(f"C{n}", [[(q + s) % n for s in range(n)] for q in range(n)])


def flip_flop(n: int) -> Semiautomaton:
    """A memory of n values: `keep`, or write one of them."""
    require(n >= 2, "task", f"a flip-flop needs at least 2 states, got {n}")
    require(n * (n + 1) <= LARGEST_TABLE, "task", f"a flip-flop of {n} states is too large")
    rows = [[q, *range(n)] for q in range(n)]
    return semiautomaton(f"flipflop{n}", rows, symbol_names=["keep", *(f"write{i}" for i in range(n))])


def dihedral(n: int) -> Semiautomaton:
    """D_n: the 2n symmetries of a regular n-gon; symbols: identity, turn by one, mirror."""
    require(n >= 2, "task", f"a dihedral group D_n needs n ≥ 2, got {n}")
    require(6 * n <= LARGEST_TABLE, "task", f"D_{n} is too large")
    # State k is the turn r^k, state n + k is r^k s with the mirror s. Symbols multiply from the right, and
    # s r = r^-1 s.
    rows = [[k, (k + 1) % n, n + k] for k in range(n)]
    rows += [[n + k, n + (k - 1) % n, k] for k in range(n)]
    names = [f"r{k}" for k in range(n)] + [f"r{k}s" for k in range(n)]
    return semiautomaton(f"D{n}", rows, names, ["id", "turn", "mirror"])


def quaternion() -> Semiautomaton:
    """Q8: multiplication from the right by 1, i, j, k."""
    units = ["1", "i", "j", "k"]
    products = {"ij": "k", "jk": "i", "ki": "j", "ji": "-k", "kj": "-i", "ik": "-j"}
    elements = units + [f"-{u}" for u in units]

    def multiply(a: str, b: str) -> str:
        sign, a = (-1, a[1:]) if a.startswith("-") else (1, a)
        if a == "1":
            value = b
        elif b == "1":
            value = a
        else:
            value = "-1" if a == b else products[a + b]
        negative = value.startswith("-") == (sign == 1)
        return f"-{value.lstrip('-')}" if negative else value.lstrip("-")

    rows = [[elements.index(multiply(a, b)) for b in units] for a in elements]
    return semiautomaton("Q8", rows, elements, units)


def symmetric(n: int, generators: str = "") -> Semiautomaton:
    """S_n. Default symbols: identity, swap of places 1 and 2, swap of 2 and 3, left shift (a,b,c) → (b,c,a).

    Other symbols: `adjacent` (identity and all swaps of neighbours), `all` (every element), or cycles such
    as `(1 2),(1 2 3)`.
    """
    require(2 <= n <= 8, "task", f"S_n is possible for n = 2 … 8, got {n}")
    identity = tuple(range(n))
    shift = (*range(1, n), 0)
    default = {"id": identity, "swap12": _swap(n, 0)}
    if n >= 3:
        default |= {"swap23": _swap(n, 1), "shift": shift}
    adjacent = {"id": identity} | {f"swap{i + 1}{i + 2}": _swap(n, i) for i in range(n - 1)}
    symbols = _choose(generators, n, default, {"adjacent": adjacent})
    return _action(_name("S", n, generators), list(permutations(range(n))), symbols)


def alternating(n: int, generators: str = "") -> Semiautomaton:
    """A_n, the even arrangements. Symbols: identity and the cycles (1 2 i); or `all`, or even cycles."""
    require(3 <= n <= 8, "task", f"A_n is possible for n = 3 … 8, got {n}")
    default = {"id": tuple(range(n))}
    default |= {f"cycle12{i}": _cycles(f"(1 2 {i})", n) for i in range(3, n + 1)}
    arrangements = [p for p in permutations(range(n)) if _is_even(p)]
    symbols = _choose(generators, n, default, {})
    for name, move in symbols.items():
        require(
            _is_even(move) or generators == "all", "task", f"{name} is odd; A_{n} has only even permutations"
        )
    symbols = {name: move for name, move in symbols.items() if _is_even(move)}
    return _action(_name("A", n, generators), arrangements, symbols)


def _action(name: str, arrangements: list[Permutation], symbols: dict[str, Permutation]) -> Semiautomaton:
    """The semiautomaton of symbols that move the items of an arrangement between places."""
    size = len(arrangements) * len(symbols)
    require(size <= LARGEST_TABLE, "task", f"{name} would have {size} transitions, at most {LARGEST_TABLE}")
    rank = {arrangement: i for i, arrangement in enumerate(arrangements)}
    rows = [[rank[tuple(a[i] for i in move)] for move in symbols.values()] for a in arrangements]
    state_names = ["".join(str(i + 1) for i in a) for a in arrangements]
    return semiautomaton(name, rows, state_names, list(symbols))


def _choose(
    generators: str, n: int, default: dict[str, Permutation], named: dict[str, dict[str, Permutation]]
) -> dict[str, Permutation]:
    if generators == "":
        return default
    if generators in named:
        return named[generators]
    if generators == "all":
        require(factorial(n) ** 2 <= LARGEST_TABLE, "task", f"all {factorial(n)} symbols are too many")
        return {"".join(str(i + 1) for i in p): p for p in permutations(range(n))}
    words = re.findall(r"(?:\([^()]*\))+", generators)
    if not words or ",".join(words) != generators:
        choices = ", ".join([*named, "all"])
        raise BadInput("task", f"generators must be {choices} or cycles like (1 2),(1 2 3); got {generators!r}")
    symbols = {word.replace(" ", "."): _cycles(word, n) for word in words}
    require(len(symbols) == len(words), "task", f"generators repeat: {generators!r}")
    return symbols


def _cycles(text: str, n: int) -> Permutation:
    """Places in cycle notation, from 1: (1 2 3) moves the item of place 1 to place 2, 2 to 3, 3 to 1."""
    came_from = list(range(n))
    for cycle in re.findall(r"\(([^()]*)\)", text):
        parts = cycle.replace(",", " ").split()
        known = [str(place) for place in range(1, n + 1)]
        good = set(parts) <= set(known) and len(set(parts)) == len(parts)
        require(good, "task", f"cycle ({cycle}) needs places 1…{n}, each once")
        places = [int(part) - 1 for part in parts]
        before = came_from.copy()
        for a, b in zip(places, places[1:] + places[:1], strict=True):
            came_from[b] = before[a]
    return tuple(came_from)


def _swap(n: int, i: int) -> Permutation:
    places = list(range(n))
    places[i], places[i + 1] = places[i + 1], places[i]
    return tuple(places)


def _is_even(permutation: Sequence[int]) -> bool:
    pairs = [(i, j) for j in range(len(permutation)) for i in range(j)]
    return sum(permutation[i] > permutation[j] for i, j in pairs) % 2 == 0


def _name(letter: str, n: int, generators: str) -> str:
    return f"{letter}{n}" + (f":{generators}" if generators else "")


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
    symbols = [tuple(column) for column in task.transitions.T.tolist()]
    maps = generated(symbols)
    if maps is None:
        return None
    is_group = all(len(set(symbol)) == task.states for symbol in symbols)
    groups = [maps] if is_group else list(_maximal_groups(maps))
    abelian = task.commutes
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
