"""The paper's theorem 3: a counter modulo n in ⌈log2(T+1)⌉ layers, with an MLP as wide as its prime powers.

Position i starts with y_i modulo every prime power N_j of n. Layer l adds what is held 2^(l-1) positions back,
so afterwards position i holds the sum of the 2^l tokens that end there; the dummies in front count as 0.
After L layers the last position has summed all T symbols and the initial state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from internalize.constructions.adder import adder_mlp, adder_width
from internalize.constructions.construction import DTYPES, Construction, Precision, build_network
from internalize.constructions.directions import Directions
from internalize.constructions.lookback import attention_plan
from internalize.constructions.memory import bytes_needed, require_memory
from internalize.constructions.residues import chinese_remainder_decoding, prime_powers, residues
from internalize.constructions.weights import Shape
from internalize.errors import require


@final
@dataclass(frozen=True, eq=False)
class CounterConstruction(Construction):
    """C_n in residues. Tokens are 0 … n-1, symbols and states alike, as in the paper; a dummy is a 0."""

    moduli: tuple[int, ...]

    reads_state_last = True

    def tokens(self, symbols: Tensor) -> Tensor:
        """y = (0, …, 0, σ_1, …, σ_T, q_0)."""
        batch, T = symbols.shape
        start = symbols.new_full((batch, 1), self.initial_state)
        return torch.cat([symbols.new_zeros(batch, T), symbols, start], dim=1)

    def trace(self, symbols: Tensor) -> Tensor:
        start = symbols.new_full((len(symbols), 1), self.initial_state)
        return torch.cat([start, symbols], dim=1).cumsum(dim=1) % self.states

    def held(self, symbols: Tensor, layers: int) -> Tensor:
        """Window sums, as differences of running sums."""
        running = self.tokens(symbols).cumsum(dim=1)
        before = torch.zeros_like(running)
        window = 2**layers
        before[:, window:] = running[:, :-window]
        return residues(running - before, self.moduli)

    def register_names(self) -> tuple[str, ...]:
        return tuple(f"sum mod {modulus}" for modulus in self.moduli)


def counter_shape(n: int, horizon: int) -> Shape:
    """The sizes of the construction for C_n; nothing is allocated."""
    moduli = prime_powers(n)
    plan = attention_plan(horizon, max(moduli))
    return Shape(
        tokens=n,
        positions=plan.positions,
        embedding=2 * len(moduli) + 2,
        depth=plan.depth,
        heads=2,
        head_size=len(moduli) + 2,
        mlp_widths=(adder_width(moduli),),
    )


def build_counter(
    n: int,
    horizon: int,
    initial_state: int = 0,
    precision: Precision = "float64",
    beta: float | None = None,
) -> CounterConstruction:
    """The transformer of theorem 3; `beta` replaces the theorem's scale of the scores."""
    check_order(n)
    check_horizon(horizon)
    require(0 <= initial_state < n, "initial_state", f"must be in 0…{n - 1}, got {initial_state}")
    shape = counter_shape(n, horizon)
    require_memory(bytes_needed(shape, n), "order", f"C_{n} with T = {horizon}")
    moduli = prime_powers(n)
    plan = attention_plan(horizon, max(moduli), beta)
    directions = Directions(len(moduli))
    registers = residues(torch.arange(n), moduli)
    network = build_network(shape, registers, directions, plan, adder_mlp(moduli, directions))
    return CounterConstruction(
        name=f"C{n}",
        symbols=n,
        states=n,
        initial_state=initial_state,
        plan=plan,
        directions=directions,
        network=network.to(DTYPES[precision]),
        unembedding=chinese_remainder_decoding(moduli),
        precision=precision,
        moduli=moduli,
    )


def check_order(n: int) -> None:
    """n ≥ 2, and its tables of n rows fit: asked first, because factorising a huge n would take for ever."""
    require(n >= 2, "order", f"a counter C_n needs n ≥ 2, got {n}")
    require_memory(16 * n, "order", f"the embedding table of C_{n}")


def check_horizon(horizon: int) -> None:
    require(horizon >= 1, "horizon", f"needs at least one symbol, T ≥ 1, got {horizon}")
    positions = 2 * horizon + 1
    require_memory(16 * positions**2, "horizon", f"attention over {positions} positions")
