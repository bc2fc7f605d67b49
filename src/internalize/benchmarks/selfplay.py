"""`internalize selfplay bench`: simulations per second, this search against OpenSpiel's own Python MCTS.

The same network, positions and number of simulations; in turn, so that a busy machine slows all alike.
OpenSpiel's search gets a memory of evaluations such as its own AlphaZero evaluator has. Ours is timed three
times: beginning with nothing known, no positions and no evaluations; so, but asking the network again at every
leaf; and with the positions known from before, as in a training under way, but no evaluations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from internalize.benchmarks.arguments import SelfPlayBenchArguments
from internalize.benchmarks.cases import seconds_each
from internalize.configs.files import write_output
from internalize.display.terminal import PlainConsole, errors_console, results_table
from internalize.errors import BadInput
from internalize.kinds.selfplay.positions import Positions, draw_starts
from internalize.kinds.selfplay.search import Evaluations, Rule, openspiel_search, search
from internalize.models.mlp import PolicyValue
from internalize.runs.provenance import provenance
from internalize.runtime.execution import threads

OPENSPIEL_POSITIONS = 64
"""Positions that OpenSpiel's search, one game at a time, is timed on: the first of ours."""


@dataclass(frozen=True)
class Speed:
    """Simulations per second in one game."""

    game: str
    openspiel: float
    ours: float
    """Our search, when it begins with nothing known."""
    forgetful: float
    """The same, but it asks the network again at every leaf."""
    positions_known: float
    """Our search as in a training that has met these positions before; the network's weights are new."""

    def ratios(self) -> dict[str, float]:
        """How many times as many as OpenSpiel's."""
        return {
            f"{name}_ratio": getattr(self, name) / self.openspiel
            for name in ("ours", "forgetful", "positions_known")
        }


def measure(game: str, arguments: SelfPlayBenchArguments) -> Speed:
    positions = Positions(game)
    generator = torch.Generator().manual_seed(0)
    network = PolicyValue(positions.inputs, positions.actions, arguments.width, 3).initialise(generator)
    with torch.no_grad():  # heads that begin at zero prefer no move, and the search would have no aim
        for head in (network.policy, network.value):
            head.weight.copy_(torch.randn(head.weight.shape, generator=generator) * 0.1)
    rule = Rule(arguments.simulations, 1.5)
    numbers = draw_starts(positions, "random", arguments.positions, np.random.default_rng(0))
    states = [positions.state(int(number)) for number in numbers]
    theirs = openspiel_search(game, network, rule)

    def ours(keep: bool, known: Positions | None = None) -> Callable[[], None]:
        def run() -> None:
            table = known or Positions(game)
            roots = np.array([table.number_of(state) for state in states])
            search(Evaluations(table, network, keep), roots, rule)

        return run

    def openspiel() -> None:
        for state in states[:OPENSPIEL_POSITIONS]:
            theirs(state)

    functions = {
        "openspiel": openspiel,
        "ours": ours(True),
        "forgetful": ours(False),
        "positions_known": ours(True, positions),
    }
    seconds = seconds_each(functions, arguments.repeats)
    counts = dict.fromkeys(functions, len(states)) | {"openspiel": len(states[:OPENSPIEL_POSITIONS])}
    return Speed(game, **{name: counts[name] * rule.simulations / taken for name, taken in seconds.items()})


def selfplay_bench_command(arguments: SelfPlayBenchArguments) -> None:
    speeds = []
    with threads(1):
        for game in arguments.games:
            with errors_console().status(f"timing {game}"):
                speeds.append(measure(game, arguments))
        record: dict[str, Any] = {
            "positions": arguments.positions,
            "simulations": arguments.simulations,
            "width": arguments.width,
            "repeats": arguments.repeats,
            "games": [asdict(speed) | speed.ratios() for speed in speeds],
            "provenance": provenance(torch.device("cpu")),
        }
    text = json.dumps(record, indent=1)
    if arguments.file is not None:
        try:
            write_output(arguments.file, text + "\n")
        except OSError as error:
            raise BadInput("file", f"cannot write {arguments.file}: {error.strerror}") from None
    if arguments.json:
        print(text)
        return
    columns = ["game", "OpenSpiel", "ours", "asking again", "positions known"]
    rows = [
        [speed.game, f"{speed.openspiel:,.0f}"]
        + [f"{getattr(speed, name):,.0f} (×{speed.ratios()[f'{name}_ratio']:.1f})"
           for name in ("ours", "forgetful", "positions_known")]
        for speed in speeds
    ]  # fmt: skip
    title = f"simulations per second, {arguments.positions} positions, {arguments.simulations} simulations each"
    PlainConsole().print(results_table(title, columns, rows))
