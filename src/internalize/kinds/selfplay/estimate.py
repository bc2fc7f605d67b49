"""How long a self-play run will take: a part of self-play, some updates and a measurement, thrown away."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.experiment import SelfPlayExperiment
from internalize.kinds.selfplay.learning import play_part, train_part
from internalize.kinds.selfplay.positions import Positions
from internalize.kinds.selfplay.schedule import GAMES_AT_ONCE, parts_of, share_of
from internalize.runtime.streams import Streams
from internalize.runtime.trials import seconds_of

TRIAL_UPDATES = 20


def seconds_of_run(config: SelfPlayConfig, device: torch.device) -> float:
    """Later rounds are taken to be as the first. Whatever the device, it is the processor."""
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
