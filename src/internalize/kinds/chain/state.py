"""The state of a chain experiment: model, optimizer, progress, and running averages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from internalize.contract import Row
from internalize.curricula import Curriculum, Progress, ScheduleConfig, Shown
from internalize.curricula.controller import Control
from internalize.errors import require, require_count
from internalize.kinds.chain.data import easy_symbols
from internalize.measure.ledger import Ledger
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel
from internalize.models.parameters import AdamW, Muon, flatten_parameters
from internalize.models.path import AnswerStats, Kernel, Step

if TYPE_CHECKING:
    from internalize.kinds.chain.config import ChainConfig, OptimizerConfig

REHEARSAL_MEMORY = 20
"""Steps in another format that their running loss averages over: few, since forgetting is quick."""


def make_optimizer(choice: OptimizerConfig, model: LanguageModel) -> AdamW:
    """An optimizer of the model, whose parameters and gradients are flat from now on."""
    parameters, gradient = flatten_parameters(model)
    numbers = choice.lr, choice.betas, choice.weight_decay
    if not choice.muon:
        return AdamW(parameters, gradient, *numbers)
    assert isinstance(model, GPT2)  # the config's check
    return Muon(parameters, gradient, *numbers, model.matrices())


class AnswerAverages:
    """Loss and accuracy at each answer position: a window since the last row, and a running average.

    Only answers in the stage's own format count here: the same position of another format is another state.
    """

    def __init__(self, positions: int, device: torch.device, rehearsal: bool = False) -> None:
        """positions: the most an answer can have, T+1. rehearsal: whether other formats come in between."""
        # steps in other formats: summed loss and number since the last row; running worst loss and number
        self.rehearsed = torch.zeros(4, device=device) if rehearsal else None
        self.window = torch.zeros(2, positions, device=device)
        self.counts = torch.zeros(positions, device=device)
        self.running = torch.zeros(2, positions, device=device)
        self.running_counts = torch.zeros(positions, device=device)
        self.newest: list[float] = []
        """The loss at each position in the newest row; shown to people, and no part of what is saved."""

    def add(self, stats: AnswerStats, memory: int) -> None:
        """memory: iterations that the running average reaches back."""
        answer = stats.loss.shape[0]
        new = torch.stack([stats.loss, stats.correct])
        self.window[:, :answer] += new
        self.counts[:answer] += 1
        # early on, the plain mean; later an exponential one
        self.running_counts[:answer] += 1
        share = 1.0 / self.running_counts[:answer].clamp(max=memory)
        self.running[:, :answer] += (new - self.running[:, :answer]) * share

    def add_rehearsed(self, stats: AnswerStats) -> None:
        """A step in the format of another stage."""
        assert self.rehearsed is not None
        one = torch.ones_like(stats.loss[0])
        self.rehearsed += torch.stack([stats.loss.mean(), one, 0 * one, one])
        share = 1.0 / self.rehearsed[3].clamp(max=REHEARSAL_MEMORY)
        self.rehearsed[2] += (stats.loss.max() - self.rehearsed[2]) * share

    def rehearsed_worst(self) -> float | None:
        """The running loss at the worst position of what is rehearsed; None where nothing was at this stage."""
        if self.rehearsed is None or not bool(self.rehearsed[3]):
            return None
        return float(self.rehearsed[2])

    def read_window(self) -> dict[str, float]:
        """Means since the last call: over all positions, and the worst position's loss. Empties the window."""
        rehearsed = self._read_rehearsed()
        if not bool(self.counts.any()):  # every step since the last row was of another stage
            return self._read_running() | rehearsed
        seen = self.counts > 0
        per_position = self.window[:, seen] / self.counts[seen]
        mean = self.window[:, seen].sum(1) / self.counts[seen].sum()
        numbers = torch.stack([mean[0], mean[1], per_position[0].max()])
        loss, accuracy, worst, *self.newest = torch.cat([numbers, per_position[0]]).tolist()
        self.window.zero_()
        self.counts.zero_()
        return {"loss": loss, "token_accuracy": accuracy, "worst_loss": worst} | rehearsed

    def _read_rehearsed(self) -> dict[str, float]:
        if self.rehearsed is None or not bool(self.rehearsed[1]):
            return {}
        loss = float(self.rehearsed[0] / self.rehearsed[1])
        self.rehearsed[:2].zero_()
        return {"rehearsed_loss": loss}

    def _read_running(self) -> dict[str, float]:
        seen = self.running_counts > 0
        if not bool(seen.any()):
            return {}
        loss, accuracy = self.running[:, seen]
        return {
            "loss": float(loss.mean()),
            "token_accuracy": float(accuracy.mean()),
            "worst_loss": float(loss.max()),
        }

    def signal(self, schedule: ScheduleConfig) -> float | None:
        """The running loss or accuracy, at the worst position or averaged over all, as the schedule wants.

        None where every step of the stage so far was a rehearsal.
        """
        if self.rehearsed is not None and not bool(self.running_counts.any()):
            return None
        row = self.running[0 if schedule.signal == "loss" else 1, self.running_counts > 0]
        if schedule.judge == "mean":
            return float(row.mean())
        return float(row.max() if schedule.signal == "loss" else row.min())

    def begin_stage(self) -> None:
        self.running.zero_()
        self.running_counts.zero_()
        if self.rehearsed is not None:
            self.rehearsed[2:].zero_()

    def tensors(self) -> dict[str, Tensor]:
        rehearsed = {} if self.rehearsed is None else {"rehearsed": self.rehearsed}
        return {
            "window": self.window,
            "counts": self.counts,
            "running": self.running,
            "running_counts": self.running_counts,
            **rehearsed,
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name in ("counts", "running_counts"):
            require(bool((tensors[name] >= 0).all()), f"averages.{name}", "has negative entries")
        for name, own in self.tensors().items():
            own.copy_(tensors[name])


class GoodStage:
    """Weights and optimizer at the end of the last stage that passed: what a lost attempt goes back to."""

    def __init__(self, optimizer: AdamW) -> None:
        own = {"parameters": optimizer.parameters, **optimizer.tensors()}
        self.kept = {name: tensor.detach().clone() for name, tensor in own.items()}
        self.optimizer_scalars = optimizer.scalars()

    def keep(self, optimizer: AdamW) -> None:
        for name, tensor in {"parameters": optimizer.parameters, **optimizer.tensors()}.items():
            self.kept[name].copy_(tensor.detach())
        self.optimizer_scalars = optimizer.scalars()

    @torch.no_grad()
    def take_back(self, optimizer: AdamW) -> None:
        optimizer.parameters.copy_(self.kept["parameters"])
        moments = {name: tensor for name, tensor in self.kept.items() if name != "parameters"}
        optimizer.load(moments, self.optimizer_scalars)

    def load(self, tensors: Mapping[str, Tensor], scalars: dict[str, int]) -> None:
        require_count("good.step", scalars["step"])
        require(bool((tensors["exp_avg_sq"] >= 0).all()), "good.exp_avg_sq", "has negative entries")
        for name, tensor in self.kept.items():
            tensor.copy_(tensors[name])
        self.optimizer_scalars = scalars


class ChainState:
    """Changed in place by every step."""

    def __init__(
        self,
        model: LanguageModel,
        optimizer: AdamW,
        step: Step,
        averages: AnswerAverages,
        progress: Progress,
        kernel: Kernel,
        ledger: Ledger | None,
        control: Control | None = None,
        positions: KeptPositions | None = None,
    ) -> None:
        """ledger: None where the training was begun before its cost was counted. control: the controller's.

        positions: where states keep theirs, the table, in the order for the present stage between two steps.
        """
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.averages = averages
        self.progress = progress
        self.kernel = kernel
        self.ledger = ledger
        self.control = control
        self.good = None if control is None else GoodStage(optimizer)
        self.positions = positions

    def named_losses(self, curriculum: Curriculum) -> tuple[tuple[str, float], ...]:
        """Each position of the newest row by the state that stands there; in mixtures by its number."""
        newest = self.averages.newest
        if not newest:
            return ()
        shown = curriculum.shown(self.progress.stage)
        own = len(newest) == len(shown) + 1 and not curriculum.tells_length
        names = [*(f"q{t}" for t in shown), "EOS"] if own else [str(i + 1) for i in range(len(newest))]
        return tuple(zip(names, newest, strict=True))

    def story(self) -> Row:
        """What the training has cost so far; which attempt this is, and whether it was the last step of one."""
        row: Row = {} if self.ledger is None else {"operations": self.ledger.operations}
        if self.control is not None:
            row["attempt"] = self.control.attempt
            if self.control.lost:
                row["lost"] = True
        return row

    @contextmanager
    def positions_for(self, curriculum: Curriculum, shown: Shown) -> Iterator[None]:
        """While a step in the format of another stage is computed, that stage's order of positions."""
        own = self.progress.stage
        if self.positions is None or shown == curriculum.shown(own):
            yield
            return
        stages = [stage for stage in (own, own - 1, own + 1) if 1 <= stage <= curriculum.stages]
        other = next(stage for stage in stages if curriculum.shown(stage) == shown)
        self.positions.move_weights(own, other)
        yield
        self.positions.move_weights_back(own, other)

    def weights(self) -> dict[str, Tensor]:
        return self.model.weights()

    def tensors(self) -> dict[str, Tensor]:
        parts = {
            "model": self.weights(),
            "optimizer": self.optimizer.tensors(),
            "averages": self.averages.tensors(),
            "good": {} if self.good is None else self.good.kept,
        }
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def scalars(self) -> dict[str, Any]:
        saved: dict[str, Any] = {
            "progress": asdict(self.progress),
            "optimizer": self.optimizer.scalars(),
            "kernel": self.kernel,
            "cost": None if self.ledger is None else self.ledger.to_json(),
        }
        if self.control is not None and self.good is not None:
            saved |= {"control": asdict(self.control), "good": self.good.optimizer_scalars}
        return saved


def saved_kernel(name: Any, config: ChainConfig, device: torch.device) -> Kernel:
    """The kernel that a run began with and keeps, held to what its config allows. The processor alone has a
    fast one: a run that goes on elsewhere takes the plain one."""
    allowed = get_args(Kernel) if config.kernel == "auto" else (config.kernel,)
    require(name in allowed, "kernel", f"must be {' or '.join(allowed)}, got {str(name)[:60]!r}")
    kernel: Kernel = name if name != "fast" or device.type == "cpu" else "plain"
    return kernel


def direct_row(curriculum: Curriculum, stage: int) -> int:
    """The row that predicts the first state shown: another one whenever that state is another one."""
    first = [curriculum.shown(s)[0] for s in range(1, stage + 1)]
    changes = sum(a != b for a, b in pairwise(first))
    return curriculum.horizon + 1 if changes % 2 else 0


def row_order(curriculum: Curriculum, stage: int) -> list[int]:
    """Which row stands at each place of a stage's answer: those it needs, then all others."""
    later = [t - 1 for t in curriculum.shown(stage)[1:]]
    needed = [direct_row(curriculum, stage), *later, curriculum.horizon]
    return [*needed, *(row for row in range(curriculum.horizon + 2) if row not in set(needed))]


def moves(curriculum: Curriculum, before: int, after: int) -> list[int]:
    """Where each place of one stage's order finds its row in the order of the stage before."""
    place = {row: at for at, row in enumerate(row_order(curriculum, before))}
    return [place[row] for row in row_order(curriculum, after)]


class KeptPositions:
    """The position table of a model in training, and everything that belongs to its rows."""

    def __init__(
        self, model: GPT2, optimizer: AdamW, first: int, curriculum: Curriculum, eased: bool = False
    ) -> None:
        """first: the position that predicts the first state of an answer. eased: see `EasySteps`."""
        table = model.transformer.wpe.weight
        assert table.shape[0] - first == curriculum.horizon + 2
        self.first = first
        self.curriculum = curriculum
        start = table.storage_offset()
        self._slice = slice(start, start + table.numel())
        self._shape = table.shape
        self._optimizer = optimizer
        self._eased = eased
        self._moves: dict[tuple[int, int], Tensor] = {}

    def begin_stage(self, before: int, stage: int) -> None:
        """From a stage to the next one: weights and the optimizer's memory of them, and a new direct row."""
        tensors = [self._optimizer.parameters, *self._optimizer.tensors().values()]
        self._move(tensors, before, stage)
        if direct_row(self.curriculum, before) != direct_row(self.curriculum, stage):
            self._begin_direct_row(before, stage)

    @torch.no_grad()
    def _begin_direct_row(self, before: int, stage: int) -> None:
        order = row_order(self.curriculum, stage)
        rows = self._rows(self._optimizer.parameters)
        place = {row: rows[at] for at, row in enumerate(order)}
        last = place[direct_row(self.curriculum, before)]
        aloud = place[self.curriculum.shown(stage)[0] - 1]
        mean = torch.stack([place[row] for row in range(self.curriculum.horizon)]).mean(0)
        if not self._eased:
            rows[0] = last + aloud - mean
        elif easy_symbols(self.curriculum, stage) == [0]:
            rows[0] = aloud  # q_1 is hidden and as q_0: the state shown first is reached as it was from q_1
        else:
            rows[0] = last  # the new step begins as one that changes nothing: what the last row says is right

    def move_weights(self, stage: int, shown: int) -> None:
        """For one step in the format of another stage."""
        self._move([self._optimizer.parameters], stage, shown)

    def move_weights_back(self, stage: int, shown: int) -> None:
        """After that step: the weights, and the gradient that it gave."""
        self._move([self._optimizer.parameters, self._optimizer.gradient], shown, stage)

    def _rows(self, tensor: Tensor) -> Tensor:
        return tensor[self._slice].view(self._shape)[self.first :]

    @torch.no_grad()
    def _move(self, tensors: list[Tensor], before: int, after: int) -> None:
        if before == after:
            return
        if (before, after) not in self._moves:
            found = moves(self.curriculum, before, after)
            self._moves[before, after] = torch.tensor(found, device=tensors[0].device)
        order = self._moves[before, after]
        for tensor in tensors:
            rows = self._rows(tensor)
            rows.copy_(rows.index_select(0, order))
