"""The OOD profile: accuracy as the inputs leave the training distribution, and on rare final states.

Three sweeps, each with Wilson intervals: binomial inputs σ ~ Binomial(|Σ|-1, p) for p from 0 to 1; one symbol
drawn with a given probability and the others equally often; and every final state by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from internalize.analysis.opening import Examples, OpenChain
from internalize.errors import BadInput, require
from internalize.kinds.chain.evaluation import modes
from internalize.measure.predictor import TransformerPredictor
from internalize.statistics import Rate
from internalize.tasks import InputDistribution, parse_inputs
from internalize.tasks.inputs import one_side

STATE_DRAWS = 50
"""Inputs drawn for each one asked, when final states are looked at one by one: drawing is cheap, and a rare
state then has answers enough for a narrow interval."""


@dataclass(frozen=True)
class Point:
    """Accuracy of one way to ask on one distribution."""

    mode: str
    """What the model is asked for: `free`, or `LEN_L` for mixtures."""
    inputs: str
    x: float
    """p, or the symbol's probability."""
    right: Rate
    chance: float
    """Share of the commonest final state."""


@dataclass(frozen=True)
class StatePoint:
    """Accuracy on the inputs that end in one state."""

    mode: str
    inputs: str
    state: str
    frequency: float
    """How often inputs of this distribution end there."""
    right: Rate | None
    """None where not one of the drawn inputs ends there."""


@dataclass(frozen=True)
class Profile:
    title: str
    ood_p: float | None
    """The p of the run's own OOD inputs, where they are binomial."""
    binomial: tuple[Point, ...]
    bias: dict[str, tuple[Point, ...]]
    """Symbol → accuracy against its probability."""
    states: tuple[StatePoint, ...]

    def rows(self) -> list[dict[str, object]]:
        """All points, one a row."""
        sweeps = [("binomial", "", point) for point in self.binomial]
        sweeps += [("bias", symbol, point) for symbol, points in self.bias.items() for point in points]
        rows = [
            _row(sweep, p.mode, p.inputs, which, p.x, p.right) | {"chance": p.chance}
            for sweep, which, p in sweeps
        ]
        return rows + [
            _row("state", s.mode, s.inputs, s.state, s.frequency, s.right) | {"chance": None}
            for s in self.states
        ]

    def to_json(self) -> dict[str, object]:
        return {"run": self.title, "rows": self.rows()}


def _row(sweep: str, mode: str, inputs: str, which: str, x: float, rate: Rate | None) -> dict[str, object]:
    """x: p, the symbol's probability, or the final state's frequency."""
    return {
        "sweep": sweep,
        "mode": mode,
        "inputs": inputs,
        "which": which,
        "x": x,
        "n": rate.trials if rate else 0,
        "accuracy": rate.value if rate else None,
        "low": rate.interval.low if rate else None,
        "high": rate.interval.high if rate else None,
    }


def profile(chain: OpenChain, stage: int | None, samples: int, points: int, seed: int = 0) -> Profile:
    """points: how many values of p and of a symbol's probability, from 0 to 1."""
    require(points >= 2, "points", f"must be at least 2, got {points}")
    grid = [i / (points - 1) for i in range(points)]
    symbols = chain.experiment.task.symbols
    asked = dict(ways_to_ask(chain, stage))
    binomial = [parse_inputs(f"binomial:{p:.6g}", symbols) for p in grid]
    bias = {}
    for symbol in range(symbols if symbols > 2 else 1):  # of two symbols one tells all
        tilted = [biased(symbol, share, symbols) for share in grid]
        name = chain.experiment.task.symbol_names[symbol]
        bias[name] = _sweep(chain, asked, tilted, grid, samples, seed)
    return Profile(
        title=chain.title,
        ood_p=_own_p(chain.experiment.config.ood_inputs),
        binomial=_sweep(chain, asked, binomial, grid, samples, seed),
        bias=bias,
        states=tuple(_by_state(chain, asked, samples, seed)),
    )


def ways_to_ask(chain: OpenChain, stage: int | None) -> Iterator[tuple[str, TransformerPredictor]]:
    """Mixtures are asked for their shortest and their longest answer, others answer as they like."""
    for mode in modes(chain.experiment.curriculum, chain.stage_or_last(stage)):
        name = "free" if mode.budget is None else f"LEN_{mode.budget}"
        yield name, chain.predictor(stage, mode.budget)


def biased(symbol: int, share: float, symbols: int) -> InputDistribution:
    """One symbol with this probability, all others equally often."""
    if symbols == 1:
        return InputDistribution("the only symbol", (1.0,))
    rest = (1 - share) / (symbols - 1)
    weights = tuple(share if s == symbol else rest for s in range(symbols))
    return InputDistribution("weights:" + ",".join(f"{w:.6g}" for w in weights), weights)


def _sweep(
    chain: OpenChain,
    asked: dict[str, TransformerPredictor],
    distributions: list[InputDistribution],
    grid: list[float],
    samples: int,
    seed: int,
) -> tuple[Point, ...]:
    found = []
    for x, inputs in zip(grid, distributions, strict=True):
        try:
            examples = chain.draw(one_side(inputs, chain.experiment.split, True), samples, seed, "profile")
        except BadInput:  # at the ends of the grid hardly two inputs differ: perhaps none is held out
            continue
        for mode, predictor in asked.items():
            found.append(Point(mode, inputs.name, x, accuracy(predictor, examples), examples.chance))
    return tuple(found)


def _by_state(
    chain: OpenChain, asked: dict[str, TransformerPredictor], samples: int, seed: int
) -> Iterator[StatePoint]:
    """Rarest first. Of many drawn inputs an equal number is asked for every final state."""
    task = chain.experiment.task
    for name, inputs in chain.both_inputs().items():
        drawn = chain.draw(inputs, STATE_DRAWS * samples, seed, "profile of states")
        shares, final = chain.final_shares(inputs), drawn.states[:, -1]
        each = max(1, samples // task.states)
        for state in shares.argsort(stable=True).tolist():
            index = torch.nonzero(final == state)[:each, 0]
            examples = Examples(inputs.name, drawn.symbols[index], drawn.states[index], 1.0)
            for mode, predictor in asked.items():
                rate = accuracy(predictor, examples) if len(index) else None
                yield StatePoint(mode, name, task.state_names[state], float(shares[state]), rate)


def accuracy(predictor: TransformerPredictor, examples: Examples) -> Rate:
    """Final-state accuracy."""
    right = predictor.answer(examples.symbols).output == examples.states[:, -1]
    return Rate(int(right.sum()), len(right))


def _own_p(inputs: str) -> float | None:
    kind, _, p = inputs.partition(":")
    return float(p) if kind == "binomial" else None
