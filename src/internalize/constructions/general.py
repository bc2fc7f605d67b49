"""The general log-depth construction: each symbol as its transition map, composed pairwise up a tree.

This is the earlier result that theorem 3 improves on for counters (Liu et al., "Transformers learn shortcuts
to automata", 2023), with the initial state read from the input as theorem 3 does. Registers hold a map
Q → Q as the vector of its values. Composition does not commute, so the order of the tokens matters: the
initial state stands *in front* of the symbols, as the constant map q ↦ q_0, and the dummies in front of it are
the identity. The last position then holds f_{σ_T}∘…∘f_{σ_1}∘q_0, a constant map: any register is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from internalize.constructions.composition import composition_mlp, composition_widths
from internalize.constructions.construction import DTYPES, Construction, Precision, build_network
from internalize.constructions.counter import check_horizon
from internalize.constructions.directions import Directions
from internalize.constructions.lookback import attention_plan
from internalize.constructions.memory import bytes_needed, require_memory
from internalize.constructions.residues import Unembedding
from internalize.constructions.weights import Shape
from internalize.errors import require
from internalize.tasks.semiautomaton import Semiautomaton


@final
@dataclass(frozen=True, eq=False)
class GeneralConstruction(Construction):
    """Any semiautomaton. Token ids: symbols, then the dummy, then the states as constant maps."""

    task: Semiautomaton

    reads_state_last = False

    def tokens(self, symbols: Tensor) -> Tensor:
        """(dummy, …, dummy, q_0, σ_1, …, σ_T)."""
        batch, T = symbols.shape
        dummies = symbols.new_full((batch, T), self.symbols)
        start = symbols.new_full((batch, 1), self.symbols + 1 + self.initial_state)
        return torch.cat([dummies, start, symbols], dim=1)

    def trace(self, symbols: Tensor) -> Tensor:
        return self.task.trace(symbols, self.initial_state)

    def held(self, symbols: Tensor, layers: int) -> Tensor:
        """Compositions over windows, by the recurrence on integers."""
        maps = token_maps(self.task)[self.tokens(symbols)]
        for layer in range(1, layers + 1):
            stride = self.plan.stride(layer)
            composed = maps.clone()
            composed[:, stride:] = maps[:, stride:].gather(2, maps[:, :-stride])
            maps = composed
        return maps

    def register_names(self) -> tuple[str, ...]:
        return tuple(f"where {name} leads" for name in self.task.state_names)


def token_maps(task: Semiautomaton) -> Tensor:
    """(tokens, |Q|) int64: each symbol's δ(·, σ), the identity for the dummy, a constant map for each state."""
    states = torch.arange(task.states)
    constants = states[:, None].expand(-1, task.states)
    return torch.cat([task.table.T.cpu(), states[None], constants])


def general_shape(states: int, symbols: int, horizon: int) -> Shape:
    """The sizes of the general construction; nothing is allocated."""
    plan = attention_plan(horizon, states)
    return Shape(
        tokens=symbols + 1 + states,
        positions=plan.positions,
        embedding=2 * states + 2,
        depth=plan.depth,
        heads=2,
        head_size=states + 2,
        mlp_widths=composition_widths(states),
    )


def build_general(
    task: Semiautomaton,
    horizon: int,
    initial_state: int | None = None,
    precision: Precision = "float64",
    beta: float | None = None,
) -> GeneralConstruction:
    """The general construction for a task; q_0 is the task's own unless another is given."""
    check_horizon(horizon)
    start = task.initial_state if initial_state is None else initial_state
    require(0 <= start < task.states, "initial_state", f"must be in 0…{task.states - 1}, got {start}")
    shape = general_shape(task.states, task.symbols, horizon)
    require_memory(bytes_needed(shape, task.states), "task", f"{task.name} with T = {horizon}, general")
    plan = attention_plan(horizon, task.states, beta)
    directions = Directions(task.states)
    mlp = composition_mlp(task.states, directions)
    network = build_network(shape, token_maps(task), directions, plan, mlp)
    return GeneralConstruction(
        name=task.name,
        symbols=task.symbols,
        states=task.states,
        initial_state=start,
        plan=plan,
        directions=directions,
        network=network.to(DTYPES[precision]),
        unembedding=Unembedding((task.states,), torch.arange(task.states)),
        precision=precision,
        task=task,
    )
