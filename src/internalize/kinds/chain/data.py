"""What a training step sees: fresh inputs with their traces, and inputs whose new steps are made easy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from internalize.curricula import Curriculum, Shown
from internalize.curricula.controller import Control
from internalize.curricula.schedule import Progress
from internalize.runtime.kind import Streams
from internalize.tasks.inputs import InputDistribution, Split
from internalize.tasks.semiautomaton import Semiautomaton

BULK = 32
"""Iterations drawn at once: amortises the loop over time in `trace`, and stays small in memory."""


class TrainingData:
    """Symbols and traces of an iteration: a function of the streams and the iteration alone.

    The last bulk drawn is kept, as a cache and nothing more.
    """

    def __init__(
        self, task: Semiautomaton, inputs: InputDistribution, batch: int, horizon: int, initial_state: int
    ) -> None:
        self.task = task
        self.inputs = inputs
        self.shape = (BULK, batch, horizon)
        self.batch = batch
        self.initial_state = initial_state
        self._cached: tuple[Streams, int] | None = None
        self._symbols: Tensor
        self._states: Tensor

    def __call__(self, iteration: int, streams: Streams) -> tuple[Tensor, Tensor]:
        """(batch, T) symbols and (batch, T+1) states of the iteration; consumes streams("data", bulk)."""
        bulk, within = divmod(iteration, BULK)
        if self._cached != (streams, bulk):
            self._symbols = self.inputs.sample(self.shape, streams("data", bulk))
            self._states = self.task.trace(self._symbols, self.initial_state)
            self._cached = (streams, bulk)
        return self._symbols[within], self._states[within]


def easy_share(ease: int | None, progress: Progress, control: Control | None) -> float:
    """The share of inputs whose new steps are made easy: 1 when a stage is entered, then less and less."""
    again = control is not None and control.frontier != progress.stage  # a stage that has passed already
    if ease is None or progress.stage == 1 or again:
        return 0.0
    attempt = 1 if control is None else control.attempt
    return max(0.0, 1.0 - progress.in_stage / (ease * attempt))


def keeping_symbols(task: Semiautomaton) -> Tensor:
    """(states,) a symbol by which each state stays as it is, the same one for all if there is such a symbol; -1
    for a state that every symbol moves."""
    keeps = task.table == torch.arange(task.states, device=task.table.device)[:, None]
    if keeps.all(0).any():
        keeps = keeps & keeps.all(0)
    return torch.where(keeps.any(1), keeps.int().argmax(1), -1)


def easy_symbols(curriculum: Curriculum, stage: int) -> list[int]:
    """Which symbols a stage makes easy, counted from 0: one beside each state that it has just taken away.

    The symbol after the hidden state, since then the next state shown is the one that the model could say
    already. The symbol before it where this is what keeps an old step: if a single state goes, the one before
    it is still shown and the one after it is not. So it is in `right`, whose last step grows at its beginning.
    """
    shown, last = set(curriculum.shown(stage)), curriculum.horizon
    taken = sorted(set(curriculum.shown(stage - 1)) - {*shown, last})  # no step leads out of the last state

    def before_it(hidden: int) -> bool:
        return len(taken) == 1 and hidden + 1 not in shown and (hidden == 1 or hidden - 1 in shown)

    return [hidden - 1 if before_it(hidden) else hidden for hidden in taken]


class EasySteps:
    """Makes the steps beside states that a stage has just taken away easy in some inputs, and then in fewer.

    An easy step is one whose symbol keeps the state. So a stage begins with what is known, and the new step can
    be learned without first unlearning the old ones (docs/lab-notes.md).
    """

    def __init__(
        self, task: Semiautomaton, curriculum: Curriculum, initial_state: int, split: Split | None
    ) -> None:
        self.task = task
        self.curriculum = curriculum
        self.initial_state = initial_state
        self.split = split
        self._keeping = keeping_symbols(task)

    def __call__(
        self, symbols: Tensor, states: Tensor, stage: int, share: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """(batch, T) symbols and (batch, T+1) states of a stage with about this share of the inputs made easy.
        An input that would become a held-out one stays as it is."""
        easy = torch.rand(len(symbols), generator=generator, device=generator.device) < share
        eased, traced = symbols, states
        for place in easy_symbols(self.curriculum, stage):
            symbol = self._keeping[traced[:, place]]
            eased = eased.clone()
            eased[:, place] = torch.where(easy & (symbol >= 0), symbol, eased[:, place])
            traced = self.task.trace(eased, self.initial_state)
        if self.split is not None:
            kept_out = self.split.held_out(eased)[:, None]
            eased, traced = torch.where(kept_out, symbols, eased), torch.where(kept_out, states, traced)
        return eased, traced


def draw_format(formats: Sequence[Shown], shares: Mapping[Shown, float], generator: torch.Generator) -> Shown:
    """The states that a whole batch shows: one of the formats, as often as its share says."""
    if len(set(shares.values())) == 1:  # by whole numbers, as runs were always drawn that say nothing of shares
        return formats[int(torch.randint(len(formats), (), generator=generator, device=generator.device))]
    weights = torch.tensor([shares[shown] for shown in formats], device=generator.device)
    return formats[int(torch.multinomial(weights, 1, generator=generator))]
