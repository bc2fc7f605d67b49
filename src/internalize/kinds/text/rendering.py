"""From rows to token sequences. Cut on token ids: nothing is tokenized again after words were taken away.

question <|chain|> [<|budget:m|>] [<|pause|> …]   what remains of the chain <|answer|> answer <|end|>
└──────────────── the prompt: never scored ────┘ └───────────── the answer block: all of it scored ─┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from internalize.kinds.text.curriculum import Kept

Boundary = Literal["marker", "none"]
UNSCORED = -1
"""In `Batch.slots`: a position without loss."""


@dataclass(frozen=True)
class Markers:
    """Token ids of the boundaries, which are none of the text's own tokens, nor EOS."""

    chain: int
    answer: int
    end: int
    pause: int
    pad: int
    budgets: tuple[int, ...] = ()
    """Of a mixture, for its budgets in order."""


@dataclass(frozen=True)
class CutRow:
    """A row as token ids: question, units of the chain and answer were tokenized apart."""

    question: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]
    answer: tuple[int, ...]

    @property
    def chain(self) -> int:
        """Tokens of the whole chain."""
        return sum(map(len, self.units))


@dataclass(frozen=True)
class Rendered:
    """One row as the model sees it."""

    tokens: list[int]
    prompt: int
    """Where the answer block begins."""
    positions: list[int]
    """Position ids."""
    slots: list[int]
    """Of the answer block's tokens: the place in the whole chain, or after it that in the answer."""

    @property
    def block(self) -> list[int]:
        return self.tokens[self.prompt :]


@dataclass(frozen=True)
class TextRenderer:
    """The form of one experiment's sequences."""

    markers: Markers
    longest_chain: int
    """Tokens; the slots of answers come after as many."""
    longest_answer: int
    pauses: bool = False
    positions: Literal["closed", "kept"] = "closed"
    boundary: Boundary = "marker"

    @property
    def slots(self) -> int:
        """Places that a scored token can have: in the chain, the marker, the answer and the end."""
        return self.longest_chain + self.longest_answer + 2

    def prompt(self, row: CutRow, kept: Kept, budget: int | None = None) -> list[int]:
        """What the model reads before it writes. budget: which of the mixture's budgets, from 0."""
        told = [] if budget is None else [self.markers.budgets[budget]]
        gone = row.chain - sum(len(row.units[i]) for i in kept) if self.pauses else 0
        return [*row.question, self.markers.chain, *told, *[self.markers.pause] * gone]

    def ending(self, row: CutRow) -> list[int]:
        """The marker before the answer, the answer and the end."""
        marker = [self.markers.answer] if self.boundary == "marker" else []
        return [*marker, *row.answer, self.markers.end]

    def chain(self, row: CutRow, kept: Kept) -> list[int]:
        """The tokens of the units that remain."""
        return [token for i in kept for token in row.units[i]]

    def places(self, row: CutRow, kept: Kept) -> list[int]:
        """Where in the whole chain each of these tokens stands."""
        starts = [0]
        for unit in row.units:
            starts.append(starts[-1] + len(unit))
        return [place for i in kept for place in range(starts[i], starts[i + 1])]

    def render(self, row: CutRow, kept: Kept, budget: int | None = None) -> Rendered:
        prompt, chain, ending = self.prompt(row, kept, budget), self.chain(row, kept), self.ending(row)
        places = self.places(row, kept)
        first = self.longest_chain + (self.boundary == "none")
        slots = [*places, *range(first, first + len(ending))]
        tokens = [*prompt, *chain, *ending]
        return Rendered(tokens, len(prompt), self.position_ids(row, kept, len(prompt), len(ending)), slots)

    def position_ids(self, row: CutRow, kept: Kept, prompt: int, ending: int) -> list[int]:
        if self.positions == "closed":
            return list(range(prompt + sum(len(row.units[i]) for i in kept) + ending))
        after = prompt + row.chain
        return [
            *range(prompt),
            *(prompt + place for place in self.places(row, kept)),
            *range(after, after + ending),
        ]


@dataclass(frozen=True)
class Batch:
    """Rows of one step, filled up on the right: causal attention never looks there."""

    tokens: Tensor
    """(batch, length) what the model reads: all but the last token."""
    targets: Tensor
    """(batch, length) the token after each."""
    slots: Tensor
    """(batch, length) the target's slot; UNSCORED where there is no loss."""
    positions: Tensor | None
    """(batch, length) position ids, where they are not simply 0, 1, 2, …"""
    first: int
    """No position before this one is scored in any row."""
    scored: int
    """How many are scored in all."""


def collate(rows: Sequence[Rendered], pad: int, kept_positions: bool, device: torch.device) -> Batch:
    """One batch of rendered rows."""
    longest = max(len(row.tokens) for row in rows) - 1
    tokens, targets, slots, positions = [], [], [], []
    for row in rows:
        gap = longest + 1 - len(row.tokens)
        tokens.append(row.tokens[:-1] + [pad] * gap)
        targets.append(row.tokens[1:] + [pad] * gap)
        slots.append([UNSCORED] * (row.prompt - 1) + row.slots + [UNSCORED] * gap)
        if kept_positions:
            last = row.positions[-2]
            positions.append(row.positions[:-1] + [last] * gap)
    return Batch(
        torch.tensor(tokens, device=device),
        torch.tensor(targets, device=device),
        torch.tensor(slots, device=device),
        torch.tensor(positions, device=device) if kept_positions else None,
        min(row.prompt for row in rows) - 1,
        sum(len(row.slots) for row in rows),
    )
