"""From rows to token sequences. Cut on token ids: nothing is tokenized again after words were taken away.

question <|chain|> [<|budget:m|>] [<|pause|> …]   what remains of the chain <|answer|> answer <|end|>
└──────────────── the prompt: never scored ────┘ └───────────── the answer block: all of it scored ─┘
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from internalize.configs.codec import typed
from internalize.configs.named import Copies, Source
from internalize.curricula import METHODS, Curriculum, find_curriculum
from internalize.curricula.curriculum import Mixture, OneByOne
from internalize.errors import BadInput, closest, require

if TYPE_CHECKING:
    import torch
    from torch import Tensor

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
    import torch

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


Unit = Literal["token", "step"]
Kept = tuple[int, ...]
"""Indexes, from 0, of the units of a chain that are shown; the answer is not among them."""
TOKENS_PER_STAGE = 8
"""As published (Deng et al., 2024)."""
LONGEST_OFFSET = 99
"""The smoothed removal point lies at most so many units further, as published."""
FILLERS = {"filler": "e2e", "filler:e2e": "e2e", "filler:left": "left", "filler:geometric": "geometric"}
"""Controls that put pauses where the words were → the curriculum that takes the words away."""
CONTROLS = ("cot", "e2e", "filler", "filler:e2e")
"""They take nothing away by stages: settings of the removal are allowed and change nothing, so that a command
or a sweep can ask for a method and its controls alike."""


@dataclass(frozen=True)
@typed("removal")
class RemovalConfig:
    """How much of the chain a stage takes away, and how."""

    per_stage: int | None = None
    """Units taken away at every stage: 8 tokens or 1 step if not given. Not for geometric or your own."""
    smoothing: float | None = None
    """λ of Deng et al.: each row loses o units more, with probability in proportion to exp(-λ o); none if not
    given (they used 4)."""
    all_beyond: int | None = None
    """Take the whole chain away as soon as so many units would go; never if not given."""
    positions: Literal["closed", "kept"] = "closed"
    """closed: what remains moves up. kept: it keeps the position ids that it had in the whole row."""

    def __post_init__(self) -> None:
        for name in ("per_stage", "all_beyond"):
            value = getattr(self, name)
            shown = f"removal.{name.replace('_', '-')}"
            require(value is None or value >= 1, shown, f"must be at least 1, got {value}")
        good = self.smoothing is None or 0 < self.smoothing < math.inf
        require(good, "removal.smoothing", f"must be more than 0 and finite, got {self.smoothing}")


class TextCurriculum:
    """Stages 1, 2, … for training rows with chains of up to `longest` units; longer ones may be measured."""

    def __init__(self, method: str, unit: Unit, removal: RemovalConfig, longest: int, copies: Copies) -> None:
        self.method = method
        self.unit = unit
        self.removal = removal
        self.longest = longest
        _require_filler(method)
        self._name = FILLERS.get(method, method)
        self._copies = copies
        whole, self.source = self._find(longest)
        self.is_mixture = isinstance(whole, Mixture)
        self.pauses = method in FILLERS or whole.pauses
        if self.source is not None and not self.is_mixture:
            self._refuse_what_text_has_not(whole)
        one_by_one = isinstance(whole.components if isinstance(whole, Mixture) else whole, OneByOne)
        if removal.per_stage is not None and method not in CONTROLS:
            require(one_by_one, "removal.per-stage", f"has no effect on {method}, whose stages are its own")
        default = TOKENS_PER_STAGE if unit == "token" else 1
        self.pace = (removal.per_stage or default) if one_by_one else 1
        self.stages = self._count(whole, one_by_one)
        self._refuse_what_has_no_effect(one_by_one and not self.is_mixture)
        self.rows = cache(self._curriculum)

    def _find(self, units: int) -> tuple[Curriculum, Source | None]:
        return find_curriculum(self._name, units + 1, self._copies)

    def _curriculum(self, units: int) -> Curriculum:
        return self._find(units)[0]

    def _count(self, whole: Curriculum, one_by_one: bool) -> int:
        """As many stages as the longest chain needs, or until all the rest goes at once."""
        if isinstance(whole, Mixture) or not one_by_one:
            return whole.stages
        beyond = self.removal.all_beyond
        most = self.longest if beyond is None else min(beyond, self.longest)
        return 1 + math.ceil(most / self.pace)

    def _refuse_what_text_has_not(self, whole: Curriculum) -> None:
        """What a curriculum for chains of states may ask for, and would be ignored here."""
        told = f"{self.method} has a length_hint: in text only a mixture tells how long the chain will be"
        require(not whole.length_hint, "method", told)
        several = any(len(whole.formats(stage)) > 1 for stage in range(1, whole.stages + 1))
        mixed = f"{self.method} has several formats at one stage: in text only a mixture draws among formats"
        require(not several, "method", mixed)

    def _refuse_what_has_no_effect(self, unit_by_unit: bool) -> None:
        for name in ("smoothing", "all_beyond"):
            fine = unit_by_unit or self.method in CONTROLS or getattr(self.removal, name) is None
            shown = f"removal.{name.replace('_', '-')}"
            require(fine, shown, f"has no effect on {self.method}, which does not take units away one by one")
        if self.pauses:
            closed = self.removal.positions == "closed"
            why = "pauses stand where the words were: their positions are kept already"
            require(closed, "removal.positions", f"must be closed with {self.method}: {why}")

    # What is shown ---------------------------------------------------------------------------------------

    def kept(self, units: int, stage: int, offset: int = 0) -> Kept:
        """The units of a chain of so many that remain at the stage; offset: units that go besides.

        At the last stage a chain that is longer than any of the training is at its own last stage, too.
        """
        curriculum = self.rows(units)
        if self.is_mixture:
            return self.kept_within(units, 0)
        gone = (stage - 1) * self.pace + offset
        beyond = self.removal.all_beyond
        last = curriculum.stages
        at_once = stage >= self.stages or (beyond is not None and gone >= beyond)
        wanted = last if at_once else min(gone + 1, last)
        return tuple(t - 1 for t in curriculum.shown(wanted) if t <= units)

    def kept_within(self, units: int, budget: int) -> Kept:
        """Of a mixture: what remains where the row may show at most so many units."""
        mixture = self.rows(units)
        assert isinstance(mixture, Mixture)
        stage = 1 + max(0, units - budget)
        return tuple(t - 1 for t in mixture.components.shown(stage) if t <= units)

    @property
    def budgets(self) -> tuple[int, ...]:
        """Of a mixture: the budgets among which every step draws one, in units; 0 is the direct answer."""
        if not self.is_mixture:
            return ()
        return tuple(min(i * self.pace, self.longest) for i in range(1 + math.ceil(self.longest / self.pace)))

    def draw_offsets(self, rows: int, generator: torch.Generator) -> list[int]:
        """How many units go besides, for each row; consumes the generator."""
        import torch

        rate = self.removal.smoothing
        assert rate is not None
        uniform = torch.rand(rows, generator=generator, device=generator.device, dtype=torch.float64)
        offsets = torch.floor(-torch.log1p(-uniform) / rate).clamp(max=LONGEST_OFFSET)
        return [int(offset) for offset in offsets.tolist()]

    def label(self, stage: int) -> str:
        """What is still shown, in a few words, for people."""
        if self.is_mixture:
            return f"0 to {self.longest} {self.unit}s of the chain"
        left = len(self.kept(self.longest, stage))
        instead = ", pauses for the rest" if self.pauses else ""
        plural = "" if self.longest == 1 else "s"
        return f"{left} of {self.longest} {self.unit}{plural} of the chain{instead}"


def _require_filler(method: str) -> None:
    """Else the name would be taken for that of a Python module."""
    if method.startswith("filler:") and method not in FILLERS:
        known = list(dict.fromkeys([*METHODS, *FILLERS]))
        near = closest(method, list(FILLERS))
        raise BadInput(
            "method", f"unknown method {method!r}{near}; known: {', '.join(known)}, or file.py:Class"
        )
