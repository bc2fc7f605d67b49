"""Which units of a row's chain are shown at a stage: the paper's curricula, on chains of any length.

A row with n units and its answer is a chain of n+1 states whose last is the answer. So every curriculum of
`curricula/`, and every user's own, says which units remain: stage s of `Left(n+1)` leaves units s … n and the
answer. The answer always remains, whatever the curriculum says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from internalize.configs.codec import typed
from internalize.configs.named import Copies, Source
from internalize.curricula import Curriculum, find_curriculum
from internalize.curricula.formats import Mixture, OneByOne
from internalize.errors import require

Unit = Literal["token", "step"]
Kept = tuple[int, ...]
"""Indexes, from 0, of the units of a chain that are shown; the answer is not among them."""
TOKENS_PER_STAGE = 8
"""As published (Deng et al., 2024)."""
LONGEST_OFFSET = 99
"""The smoothed removal point lies at most so many units further, as published."""
FILLER = "filler"
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
    """Stages 1, 2, … for rows with chains of up to `longest` units."""

    def __init__(self, method: str, unit: Unit, removal: RemovalConfig, longest: int, copies: Copies) -> None:
        self.method = method
        self.unit = unit
        self.removal = removal
        self.longest = longest
        self.pauses = method in FILLERS
        self._name = FILLERS.get(method, method)
        self._copies = copies
        whole, self.source = self._find(longest)
        self.is_mixture = isinstance(whole, Mixture)
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
        """The units of a chain of so many that remain at the stage; offset: units that go besides."""
        curriculum = self.rows(units)
        if self.is_mixture:
            return self.kept_within(units, 0)
        gone = (stage - 1) * self.pace + offset
        beyond = self.removal.all_beyond
        last = curriculum.stages
        wanted = last if beyond is not None and gone >= beyond else min(gone + 1, last)
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
