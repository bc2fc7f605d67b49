"""The state of a parity experiment: W, what it was, and where the training stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from internalize.contract import Json
from internalize.kinds.parity.watch import no_extremes


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
