"""The proof at work: every quantity of its lemmas, measured in a phase, beside the bound it is given.

Reported, never asserted: the bounds are sufficient, and exact recovery often outlives them. The lemmas are
those of the paper's appendix D: *covariance* (good empirical covariance), *one phase* (empirical dynamics
within one phase), *tracking* (the empirical trajectory tracks the population's), *theorem* (internalization).
u^(s) = w^(t-1) - w^(t,s) is how far a row has moved since the phase began; it should become e_{i_t}.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from internalize.contract import Json
from internalize.kinds.parity.config import ParityConfig, theorem_batch
from internalize.kinds.parity.descent import Descent, PhaseBatch
from internalize.tasks.parity import HiddenParity

# The proof's own constants, the same for every run.
LAMBDA = 1 / 8
"""λ: what the smallest eigenvalue should be at least, and the rate of the contraction."""
TRACKING = 1 / 100

WORK = 4e8
"""Products that watching one row over one call may take; beyond, not every step is looked at."""
ROUNDING = 1e-12
"""Distances below this are rounding: a bound that shrinks with every step would not hold for them."""
BLOCK = 1024
"""Examples looked at together."""


class Extremes(NamedTuple):
    """The columns of the running extremes, over all steps s and examples b of a phase, for one row."""

    reach_low: float
    """min ⟨u, x⟩."""
    reach_high: float
    """max ⟨u, x⟩."""
    population_high: float
    """max ⟨u_pop, x⟩."""
    tracking: float
    """max |⟨u - u_pop, x⟩|."""
    tracking_norm: float
    """max ‖u - u_pop‖."""
    contraction: float
    """max ‖u - e‖ / (1 - ηλ)^s, from the first step on."""
    rounding_gap: float
    """‖u - e‖_∞ after the last step."""


def no_extremes(rows: int) -> Tensor:
    """(rows, 7) float64: before the first step, when u = 0."""
    return torch.tensor([Extremes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)] * rows, dtype=torch.float64)


Relation = Literal["≥", "≤", "<", "="]


@dataclass(frozen=True)
class Measured:
    """One quantity of one phase."""

    quantity: str
    value: float
    relation: Relation
    bound: float
    holds: bool
    lemma: str


QUANTITIES = {
    "batch": "B, examples",
    "step_size": "η",
    "lambda_min": "λ_min(Σ̂)",
    "lambda_max": "λ_max(Σ̂)",
    "covariance": "‖Σ̂-Σ‖",
    "covariance_fine": "‖Σ̂-Σ‖, finer",
    "reach_low": "min ⟨u,x⟩",
    "reach_high": "max ⟨u,x⟩",
    "cell_changes": "targets changed",
    "population_high": "max ⟨u_pop,x⟩",
    "tracking": "max |⟨u-u_pop,x⟩|",
    "tracking_norm": "max ‖u-u_pop‖",
    "contraction": "max ‖u-e‖/(1-ηλ)^s",
    "rounding_gap": "‖u-e‖_∞, at the end",
    "prefix_errors": "wrong weights",
}
"""quantity → how people write it."""

RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(QUANTITIES, "≤"),
    **dict.fromkeys(("batch", "lambda_min", "reach_low"), "≥"),
    **dict.fromkeys(("cell_changes", "prefix_errors"), "="),
    "rounding_gap": "<",
}
"""quantity → what it should be to its bound."""


def holds(quantity: str, value: float, bound: float) -> bool:
    relation = RELATIONS[quantity]
    return {"≥": value >= bound, "≤": value <= bound, "<": value < bound, "=": value == bound}[relation]


def population_gram(parity: HiddenParity, width: int) -> Tensor:
    """(width, width) float64: E[a aᵀ] of (x, z_1, …). Pairs are independent, but for z_1 = x_{i_1}."""
    gram = torch.full((width, width), 0.25, dtype=torch.float64) + 0.25 * torch.eye(width, dtype=torch.float64)
    if width > parity.d:
        first = parity.columns[0]
        gram[first, parity.d] = gram[parity.d, first] = 0.5
    return gram


def population_path(gram: Tensor, coordinate: int, eta: float, steps: Tensor) -> Tensor:
    """(len(steps), width): u_pop^(s) = (I - (I - ηΣ)^s) e for the given s, by Σ's eigenvectors."""
    values, vectors = torch.linalg.eigh(gram)
    shrunk = (1 - eta * values)[None, :] ** steps[:, None]
    return ((1 - shrunk) * vectors[coordinate]) @ vectors.T


def update_extremes(
    extremes: Tensor,
    batch: PhaseBatch,
    descent: Descent,
    start: Tensor,
    parity: HiddenParity,
    phase: int,
    first_step: int,
    eta: float,
) -> None:
    """Take the steps of a descent into the running extremes (rows, 7), in place.

    start: (rows, columns), the rows at the beginning of the phase. As many rows are watched as have extremes.
    """
    for row in range(len(extremes)):
        width = int(batch.widths[row])
        chosen = _chosen_steps(len(descent.path), width * batch.size)
        steps = torch.from_numpy(chosen + first_step).to(torch.float64)
        moved = start[row, :width] - torch.from_numpy(descent.path[chosen, row, :width])
        coordinate = parity.columns[phase - 1 + row]
        population = population_path(population_gram(parity, width), coordinate, eta, steps)
        low, high, population_high, tracking = _over_batch(moved, population, batch.contents[:width])
        off = moved.clone()
        off[:, coordinate] -= 1
        shrink = max(0.0, 1 - eta * LAMBDA) ** steps
        distance = (off.norm(dim=1) - ROUNDING).clamp(min=0.0)
        ratios = torch.where(steps > 0, distance / shrink.clamp(min=1e-300), 0.0)
        old = Extremes(*extremes[row].tolist())
        extremes[row] = torch.tensor(
            Extremes(
                reach_low=min(old.reach_low, low),
                reach_high=max(old.reach_high, high),
                population_high=max(old.population_high, population_high),
                tracking=max(old.tracking, tracking),
                tracking_norm=max(old.tracking_norm, float((moved - population).norm(dim=1).max())),
                contraction=max(old.contraction, float(ratios.max())),
                rounding_gap=float(off[-1].abs().max()),
            ),
            dtype=torch.float64,
        )


def _chosen_steps(count: int, products: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """All of 0 … count-1 if that is affordable, otherwise evenly many of them and always the last."""
    every = math.ceil(count * products / WORK)
    return np.unique(np.append(np.arange(0, count, every), count - 1))


def _over_batch(
    moved: Tensor, population: Tensor, contents: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
) -> tuple[float, float, float, float]:
    """(min ⟨u,x⟩, max ⟨u,x⟩, max ⟨u_pop,x⟩, max |⟨u - u_pop, x⟩|) over steps and examples."""
    found = []
    for start in range(0, contents.shape[1], BLOCK):
        x = torch.from_numpy(contents[:, start : start + BLOCK]).to(torch.float64)
        reach, expected = moved @ x, population @ x
        low, high = torch.aminmax(reach)
        least, most = torch.aminmax(reach.sub_(expected))
        found.append(torch.stack([-low, high, expected.max(), torch.maximum(-least, most)]))
    low, high, population_high, tracking = torch.stack(found).amax(0).tolist()
    return -low, high, population_high, tracking


def phase_report(
    config: ParityConfig,
    parity: HiddenParity,
    phase: int,
    batch: PhaseBatch,
    extremes: Tensor,
    cell_changes: int,
    row_d: Tensor,
) -> list[Measured]:
    """Every quantity of the phase that has ended; of several watched rows, the worst.

    row_d: (d,), the weights of row d after rounding.
    """
    d, eta = config.d, config.eta
    empirical = torch.from_numpy(batch.gram[:d, :d]) / batch.size
    eigenvalues = torch.linalg.eigvalsh(empirical)
    error = float(torch.linalg.matrix_norm(empirical - population_gram(parity, d), 2))
    time = config.most_steps / d  # T = C d, with the C of the batch
    wanted = theorem_batch(d, config.k, config.most_steps)
    highest = Extremes(*extremes.amax(0).tolist())
    lowest = float(extremes[:, 0].min())
    wrong = int((row_d != -parity.indicator(phase)).sum())
    return [
        _measured("batch", float(batch.size), wanted, "theorem"),
        _measured("step_size", eta, 1 / (d + 1), "tracking"),
        _measured("lambda_min", float(eigenvalues[0]), LAMBDA, "covariance"),
        _measured("lambda_max", float(eigenvalues[-1]), float(d), "covariance"),
        _measured("covariance", error, 1 / 8, "covariance"),
        _measured("covariance_fine", error, 1 / (200 * time * math.sqrt(d)), "tracking"),
        _measured("reach_low", lowest, 0.0, "one phase"),
        _measured("reach_high", highest.reach_high, 1.0, "one phase"),
        _measured("cell_changes", float(cell_changes), 0.0, "one phase"),
        _measured("population_high", highest.population_high, 1 - TRACKING, "theorem"),
        _measured("tracking", highest.tracking, TRACKING, "tracking"),
        _measured("tracking_norm", highest.tracking_norm, 1 / (200 * math.sqrt(d)), "tracking"),
        _measured("contraction", highest.contraction, 1.0, "one phase"),
        _measured("rounding_gap", highest.rounding_gap, 0.5, "one phase"),
        _measured("prefix_errors", float(wrong), 0.0, "theorem"),
    ]


def _measured(quantity: str, value: float, bound: float, lemma: str) -> Measured:
    return Measured(quantity, value, RELATIONS[quantity], bound, holds(quantity, value, bound), lemma)


def as_json(report: list[Measured]) -> list[Json]:
    return [asdict(measured) for measured in report]
