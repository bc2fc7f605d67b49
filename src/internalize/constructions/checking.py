"""Is a construction exact? Its answers against arithmetic, on all inputs or on many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.constructions.inputs import adversarial_inputs, random_inputs
from internalize.constructions.threads import side_by_side
from internalize.tasks.inputs import all_inputs

CheckKind = Literal["auto", "exhaustive", "random"]
MOST_INPUTS = 10_000_000
"""`exhaustive` goes through at most so many inputs."""
QUICK_INPUTS = 100_000
"""`auto` is exhaustive up to here."""
CHUNK_NUMBERS = 2_000_000
"""Numbers in the widest activation of one batch: large enough to keep the cores busy."""

Progress = Callable[[int, int], None]
"""Told how many inputs are done, of how many."""


@dataclass(frozen=True)
class Check:
    """What was compared, and how it went."""

    exhaustive: bool
    inputs_checked: int
    adversarial: int
    """How many of them were chosen to be nasty."""
    wrong: int
    first_wrong: tuple[int, ...] | None
    """The symbols of the first input that was answered wrongly."""

    @property
    def exact(self) -> bool:
        return self.wrong == 0

    @property
    def description(self) -> str:
        if self.exhaustive:
            return f"all {self.inputs_checked:,} inputs"
        random = self.inputs_checked - self.adversarial
        return f"{random:,} random and {self.adversarial:,} adversarial inputs"


def check(
    construction: Construction,
    kind: CheckKind = "auto",
    samples: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Check:
    """Compare the network's answers with the oracle's.

    `exhaustive` means all inputs if there are at most `MOST_INPUTS`, and `samples` random ones besides the
    adversarial ones otherwise; the result says which it was.
    """
    total = construction.symbols**construction.horizon
    exhaustive = kind != "random" and total <= (MOST_INPUTS if kind == "exhaustive" else QUICK_INPUTS)
    nasty = 0
    chunk = chunk_size(construction)
    if exhaustive:
        batches = all_inputs(construction.symbols, construction.horizon, chunk)
    else:
        adversarial = adversarial_inputs(construction.symbols, construction.horizon)
        random = random_inputs(construction.symbols, construction.horizon, samples, seed)
        nasty, total = len(adversarial), len(adversarial) + samples
        batches = _pieces([adversarial, random], chunk)
    done, wrong, first = 0, 0, None
    for count, failed in side_by_side(partial(_wrong_inputs, construction), batches):
        if first is None and len(failed):
            first = tuple(failed[0].tolist())
        wrong += len(failed)
        done += count
        if progress is not None:
            progress(done, total)
    return Check(exhaustive, done, nasty, wrong, first)


def _wrong_inputs(construction: Construction, symbols: Tensor) -> tuple[int, Tensor]:
    """How many inputs there were, and those (wrong, T) that were answered wrongly."""
    return len(symbols), symbols[construction.answer(symbols) != construction.final_states(symbols)]


def chunk_size(construction: Construction) -> int:
    """Inputs a batch, so that no activation grows beyond `CHUNK_NUMBERS`."""
    shape = construction.shape
    return max(1, CHUNK_NUMBERS // (shape.positions * max(shape.mlp_width, shape.embedding)))


def share_right(construction: Construction, symbols: Tensor) -> float:
    """The share of (count, T) inputs that are answered rightly."""
    pieces = _pieces([symbols], chunk_size(construction))
    failed = side_by_side(partial(_wrong_inputs, construction), pieces)
    return 1 - sum(len(wrong) for _, wrong in failed) / len(symbols)


def _pieces(groups: list[Tensor], chunk: int) -> Iterator[Tensor]:
    for group in groups:
        yield from group.split(chunk)
