"""The paper's theorem 3: a counter modulo n in ⌈log2(T+1)⌉ layers, with an MLP as wide as its prime powers.

Position i starts with y_i modulo every prime power N_j of n. Layer l adds what is held 2^(l-1) positions back,
so afterwards position i holds the sum of the 2^l tokens that end there; the dummies in front count as 0.
After L layers the last position has summed all T symbols and the initial state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

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
from internalize.constructions.transformer import AffineWeights, Directions, Shape, bytes_needed, require_memory
from internalize.errors import require

if TYPE_CHECKING:
    from jaxtyping import Float, Float64, Int


def prime_powers(n: int) -> tuple[int, ...]:
    """N_1, …, N_m with product n, each a power of another prime, by ascending prime."""
    factors = []
    p = 2
    while p * p <= n:
        power = 1
        while n % p == 0:
            n //= p
            power *= p
        if power > 1:
            factors.append(power)
        p += 1
    if n > 1:
        factors.append(n)
    return tuple(factors)


def residues(values: Int[Tensor, " *shape"], moduli: tuple[int, ...]) -> Int[Tensor, "*shape {len(moduli)}"]:
    """(…) integers to (…, moduli) residues."""
    return values[..., None] % torch.tensor(moduli, device=values.device)


def chinese_remainder_decoding(moduli: tuple[int, ...]) -> Unembedding:
    """Residues modulo N_1, …, N_m back to the number modulo n.

    The moduli have no common factor, so 0 … n-1 give n different combinations of residues, which are all
    there are: going through the numbers once fills the table.
    """
    numbers = torch.arange(math.prod(moduli))
    index = torch.zeros_like(numbers)
    for size, residue in zip(moduli, residues(numbers, moduli).unbind(-1), strict=True):
        index = index * size + residue
    states = torch.empty_like(numbers)
    states[index] = numbers
    return Unembedding(moduli, states)


FLAT = 0.25
"""Half-width of the adder's plateaus. The proof asks for 1/8; with 1/4 the slopes are powers of two times an
integer, so that no precision has to round a weight."""


def modular_adder(
    modulus: int,
) -> tuple[Float64[Tensor, " units"], Float64[Tensor, " units"], Float64[Tensor, " units"], float]:
    """u + v ↦ (u + v) mod N on every s ± 1/4, s = 0 … 2N-2, with 4N-4 hidden units.

    Between two plateaus, from a = s - 3/4 to b = s - 1/4, the value climbs by one, or falls by N - 1 where
    s = N. A change by J there is 2J·(ReLU(x - a) - ReLU(x - b)) on top of what is left of it, or just as
    well -2J·(ReLU(b - x) - ReLU(a - x)) on top of what is right of it. We start in the middle, at x = N - 1
    with value N - 1, and go left and right from there: units far away are then switched off, numbers stay
    small, and little is lost to cancellation.

    Returns direction (units,) ±1, threshold (units,), coefficient (units,) and the constant: the value is
    constant + Σ coefficient·ReLU(direction·(x - threshold)).
    """
    left = torch.arange(1, modulus, dtype=torch.float64)
    right = torch.arange(modulus, 2 * modulus - 1, dtype=torch.float64)
    jump = torch.where(right == modulus, 1.0 - modulus, 1.0).double()
    one = torch.ones_like(left)
    low, high = 1 - FLAT, FLAT
    slope = 1 / (low - high)
    direction = torch.cat([-one, -one, one, one])
    threshold = torch.cat([left - low, left - high, right - low, right - high])
    coefficient = torch.cat([slope * one, -slope * one, slope * jump, -slope * jump])
    return direction, threshold, coefficient, float(modulus - 1)


def adder_mlp(moduli: Sequence[int], directions: Directions) -> list[AffineWeights]:
    """One hidden layer: the held registers become (held + fetched) mod N_j, the fetched ones zero.

    All adders stand side by side, and the position passes on a wire. Whatever error up to 1/8 a sum had is
    gone after this, so residues start every layer exact.
    """
    into, biases, out = [], [], []
    constants = torch.zeros(directions.size, dtype=torch.float64)
    held, fetched = directions.extract(directions.held), directions.extract(directions.fetched)
    for j, modulus in enumerate(moduli):
        direction, threshold, coefficient, constant = modular_adder(modulus)
        into.append(direction[:, None] * (held[j] + fetched[j]))
        biases.append(-direction * threshold)
        out.append(coefficient[:, None] * held[j])
        constants[directions.held.start + j] = constant
    wire = wires(directions.extract(directions.position))
    into.append(wire)
    biases.append(torch.zeros(len(wire), dtype=torch.float64))
    out.append(wire)
    return [
        AffineWeights(torch.cat(into), torch.cat(biases)),
        AffineWeights(torch.cat(out).T.contiguous(), constants),
    ]


def wires(rows: Float[Tensor, "wires size"]) -> Float[Tensor, "2*wires size"]:
    """(wires, size) to (2·wires, size): x = ReLU(x) - ReLU(-x), so two units carry any number through.

    The same matrix, transposed, puts the two halves together again.
    """
    return torch.cat([rows, -rows])


def adder_width(moduli: Sequence[int]) -> int:
    """Hidden units of `adder_mlp`: four for each modulus less one, four for the position."""
    return sum(4 * modulus - 4 for modulus in moduli) + 4


@final
@dataclass(frozen=True, eq=False)
class CounterConstruction(Construction):
    """C_n in residues. Tokens are 0 … n-1, symbols and states alike, as in the paper; a dummy is a 0."""

    moduli: tuple[int, ...]

    reads_state_last = True

    def tokens(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch 2*T+1"]:
        """y = (0, …, 0, σ_1, …, σ_T, q_0)."""
        batch, T = symbols.shape
        start = symbols.new_full((batch, 1), self.initial_state)
        return torch.cat([symbols.new_zeros(batch, T), symbols, start], dim=1)

    def trace(self, symbols: Int[Tensor, "batch T"]) -> Int[Tensor, "batch T+1"]:
        start = symbols.new_full((len(symbols), 1), self.initial_state)
        return torch.cat([start, symbols], dim=1).cumsum(dim=1) % self.states

    def held(self, symbols: Int[Tensor, "batch T"], layers: int) -> Int[Tensor, "batch 2*T+1 registers"]:
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
