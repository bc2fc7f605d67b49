"""A semiautomaton (Q, Σ, δ): states, symbols and a table of transitions; and, if wanted, an output.

With an output the chain still shows states, but the answer shows the output of the last one. Outputs are
numbered after the states and have names like them, so that whoever reads traces need not know the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from internalize.errors import BadInput, closest, require

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LARGEST_TABLE = 10_000_000
"""Most entries of a transition table; beyond it the task would not fit beside its model on a laptop."""

LARGEST_SEARCH = 100_000_000
"""Most products of symbols, over all states, that are compared to see whether they commute: a second."""


@dataclass(frozen=True, eq=False)
class Semiautomaton:
    """q_t = δ(q_{t-1}, σ_t), with δ as a table."""

    name: str
    transitions: NDArray[np.int64]
    """δ: (states, symbols) int64, entries in 0 … states-1."""
    state_names: tuple[str, ...]
    symbol_names: tuple[str, ...]
    initial_state: int = 0
    outputs: NDArray[np.int64] | None = None
    """(states,) int64: what a trace shows in place of its last state; None: the state itself."""
    output_names: tuple[str, ...] = ()
    """The names of the outputs, which are also the last of `state_names`."""
    device: torch.device | str = "cpu"
    """Where `table` and `output` are."""

    @property
    def states(self) -> int:
        return self.transitions.shape[0]

    @property
    def inner_states(self) -> int:
        """How many states there are besides the outputs."""
        return self.states - len(self.output_names)

    @property
    def symbols(self) -> int:
        return self.transitions.shape[1]

    @property
    def commutes(self) -> bool:
        """Whether the order of the symbols never matters, as in a counter.

        Of a very large table the first symbols are compared with all others: nobody wants to wait for the rest.
        """
        moves = self.transitions[: self.inner_states]
        compared = moves.T[: max(2, LARGEST_SEARCH // moves.size)]
        return all(np.array_equal(moves[first], first[moves]) for first in compared)

    @cached_property
    def table(self) -> Tensor:
        """δ as a tensor, for whoever computes with it: only this loads torch."""
        import torch

        return torch.as_tensor(self.transitions, device=self.device)

    @cached_property
    def output(self) -> Tensor | None:
        """The outputs as a tensor."""
        import torch

        return None if self.outputs is None else torch.as_tensor(self.outputs, device=self.device)

    @cached_property
    def _flat_table(self) -> Tensor:
        return self.table.flatten()

    def final_shares(self, probabilities: Sequence[float], horizon: int, initial_state: int) -> Tensor:
        """(states,) float64: how often independent symbols end in each state (or output), not sampled."""
        import torch

        targets = self.table.flatten().cpu()
        symbol = torch.tensor(probabilities, dtype=torch.float64)
        share = torch.zeros(self.states, dtype=torch.float64)
        share[initial_state] = 1.0
        for _ in range(horizon):
            share = torch.zeros_like(share).index_add_(0, targets, torch.outer(share, symbol).flatten())
        if self.output is not None:
            share = torch.zeros_like(share).index_add_(0, self.output.cpu(), share)
        return share

    def is_same_as(self, other: Semiautomaton) -> bool:
        """Whether both move and answer alike, in the same words; the names of the tasks do not matter."""
        words = self.state_names == other.state_names and self.symbol_names == other.symbol_names
        if self.outputs is None or other.outputs is None:
            answers = self.outputs is other.outputs
        else:
            answers = np.array_equal(self.outputs, other.outputs)
        return words and answers and np.array_equal(self.transitions, other.transitions)

    def trace(self, symbols: Tensor, initial_state: int | None = None) -> Tensor:
        """All states visited: (…, T) symbols to (…, T+1) states q_0 … q_T, any number of rows at once.

        Where the task has outputs, the last entry is the output of q_T.
        """
        start = self.initial_state if initial_state is None else initial_state
        states = symbols.new_empty((*symbols.shape[:-1], symbols.shape[-1] + 1))
        states[..., 0] = start
        for t in range(symbols.shape[-1]):
            states[..., t + 1] = self._flat_table[states[..., t] * self.symbols + symbols[..., t]]
        if self.output is not None:
            states[..., -1] = self.output[states[..., -1]]
        return states

    def to(self, device: torch.device | str) -> Semiautomaton:
        """The same semiautomaton with its table on the device."""
        return replace(self, device=device)


Row = Sequence[Any] | Mapping[Any, Any]


def semiautomaton(
    name: str,
    rows: Sequence[Row] | Mapping[Any, Row],
    state_names: Sequence[str] | None = None,
    symbol_names: Sequence[str] | None = None,
    initial_state: int | str = 0,
    outputs: Sequence[str] | Mapping[str, str] | None = None,
    accepting: Sequence[int | str] | None = None,
) -> Semiautomaton:
    """Check a table of transitions and make a semiautomaton of it.

    rows: one for each state, and in it one target for each symbol; both either in order, or by name,
    {"even": {"0": "even", "1": "odd"}, …}. A target is a state's number, counted from 0, or its name.
    outputs: what each state answers, in order or by name. accepting: the states that answer yes, all others no.
    """
    _require_words(state_names or (), "states")
    _require_words(symbol_names or (), "symbols")
    listed, state_names, symbol_names = _in_order(rows, state_names, symbol_names)
    names = _names(state_names, len(listed), "states")
    number = {state: i for i, state in enumerate(names)}
    table = [_targets(row, number, q) for q, row in enumerate(listed)]

    def named(given: int | str) -> int | str:
        """Where states go by name, 1 is the state that is called 1, if there is one: so YAML reads a name."""
        return (
            str(given) if isinstance(rows, Mapping) and type(given) is int and str(given) in number else given
        )

    made = Semiautomaton(
        name=name,
        transitions=np.asarray(table, dtype=np.int64),
        state_names=names,
        symbol_names=_names(symbol_names, len(listed[0]), "symbols"),
        initial_state=_state(named(initial_state), number, "initial_state"),
    )
    said = _outputs(outputs, None if accepting is None else [named(state) for state in accepting], number)
    return made if said is None else _with_output(made, said)


def _in_order(
    transitions: Sequence[Row] | Mapping[Any, Row],
    states: Sequence[str] | None,
    symbols: Sequence[str] | None,
) -> tuple[list[list[object]], Sequence[str] | None, Sequence[str] | None]:
    """Rows and columns as lists, and the names that they then have."""
    by_name = isinstance(transitions, Mapping)
    if isinstance(transitions, Mapping):
        named = {str(key): row for key, row in transitions.items()}
        states = list(named) if states is None else states
        _require_same_names("transitions", named, states, "state")
        transitions = [named[state] for state in states]
    require(len(transitions) >= 1, "transitions", "needs at least one state")
    rows: list[list[object]] = []
    for q, row in enumerate(transitions):
        if isinstance(row, Mapping):
            targets = {str(key): target for key, target in row.items()}
            symbols = list(targets) if symbols is None else symbols
            _require_same_names(f"transitions[{states[q] if states else q}]", targets, symbols, "symbol")
            rows.append([targets[symbol] for symbol in symbols])
        else:
            rows.append(list(row))
        if by_name:  # in YAML a name such as 0 is read as a number
            rows[-1] = [str(target) if type(target) is int else target for target in rows[-1]]
    width = len(rows[0])
    require(width >= 1, "transitions", "needs at least one symbol")
    fits = len(rows) * width <= LARGEST_TABLE
    most = f"at most {LARGEST_TABLE} are possible"
    require(fits, "transitions", f"has {len(rows)} × {width} entries, {most}")
    for q, row in enumerate(rows):
        require(len(row) == width, f"transitions[{q}]", f"must have {width} entries, got {len(row)} (a hole)")
    return rows, states, symbols


def _require_same_names(field: str, found: Mapping[str, object], wanted: Sequence[str], what: str) -> None:
    missing = [name for name in wanted if name not in found]
    require(not missing, field, f"has nothing for the {what} {missing[0] if missing else ''}")
    unknown = [name for name in found if name not in wanted]
    require(not unknown, field, f"there is no {what} {unknown[0] if unknown else ''}")


def _targets(row: Sequence[object], number: Mapping[str, int], q: int) -> list[int]:
    count = len(number)
    return [
        target  # nearly always: tables have up to ten million entries
        if type(target) is int and 0 <= target < count
        else _state(target, number, f"transitions[{q}][{s}]")
        for s, target in enumerate(row)
    ]


def _state(given: object, number: Mapping[str, int], field: str) -> int:
    """The number of a state that is given by its number or by its name."""
    if isinstance(given, str):
        if given not in number:  # only then: looking for the closest of many names is slow
            raise BadInput(field, f"there is no state {given!r}{closest(given, list(number))}")
        return number[given]
    if type(given) is not int:
        raise BadInput(field, f"must be a whole number or the name of a state, got {given!r}")
    require(0 <= given < len(number), field, f"must be a state in 0…{len(number) - 1}, got {given}")
    return given


def _outputs(
    outputs: Sequence[str] | Mapping[str, str] | None,
    accepting: Sequence[int | str] | None,
    number: Mapping[str, int],
) -> list[str] | None:
    """What each state answers, in the order of the states."""
    if accepting is not None:
        require(outputs is None, "accepting", "must be left out where outputs are given")
        chosen = {_state(state, number, "accepting") for state in accepting}
        return ["yes" if q in chosen else "no" for q in range(len(number))]
    if outputs is None:
        return None
    if isinstance(outputs, Mapping):
        outputs = {str(key): said for key, said in outputs.items()}
        _require_same_names("outputs", outputs, list(number), "state")
        return [outputs[state] for state in number]
    require(len(outputs) == len(number), "outputs", f"must be {len(number)}, one for each state")
    return list(outputs)


def _with_output(task: Semiautomaton, said: Sequence[str]) -> Semiautomaton:
    """The states that stand for outputs come last; no symbol leaves them."""
    _require_words(said, "outputs")
    names = _names(list(dict.fromkeys(said)), len(set(said)), "outputs")
    taken = [name for name in names if name in task.state_names]
    require(not taken, "outputs", f"{taken} are names of states too: each needs a name of its own")
    first = task.states
    own = first + np.arange(len(names))
    return replace(
        task,
        transitions=np.concatenate([task.transitions, own[:, None].repeat(task.symbols, axis=1)]),
        state_names=(*task.state_names, *names),
        outputs=np.concatenate([np.asarray([first + names.index(output) for output in said]), own]),
        output_names=names,
    )


def direct_product(left: Semiautomaton, right: Semiautomaton) -> Semiautomaton:
    """Both run side by side: states and symbols are pairs, the left one changing slowest."""
    plain = left.outputs is None and right.outputs is None
    require(plain, "task", f"{left.name}x{right.name}: tasks with outputs have no product")
    size = left.states * right.states * left.symbols * right.symbols
    require(size <= LARGEST_TABLE, "task", f"{left.name}x{right.name} would have {size} transitions")
    table = left.transitions[:, None, :, None] * right.states + right.transitions[None, :, None, :]
    return Semiautomaton(
        name=f"{left.name}x{right.name}",
        transitions=table.reshape(left.states * right.states, left.symbols * right.symbols),
        state_names=_pairs(left.state_names, right.state_names),
        symbol_names=_pairs(left.symbol_names, right.symbol_names),
        initial_state=left.initial_state * right.states + right.initial_state,
    )


def _pairs(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{a}|{b}" for a in left for b in right)


def _names(names: Sequence[str] | None, count: int, field: str) -> tuple[str, ...]:
    if names is None:
        return tuple(str(i) for i in range(count))
    require(len(names) == count, field, f"must have {count} names, got {len(names)}")
    _require_words(names, field)
    require(len(set(names)) == count, field, "must be different from one another")
    return tuple(names)


def _require_words(names: Sequence[object], field: str) -> None:
    """Before anything is looked up by them: what a file holds may be a list, which cannot be."""
    for i, name in enumerate(names):
        good = isinstance(name, str) and name != "" and not any(c.isspace() for c in name)
        require(good, f"{field}[{i}]", f"must be a word without spaces, got {name!r}")
