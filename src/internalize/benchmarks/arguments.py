"""What the commands that time things can be told: their options, apart from what is timed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from internalize.errors import require


@dataclass(frozen=True)
class BenchArguments:
    """Time this engine's whole training iteration against Hugging Face GPT-2 with AdamW, interleaved."""

    repeats: int = 5
    """Samples of which the median counts."""
    threads: int = 1
    """Number of threads of both sides."""
    configs: tuple[int, ...] = (0, 1, 2, 3)
    """Which configurations, by their number in the table."""
    growth: bool = False
    """Also show how the cost grows with T, width, depth, batch and seeds, and what an evaluation costs."""
    kernels: bool = False
    """Also compare the plain path with the fast one over many shapes."""
    scaling: int | None = None
    """Also measure how much faster this many processes train than one, beside plain products."""
    json: bool = False
    """Print JSON instead of tables."""


@dataclass(frozen=True)
class SelfPlayBenchArguments:
    """Simulations per second: this search against OpenSpiel's own Python MCTS on the same network."""

    games: tuple[str, ...] = ("tic_tac_toe", "connect_four(rows=4,columns=4)", "connect_four")
    """The games, by OpenSpiel's names."""
    positions: int = 256
    """Positions searched at once."""
    simulations: int = 100
    """Simulations of each search."""
    width: int = 256
    """Units of each of the network's three hidden layers."""
    repeats: int = 5
    """Samples of which the median counts."""
    file: Annotated[Path | None, tyro.conf.arg(aliases=("--out",), metavar="FILE")] = None
    """Also write the JSON to this file."""
    json: bool = False
    """Print JSON instead of a table."""

    def __post_init__(self) -> None:
        for name in ("positions", "simulations", "width", "repeats"):
            require(getattr(self, name) >= 1, name, f"must be at least 1, got {getattr(self, name)}")
        require(len(self.games) >= 1, "games", "must name at least one game")


@dataclass(frozen=True)
class TextBenchArguments:
    """Tokens a second of training and answering, beside a plain loop with Hugging Face's transformers."""

    problems: str = "multiplication:4x4"
    """What the rows are about."""
    depth: int = 2
    """Layers of the GPT-2."""
    width: int = 256
    """Width of each."""
    heads: int = 4
    """Attention heads of each."""
    batch: int = 32
    """Rows of a training step."""
    answered: int = 32
    """Rows that are answered."""
    repeats: int = 3
    """Times that each is measured."""
    threads: int = 1
    """Threads that torch may use."""
    json: bool = False
    """Print one JSON object."""
