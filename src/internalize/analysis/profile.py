"""`internalize profile`: how does accuracy move as inputs leave the training distribution, and on rare states?

Three sweeps, each with Wilson intervals: binomial inputs σ ~ Binomial(|Σ|-1, p) for p from 0 to 1; one symbol
drawn with a given probability and the others equally often; and every final state by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from internalize.analysis.arguments import ProfileArguments
from internalize.analysis.open_run import OpenChain, TracedInputs, open_chain
from internalize.display.plots import INK, MARKERS, PALETTE, accuracy_axis, new_figure, rate_line, ticks
from internalize.display.terminal import errors_console, results_table
from internalize.errors import BadInput, require
from internalize.kinds.entrance import Moment
from internalize.measure.predictor import TransformerPredictor
from internalize.statistics import Rate
from internalize.tasks import InputDistribution, parse_inputs
from internalize.tasks.inputs import one_side

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATE_DRAWS = 50
"""Inputs drawn for each one asked, when final states are looked at one by one: drawing is cheap, and a rare
state then has answers enough for a narrow interval."""

MOST_POINTS = 10_000


@dataclass(frozen=True)
class ProfilePoint:
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
    moment: Moment
    ood_p: float | None
    """The p of the run's own OOD inputs, where they are binomial."""
    held_out: bool
    """Whether all inputs are of those that training never sees."""
    binomial: tuple[ProfilePoint, ...]
    bias: dict[str, tuple[ProfilePoint, ...]]
    """Symbol → accuracy against its probability."""
    states: tuple[StatePoint, ...]

    def rows(self) -> list[dict[str, object]]:
        """One row for each point."""
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
        return {"run": self.title, **self.moment.to_json(), "rows": self.rows()}


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
    require(points <= MOST_POINTS, "points", f"must be at most {MOST_POINTS:,}, got {points}")
    grid = [i / (points - 1) for i in range(points)]
    symbols = chain.experiment.task.symbols
    asked = chain.ways_to_ask(stage)
    binomial = [parse_inputs(f"binomial:{p:.6g}", symbols) for p in grid]
    bias = {}
    for symbol in range(symbols if symbols > 2 else 1):  # of two symbols one tells all
        tilted = [biased(symbol, share, symbols) for share in grid]
        name = chain.experiment.task.symbol_names[symbol]
        bias[name] = _sweep(chain, asked, tilted, grid, samples, seed)
    return Profile(
        title=chain.title,
        moment=chain.moment(stage),
        ood_p=_own_p(chain.experiment.config.ood_inputs),
        held_out=chain.experiment.split is not None,
        binomial=_sweep(chain, asked, binomial, grid, samples, seed),
        bias=bias,
        states=tuple(_by_state(chain, asked, samples, seed)),
    )


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
) -> tuple[ProfilePoint, ...]:
    found = []
    for x, inputs in zip(grid, distributions, strict=True):
        try:
            examples = chain.draw(one_side(inputs, chain.experiment.split, True), samples, seed, "profile")
        except BadInput:  # at the ends of the grid hardly two inputs differ: perhaps none is held out
            continue
        for mode, predictor in asked.items():
            found.append(ProfilePoint(mode, examples.inputs, x, accuracy(predictor, examples), examples.chance))
    return tuple(found)


def _by_state(
    chain: OpenChain, asked: dict[str, TransformerPredictor], samples: int, seed: int
) -> Iterator[StatePoint]:
    """Rarest first. Of many drawn inputs an equal number is asked for every final state."""
    task = chain.experiment.task
    for name, inputs in chain.both_inputs().items():
        drawn = chain.draw(inputs, STATE_DRAWS * samples, seed, "profile of states")
        shares, final = chain.final_shares(inputs), drawn.states[:, -1]
        possible = [state for state in shares.argsort(stable=True).tolist() if shares[state] > 0]
        each = max(1, samples // len(possible))
        for state in possible:
            index = torch.nonzero(final == state)[:each, 0]
            examples = TracedInputs(inputs.name, drawn.symbols[index], drawn.states[index], 1.0)
            for mode, predictor in asked.items():
                rate = accuracy(predictor, examples) if len(index) else None
                yield StatePoint(mode, name, task.state_names[state], float(shares[state]), rate)


def accuracy(predictor: TransformerPredictor, examples: TracedInputs) -> Rate:
    """Final-state accuracy."""
    right = predictor.answer(examples.symbols).output == examples.states[:, -1]
    return Rate(int(right.sum()), len(right))


def _own_p(inputs: str) -> float | None:
    kind, _, p = inputs.partition(":")
    return float(p) if kind == "binomial" else None


# The picture ---------------------------------------------------------------------------------------------


def draw_profile(profile: Profile) -> Figure:
    """Accuracy against p, against each symbol's probability, and on each final state, rarest first."""
    figure, axes = new_figure(1, 3, width=12.5, height=4.2, sharey=True)
    modes = list(dict.fromkeys(point.mode for point in profile.states))  # p of 0 and 1 may have no point at all
    for style, mode in enumerate(modes):
        _points(axes[0], [p for p in profile.binomial if p.mode == mode], mode, style)
    axes[0].plot(*_chance_line(profile.binomial), color=INK, linestyle=":", linewidth=1.0, label="chance")
    if profile.ood_p is not None:
        axes[0].axvline(profile.ood_p, color=INK, linewidth=0.8, alpha=0.5)
        axes[0].annotate("OOD", (profile.ood_p, 0.0), xytext=(3, 2), textcoords="offset points", fontsize=8)
    axes[0].set(xlabel="p of σ ~ Binomial(|Σ|-1, p)", title="binomial inputs")
    _bias_panel(axes[1], profile, modes)
    _states_panel(axes[2], profile, modes)
    for panel in axes:
        accuracy_axis(panel, None)
        panel.legend(fontsize=8, loc="best")
    for panel in axes[1:]:
        panel.set_ylabel("")
    figure.suptitle(f"{profile.title}, {profile.moment}; dashed: the bar of 95 %", fontsize=10)
    return figure


def _points(axes: Any, points: list[ProfilePoint], label: str, style: int) -> None:
    rate_line(axes, [point.x for point in points], [point.right for point in points], label, style)


def _chance_line(points: tuple[ProfilePoint, ...]) -> tuple[list[float], list[float]]:
    by_x = {point.x: point.chance for point in points}
    return list(by_x), list(by_x.values())


def _bias_panel(axes: Any, profile: Profile, modes: list[str]) -> None:
    style = 0
    for symbol, points in profile.bias.items():
        for mode in modes:
            label = f"symbol {symbol}" + (f", {mode}" if len(modes) > 1 else "")
            _points(axes, [p for p in points if p.mode == mode], label, style)
            style += 1
    axes.set(xlabel="probability of the symbol, others equally often", title="one symbol too often or too rare")


def _states_panel(axes: Any, profile: Profile, modes: list[str]) -> None:
    """Final states, rarest OOD first, with intervals."""
    order = [s.state for s in profile.states if (s.inputs, s.mode) == ("ood", modes[0])]
    share = {s.state: s.frequency for s in profile.states if s.inputs == "ood"}
    series = [(inputs, mode) for inputs in ("id", "ood") for mode in modes]
    for style, (inputs, mode) in enumerate(series):
        found = {s.state: s.right for s in profile.states if (s.inputs, s.mode) == (inputs, mode)}
        rates = [(order.index(state), rate) for state, rate in found.items() if rate]
        aside = 0.5 * (style - (len(series) - 1) / 2) / len(series)  # side by side, not on top of one another
        errors = [
            [max(0.0, rate.value - rate.interval.low) for _, rate in rates],
            [max(0.0, rate.interval.high - rate.value) for _, rate in rates],
        ]
        axes.errorbar(
            [i + aside for i, _ in rates],
            [rate.value for _, rate in rates],
            errors,
            fmt=MARKERS[style],
            color=PALETTE[style],
            markersize=4,
            capsize=2,
            label=inputs.upper() + (f", {mode}" if len(modes) > 1 else ""),
        )
    places = ticks(len(order), 8)
    axes.set_xticks(places, [f"{order[i]}\n{100 * share[order[i]]:.1f} %" for i in places], fontsize=8)
    axes.grid(False, axis="x")
    axes.set(xlabel="final state, and how often it comes OOD", title="each final state by itself")


# The command ---------------------------------------------------------------------------------------------


def profile_command(arguments: ProfileArguments) -> None:
    chain = open_chain(arguments.run, arguments.device)
    with errors_console().status("profile"):
        found = profile(chain, arguments.stage, arguments.samples, arguments.points, arguments.seed)
    out = arguments.folder(chain.run.path)
    out.csv("profile", found.rows())
    out.json("profile", found.to_json())
    out.figure("profile", draw_profile(found))
    arguments.present(found.to_json(), out, partial(_print_profile, found))


def _print_profile(found: Profile, console: Console) -> None:
    kind = "held-out inputs" if found.held_out else "inputs"
    rows = [[f"{p.x:.2f}", p.mode, str(p.right), f"{100 * p.chance:.1f} %"] for p in found.binomial]
    console.print(
        results_table(
            f"{found.title}, {found.moment}: binomial {kind}", ["p", "asked", "accuracy", "chance"], rows
        )
    )
    rows = [
        [f"{symbol}", p.mode, f"{p.x:.2f}", str(p.right)]
        for symbol, points in found.bias.items()
        for p in sorted(points, key=lambda p: p.right.value)[:1]
    ]
    columns = ["symbol", "asked", "its probability", "accuracy"]
    console.print(results_table("where each symbol's share hurts most", columns, rows))
    rows = [
        [
            s.state,
            s.inputs.upper(),
            s.mode,
            f"{100 * s.frequency:.2f} %",
            str(s.right) if s.right else "never seen",
        ]
        for s in found.states
    ]
    columns = ["final state", "inputs", "asked", "how often", "accuracy"]
    console.print(results_table(f"final states of {kind}, rarest first", columns, rows))
