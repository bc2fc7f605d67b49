"""What a self-play experiment computes: the identity of a run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from internalize.configs.codec import typed
from internalize.configs.named import Copies, Source
from internalize.errors import require, require_seed

if TYPE_CHECKING:
    import torch

    from internalize.kinds.selfplay.experiment import SelfPlayExperiment

Starts = Literal["auto", "reachable", "random", "empty"]


@dataclass(frozen=True)
@typed()
class SelfPlayConfig:
    """A network plays itself with tree search, and is trained to move at once as the search does."""

    kind: ClassVar[str] = "selfplay"

    game: str = "tic_tac_toe"
    """OpenSpiel's name, for example tic_tac_toe or "connect_four(rows=4,columns=4)"."""
    rounds: int = 20
    """Self-play, then training, then measuring: so often."""
    seed: int = 0
    """Everything random in the run is a function of this number."""
    games: int = 2048
    """Games of self-play a round."""
    simulations: int = 100
    """Simulations of the search before every move, in self-play and when measured."""
    starts: Starts = "auto"
    """Where games begin: any reachable position (all alike), a random position of a random game, or the empty
    board; auto is reachable where the game can be enumerated, else random."""
    exploration: float = 1.5
    """c of the PUCT rule."""
    noise: float = 0.25
    """Share of noise in the root's prior, in self-play only."""
    concentration: float = 0.5
    """Of that Dirichlet noise."""
    temperature: float = 1.0
    """The searched policy is visits^(1/temperature)."""
    outcome_share: float = 0.5
    """The value learns this much from the game's outcome, the rest from the search's own value."""
    width: int = 128
    """Units of each hidden layer."""
    depth: int = 3
    """Hidden layers."""
    updates: int = 500
    """Training steps in each round."""
    batch: int = 256
    """Positions a training step."""
    window: int = 5
    """Rounds whose games are trained on."""
    lr: float = 2e-3
    """Learning rate at the beginning; it falls to 0 along half a cosine."""
    weight_decay: float = 1e-4
    """AdamW's."""
    measured: int = 4000
    """Positions measured after a round, at the most: where there are more, a sample. The last measurement is
    over all of them where the game can be enumerated."""
    matches: int = 200
    """Games of the raw network against search after a round."""
    epsilon: float = 0.02
    """ε of the distributional definition."""

    def __post_init__(self) -> None:
        for name in ("rounds", "games", "simulations", "width", "depth", "updates", "batch", "window"):
            value = getattr(self, name)
            require(value >= 1, name, f"must be at least 1, got {value}")
        for name in ("measured", "matches"):
            value = getattr(self, name)
            require(value >= 2, name, f"must be at least 2, got {value}")
        for name in ("exploration", "concentration", "temperature", "lr", "epsilon"):
            value = getattr(self, name)
            require(math.isfinite(value) and value > 0, name, f"must be a number more than 0, got {value}")
        for name in ("noise", "outcome_share"):
            value = getattr(self, name)
            require(0 <= value <= 1, name.replace("_", "-"), f"must lie in 0…1, got {value}")
        good = math.isfinite(self.weight_decay) and self.weight_decay >= 0
        require(good, "weight-decay", f"must be a number of at least 0, got {self.weight_decay}")
        require_seed(self.seed)

    @property
    def samples_per_step(self) -> int:
        """A step is a part of a round; its mean number of training examples."""
        from internalize.kinds.selfplay.rounds import parts_of

        return self.updates * self.batch // sum(parts_of(self))

    def check(self, copies: Copies) -> list[Source]:
        """Refuses a game that is none of ours, or whose positions are too many to begin in any of them; nothing
        here names a user's file."""
        from internalize.kinds.selfplay.positions import ENUMERABLE, has_more_positions, load_game

        load_game(self.game)
        listed = self.starts != "reachable" or not has_more_positions(self.game, ENUMERABLE)
        why = (
            f"reachable needs a game of at most {ENUMERABLE:,} positions, and {self.game} has more: use random"
        )
        require(listed, "starts", why)
        return []

    def label(self) -> str:
        game = re.sub(r"[^\w]+", "-", self.game).strip("-")
        return f"selfplay-{game}-n{self.simulations}-s{self.seed}"

    def build(self, device: torch.device, copies: Copies) -> SelfPlayExperiment:
        """The computation is on the processor, whatever the device: the network is small."""
        from internalize.kinds.selfplay.experiment import SelfPlayExperiment

        return SelfPlayExperiment(self)
