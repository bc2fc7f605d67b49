"""The self-play kind, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from internalize.configs.named import Copies
from internalize.display.terminal import percent, readable
from internalize.kinds.selfplay.config import SelfPlayConfig, Starts
from internalize.kinds.selfplay.experiment import SelfPlayExperiment
from internalize.kinds.selfplay.positions import ENUMERABLE, Positions, all_going, draw_starts
from internalize.kinds.selfplay.rounds import GAMES_AT_ONCE, parts_of, play_part, share_of, train_part
from internalize.models.mlp import PolicyValue
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes, seconds_of
from internalize.runtime.kind import Prepared, Results, Streams, entry, prepared


def _lines_lost(result: Mapping[str, Any]) -> str:
    return "–" if result["raw_loses"] is None else f"{result['raw_loses']:,}"


class SelfPlayKind:
    """A network plays itself with tree search, and is trained to move at once as the search does."""

    name = "selfplay"
    config = SelfPlayConfig
    results = Results(
        label=SelfPlayConfig.label,
        subject=lambda config: config.game,
        unit="parts",
        headline={"raw_accuracy": "raw optimal", "search_accuracy": "search optimal", "loss": "loss"},
        accuracy=entry("raw_optimal_rate"),
        columns={
            "raw": lambda result: percent(result["raw_optimal_rate"]),
            "search": lambda result: percent(result["search_optimal_rate"]),
            "match": lambda result: percent(result["match_score"]),
            "lines lost": _lines_lost,
            "internalized": lambda result: readable("", result["internalized"]),
        },
        rates=("internalized",),
        samples_per_step=lambda config: config.samples_per_step,
    )

    def prepare(self, config: SelfPlayConfig, copies: Copies) -> Prepared:
        sources = config.check(copies)
        return prepared(self, config, copies, lambda d: config.build(d, copies), sources, f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        return foretell(prepared.config, keep_stages, timed)


KIND = SelfPlayKind()


BYTES = 4
"""Of a number in fp32, which weights and examples are."""
QUICKLY_MET = 20_000
"""Games with at most so many positions are looked at as a whole here; larger ones would take too long."""
RANDOM_GAMES = 256
NODE_BYTES, MOVE_BYTES = 36, 24
"""Of a node of the search's trees, and of each move of it (`trees.py`)."""


@dataclass(frozen=True)
class GameFacts:
    """What a game is like, as far as costs go."""

    inputs: int
    actions: int
    most_moves: int
    """Legal moves of one position, at the most met."""
    moves: float
    """Of a random game from the positions where games begin, the mean."""
    going: int | None
    """Positions in which the game is not over; None if there are too many to look at here."""

    def evaluations(self, asked: float) -> float:
        """How many the network really makes if searches with the same weights ask for so many."""
        return asked if self.going is None else min(asked, self.going)


@cache
def facts_of(game: str, starts: Starts) -> GameFacts:
    positions = Positions(game)
    whole = positions.enumerate(QUICKLY_MET)
    rng = np.random.default_rng(0)
    begin: Starts = starts if whole or starts == "empty" else "random"
    current = draw_starts(positions, begin, RANDOM_GAMES, rng)
    moves = 0
    while len(current):
        moves += len(current)
        drawn = [int(rng.integers(positions.moves[number])) for number in current]
        reached = np.array([positions.after(int(n), move) for n, move in zip(current, drawn, strict=True)])
        current = reached[~positions.is_over(reached)]
    return GameFacts(
        positions.inputs,
        positions.actions,
        positions.most_moves,
        moves / RANDOM_GAMES,
        len(all_going(positions)) if whole else None,
    )


def foretell(config: SelfPlayConfig, keep_stages: KeepStages, timed: bool) -> Forecast:
    facts = facts_of(config.game, config.starts)
    with torch.device("meta"):
        network = PolicyValue(facts.inputs, facts.actions, config.width, config.depth)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    weights = BYTES * parameters
    playing = config.rounds * evaluations_of_round(config, facts) * network.flops
    updates = config.rounds * config.updates * update_flops(network, config.batch)
    examples = _examples_bytes(config, facts)
    checkpoint = 4 * weights + examples  # now, at the beginning of the round, and two moments
    search = _search_bytes(config, facts)
    return Forecast(
        playing + updates,
        measured_evaluations(config, facts) * network.flops,
        disk_bytes(keep_stages, config.rounds, weights, checkpoint, weights),
        float(checkpoint + weights + search),
        parameters,
        config.rounds * sum(parts_of(config)),
        (
            Need(5 * weights, "width", f"a network of {parameters:,} parameters"),
            Need(config.games * BYTES * facts.inputs, "games", f"the moves of {config.games:,} games"),
            Need(config.matches * 2 * BYTES, "matches", f"{config.matches:,} matches"),
            Need(config.batch * 2 * BYTES, "batch", f"a batch of {config.batch:,} positions"),
            Need(search, "simulations", f"the trees of {config.simulations:,} simulations"),
        ),
        on_processor=True,
        seconds=seconds_of_run(config) if timed else None,
    )


def evaluations_of_round(config: SelfPlayConfig, facts: GameFacts) -> float:
    """Of the network in self-play; every part of it asks anew."""
    whole, rest = divmod(config.games, GAMES_AT_ONCE)
    asked = facts.moves * (1 + config.simulations)
    return whole * facts.evaluations(GAMES_AT_ONCE * asked) + facts.evaluations(rest * asked)


def update_flops(network: PolicyValue, batch: int) -> float:
    """Forward, the weights' gradient, and what is handed down, which the first layer has no use for."""
    first = next(network.parameters())
    return batch * (3 * network.flops - 2.0 * first.numel())


def measured_evaluations(config: SelfPlayConfig, facts: GameFacts) -> float:
    """After every round, in the first one also before any training, and at the end.

    Where it is not known whether the game can be enumerated, as many as if it just could.
    """
    everywhere = ENUMERABLE if facts.going is None else facts.going
    positions = config.measured if facts.going is None else min(config.measured, everywhere)
    turns = config.matches * facts.moves / 2  # in a match each of the two moves every other time
    a_search = 1 + config.simulations
    raw = max(everywhere, facts.evaluations(positions + turns))  # it follows all lines of an enumerated game
    searching = facts.evaluations((positions + turns) * a_search)
    before = facts.evaluations(positions * a_search)  # with the weights that a round began with
    each = raw + searching + before
    final = max(each, 3.0 * everywhere)  # over all positions of an enumerated game
    return raw + searching + config.rounds * each + final


def _examples_bytes(config: SelfPlayConfig, facts: GameFacts) -> int:
    """Of the window's games: what the network reads, legal moves, the searched policy and the outcome."""
    visited = round(config.games * facts.moves * min(config.window, config.rounds))
    return visited * (BYTES * (facts.inputs + facts.actions + 1) + facts.actions)


def _search_bytes(config: SelfPlayConfig, facts: GameFacts) -> int:
    """The trees of the games that are played at once."""
    nodes = min(config.games, GAMES_AT_ONCE) * (1 + config.simulations)
    return nodes * (NODE_BYTES + MOVE_BYTES * facts.most_moves)


# Seconds --------------------------------------------------------------------------------------------------

TRIAL_UPDATES = 20


def seconds_of_run(config: SelfPlayConfig) -> float:
    """Later rounds are taken to be as the first."""
    table, meeting = _table(config.game)
    experiment, streams = SelfPlayExperiment(config), Streams(config.seed)
    experiment.positions = table
    state = experiment.init(streams)
    few = replace(config, games=1, updates=min(config.updates, TRIAL_UPDATES))
    play_part(few, table, state, streams("estimate"))  # compiles the search, or loads what was compiled before
    games = share_of(config.games, GAMES_AT_ONCE, 0)
    playing = seconds_of(lambda: play_part(config, table, state, streams("estimate"))) * config.games / games
    state.part = parts_of(few)[0]
    training = seconds_of(lambda: train_part(few, state, streams("estimate"))) * config.updates / few.updates
    state.part = sum(parts_of(config))  # at a round's end search with the weights before it is measured too
    yardstick = seconds_of(lambda: experiment.yardstick(streams))
    measuring = seconds_of(lambda: experiment.evaluate(state, streams))
    everything = len(experiment.yardstick(streams).numbers) / max(1, config.measured)
    times = config.rounds + 1 + max(1.0, everything)  # the last measurement is over all positions
    return meeting + yardstick + config.rounds * (playing + training) + times * measuring


@lru_cache(maxsize=1)
def _table(game: str) -> tuple[Positions, float]:
    """The game's positions, and how long it took to meet them: many seconds, and the same for every shape."""
    positions = Positions(game)
    return positions, seconds_of(positions.enumerate)
