"""Next-token log loss at the answer, its gradient, and how often the most likely token is right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_bias_and_normalise(logits: Any, bias: Any, normaliser: Any, best: Any) -> None:
    """Add the bias; write each row's log of the summed exponentials, and its most likely token."""
    rows, vocabulary = logits.shape
    for r in range(rows):
        best[r] = 0
        for v in range(vocabulary):
            logits[r, v] += bias[v]
            if logits[r, v] > logits[r, best[r]]:
                best[r] = v
        peak = logits[r, best[r]]
        total = np.float32(0.0)
        for v in range(vocabulary):
            total += math.exp(logits[r, v] - peak)
        normaliser[r] = peak + math.log(total)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def answer_loss(
    logits: Any,  # (rows, vocabulary) in: without bias; out: the gradient of weight · summed loss
    bias: Any,  # (vocabulary,)
    tokens: Any,  # (batch, length)
    row: Any,  # (batch, positions) the row that predicts the next token, from `start` on
    start: int,
    weight: float,
    loss: Any,  # (answer,) float64, the losses are added to it
    correct: Any,  # (answer,) float64, likewise
    bias_back: Any,  # (vocabulary,) likewise
) -> None:
    """Rows may serve several sequences, whose next tokens may differ."""
    rows, vocabulary = logits.shape
    batch, positions = row.shape
    normaliser = np.empty(rows, np.float32)
    best = np.empty(rows, np.int32)
    uses = np.zeros(rows, np.float32)
    add_bias_and_normalise(logits, bias, normaliser, best)
    for b in range(batch):
        for i in range(start, positions):
            r, target = row[b, i], tokens[b, i + 1]
            uses[r] += np.float32(1.0)
            loss[i - start] += normaliser[r] - logits[r, target]
            if best[r] == target:
                correct[i - start] += 1.0
    share = np.float32(weight)
    for r in range(rows):
        for v in range(vocabulary):
            logits[r, v] = share * uses[r] * math.exp(logits[r, v] - normaliser[r])
    for b in range(batch):
        for i in range(start, positions):
            logits[row[b, i], tokens[b, i + 1]] -= share
    for r in range(rows):
        for v in range(vocabulary):
            bias_back[v] += logits[r, v]
