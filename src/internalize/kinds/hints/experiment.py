"""The hints kind: circuit, network and SGD joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from internalize.configs.named import Copies
from internalize.contract import Row, Stage
from internalize.kinds.hints.config import HintsConfig
from internalize.kinds.hints.data import HintedData
from internalize.kinds.hints.evaluation import evaluation_row, summary_row
from internalize.kinds.hints.predictor import HintsPredictor
from internalize.kinds.hints.state import HintsState
from internalize.models.mlp import MLP, SGD, MLPShape, mlp_from, new_mlp
from internalize.runtime.experiment import Finish
from internalize.runtime.streams import Streams

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
        model, first = (mlp_from(part, self.device) for part in parts.values())
        state = self._assemble(model, first, tensors["loss_sum"].clone().to(self.device))
        state.losses, state.step = scalars["losses"], scalars["step"]
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
