"""The parity kind: the paper's algorithm, phase by phase, and all that changes on its way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from internalize.contract import Json, Row, Stage
from internalize.errors import require, require_count
from internalize.kinds.parity.config import ParityConfig
from internalize.kinds.parity.descent import Descent, PhaseBatch, descend, phase_batch
from internalize.kinds.parity.evaluation import (
    WANDERING,
    LayerPredictor,
    judge,
    train_directly,
    worth_contrasting,
)
from internalize.kinds.parity.watch import as_json, no_extremes, phase_report, update_extremes
from internalize.models.linear_attention import initial_weights
from internalize.runtime.kind import Finish, Streams
from internalize.tasks.parity import HiddenParity, random_parity

# The state -----------------------------------------------------------------------------------------------


@dataclass
class ParityState:
    """Changed in place by every step."""

    W: Tensor
    """(D, D) float64: the weights now."""
    W_start: Tensor
    """(D, D): the weights at the beginning of the phase."""
    W_chain: Tensor
    """(D, D): W^(1), which writes the chain; as at the beginning until phase 1 has ended."""
    extremes: Tensor
    """(rows, quantities): the watch's running extremes of this phase, see `watch.Extremes`."""
    phase: int = 1
    step: int = 0
    """Steps done in this phase."""
    phase_ended: bool = False
    stalled: bool = False
    """Whether a phase used up its steps without reaching the threshold."""
    loss: float = 0.0
    cell_changes: int = 0
    """How often an example's target changed in this phase."""
    steps_of_phases: list[int] = field(default_factory=list)
    """Steps that each finished phase took."""

    @property
    def total_steps(self) -> int:
        running = 0 if self.phase_ended else self.step
        return sum(self.steps_of_phases) + running

    def begin_phase(self) -> None:
        """Enter the phase after the one that has ended."""
        self.phase += 1
        self.step, self.cell_changes, self.phase_ended = 0, 0, False
        self.W_start = self.W.clone()
        self.extremes = no_extremes(1)

    def tensors(self) -> dict[str, Tensor]:
        return {"W": self.W, "W_start": self.W_start, "W_chain": self.W_chain, "extremes": self.extremes}

    def scalars(self) -> dict[str, Json]:
        return {
            "phase": self.phase,
            "step": self.step,
            "phase_ended": self.phase_ended,
            "stalled": self.stalled,
            "loss": self.loss,
            "cell_changes": self.cell_changes,
            "steps_of_phases": list(self.steps_of_phases),
        }


def new_state(W: Tensor, rows: int) -> ParityState:
    return ParityState(W, W.clone(), W.clone(), no_extremes(rows))


def restored_state(tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> ParityState:
    own: dict[str, Any] = {name: tensor.clone() for name, tensor in tensors.items()}
    return ParityState(**own, **scalars)


def require_sense(state: ParityState, config: ParityConfig) -> None:
    """Refuse, by the entry's name, what this experiment's state never is."""
    shape = initial_weights(config.d, config.k, config.zero_init).shape
    watched = [tuple(no_extremes(rows).shape) for rows in (1, config.k)]
    for name, tensor in state.tensors().items():
        good = tuple(tensor.shape) in (watched if name == "extremes" else [tuple(shape)])
        require(good, name, f"has the shape {tuple(tensor.shape)}")
        require(tensor.dtype == torch.float64, name, f"must be float64, got {tensor.dtype}")
    for name in ("phase_ended", "stalled"):
        require(isinstance(getattr(state, name), bool), name, "must be true or false")
    require_count("phase", state.phase, least=1, most=config.k)
    require_count("step", state.step, most=config.most_steps - (not state.phase_ended))
    require_count("cell_changes", state.cell_changes)
    good = isinstance(state.loss, float) and math.isfinite(state.loss)
    require(good, "loss", f"must be a finite number, got {str(state.loss)[:60]}")
    phases = state.steps_of_phases if isinstance(state.steps_of_phases, list) else [state.steps_of_phases]
    for steps in phases:
        require_count("steps_of_phases", steps, most=config.most_steps)
    ended = state.phase - (not state.phase_ended)
    require(len(phases) == ended, "steps_of_phases", f"has {len(phases)} phases, {ended} have ended")


# The experiment ------------------------------------------------------------------------------------------

WATCHED_STEPS = 1_000
"""Steps of one call where every step is watched, and kept for that; and of one call where none is."""
UNWATCHED_STEPS = 10_000


class ParityExperiment:
    """Built from its config; all that changes is in the state."""

    def __init__(self, config: ParityConfig) -> None:
        self.config = config
        self.watches = config.watch and config.rounds
        # the last batch made: a cache and nothing more
        self._batch: tuple[Streams, int, PhaseBatch] | None = None

    def parity(self, streams: Streams) -> HiddenParity:
        """The hidden parity; consumes streams("support") unless the config names it."""
        config = self.config
        if config.support is not None:
            return HiddenParity(config.d, config.support)
        return random_parity(config.d, config.k, streams.on_processor("support"))

    def batch(self, phase: int, streams: Streams) -> PhaseBatch:
        """The phase's examples; consumes streams("batch", phase)."""
        streams = streams.on_processor
        if self._batch is None or self._batch[:2] != (streams, phase):
            made = phase_batch(self.parity(streams), phase, self.config.examples, streams("batch", phase))
            self._batch = (streams, phase, made)
        return self._batch[2]

    # The state -------------------------------------------------------------------------------------------

    def init(self, streams: Streams) -> ParityState:
        config = self.config
        # the lemma on the chain's rows begins from z_{l-1}: with W = 0 there is nothing to watch but row d
        watched_rows = 1 if config.zero_init else config.k
        return new_state(initial_weights(config.d, config.k, config.zero_init), watched_rows)

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> ParityState:
        state = restored_state(tensors, scalars)
        require_sense(state, self.config)
        return state

    # A step ----------------------------------------------------------------------------------------------

    def advance(self, state: ParityState, streams: Streams) -> tuple[ParityState, Row | None]:
        """Part of a phase: 1,000 steps if they are watched, 10,000 if not. At its end, round."""
        config = self.config
        if state.phase_ended:
            state.begin_phase()
        batch = self.batch(state.phase, streams)
        trained = slice(config.d - 1, config.d - 1 + batch.rows), slice(0, len(batch.contents))
        steps = min(config.most_steps - state.step, WATCHED_STEPS if self.watches else UNWATCHED_STEPS)
        threshold = 0.0 if config.rounds else config.threshold
        descent = descend(batch, state.W[trained].numpy(), steps, config.eta, threshold, self.watches)
        if self.watches:
            start = state.W_start[trained]
            before = state.step
            update_extremes(
                state.extremes, batch, descent, start, self.parity(streams), state.phase, before, config.eta
            )
        state.W[trained] = torch.from_numpy(descent.weights)
        self._count(state, descent)
        row: Row = {"event": "train", "phase": state.phase, "step": state.total_steps, "loss": state.loss}
        return state, row

    def _count(self, state: ParityState, descent: Descent) -> None:
        """Take note of what the steps did; at the phase's end, round and keep W^(1)."""
        config = self.config
        state.step += descent.steps
        state.loss = descent.loss
        state.cell_changes += descent.cell_changes
        state.phase_ended = descent.below or state.step >= config.most_steps or not np.isfinite(descent.loss)
        if not state.phase_ended:
            return
        state.stalled = not config.rounds and not descent.below
        state.steps_of_phases.append(state.step)
        if config.rounds:
            state.W = torch.round(state.W)
        if state.phase == 1:
            state.W_chain = state.W.clone()

    # For the loop ----------------------------------------------------------------------------------------

    def stage(self, state: ParityState) -> Stage:
        label = "the whole chain" if state.phase == 1 else f"z_{state.phase} at once"
        return Stage(
            index=state.phase,
            total=self.config.k,
            label=label,
            just_ended=state.phase_ended,
            step=state.total_steps,
            steps=self.config.k * self.config.most_steps,
            unit="steps",
        )

    def done(self, state: ParityState) -> bool:
        return state.phase_ended and (state.phase == self.config.k or state.stalled)

    def evaluation_due(self, state: ParityState) -> bool:
        return state.phase_ended

    def evaluate(self, state: ParityState, streams: Streams) -> Row:
        """The phase that has ended: its steps, what row d attends to, and the watch."""
        parity = self.parity(streams)
        row_d = state.W[parity.d - 1, : parity.d]
        row: Row = {
            "event": "evaluation",
            "phase": state.phase,
            "step": state.total_steps,
            "phase_steps": state.step,
            "loss": state.loss,
            "cell_changes": state.cell_changes,
            "prefix_recovered": bool(torch.equal((row_d.abs() > 0.5).double(), parity.indicator(state.phase))),
        }
        if self.watches:
            batch = self.batch(state.phase, streams)
            report = phase_report(
                self.config, parity, state.phase, batch, state.extremes, state.cell_changes, row_d
            )
            row["watch"] = as_json(report)
        return row

    def snapshot(self, state: ParityState) -> dict[str, Tensor]:
        return {"W": state.W}

    def finish(self, state: ParityState, streams: Streams) -> Finish:
        """Consumes streams("verdict") where inputs are sampled, and what the contrast needs."""
        streams = streams.on_processor
        config, parity = self.config, self.parity(streams)
        verdict = judge(parity, state.W, state.W_chain, streams("verdict"), config.check_inputs)
        summary: Row = {
            "support": list(parity.support),
            "support_recovered": verdict.support_recovered,
            "exact": verdict.exact,
            "inputs_checked": verdict.inputs_checked,
            "exhaustive": verdict.exhaustive,
            "proved_by_weights": verdict.direct_by_weights,
            "largest_deviation": verdict.direct_deviation,
            "error_bound": verdict.error_bound,
            "chain_exact": verdict.chain_exact,
            "internalized": verdict.internalized,
            "clauses": {clause.name: clause.holds for clause in verdict.internalization.clauses},
            "phases": len(state.steps_of_phases),
            "stalled": state.stalled,
            "steps": state.total_steps,
            "batch": config.examples,
            "step_size": config.eta,
        }
        if config.contrast and worth_contrasting(config):
            direct = train_directly(config, parity, state.total_steps // config.k, streams)
            summary["direct_training_accuracy"] = direct.accuracy
            summary["direct_training_exact"] = direct.exact
            summary["direct_training_step_size"] = direct.step_size
            if config.wandering:
                wild = train_directly(config, parity, state.total_steps // config.k, streams, WANDERING)
                summary["wandering_training_exact"] = wild.exact
        return Finish(summary, {"W": state.W, "W_chain": state.W_chain})

    def predictor(self, state: ParityState, budget: int | None) -> LayerPredictor:
        """budget: bits it writes. None or 1 is the direct answer; k with W^(1) is the full chain."""
        chain = budget is not None and budget > 1
        return LayerPredictor(state.W_chain if chain else state.W, self.config.d, budget or 1)
