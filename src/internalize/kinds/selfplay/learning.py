"""One round's work: play with search, then train the network on what the search said."""

from __future__ import annotations

import numpy as np
import torch

from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.evaluations import Evaluations
from internalize.kinds.selfplay.positions import Positions
from internalize.kinds.selfplay.program import Played, self_play
from internalize.kinds.selfplay.schedule import (
    GAMES_AT_ONCE,
    UPDATES_AT_ONCE,
    learning_rate,
    parts_of,
    share_of,
)
from internalize.kinds.selfplay.search import Noise, Rule
from internalize.kinds.selfplay.starts import draw_starts, numpy_generator
from internalize.kinds.selfplay.state import Examples, SelfPlayState
from internalize.models.policy_value import masked_loss


def play_part(
    config: SelfPlayConfig, positions: Positions, state: SelfPlayState, generator: torch.Generator
) -> None:
    """Some of the round's games, with θ, the weights that the round began with."""
    positions.clear_if_large()
    if state.part == 0:
        _begin_round(config, state)
    rng = numpy_generator(generator)
    count = share_of(config.games, GAMES_AT_ONCE, state.part)
    starts = draw_starts(positions, config.starts, count, rng)
    # asked anew in every part: what the network says must not depend on where a run was interrupted
    said = Evaluations(positions, state.network)
    noise = Noise(config.noise, config.concentration, rng) if config.noise > 0 else None
    rule = Rule(config.simulations, config.exploration)
    played = self_play(said, starts, rule, rng, config.temperature, noise)
    made = examples_of(positions, played, config.outcome_share)
    state.examples = state.examples.then(made)
    state.counts[-1] += len(made)
    state.passes += int(played.passes.sum())
    state.moves += len(played.numbers)


def _begin_round(config: SelfPlayConfig, state: SelfPlayState) -> None:
    """Forget the games that have left the window."""
    state.before.copy_(state.flat)
    state.counts.append(0)
    while len(state.counts) > config.window:
        state.examples = state.examples.without_first(state.counts.pop(0))
    state.losses, state.passes, state.moves = [0.0, 0.0], 0, 0


def examples_of(positions: Positions, played: Played, outcome_share: float) -> Examples:
    value = outcome_share * played.outcome + (1 - outcome_share) * played.value
    return Examples(
        torch.from_numpy(positions.features[played.numbers]),
        torch.from_numpy(positions.legal(played.numbers)),
        torch.from_numpy(played.policy.astype(np.float32)),
        torch.from_numpy(value.astype(np.float32)),
    )


def train_part(config: SelfPlayConfig, state: SelfPlayState, generator: torch.Generator) -> None:
    """Some of the round's updates, on positions drawn from the window's games."""
    examples, optimizer = state.examples, state.optimizer
    part = state.part - parts_of(config)[0]
    first = (state.round - 1) * config.updates + part * UPDATES_AT_ONCE
    for update in range(share_of(config.updates, UPDATES_AT_ONCE, part)):
        drawn = torch.randint(len(examples), (config.batch,), generator=generator)
        optimizer.gradient.zero_()
        logits, value = state.network(examples.features[drawn])
        losses = masked_loss(
            logits, value, examples.legal[drawn], examples.policy[drawn], examples.outcome[drawn]
        )
        (losses[0] + losses[1]).backward()
        optimizer.lr = learning_rate(config, first + update)
        optimizer.step()
        state.losses = [
            so_far + float(loss.detach()) for so_far, loss in zip(state.losses, losses, strict=True)
        ]
