"""One round's work: play with search, then train the network on what the search said.

A round is cut into parts, short enough that a run can stop soon when it is asked to. Play is the paper's slow
program P_SP: search, move, and so on to the end of the game (appendix B, its algorithm).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from internalize.contract import Json
from internalize.errors import require, require_count
from internalize.kinds.selfplay.config import SelfPlayConfig
from internalize.kinds.selfplay.positions import Positions, draw_starts, numpy_generator
from internalize.kinds.selfplay.search import Evaluations, Noise, Rule, search
from internalize.models.mlp import PolicyValue, masked_loss
from internalize.models.parameters import AdamW, flatten_parameters

# The state: the network, its optimizer, and the games it learns from -------------------------------------

BETAS = (0.9, 0.99)
ROUNDING = 1e-5
"""By how much a share may be beyond 0 or 1 when it was computed in float32."""


@dataclass
class Examples:
    """What the network is to give, one row for each position visited in self-play."""

    features: Tensor
    """(rows, inputs) float32."""
    legal: Tensor
    """(rows, actions) bool."""
    policy: Tensor
    """(rows, actions) float32: the searched policy."""
    outcome: Tensor
    """(rows,) float32 in [0, 1], for the player to move."""

    def __len__(self) -> int:
        return len(self.outcome)

    def then(self, later: Examples) -> Examples:
        return Examples(
            *(torch.cat(pair) for pair in zip(vars(self).values(), vars(later).values(), strict=True))
        )

    def without_first(self, count: int) -> Examples:
        return Examples(*(tensor[count:].clone() for tensor in vars(self).values()))


@dataclass
class SelfPlayState:
    """Changed in place by every step."""

    network: PolicyValue
    optimizer: AdamW
    before: Tensor
    """(numel,): the weights at the beginning of the round, θ: its games are played with them."""
    examples: Examples
    counts: list[int] = field(default_factory=list)
    """Examples of each round in the window, the newest last."""
    round: int = 1
    part: int = 0
    """Parts of this round that are done: first of self-play, then of training."""
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Policy and value loss, added up over the updates of this round."""
    passes: int = 0
    """Network evaluations of this round's searches."""
    moves: int = 0
    """Moves that this round's games took."""

    @property
    def flat(self) -> Tensor:
        """(numel,): the weights now, θ'."""
        return self.optimizer.parameters

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.network.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        return {
            "weights": self.flat,
            "before": self.before,
            **{f"optimizer/{name}": tensor for name, tensor in self.optimizer.tensors().items()},
            **{f"examples/{name}": tensor for name, tensor in vars(self.examples).items()},
        }

    def kept(self) -> dict[str, Tensor]:
        """The tensors as they are now, whatever a step does: copied, but for the examples.

        Those are the bulk, and a step replaces them without changing them.
        """
        tensors = self.tensors().items()
        return {name: tensor if name.startswith("examples/") else tensor.clone() for name, tensor in tensors}

    def scalars(self) -> dict[str, Json]:
        return {
            "optimizer": dict(self.optimizer.scalars()),
            "counts": list(self.counts),
            "round": self.round,
            "part": self.part,
            "losses": list(self.losses),
            "passes": self.passes,
            "moves": self.moves,
        }


def new_state(config: SelfPlayConfig, inputs: int, actions: int, generator: torch.Generator) -> SelfPlayState:
    network = PolicyValue(inputs, actions, config.width, config.depth).initialise(generator)
    optimizer = AdamW(*flatten_parameters(network), config.lr, BETAS, config.weight_decay)
    nothing = Examples(
        torch.zeros(0, inputs),
        torch.zeros(0, actions, dtype=torch.bool),
        torch.zeros(0, actions),
        torch.zeros(0),
    )
    return SelfPlayState(network, optimizer, optimizer.parameters.clone(), nothing)


def restored_state(
    fresh: SelfPlayState, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]
) -> SelfPlayState:
    """The saved state, in place of a fresh one (or of any other) of the same config."""
    fresh.flat.copy_(tensors["weights"])
    fresh.before.copy_(tensors["before"])
    saved = {name: tensors[f"optimizer/{name}"] for name in fresh.optimizer.tensors()}
    fresh.optimizer.load(saved, scalars["optimizer"])
    fresh.examples = Examples(*(tensors[f"examples/{name}"].clone() for name in vars(fresh.examples)))
    for name in ("counts", "round", "part", "losses", "passes", "moves"):
        setattr(fresh, name, scalars[name])
    return fresh


def require_sense(state: SelfPlayState, config: SelfPlayConfig, inputs: int, actions: int) -> None:
    """Refuse, by the entry's name, what a saved state of this experiment never is."""
    playing, training = parts_of(config)
    require_count("round", state.round, least=1, most=config.rounds)
    require_count("part", state.part, most=playing + training)
    updates = min(config.updates, UPDATES_AT_ONCE * max(0, state.part - playing))
    made = (state.round - 1) * config.updates + updates
    require_count("optimizer.step", state.optimizer.scalars()["step"], least=made, most=made)
    require_count("passes", state.passes)
    require_count("moves", state.moves, least=min(1, state.part))
    for count in state.counts:
        require_count("counts", count)
    rows = len(state.examples)
    good = sum(state.counts) == rows and len(state.counts) <= config.window
    require(good, "counts", f"is {str(state.counts)[:60]}, and there are {rows} examples")
    good = len(state.losses) == 2 and all(isinstance(x, float) and math.isfinite(x) for x in state.losses)
    require(good, "losses", f"must be two finite numbers, got {str(state.losses)[:60]}")
    by_action = (rows, actions)
    shapes = {"features": (rows, inputs), "legal": by_action, "policy": by_action, "outcome": (rows,)}
    for name, shape in shapes.items():
        found: Tensor = getattr(state.examples, name)
        good = tuple(found.shape) == shape and found.dtype == (torch.bool if name == "legal" else torch.float32)
        require(good, f"examples.{name}", f"is {tuple(found.shape)} of {found.dtype}, not {shape}")
    for name in ("policy", "outcome"):
        found = getattr(state.examples, name)
        good = bool(((found >= -ROUNDING) & (found <= 1 + ROUNDING)).all())
        require(good, f"examples.{name}", "must lie in [0, 1]")


# A round -------------------------------------------------------------------------------------------------

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


LONGEST = 10_000
"""Moves after which a game that never ends is given up."""


@dataclass(frozen=True)
class Played:
    """Every position visited by some self-played games. Row i < starts is the first position of game i."""

    numbers: NDArray[np.int64]
    """(visited,): positions, by their numbers in the table."""
    game: NDArray[np.int64]
    """(visited,): the game in which it was visited."""
    policy: NDArray[np.float64]
    """(visited, actions): the searched policy there."""
    outcome: NDArray[np.float64]
    """(visited,): how the game ended for the player to move there: 1 won, ½ drawn, 0 lost."""
    value: NDArray[np.float64]
    """(visited,): the search's own estimate of that outcome."""
    passes: NDArray[np.int64]
    """(visited,): the network's evaluations in this search."""


def self_play(
    said: Evaluations,
    starts: NDArray[np.int64],
    rule: Rule,
    rng: np.random.Generator,
    temperature: float = 1.0,
    noise: Noise | None = None,
) -> Played:
    """P_SP from each start, all games side by side.

    Moves are drawn from the searched policy with `rng`: the paper's ρ. The first len(starts) rows are the
    program's answers, (π(· | x), z(x)); every later position of a game is a start of its own rest, and its row
    is what P_SP answers there with the rest of the same ρ.
    """
    positions = said.positions
    visited, games, policies, values, passes = [], [], [], [], []
    current, playing = starts.astype(np.int64), np.arange(len(starts))
    final = np.full(len(starts), -1, np.int64)
    for _ in range(LONGEST):
        if len(current) == 0:
            break
        found = search(said, current, rule, noise)
        policy = found.policy(temperature)
        visited.append(current)
        games.append(playing)
        policies.append(policy)
        values.append(found.value)
        passes.append(found.passes)
        reached = positions.play(current, _draw(policy, rng))
        over = positions.is_over(reached)
        final[playing[over]] = reached[over]
        current, playing = reached[~over], playing[~over]
    numbers, game = np.concatenate(visited), np.concatenate(games)
    return Played(
        numbers,
        game,
        np.concatenate(policies),
        outcome_for(said, numbers, final[game]),
        np.concatenate(values),
        np.concatenate(passes),
    )


def outcome_for(said: Evaluations, numbers: NDArray[np.int64], final: NDArray[np.int64]) -> NDArray[np.float64]:
    """(batch,): what the final position means for the player to move at the other; ½ if there is none."""
    table = said.positions
    outcome = np.where(final >= 0, table.outcome[final], 0.5)
    return np.where(table.player[numbers] == 0, outcome, 1.0 - outcome)


def _draw(policy: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One action a row."""
    below = np.cumsum(policy, axis=1)
    drawn = rng.random(len(policy))[:, None] * below[:, -1:]
    return np.asarray((below <= drawn).sum(1))


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
