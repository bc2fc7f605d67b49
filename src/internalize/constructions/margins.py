"""How much room a construction has: the smallest β, the lowest precision, the most weight noise, by search."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from internalize.constructions.construction import Construction, Precision
from internalize.constructions.exactness import adversarial_inputs, random_inputs, share_right, spread

if TYPE_CHECKING:
    from jaxtyping import Float

Build = Callable[[Precision, float | None], Construction]
"""The construction in a precision and with a β (the theorem's where it is None)."""
NoiseKind = Literal["relative", "absolute"]
"""relative: every weight times 1 + ε·ξ, so zeros stay zero; absolute: every weight plus ε·ξ; ξ ~ N(0, 1)."""

PRECISIONS: tuple[Precision, ...] = ("float64", "float32", "float16", "bfloat16")
"""From the most digits to the fewest."""
INPUTS = 64
"""Random inputs, and at most as many adversarial ones, behind every point of a search."""
DRAWS = 3
"""A noise level counts as harmless if so many independent draws all stay exact."""
STRIDE = 4.0
"""Factor between the settings of the first walk."""
REFINEMENTS = 8
"""Halvings of the last factor, on a logarithmic scale: the edge is known to half a percent."""
SMALLEST_NOISE, LARGEST_NOISE = 2.0**-26, 2.0**2


@dataclass(frozen=True)
class Margins:
    """What the searches found; curves are (setting, share of right answers), of the worst draw for noise."""

    theorem_beta: float
    smallest_beta: float | None
    """None where not even the theorem's β is exact in this precision."""
    precisions: dict[Precision, float]
    """Share of right answers in each precision."""
    largest_noise: dict[NoiseKind, float | None]
    beta_curve: tuple[tuple[float, float], ...]
    """Over β as a share of the theorem's."""
    noise_curves: dict[NoiseKind, tuple[tuple[float, float], ...]]
    inputs: int

    @property
    def lowest_precision(self) -> Precision | None:
        exact = [precision for precision in PRECISIONS if self.precisions[precision] == 1.0]
        return exact[-1] if exact else None

    def to_json(self) -> dict[str, Any]:
        return {
            "theorem_beta": self.theorem_beta,
            "smallest_beta": self.smallest_beta,
            "precisions": self.precisions,
            "lowest_precision": self.lowest_precision,
            "largest_noise": self.largest_noise,
            "inputs": self.inputs,
            "draws": DRAWS,
        }


def find_margins(build: Build, precision: Precision = "float64", seed: int = 0) -> Margins:
    """Search all three margins; β and noise in the given precision. Exact means: on the inputs tried here."""
    plain = build(precision, None)
    nasty = adversarial_inputs(plain.symbols, plain.horizon)
    symbols = torch.cat([spread(nasty, INPUTS), random_inputs(plain.symbols, plain.horizon, INPUTS, seed)])
    theorem = plain.plan.beta

    def with_beta(share: float) -> float:
        return share_right(build(precision, share * theorem), symbols)

    def with_noise(kind: NoiseKind, level: float) -> float:
        noisy = (perturb(plain, kind, level, seed + draw) for draw in range(DRAWS))
        return min(share_right(construction, symbols) for construction in noisy)

    kinds: tuple[NoiseKind, ...] = ("relative", "absolute")
    searched = {kind: search(partial(with_noise, kind), SMALLEST_NOISE, LARGEST_NOISE) for kind in kinds}
    share, beta_curve = search(with_beta, 1.0, 2.0**-10)
    return Margins(
        theorem_beta=theorem,
        smallest_beta=None if share is None else share * theorem,
        precisions={name: share_right(build(name, None), symbols) for name in PRECISIONS},
        largest_noise={kind: searched[kind][0] for kind in kinds},
        beta_curve=beta_curve,
        noise_curves={kind: searched[kind][1] for kind in kinds},
        inputs=len(symbols),
    )


def search(
    share: Callable[[float], float], safe: float, unsafe: float
) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """The setting furthest from `safe` on the way to `unsafe` at which all answers are still right.

    Walks in factors of four until an answer is wrong, then halves the last factor again and again. That finds
    the edge if exactness is lost once and for all on the way. Returns None where `safe` itself is not
    exact, and every (setting, share) looked at, in order; two more steps behind the edge are for the plot.
    """
    factor = STRIDE if unsafe > safe else 1 / STRIDE
    seen: dict[float, float] = {}
    good, bad, setting = None, None, safe
    while bad is None and min(safe, unsafe) <= setting <= max(safe, unsafe):
        seen[setting] = share(setting)
        good, bad = (setting, None) if seen[setting] == 1.0 else (good, setting)
        setting *= factor
    if bad is not None:
        seen |= {beyond: share(beyond) for beyond in (bad * factor**0.5, bad * factor)}
    if good is not None and bad is not None:
        for _ in range(REFINEMENTS):
            middle = (good * bad) ** 0.5
            seen[middle] = share(middle)
            good, bad = (middle, bad) if seen[middle] == 1.0 else (good, middle)
    return good, tuple(sorted(seen.items()))


def perturb(construction: Construction, kind: NoiseKind, level: float, seed: int) -> Construction:
    """A copy whose layers carry noise; the tables of embedding and unembedding are left alone."""
    network = copy.deepcopy(construction.network)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.layers.parameters():
            noise = level * _normal(parameter, generator)
            parameter.add_(parameter * noise if kind == "relative" else noise)
    return replace(construction, network=network)


def _normal(like: Float[Tensor, " *shape"], generator: torch.Generator) -> Float[Tensor, " *shape"]:
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.dtype)
