"""Why training without rounding stalls: the leftover of one phase, taken apart in the next.

A phase ends with row d at w* + ε: the prefix, and a leftover ε that the threshold allows. At the beginning of
the next phase an example with x_{i_t} = 1 is pulled to the left if ⟨ε, x⟩ ≤ 0, and to the right otherwise. The
leftover of a population phase is ε ∝ e_{i_{t-1}} - 1/d: positive exactly where x_{i_{t-1}} = 1. Then the pulls
follow the old coordinate and cancel on the new one, and they are those of a regression whose solution is

    w = w* + e_{i_{t-1}} - 1/(d+1),    loss ½ (½ - d / (4 (d+1))),

where no example changes its side: a local minimum, in which the last coordinate has been unlearned. Here the
leftover's direction and size and the next phase's step size are varied one at a time, to see which decides.

A run is one phase 1, and from what it has left a phase 2 for every setting. It is small: one row of it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from internalize.configs.codec import typed
from internalize.configs.named import Copies
from internalize.contract import Json, Row, Stage
from internalize.errors import BadInput, require, require_seed
from internalize.kinds.parity.config import PAPER_BATCH, PAPER_STEP_SIZE, PATIENCE
from internalize.kinds.parity.descent import descend, row_d_batch
from internalize.measure.predictor import Predictor
from internalize.runs.table import Table
from internalize.runtime.execution import KeepStages
from internalize.runtime.forecast import Forecast, Need, disk_bytes
from internalize.runtime.kind import Finish, Prepared, Results, Streams, prepared
from internalize.statistics import wilson
from internalize.tasks.parity import HiddenParity, random_parity, uniform_inputs

DIRECTIONS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
"""Thresholds at which phase 1 is ended, for the direction of its leftover."""
SIZES = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
"""Losses that the leftover is scaled to."""
STEP_SIZES = (1e-4, 1e-3, 1e-2)
REACHED = 1e-4
"""Phase 2 has succeeded once its loss is below this; a stall is a thousand times as high."""
PROBES = 20_000
"""Fresh inputs on which the sides are counted."""


@dataclass(frozen=True)
class Leftover:
    """Row d at the end of phase 1."""

    parity: HiddenParity
    prefix: NDArray[np.float64]
    """(d,): w*, -1 at i_1."""
    rest: NDArray[np.float64]
    """(d,): ε."""
    loss: float


def predicted_loss(d: int) -> float:
    """The loss of the local minimum, in the population."""
    return 0.5 * (0.5 - d / (4 * (d + 1)))


def leftover(d: int, k: int, threshold: float, batch: int, streams: Streams) -> Leftover:
    """Phase 1 of row d, ended at the threshold; consumes streams("support") and streams("stall", 1)."""
    parity = random_parity(d, k, streams("support"))
    examples = row_d_batch(parity, 1, batch, streams("stall", 1))
    patience = round(PATIENCE / PAPER_STEP_SIZE)
    ended = descend(examples, np.zeros((1, d)), patience, PAPER_STEP_SIZE, threshold)
    prefix = -parity.indicator(1).numpy()
    return Leftover(parity, prefix, ended.weights[0] - prefix, ended.loss)


def second_phase(
    start: Leftover, scale: float, eta: float, batch: int, streams: Streams
) -> tuple[bool, float, float]:
    """(reached, loss, weight left on i_1) of phase 2 from w* + scale·ε; consumes streams("stall", 2)."""
    examples = row_d_batch(start.parity, 2, batch, streams("stall", 2))
    row = (start.prefix + scale * start.rest)[None]
    ended = descend(examples, row, round(PATIENCE / eta), eta, REACHED)
    return ended.below, ended.loss, float(ended.weights[0, start.parity.columns[0]])


def sides(start: Leftover, streams: Streams) -> tuple[float, float]:
    """Of inputs with x_{i_2} = 1: the share that is pulled right where z_1 = 0, and where z_1 = 1.

    (0, 1) is the fatal pattern; equal shares mean that the pulls do not follow the prefix. Consumes
    streams("stall sides").
    """
    x = uniform_inputs(PROBES, start.parity.d, streams("stall sides")).to(torch.float64).numpy()
    first, second = (x[:, i] == 1 for i in start.parity.columns[:2])
    right = x @ start.rest > 0
    return float(right[second & ~first].mean()), float(right[second & first].mean())


# The experiment -------------------------------------------------------------------------------------------

Setting = tuple[float, float, int]
"""Of a phase 2: the loss that the leftover is scaled to, η and B."""


@dataclass(frozen=True)
@typed()
class StallConfig:
    """One phase 1, and a phase 2 for every setting: one thing is varied at a time, from the first of each."""

    kind: ClassVar[str] = "stall"

    d: int = 20
    k: int = 9
    threshold: float = DIRECTIONS[0]
    """Of the loss at which phase 1 is ended."""
    sizes: tuple[float, ...] = SIZES
    """Losses that the leftover is scaled to."""
    step_sizes: tuple[float, ...] = (PAPER_STEP_SIZE,)
    batches: tuple[int, ...] = (PAPER_BATCH,)
    seed: int = 0

    def __post_init__(self) -> None:
        require(2 <= self.k <= self.d, "k", f"must lie in 2…d = {self.d}, got {self.k}")
        for name, values in (("sizes", self.sizes), ("step-sizes", self.step_sizes), ("batches", self.batches)):
            require(len(values) >= 1 and min(values) > 0, name, f"must be numbers above 0, got {values}")
        require(self.threshold > 0, "threshold", f"must be more than 0, got {self.threshold}")
        require_seed(self.seed)

    @property
    def settings(self) -> list[Setting]:
        steps = [(size, eta, self.batches[0]) for eta in self.step_sizes for size in self.sizes]
        return steps + [(size, self.step_sizes[0], batch) for batch in self.batches[1:] for size in self.sizes]

    def label(self) -> str:
        return f"stall-d{self.d}-k{self.k}-{self.threshold:g}-s{self.seed}"


@dataclass
class StallState:
    """Changed in place by every step."""

    rest: Tensor
    """(d,) float64: ε, once phase 1 is over."""
    loss: float = 0.0
    """Of phase 1 at its end."""
    step: int = 0
    """Phases done: phase 1, then a phase 2 each."""
    found: list[Json] = field(default_factory=list)
    """[reached, loss, weight left on i_1] for each setting."""

    def tensors(self) -> dict[str, Tensor]:
        return {"rest": self.rest}

    def scalars(self) -> dict[str, Json]:
        return {"loss": self.loss, "step": self.step, "found": list(self.found)}


class StallExperiment:
    """A step is a whole phase."""

    def __init__(self, config: StallConfig) -> None:
        self.config = config

    def init(self, streams: Streams) -> StallState:
        return StallState(torch.zeros(self.config.d, dtype=torch.float64))

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> StallState:
        return StallState(tensors["rest"].clone(), **scalars)

    def left(self, state: StallState, streams: Streams) -> Leftover:
        """What phase 1 left; consumes streams("support")."""
        parity = random_parity(self.config.d, self.config.k, streams.on_processor("support"))
        return Leftover(parity, -parity.indicator(1).numpy(), state.rest.numpy(), state.loss)

    def advance(self, state: StallState, streams: Streams) -> tuple[StallState, Row | None]:
        config, streams = self.config, streams.on_processor
        if state.step == 0:
            start = leftover(config.d, config.k, config.threshold, PAPER_BATCH, streams)
            state.rest, state.loss = torch.from_numpy(start.rest), start.loss
            loss = start.loss
        else:
            size, eta, batch = config.settings[state.step - 1]
            start = self.left(state, streams)
            scale = float(np.sqrt(size / start.loss))
            reached, loss, weight = second_phase(start, scale, eta, batch, streams)
            state.found.append([reached, loss, weight])
        state.step += 1
        return state, {"event": "train", "step": state.step, "loss": loss}

    def stage(self, state: StallState) -> Stage:
        total = 1 + len(self.config.settings)
        label = "phase 1" if state.step <= 1 else "phase 2"
        return Stage(max(1, state.step), total, label, state.step > 0, state.step, total, "phases")

    def done(self, state: StallState) -> bool:
        return state.step == 1 + len(self.config.settings)

    def evaluation_due(self, state: StallState) -> bool:
        return False

    def evaluate(self, state: StallState, streams: Streams) -> Row:
        return {"event": "evaluation", "step": state.step}

    def snapshot(self, state: StallState) -> dict[str, Tensor]:
        return state.tensors()

    def finish(self, state: StallState, streams: Streams) -> Finish:
        """Consumes streams("support") and streams("stall sides")."""
        pulled = sides(self.left(state, streams), streams.on_processor)
        summary: Row = {"leftover_loss": state.loss, "pulled_right": list(pulled), "found": list(state.found)}
        return Finish(summary, state.tensors())

    def predictor(self, state: StallState, budget: int | None) -> Predictor:
        raise BadInput("run", "a study of stalls answers nothing: only one row of its layer is trained")


class StallKind:
    """Why training without rounding stalls."""

    name = "stall"
    config = StallConfig
    results = Results(
        label=StallConfig.label, subject=lambda config: f"parity-d{config.d}-k{config.k}", unit="phases"
    )

    def prepare(self, config: StallConfig, copies: Copies) -> Prepared:
        return prepared(self, config, copies, lambda d: StallExperiment(config), place=f"{__name__}:KIND")

    def forecast(
        self, prepared: Prepared, device: torch.device, keep_stages: KeepStages = "all", timed: bool = False
    ) -> Forecast:
        """Every phase at its longest."""
        from internalize.kinds.parity.kind import descent_flops, gram_flops

        config: StallConfig = prepared.config
        d, phases = config.d, [(PAPER_STEP_SIZE, PAPER_BATCH), *(setting[1:] for setting in config.settings)]
        flops = sum(gram_flops(d, b) + descent_flops(d, round(PATIENCE / eta), b) for eta, b in phases)
        bits = 2 * d * max(batch for _, batch in phases)
        return Forecast(
            float(flops),
            float(2 * PROBES * d),
            disk_bytes(keep_stages, len(phases), 8 * d, 8 * d, 8 * d),
            float(8 * bits),
            d,
            len(phases),
            (Need(bits, "batches", "the examples of a phase"),),
            on_processor=True,
        )


KIND = StallKind()


# The table ------------------------------------------------------------------------------------------------


def stall_configs(d: int, k: int, seeds: int) -> list[StallConfig]:
    """Every direction with every size; with the first direction, other step sizes and another batch too."""
    steps = (PAPER_STEP_SIZE, *(eta for eta in STEP_SIZES if eta != PAPER_STEP_SIZE))
    more = {"step_sizes": steps, "batches": (PAPER_BATCH, 16 * PAPER_BATCH)}
    varied: list[dict[str, Any]] = [more if threshold == DIRECTIONS[0] else {} for threshold in DIRECTIONS]
    return [
        StallConfig(d, k, threshold, SIZES, seed=seed, **others)
        for threshold, others in zip(DIRECTIONS, varied, strict=True)
        for seed in range(seeds)
    ]


def stall_table(configs: Sequence[StallConfig], summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Success of phase 2, with one thing varied at a time; one row for each setting, Wilson intervals."""
    rows = []
    for threshold in dict.fromkeys(config.threshold for config in configs):
        of_it = [i for i, config in enumerate(configs) if config.threshold == threshold]
        config, own = configs[of_it[0]], [summaries[i] for i in of_it]
        pulled = np.mean([summary["pulled_right"] for summary in own], axis=0).tolist()
        plans = [("size", size, PAPER_STEP_SIZE, PAPER_BATCH) for size in config.sizes]
        if len(config.step_sizes) > 1:
            steps = [eta for eta in STEP_SIZES if eta in config.step_sizes]
            plans += [("step", size, eta, PAPER_BATCH) for eta in steps for size in config.sizes]
        plans += [("batch", s, PAPER_STEP_SIZE, batch) for batch in config.batches[1:] for s in config.sizes]
        for varied, size, eta, batch in plans:  # a setting may stand in several: the paper's η among the others
            at = config.settings.index((size, eta, batch))
            rows.append(_row(varied, threshold, size, eta, batch, pulled, [s["found"][at] for s in own]))
    return Table(rows)


def _row(
    varied: str,
    threshold: float,
    size: float,
    eta: float,
    batch: int,
    pulled: Sequence[float],
    found: Sequence[Sequence[Any]],
) -> dict[str, float | int | str | None]:
    stalled = [(loss, weight) for reached, loss, weight in found if not reached]
    reached = len(found) - len(stalled)
    interval = wilson(reached, len(found))
    return {
        "varied": varied,
        "direction_from_threshold": threshold,
        "leftover_loss": size,
        "eta": eta,
        "B": batch,
        "right_where_z1_is_0": pulled[0],
        "right_where_z1_is_1": pulled[1],
        "seeds": len(found),
        "reached": reached,
        "low": interval.low,
        "high": interval.high,
        "stalled_loss": float(np.mean([loss for loss, _ in stalled])) if stalled else None,
        "stalled_weight_on_i1": float(np.mean([weight for _, weight in stalled])) if stalled else None,
    }
