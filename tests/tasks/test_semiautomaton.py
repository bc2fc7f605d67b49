"""Traces and tables, over random semiautomata."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.errors import BadInput
from internalize.tasks import Semiautomaton
from internalize.tasks.semiautomaton import semiautomaton


@st.composite
def semiautomata(draw: st.DrawFn, most: int = 6) -> Semiautomaton:
    """Any table with up to so many states and symbols."""
    states, symbols = draw(st.integers(1, most)), draw(st.integers(1, most))
    row = st.lists(st.integers(0, states - 1), min_size=symbols, max_size=symbols)
    table = draw(st.lists(row, min_size=states, max_size=states))
    return semiautomaton("random", table, initial_state=draw(st.integers(0, states - 1)))


def random_symbols(task: Semiautomaton, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randint(task.symbols, shape, generator=torch.Generator().manual_seed(seed))


@given(semiautomata(), st.integers(0, 5), st.integers(1, 4), st.integers(0, 2**32))
def test_traces_equal_a_naive_loop(task: Semiautomaton, horizon: int, batch: int, seed: int) -> None:
    symbols = random_symbols(task, (2, batch, horizon), seed)
    traces = task.trace(symbols)
    other_start = task.trace(symbols, initial_state=task.states - 1)
    assert traces.shape == (2, batch, horizon + 1)
    for i in range(2):
        for j in range(batch):
            for start, found in ((task.initial_state, traces), (task.states - 1, other_start)):
                expected = [start]
                for symbol in symbols[i, j].tolist():
                    expected.append(int(task.table[expected[-1], symbol]))
                assert found[i, j].tolist() == expected


def test_a_trace_runs_where_the_table_is() -> None:
    """On the meta device there are no numbers, so only shapes and devices can be right or wrong."""
    task = semiautomaton("two", [[0, 1], [1, 0]]).to("meta")
    trace = task.trace(torch.zeros(3, 7, dtype=torch.int64, device="meta"))
    assert trace.shape == (3, 8)
    assert trace.device.type == "meta"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "transitions: needs at least one state"),
        ([[]], "transitions: needs at least one symbol"),
        ([[0, 1], [0]], r"transitions\[1\]: must have 2 entries, got 1 \(a hole\)"),
        (
            [[0, None], [0, 1]],
            r"transitions\[0\]\[1\]: must be a whole number or .*, got None",
        ),
        ([[0, 1], [0.5, 1]], r"transitions\[1\]\[0\]: must be a whole number or .*, got 0.5"),
        (
            [[0, 1], [True, 1]],
            r"transitions\[1\]\[0\]: must be a whole number or .*, got True",
        ),
        ([[0, 2], [0, 1]], r"transitions\[0\]\[1\]: must be a state in 0…1, got 2"),
        ([[0, -1], [0, 1]], r"must be a state in 0…1, got -1"),
    ],
)
def test_bad_tables_name_the_entry(rows: list[list[object]], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        semiautomaton("bad", rows)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"], "states: must have 2 names, got 1"),
        (["a", "a"], "states: must be different from one another"),
        (["a", "b c"], r"states\[1\]: must be a word without spaces"),
        (["a", ""], r"states\[1\]: must be a word without spaces"),
    ],
)
def test_bad_names_name_the_entry(names: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        semiautomaton("bad", [[0], [1]], names)


def test_bad_initial_state() -> None:
    with pytest.raises(BadInput, match="initial_state: must be a state in 0…1, got 2"):
        semiautomaton("bad", [[0], [1]], initial_state=2)
