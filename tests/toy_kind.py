"""A kind of experiment in one file: a row of weights learns, by SGD, on which side of a hidden plane x lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from internalize.contract import Row, Stage
from internalize.errors import require
from internalize.runtime.forecast import Forecast, Need, disk_bytes, median_seconds
from internalize.runtime.kind import Finish, Prepared, Results, Streams, entry, prepared

STAGES = 2


@dataclass(frozen=True)
class ToyConfig:
    """Learn on which side of a hidden plane a point lies."""

    d: int = 4
    steps: int = 60
    lr: float = 0.5
    seed: int = 0


@dataclass
class ToyState:
    weights: Tensor
    step: int = 0

    def tensors(self) -> dict[str, Tensor]:
        return {"weights": self.weights}

    def scalars(self) -> Row:
        return {"step": self.step}


class Toy:
    def __init__(self, config: ToyConfig) -> None:
        self.config = config

    def init(self, streams: Streams) -> ToyState:
        return ToyState(torch.zeros(self.config.d))

    def snapshot(self, state: ToyState) -> dict[str, Tensor]:
        return state.tensors()

    def restore(self, tensors: Any, scalars: Any) -> ToyState:
        return ToyState(tensors["weights"].clone(), scalars["step"])

    def points(self, streams: Streams, name: str, step: int, count: int) -> tuple[Tensor, Tensor]:
        plane = torch.randn(self.config.d, generator=streams("plane"))
        x = torch.randn(count, self.config.d, generator=streams(name, step))
        return x, (x @ plane > 0).float()

    def advance(self, state: ToyState, streams: Streams) -> tuple[ToyState, Row | None]:
        x, y = self.points(streams, "data", state.step, 16)
        wrong = torch.sigmoid(x @ state.weights) - y
        state = ToyState(state.weights - self.config.lr * x.T @ wrong / len(x), state.step + 1)
        return state, {"event": "train", "step": state.step, "loss": float(wrong.square().mean())}

    def stage(self, state: ToyState) -> Stage:
        half, steps = self.config.steps // STAGES, self.config.steps
        ended = state.step in (half, steps)
        return Stage(1 + (state.step > half), STAGES, "", ended, state.step, steps, "strides")

    def done(self, state: ToyState) -> bool:
        return state.step >= self.config.steps

    def evaluation_due(self, state: ToyState) -> bool:
        return self.stage(state).just_ended

    def accuracy(self, state: ToyState, streams: Streams, name: str) -> float:
        x, y = self.points(streams, name, state.step, 500)
        return float(((x @ state.weights > 0) == (y > 0)).float().mean())

    def evaluate(self, state: ToyState, streams: Streams) -> Row:
        return {"event": "evaluation", "step": state.step, "accuracy": self.accuracy(state, streams, "test")}

    def finish(self, state: ToyState, streams: Streams) -> Finish:
        right = self.accuracy(state, streams, "final")
        return Finish({"accuracy": right, "succeeded": right > 0.8, "steps": state.step}, state.tensors())

    def predictor(self, state: ToyState, budget: int | None) -> Any:
        return lambda x: x @ state.weights > 0


class ToyKind:
    name, config = "toy", ToyConfig
    results = Results(
        label=lambda config: f"toy-d{config.d}-s{config.seed}",
        subject=lambda config: f"plane{config.d}",
        unit="strides",
        headline={"loss": "loss", "accuracy": "accuracy"},
        accuracy=entry("accuracy"),
        columns={"right": lambda result: f"{result['accuracy']:.3f}"},
        rates=("succeeded",),
    )

    def prepare(self, config: ToyConfig, copies: Any) -> Prepared:
        for name, value, least in (("d", config.d, 1), ("steps", config.steps, STAGES)):
            require(value >= least, name, f"must be at least {least}, got {value}")
        return prepared(self, config, copies, lambda device: Toy(config))

    def forecast(
        self, prepared: Prepared, device: Any, keep_stages: Any = "all", timed: bool = False
    ) -> Forecast:
        d, steps, toy, streams = prepared.config.d, prepared.config.steps, Toy(prepared.config), Streams(0)
        one = median_seconds(lambda: toy.advance(toy.init(streams), streams)) if timed else 0.0
        disk, need = disk_bytes(keep_stages, STAGES, 4 * d, 4 * d, 4 * d), f"16 points of {d:,} numbers"
        more = {"least": (Need(64 * d, "d", need),), "on_processor": True, "seconds": steps * one}
        return Forecast(64.0 * d * steps, 3e3 * d, disk, 400.0 * d, d, steps, **more)


KIND = ToyKind()
