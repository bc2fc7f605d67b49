"""The hints kind: circuit, network and SGD joined; its state, and its fresh examples, made in bulk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from internalize.configs.named import Copies
from internalize.contract import Json, Row, Stage
from internalize.curricula.schedule import EqualShares
from internalize.errors import require_count
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.evaluation import HintsPredictor, evaluation_row, summary_row
from internalize.models.mlp import MLP, SGD, MLPShape, mlp_from, new_mlp, require_layers
from internalize.runtime.kind import Finish, Streams
from internalize.tasks.hints import HintedTask, numbers, written

# The state -----------------------------------------------------------------------------------------------


@dataclass
class HintsState:
    """Changed in place by every step."""

    model: MLP
    """g."""
    first: MLP
    """g at the end of the first stage; as at the beginning until then."""
    sgd: SGD
    loss_sum: Tensor
    """Losses since the last row, a scalar tensor."""
    losses: int = 0
    """How many they are."""
    step: int = 0
    """Steps done."""

    def tensors(self) -> dict[str, Tensor]:
        named = {f"model.{name}": tensor for name, tensor in self.model.tensors().items()}
        named |= {f"first.{name}": tensor for name, tensor in self.first.tensors().items()}
        return {**named, "loss_sum": self.loss_sum}

    def scalars(self) -> dict[str, Json]:
        return {"losses": self.losses, "step": self.step}


# The examples --------------------------------------------------------------------------------------------

BULK = 256
"""Steps drawn at once, so that drawing costs little beside training."""


class HintedData:
    """Inputs and labels of a step: a function of the streams and the step alone.

    The last bulk drawn is kept, as a cache and nothing more.
    """

    def __init__(self, config: HintsConfig, task: HintedTask, device: torch.device) -> None:
        self.config = config
        self.task = task
        self.device = device
        self._cached: tuple[Streams, int] | None = None
        self._inputs: list[Tensor]
        self._labels: list[Tensor]

    @property
    def stages(self) -> int:
        return self.task.hints + 1 if self.config.method == "curriculum" else 1

    def stage_of(self, step: int) -> int:
        """The stage, from 1, that this step, from 0, belongs to."""
        return self._shares.stage_of(step)

    def stage_end(self, stage: int) -> int:
        """Steps done when the stage ends."""
        return self._shares.end(stage)

    @property
    def _shares(self) -> EqualShares:
        return EqualShares(self.config.all_steps, self.stages)

    def removed(self, bulk: int, streams: Streams) -> Tensor:
        """(BULK,) r of every step of the bulk; a mixture consumes streams("stage", bulk)."""
        hints = self.task.hints
        if self.config.method == "direct":
            return torch.full((BULK,), hints)
        if self.config.method == "mixture":
            generator = streams("stage", bulk)
            return torch.randint(hints + 1, (BULK,), generator=generator, device=generator.device).cpu()
        return torch.tensor([self.stage_of(bulk * BULK + i) - 1 for i in range(BULK)])

    def __call__(self, step: int, streams: Streams) -> tuple[Tensor, Tensor]:
        """(batch, d + H) inputs and (batch,) noisy labels of the step; consumes streams("data", bulk)."""
        bulk, within = divmod(step, BULK)
        if self._cached != (streams, bulk):
            bits = self.task.sample(self.removed(bulk, streams), self.config.batch, streams("data", bulk))
            inputs, labels = numbers(bits, self.config.form), written(bits.noisy_label, self.config.form)
            self._inputs = list(inputs.to(self.device).split(self.config.batch))
            self._labels = list(labels.to(self.device).split(self.config.batch))
            self._cached = (streams, bulk)
        return self._inputs[within], self._labels[within]


# The experiment ------------------------------------------------------------------------------------------

CALL = 64
"""Steps of one call: about a second where layers are 2,048 wide, and short enough where they are not."""


class HintsExperiment:
    """Built from its config; all that changes is in the state."""

    def __init__(self, config: HintsConfig, device: torch.device, copies: Copies) -> None:
        self.config = config
        self.device = device
        self.task = config.task(copies)
        self.data = HintedData(config, self.task, device)

    @property
    def shape(self) -> MLPShape:
        inputs = self.task.circuit.inputs + self.task.hints
        return MLPShape(inputs, self.config.depth, self.config.hidden_width)

    # The state -------------------------------------------------------------------------------------------

    def init(self, streams: Streams) -> HintsState:
        """Consumes streams("init")."""
        model = new_mlp(self.shape, streams("init"))
        return self._assemble(model, model.clone(), torch.zeros((), device=self.device))

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> HintsState:
        parts = {
            part: {name.removeprefix(part): t for name, t in tensors.items() if name.startswith(part)}
            for part in ("model.", "first.")
        }
        for part in parts.values():
            require_layers(self.shape, part)
        model, first = (mlp_from(part, self.device) for part in parts.values())
        state = self._assemble(model, first, tensors["loss_sum"].clone().to(self.device))
        state.losses, state.step = scalars["losses"], scalars["step"]
        require_count("step", state.step, most=self.config.all_steps)
        require_count("losses", state.losses, most=state.step)
        return state

    def _assemble(self, model: MLP, first: MLP, loss_sum: Tensor) -> HintsState:
        sgd = SGD(model, self.config.batch, self.config.learning_rate, self.config.precision)
        return HintsState(model, first, sgd, loss_sum)

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: HintsState, streams: Streams) -> tuple[HintsState, Row | None]:
        """Up to the next of: 64 steps, a stage's end, a row, a measurement."""
        config, step = self.config, state.step
        marks = (CALL, config.log_every, config.evaluation_interval)
        stop = min(
            self.data.stage_end(self.data.stage_of(step)), *((step // mark + 1) * mark for mark in marks)
        )
        for now in range(step, stop):
            state.loss_sum += state.sgd(*self.data(now, streams))
        state.losses += stop - step
        state.step = stop
        if stop == self.data.stage_end(1):
            state.first = state.model.clone()
        due = stop % config.log_every == 0 or self.stage(state).just_ended
        return state, self._training_row(state) if due else None

    def _training_row(self, state: HintsState) -> Row:
        row: Row = {
            "event": "train",
            "step": state.step,
            "samples": state.step * self.config.batch,
            "stage": self.stage(state).index,
            "loss": float(state.loss_sum) / state.losses,
        }
        state.loss_sum, state.losses = torch.zeros_like(state.loss_sum), 0
        return row

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: HintsState) -> Stage:
        index = self.data.stage_of(max(0, state.step - 1))
        return Stage(
            index=index,
            total=self.data.stages,
            label=self._label(index),
            just_ended=state.step == self.data.stage_end(index),
            step=state.step,
            steps=self.config.all_steps,
            unit="steps",
        )

    def _label(self, stage: int) -> str:
        hints, method = self.task.hints, self.config.method
        if method == "mixture":
            return f"0 … {hints} hints, mixed"
        shown = hints - stage + 1 if method == "curriculum" else 0
        return f"{shown} of {hints} hints" if shown else "no hints"

    def done(self, state: HintsState) -> bool:
        return state.step >= self.config.all_steps

    def evaluation_due(self, state: HintsState) -> bool:
        return state.step % self.config.evaluation_interval == 0 or self.stage(state).just_ended

    def evaluate(self, state: HintsState, streams: Streams) -> Row:
        row: Row = {
            "event": "evaluation",
            "step": state.step,
            "samples": state.step * self.config.batch,
            "stage": self.stage(state).index,
        }
        return row | evaluation_row(self, state, streams, self.config.evaluation.samples)

    def snapshot(self, state: HintsState) -> dict[str, Tensor]:
        return state.model.tensors()

    def finish(self, state: HintsState, streams: Streams) -> Finish:
        return Finish(summary_row(self, state, streams), state.model.tensors())

    def predictor(self, state: HintsState, budget: int | None) -> HintsPredictor:
        """budget: hints it is given. None or 0 is the subnetwork h; any other, all of them."""
        return self.load_predictor(state.model.tensors(), budget)

    def load_predictor(self, weights: Mapping[str, Tensor], budget: int | None) -> HintsPredictor:
        """A predictor from saved weights, as of a stage's end."""
        model = mlp_from(weights, self.device)
        return HintsPredictor(model, self.task.circuit, self.config.form, hinted=bool(budget))
