"""The examples of a phase, and full-batch gradient descent on rows of the layer, exact and lazy.

Let s = ⟨w, a⟩ for an example with contents a, and τ the integer of the right parity z that is nearest to s; of
two equally near ones the left, as σ' is from there. On the piece of σ that holds s, σ(s) - z = ±(s - τ) with
the sign of the slope, so that the gradient of ½(σ(s) - z)² is (s - τ)·a: a linear regression towards an
integer, which stays the same for as long as s stays in (τ-1, τ+1]. Summed over the batch:

    B · gradient = G w - r,    G = Σ a aᵀ,    r = Σ τ a.

G is fixed for a phase, and r, a vector of integers, changes only when some s leaves its cell (τ-1, τ+1].
Contents are bits, so w can move no s by more than the sum of its positive (negative) changes. Until that sum
reaches the smallest distance of any example from the right (left) end of its cell, r is known without looking
at the batch; when it does, the whole batch is placed anew. Nothing is assumed about where training goes: the
steps are those that placing the batch at every step would give, to the last bit, and so they are for any order
of examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

import internalize.models.kernels  # noqa: F401 - a place for what is compiled
from internalize.tasks.parity import HiddenParity, uniform_inputs

# The examples --------------------------------------------------------------------------------------------

GRAM_BLOCK = 65_536
"""Examples whose products are added up at once, so that large batches need little memory."""


@dataclass(frozen=True)
class PhaseBatch:
    """What a phase trains on. Row r of the training is row d+r of W, in the paper's numbering."""

    contents: NDArray[np.uint8]
    """(columns, B): a_1 … as far as the widest trained row reads, one column of W a line."""
    targets: NDArray[np.uint8]
    """(rows, B): what each trained row should answer."""
    widths: NDArray[np.int64]
    """(rows,): how many columns each row reads; d for row d, one more for each row after it."""

    @property
    def size(self) -> int:
        """B."""
        return self.contents.shape[1]

    @property
    def rows(self) -> int:
        return self.targets.shape[0]

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """(columns, columns): Σ_b a aᵀ. Sums of bits, so exact whatever the order of adding."""
        total = np.zeros((len(self.contents),) * 2)
        for start in range(0, self.size, GRAM_BLOCK):
            part = self.contents[:, start : start + GRAM_BLOCK].astype(np.float64)
            total += part @ part.T
        return total


def row_d_batch(parity: HiddenParity, prefix: int, size: int, generator: torch.Generator) -> PhaseBatch:
    """Fresh examples for row d alone, which reads x alone, against z_prefix; consumes the generator."""
    x = _columns(parity, size, generator)
    z = np.bitwise_xor.reduce(x[parity.columns[:prefix]], axis=0, keepdims=True)
    return PhaseBatch(x, z, np.array([parity.d]))


def phase_batch(parity: HiddenParity, phase: int, size: int, generator: torch.Generator) -> PhaseBatch:
    """A fresh batch; consumes the generator.

    Phase 1 trains rows d … d+k-1 on (x, z_1, …), row d+l-1 against z_l. Phase t > 1 trains row d alone, on z_t.
    """
    if phase > 1:
        return row_d_batch(parity, phase, size, generator)
    x = _columns(parity, size, generator)
    z = np.bitwise_xor.accumulate(x[parity.columns], axis=0)
    return PhaseBatch(np.concatenate([x, z[:-1]]), z, np.arange(parity.d, parity.d + parity.k))


def _columns(parity: HiddenParity, size: int, generator: torch.Generator) -> NDArray[np.uint8]:
    """(d, size): inputs, one coordinate in each line."""
    return np.ascontiguousarray(uniform_inputs(size, parity.d, generator).numpy().T)


# Descent -------------------------------------------------------------------------------------------------

BLOCK = 512
"""Examples placed at once: their s stay in the fastest cache."""
CAUTION = 1e-9
"""Cells are left so much early: more than the rounding of s, far less than a step."""
SURE_LOSS = 1e-11
"""So near to 0 or to the threshold the loss by G and r is too rough: it is added up over the examples."""
LARGEST = 2.0**52
"""Beyond this, floats cannot tell even from odd."""


@dataclass(frozen=True)
class Descent:
    """What some steps of gradient descent did."""

    weights: NDArray[np.float64]
    """(rows, columns): the rows after the last step."""
    steps: int
    loss: float
    """Of these weights, summed over the rows; not a number if they grew beyond all bounds."""
    below: bool
    """Whether the loss fell below the threshold."""
    cell_changes: int
    """How often an example's target changed on the way."""
    placings: int
    """How often a row's batch had to be looked at."""
    path: NDArray[np.float64]
    """(steps + 1, rows, columns): the rows before the first step and after each one; empty if not asked for."""


def descend(
    batch: PhaseBatch,
    start: NDArray[np.float64],
    steps: int,
    step_size: float,
    threshold: float = 0.0,
    keep_path: bool = False,
    lazy: bool = True,
) -> Descent:
    """At most `steps` steps from `start` (rows, columns), ending early once the loss is below the threshold.

    `lazy=False` looks at the batch in every step; the result is the same.
    """
    W = np.ascontiguousarray(start, dtype=np.float64).copy()
    path = np.zeros((steps + 1 if keep_path else 0, *W.shape))
    data = (batch.contents, batch.targets, batch.widths, batch.gram)
    done, loss, below, changes, placings = _descend(
        data, W, _workspace(batch, W), path, steps, step_size, threshold, lazy
    )
    return Descent(W, done, loss, below, changes, placings, path[: done + 1])


def _workspace(batch: PhaseBatch, W: NDArray[np.float64]) -> tuple[NDArray[Any], ...]:
    """What is remembered of each row between steps. Made here, since numba compiles for long to make arrays."""
    rows = batch.rows
    return (
        np.zeros((rows, batch.size), np.int64),  # τ of every example
        np.zeros(W.shape, np.int64),  # r
        np.zeros(rows, np.int64),  # Σ τ²
        np.zeros(W.shape),  # w when its batch was last placed
        np.full((rows, 2), -1.0),  # how far s may move right and left from there
        np.zeros(W.shape),  # B · gradient
        np.zeros(BLOCK),  # s of a block
        np.zeros(BLOCK, np.int64),  # change of τ in a block
    )


# Array assignments are spelled out below: with `x[:] = y` numba compiles three times as long.


@njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _descend(
    data: Any, W: Any, space: Any, path: Any, steps: int, eta: float, threshold: float, lazy: bool
) -> tuple[int, float, bool, int, int]:
    """W: (rows, columns), changed in place. Data and results as in `PhaseBatch` and `Descent`."""
    a, z, widths, gram = data
    targets, pull, squares, seen, room, gradient, s, change = space
    rows, size = z.shape
    changes, placings = 0, 0
    for step in range(steps + 1):
        loss = 0.0
        for i in range(rows):
            w = W[i, : widths[i]]
            if not lazy or _may_leave(w, seen[i], room[i]):
                moved, squares[i], _ = _place(a, z[i], w, targets[i], pull[i], seen[i], room[i], s, change)
                changes += moved if placings >= rows else 0  # the first placing of a row is no change
                placings += 1
            loss += _gradient(gram, w, pull[i], squares[i], gradient[i]) / (2 * size)
        if not loss < LARGEST:
            return step, np.nan, False, changes, placings
        if loss < threshold + SURE_LOSS:
            loss = 0.0
            for i in range(rows):
                w = W[i, : widths[i]]
                error = _place(a, z[i], w, targets[i], pull[i], seen[i], room[i], s, change)[2]
                loss += error / (2 * size)
                placings += 1
        _keep(path, step, W)
        if loss < threshold or step == steps:
            return step, loss, loss < threshold, changes, placings
        for i in range(rows):
            for j in range(widths[i]):
                W[i, j] -= eta / size * gradient[i, j]
    return steps, np.nan, False, changes, placings  # never reached: the last step returns


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _keep(path: Any, step: int, W: Any) -> None:
    if len(path) > 0:
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                path[step, i, j] = W[i, j]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _may_leave(w: Any, seen: Any, room: Any) -> bool:
    """Whether some example may have left its cell since the batch was placed."""
    right, left = CAUTION, CAUTION
    for j in range(len(w)):
        change = w[j] - seen[j]
        if change > 0:
            right += change
        else:
            left -= change
    return not (right < room[0] and left < room[1])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gradient(gram: Any, w: Any, pull: Any, squares: int, gradient: Any) -> float:
    """Write B · gradient of one row; returns Σ (s - τ)² = wᵀGw - 2wᵀr + Στ²."""
    n = len(w)
    for m in range(n):
        gradient[m] = 0.0
    for j in range(n):
        for m in range(n):
            gradient[m] += w[j] * gram[j, m]
    total = float(squares)
    for j in range(n):
        total += w[j] * (gradient[j] - 2 * pull[j])
        gradient[j] -= pull[j]
    return total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _place(
    a: Any, z: Any, w: Any, targets: Any, pull: Any, seen: Any, room: Any, s: Any, change: Any
) -> tuple[int, Any, float]:
    """Find every example's s and τ, and bring r up to date; returns (targets changed, Σ τ², Σ (s - τ)²)."""
    right, left = 2.0, 2.0
    moved, squares, error = 0, np.int64(0), 0.0
    for start in range(0, len(z), BLOCK):
        count = min(BLOCK, len(z) - start)
        _reach(a, w, start, count, s)
        here = 0
        for b in range(count):
            end = np.int64(math.ceil(s[b]))  # s lies on the piece (end - 1, end], which the left slope is of
            target = end - ((end ^ np.int64(z[start + b])) & 1)
            off = s[b] - target
            change[b] = target - targets[start + b]
            targets[start + b] = target
            here += change[b] != 0
            right = min(right, 1.0 - off)
            left = min(left, 1.0 + off)
            squares += target * target
            error += off * off
        if here > 0:
            _repull(a, start, count, change, pull, len(w), here)
        moved += here
    room[0], room[1] = right, left
    for j in range(len(w)):
        seen[j] = w[j]
    return moved, squares, error


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _reach(a: Any, w: Any, start: int, count: int, s: Any) -> None:
    """s = ⟨w, a⟩ of a block of examples, always added up in the order of the columns."""
    for b in range(count):
        s[b] = 0.0
    for j in range(len(w)):
        if w[j] != 0.0:
            column = a[j, start : start + count]
            for b in range(count):
                s[b] += w[j] * column[b]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _repull(a: Any, start: int, count: int, change: Any, pull: Any, n: int, moved: int) -> None:
    """Add the changed targets to r = Σ τ a: example by example if few changed, column by column if many."""
    if 8 * moved < count:
        for b in range(count):
            if change[b] != 0:
                for j in range(n):
                    pull[j] += a[j, start + b] * change[b]
        return
    for j in range(n):
        column = a[j, start : start + count]
        total = 0
        for b in range(count):
            total += column[b] * change[b]
        pull[j] += total
