"""A semiautomaton (Q, Σ, δ): states, symbols and a table of transitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from internalize.errors import BadInput, require

LARGEST_TABLE = 10_000_000
"""Most entries of a transition table; beyond it the task would not fit beside its model on a laptop."""


@dataclass(frozen=True, eq=False)
class Semiautomaton:
    """q_t = δ(q_{t-1}, σ_t), with δ as a table."""

    name: str
    table: Tensor
    """δ: (states, symbols) int64, entries in 0 … states-1."""
    state_names: tuple[str, ...]
    symbol_names: tuple[str, ...]
    initial_state: int = 0

    @property
    def states(self) -> int:
        return self.table.shape[0]

    @property
    def symbols(self) -> int:
        return self.table.shape[1]

    @cached_property
    def _flat_table(self) -> Tensor:
        return self.table.flatten()

    def trace(self, symbols: Tensor, initial_state: int | None = None) -> Tensor:
        """All states visited: (…, T) symbols to (…, T+1) states q_0 … q_T, any number of rows at once."""
        start = self.initial_state if initial_state is None else initial_state
        states = symbols.new_empty((*symbols.shape[:-1], symbols.shape[-1] + 1))
        states[..., 0] = start
        for t in range(symbols.shape[-1]):
            states[..., t + 1] = self._flat_table[states[..., t] * self.symbols + symbols[..., t]]
        return states

    def to(self, device: torch.device | str) -> Semiautomaton:
        """The same semiautomaton with its table on the device."""
        return replace(self, table=self.table.to(device))


def semiautomaton(
    name: str,
    rows: Sequence[Sequence[object]],
    state_names: Sequence[str] | None = None,
    symbol_names: Sequence[str] | None = None,
    initial_state: int = 0,
) -> Semiautomaton:
    """Check a table of transitions, row by state and column by symbol, and make a semiautomaton of it."""
    require(len(rows) >= 1, "transitions", "needs at least one state")
    width = len(rows[0])
    require(width >= 1, "transitions", "needs at least one symbol")
    require(
        len(rows) * width <= LARGEST_TABLE,
        "transitions",
        f"has {len(rows)} × {width} entries, at most {LARGEST_TABLE} are possible",
    )
    for q, row in enumerate(rows):
        require(len(row) == width, f"transitions[{q}]", f"must have {width} entries, got {len(row)} (a hole)")
        for s, target in enumerate(row):
            if type(target) is not int or not 0 <= target < len(rows):
                raise BadInput(f"transitions[{q}][{s}]", _wrong_target(target, len(rows)))
    require(
        0 <= initial_state < len(rows), "initial_state", f"must be in 0…{len(rows) - 1}, got {initial_state}"
    )
    return Semiautomaton(
        name=name,
        table=torch.tensor([list(row) for row in rows], dtype=torch.int64),
        state_names=_names(state_names, len(rows), "states"),
        symbol_names=_names(symbol_names, width, "symbols"),
        initial_state=initial_state,
    )


def direct_product(left: Semiautomaton, right: Semiautomaton) -> Semiautomaton:
    """Both run side by side: states and symbols are pairs, the left one changing slowest."""
    size = left.states * right.states * left.symbols * right.symbols
    require(size <= LARGEST_TABLE, "task", f"{left.name}x{right.name} would have {size} transitions")
    table = left.table[:, None, :, None] * right.states + right.table[None, :, None, :]
    return Semiautomaton(
        name=f"{left.name}x{right.name}",
        table=table.reshape(left.states * right.states, left.symbols * right.symbols),
        state_names=_pairs(left.state_names, right.state_names),
        symbol_names=_pairs(left.symbol_names, right.symbol_names),
        initial_state=left.initial_state * right.states + right.initial_state,
    )


def _pairs(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{a}|{b}" for a in left for b in right)


def _wrong_target(target: object, states: int) -> str:
    if type(target) is not int:
        return f"must be a whole number, got {target!r}"
    return f"must be a state in 0…{states - 1}, got {target}"


def _names(names: Sequence[str] | None, count: int, field: str) -> tuple[str, ...]:
    if names is None:
        return tuple(str(i) for i in range(count))
    require(len(names) == count, field, f"must have {count} names, got {len(names)}")
    for i, name in enumerate(names):
        good = isinstance(name, str) and name != "" and not any(c.isspace() for c in name)
        require(good, f"{field}[{i}]", f"must be a word without spaces, got {name!r}")
    require(len(set(names)) == count, field, "must be different from one another")
    return tuple(names)
