"""Fresh training sequences, made in bulk."""

from __future__ import annotations

from torch import Tensor

from internalize.runtime.streams import Streams
from internalize.tasks import InputDistribution, Semiautomaton

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
