"""How a round is cut into parts, short enough that a run can stop soon when it is asked to."""

from __future__ import annotations

import math

from internalize.kinds.selfplay.config import SelfPlayConfig

GAMES_AT_ONCE = 512
UPDATES_AT_ONCE = 250


def parts_of(config: SelfPlayConfig) -> tuple[int, int]:
    """Parts of self-play and of training in a round."""
    return math.ceil(config.games / GAMES_AT_ONCE), math.ceil(config.updates / UPDATES_AT_ONCE)


def share_of(total: int, at_once: int, part: int) -> int:
    """How many of the total fall to this part, from 0."""
    return min(at_once, total - part * at_once)


def learning_rate(config: SelfPlayConfig, update: int) -> float:
    """Half a cosine from lr to 0 over all updates of the run."""
    return config.lr * 0.5 * (1 + math.cos(math.pi * update / (config.rounds * config.updates)))
