"""The general log-depth construction: each symbol as its transition map, composed pairwise up a tree.

This is the earlier result that theorem 3 improves on for counters (Liu et al., "Transformers learn shortcuts
to automata", 2023), with the initial state read from the input as theorem 3 does. Registers hold a map
Q → Q as the vector of its values. Composition does not commute, so the order of the tokens matters: the
initial state stands *in front* of the symbols, as the constant map q ↦ q_0, and the dummies in front of it are
the identity. The last position then holds f_{σ_T}∘…∘f_{σ_1}∘q_0, a constant map: any register is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import torch
from torch import Tensor

from internalize.constructions.construction import (
    DTYPES,
    Construction,
    Precision,
    Unembedding,
    attention_plan,
    build_network,
)
from internalize.constructions.counter import FLAT, check_horizon, counter_shape, prime_powers, wires
from internalize.constructions.transformer import (
    AffineWeights,
    Directions,
    Shape,
    bytes_needed,
    require_memory,
)
from internalize.errors import require
from internalize.tasks.semiautomaton import Semiautomaton

if TYPE_CHECKING:
    from jaxtyping import Float64, Int

SLOPE = 1 / (1 - 2 * FLAT)
"""A step climbs from 0 to 1 between two plateaus."""


def composition_mlp(states: int, directions: Directions) -> list[AffineWeights]:
    """Two hidden layers: the held map g and the fetched map f become g∘f, q ↦ g(f(q)), the fetched one zero.

    A map is the vector of its values, one register for each state. First every register is read by |Q| - 1
    steps, [x ≥ 1], …, [x ≥ |Q|-1], each flat where x is within 1/4 of an integer: what follows sees clean
    values.
    Then [f(q) = k] is a difference of two steps, g(k) a sum of steps, and
    ReLU(g(k) + |Q|·[f(q) = k] - |Q|) is g(k) where f(q) = k and 0 elsewhere, because g(k) < |Q|. Their sum
    over k is g(f(q)).
    """
    read, read_bias = _steps(states, directions)
    select, select_bias = _selection(states)
    # A position enters as ReLU(p) and ReLU(-p); both are ≥ 0, so a second ReLU leaves them alone.
    wire = wires(directions.extract(directions.position))
    carry, nothing = torch.eye(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    collect = directions.extract(directions.held).T.repeat_interleave(states, dim=1)
    return [
        AffineWeights(torch.cat([read, wire]), torch.cat([read_bias, nothing])),
        AffineWeights(torch.block_diag(select, carry), torch.cat([select_bias, nothing])),
        AffineWeights(torch.cat([collect, wire.T], dim=1), torch.zeros(directions.size, dtype=torch.float64)),
    ]


def _steps(
    states: int, directions: Directions
) -> tuple[Float64[Tensor, "units {directions.size}"], Float64[Tensor, " units"]]:
    """Units (block, register, step j, foot or head): ReLU(x - (j - 3/4)) and ReLU(x - (j - 1/4)).

    Twice their difference is 0 up to j - 3/4 and 1 from j - 1/4 on: the step [x ≥ j].
    """
    registers = torch.cat([directions.extract(directions.held), directions.extract(directions.fetched)])
    step = torch.arange(1, states, dtype=torch.float64)
    thresholds = torch.stack([step - 1 + FLAT, step - FLAT], dim=1)
    weight = registers.repeat_interleave(thresholds.numel(), dim=0)
    return weight, -thresholds.flatten().repeat(len(registers))


def _selection(states: int) -> tuple[Float64[Tensor, "units steps"], Float64[Tensor, " units"]]:
    """Units (q, k): g(k) + |Q|·[f(q) = k] - |Q|, from the units of `_steps`."""
    held, fetched = 0, 1
    step = torch.tensor([SLOPE, -SLOPE], dtype=torch.float64)
    weight = torch.zeros(states, states, 2, states, states - 1, 2, dtype=torch.float64)
    bias = torch.full((states, states), -float(states), dtype=torch.float64)
    bias[:, 0] = 0.0  # [f(q) = 0] is 1 - [f(q) ≥ 1]
    everyone = torch.arange(states)
    for k in range(states):
        weight[:, k, held, k] = step
        if k >= 1:
            weight[everyone, k, fetched, everyone, k - 1] = states * step
        if k + 1 < states:
            weight[everyone, k, fetched, everyone, k] = -states * step
    return weight.flatten(2).flatten(0, 1), bias.flatten()


def composition_widths(states: int) -> tuple[int, int]:
    """Hidden units of `composition_mlp`: both O(|Q|²)."""
    return 4 * states * (states - 1) + 4, states * states + 4


@final
@dataclass(frozen=True, eq=False)
class GeneralConstruction(Construction):
    """Any semiautomaton. Token ids: symbols, then the dummy, then the states as constant maps."""

    task: Semiautomaton

    reads_state_last = False

    def tokens(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch 2*T+1"]:
        """(dummy, …, dummy, q_0, σ_1, …, σ_T)."""
        batch, T = symbols.shape
        dummies = symbols.new_full((batch, T), self.symbols)
        start = symbols.new_full((batch, 1), self.symbols + 1 + self.initial_state)
        return torch.cat([dummies, start, symbols], dim=1)

    def trace(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch T+1"]:
        return self.task.trace(symbols, self.initial_state)

    def held(self, symbols: Int[Tensor, "batch T"], layers: int) -> Int[Tensor, "batch 2*T+1 registers"]:
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


def token_maps(task: Semiautomaton) -> Int[Tensor, "tokens states"]:
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
    good = 0 <= start < task.inner_states
    require(good, "initial_state", f"must be in 0…{task.inner_states - 1}, got {start}")
    shape = general_shape(task.states, task.symbols, horizon)
    require_memory(bytes_needed(shape, task.states), "task", f"{task.name} with T = {horizon}, general")
    plan = attention_plan(horizon, task.states, beta)
    directions = Directions(task.states)
    mlp = composition_mlp(task.states, directions)
    answers = torch.arange(task.states) if task.output is None else task.output.cpu()
    network = build_network(shape, token_maps(task), directions, plan, mlp)
    return GeneralConstruction(
        name=task.name,
        symbols=task.symbols,
        states=task.states,
        initial_state=start,
        plan=plan,
        directions=directions,
        network=network.to(DTYPES[precision]),
        unembedding=Unembedding((task.states,), answers),
        precision=precision,
        task=task,
    )


OrderKind = Literal["prime", "prime power", "other composite"]


@dataclass(frozen=True)
class Sizes:
    """C_n by theorem 3 and by the general construction, same horizon."""

    n: int
    counter: Shape
    general: Shape

    @property
    def kind(self) -> OrderKind:
        return kind_of_order(self.n)


def kind_of_order(n: int) -> OrderKind:
    """What decides the width of theorem 3: whether n falls into smaller parts."""
    if prime_powers(n) != (n,):
        return "other composite"
    return "prime" if all(n % p for p in range(2, int(n**0.5) + 1)) else "prime power"


def compare_sizes(orders: Sequence[int], horizon: int) -> list[Sizes]:
    return [Sizes(n, counter_shape(n, horizon), general_shape(n, n, horizon)) for n in orders]
