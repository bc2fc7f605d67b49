"""The shipped semiautomata against hand-worked tables and the axioms of the groups they are named after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from internalize.errors import BadInput
from internalize.tasks import Semiautomaton, parse_task

Action = tuple[int, ...]
"""What a symbol, or a word of them, does to every state."""


def actions(task: Semiautomaton) -> list[Action]:
    """One per symbol."""
    return [tuple(column) for column in task.table.T.tolist()]


def generated(task: Semiautomaton) -> set[Action]:
    """All that words of symbols can do."""
    identity = tuple(range(task.states))
    found, edge = {identity}, [identity]
    while edge:
        done = edge.pop()
        for symbol in actions(task):
            after = tuple(symbol[q] for q in done)
            if after not in found:
                found.add(after)
                edge.append(after)
    return found


def orders(task: Semiautomaton) -> list[int]:
    """The orders of the group's elements, sorted: enough to tell the small groups apart."""

    def order(action: Action) -> int:
        power, count = action, 1
        while power != tuple(range(task.states)):
            power, count = tuple(action[q] for q in power), count + 1
        return count

    return sorted(map(order, generated(task)))


def test_counters_add_modulo_n() -> None:
    for n in (2, 3, 7, 12):
        task = parse_task(f"C{n}")
        assert task.table.tolist() == [[(q + s) % n for s in range(n)] for q in range(n)]
        assert task.initial_state == 0


def test_s3_against_hand_worked_permutations() -> None:
    task = parse_task("S3")
    assert task.state_names == ("123", "132", "213", "231", "312", "321")  # Lehmer ranks 0 … 5
    assert task.symbol_names == ("id", "swap12", "swap23", "shift")
    assert task.table.tolist() == [
        # (a,b,c) itself, (b,a,c), (a,c,b), (b,c,a)
        [0, 2, 1, 3],  # 123 → 123, 213, 132, 231
        [1, 4, 0, 5],  # 132 → 132, 312, 123, 321
        [2, 0, 3, 1],  # 213 → 213, 123, 231, 132
        [3, 5, 2, 4],  # 231 → 231, 321, 213, 312
        [4, 1, 5, 0],  # 312 → 312, 132, 321, 123
        [5, 3, 4, 2],  # 321 → 321, 231, 312, 213
    ]
    assert task.initial_state == 0


@pytest.mark.parametrize(
    ("name", "states", "symbols", "element_orders"),
    [
        ("C6", 6, 6, [1, 2, 3, 3, 6, 6]),
        ("S2", 2, 2, [1, 2]),
        ("S3", 6, 4, [1, 2, 2, 2, 3, 3]),
        ("S3:all", 6, 6, [1, 2, 2, 2, 3, 3]),
        ("S3:adjacent", 6, 3, [1, 2, 2, 2, 3, 3]),
        ("S4:(1 2),(1 2 3 4)", 24, 2, [1] + 9 * [2] + 8 * [3] + 6 * [4]),
        ("A3", 3, 2, [1, 3, 3]),
        ("A4", 12, 3, [1] + 3 * [2] + 8 * [3]),
        ("A4:all", 12, 12, [1] + 3 * [2] + 8 * [3]),
        ("A5", 60, 4, [1] + 15 * [2] + 20 * [3] + 24 * [5]),
        ("D2", 4, 3, [1, 2, 2, 2]),
        ("D4", 8, 3, [1] + 5 * [2] + 2 * [4]),
        ("D5", 10, 3, [1] + 5 * [2] + 4 * [5]),
        ("Q8", 8, 4, [1, 2] + 6 * [4]),
        ("C2xC2", 4, 4, [1, 2, 2, 2]),
    ],
)
def test_symbols_generate_the_group_of_that_name(
    name: str, states: int, symbols: int, element_orders: list[int]
) -> None:
    task = parse_task(name)
    assert task.name == name
    assert (task.states, task.symbols) == (states, symbols)
    for action in actions(task):
        assert sorted(action) == list(range(states))  # a permutation of the states
    words = generated(task)
    assert len(words) == states  # as many as states, and every state reached by one: the group acts on itself
    assert sorted(word[task.initial_state] for word in words) == list(range(states))
    assert orders(task) == element_orders


def test_quaternion_products_of_units() -> None:
    task = parse_task("Q8")
    times = {
        (a, b): task.state_names[int(task.table[task.state_names.index(a), task.symbol_names.index(b)])]
        for a, b in product(task.state_names, task.symbol_names)
    }
    hamilton = {"ij": "k", "jk": "i", "ki": "j", "ji": "-k", "kj": "-i", "ik": "-j"}
    for pair, value in hamilton.items():
        assert times[pair[0], pair[1]] == value
    assert {times[u, u] for u in "ijk"} == {"-1"}
    assert times["-i", "j"] == "-k"
    assert times["-k", "k"] == "1"


def test_cycles_move_items_from_place_to_place() -> None:
    """(1 2 3) takes the item of place 1 to place 2: (a,b,c) → (c,a,b)."""
    task = parse_task("S3:(1 2 3),(1 3)")
    assert task.symbol_names == ("(1.2.3)", "(1.3)")
    assert task.state_names[int(task.table[0, 0])] == "312"
    assert task.state_names[int(task.table[0, 1])] == "321"


def test_flip_flop_keeps_or_writes() -> None:
    for name in ("flipflop", "flipflop2"):
        task = parse_task(name)
        assert task.symbol_names == ("keep", "write0", "write1")
        assert task.table.tolist() == [[0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize("name", ["C2xS3", "flipflop3xC2", "C2xC3xC2"])
def test_a_direct_product_is_both_separately(name: str) -> None:
    whole, parts = parse_task(name), [parse_task(part) for part in name.split("x")]
    assert whole.states == len(list(product(*(range(p.states) for p in parts))))
    states = list(product(*(range(p.states) for p in parts)))
    symbols = list(product(*(range(p.symbols) for p in parts)))
    for (i, state), (j, symbol) in product(enumerate(states), enumerate(symbols)):
        after = tuple(int(p.table[q, s]) for p, q, s in zip(parts, state, symbol, strict=True))
        assert states[int(whole.table[i, j])] == after
        assert whole.state_names[i] == "|".join(p.state_names[q] for p, q in zip(parts, state, strict=True))


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as problem:
        make()
    return str(problem.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("C1", "needs n ≥ 2, got 1"),
        ("C0", "got 0"),
        ("C-3", "got -3"),
        ("C100000", "at most 10000000"),
        ("C", "unknown task 'C'; known: C<n>, S<n>"),
        ("c2", "unknown task 'c2'"),
        ("", "unknown task ''"),
        ("C2x", "unknown task 'C2x'"),
        ("C2xZ3", "unknown task 'Z3'"),
        ("C80xC80", "would have"),
        ("S1", "n = 2 … 8, got 1"),
        ("S9", "n = 2 … 8, got 9"),
        ("S8:all", "too many"),
        ("A2", "n = 3 … 8, got 2"),
        ("A4:(1 2)", "(1.2) is odd; A_4 has only even"),
        ("D1", "needs n ≥ 2, got 1"),
        ("flipflop1", "at least 2 states, got 1"),
        ("S3:foo", "generators must be adjacent, all or cycles like (1 2),(1 2 3); got 'foo'"),
        ("S3:(1 4)", "cycle (1 4) needs places 1…3, each once"),
        ("S3:(1 1)", "each once"),
        ("S3:(1 01)", "each once"),
        ("S3:(1 ²)", "each once"),
        ("S3:(1 2),(1 2)", "generators repeat"),
        ("S3:(1 2)(", "generators must be"),
        ("D4:all", "only S and A take generators"),
        ("C" + 5000 * "9", "unknown task"),
    ],
)
def test_impossible_names_are_refused_in_one_line(name: str, words: str) -> None:
    message = refused(lambda: parse_task(name))
    assert message.startswith("task: ")
    assert words in message
