"""For those who have a trainer already: a collator and a callback by which Hugging Face's Trainer follows a
curriculum of this package.

    followed = follow(TextConfig(data="train.jsonl", model="config.json", tokenizer="words", method="left"))
    Trainer(model=followed.model(), args=TrainingArguments(…), train_dataset=followed.rows,
            data_collator=followed.collator, callbacks=[followed.callback]).train()

The trainer keeps what is its own: optimizer, batches, devices, logging, checkpoints. After
`resume_from_checkpoint` the callback finds the stage again from the steps done and the losses logged. What is
not given is what the command `internalize text` does: a resume to the same bytes, identities, sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from internalize.configs.named import own_files
from internalize.curricula.schedule import EqualShares, ScheduleConfig
from internalize.errors import require
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.evaluation import chosen_rows, measure_rows
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.material import find_material
from internalize.kinds.text.rendering import CutRow
from internalize.runtime.kind import Streams

NO_LOSS = -100
"""The label that transformers leaves out of the loss."""


class CurriculumCollator:
    """Rows as the present stage shows them, with labels on the answer block alone."""

    def __init__(self, experiment: TextExperiment) -> None:
        self.experiment = experiment
        self.stage = 1
        """The callback sets it. A trainer may ask for a batch ahead: it still has the stage before."""
        self._batches = 0

    def begin(self, stage: int, batches: int) -> None:
        """Where a training begins or goes on. batches: so many were asked for before."""
        self.stage, self._batches = stage, batches

    def __call__(self, rows: Sequence[CutRow]) -> dict[str, Tensor]:
        material, curriculum = self.experiment.material, self.experiment.curriculum
        streams = Streams(self.experiment.config.seed)
        self._batches += 1
        budget = None
        kept = [curriculum.kept(len(row.units), self.stage) for row in rows]
        if curriculum.budgets:
            generator = streams("format", self._batches)
            budget = int(torch.randint(len(curriculum.budgets), (), generator=generator))
            kept = [curriculum.kept_within(len(row.units), curriculum.budgets[budget]) for row in rows]
        elif curriculum.removal.smoothing is not None:
            offsets = curriculum.draw_offsets(len(rows), streams("smoothing", self._batches))
            kept = [
                curriculum.kept(len(row.units), self.stage, offset)
                for row, offset in zip(rows, offsets, strict=True)
            ]
        shown = [material.renderer.render(row, k, budget) for row, k in zip(rows, kept, strict=True)]
        longest = max(len(row.tokens) for row in shown)
        columns: dict[str, list[list[int]]] = {"input_ids": [], "labels": [], "attention_mask": []}
        if material.renderer.positions == "kept":
            columns["position_ids"] = []
        for row in shown:
            gap = longest - len(row.tokens)
            columns["input_ids"].append(row.tokens + [material.renderer.markers.pad] * gap)
            columns["labels"].append([NO_LOSS] * row.prompt + row.block + [NO_LOSS] * gap)
            columns["attention_mask"].append([1] * len(row.tokens) + [0] * gap)
            if "position_ids" in columns:
                columns["position_ids"].append(row.positions + [row.positions[-1]] * gap)
        return {name: torch.tensor(values) for name, values in columns.items()}


class CurriculumCallback(TrainerCallback):  # type: ignore[misc]
    """Ends stages, by equal shares of the trainer's steps or by its logged loss, and measures at their ends."""

    def __init__(self, collator: CurriculumCollator, schedule: ScheduleConfig, reset: bool) -> None:
        self.collator = collator
        self.schedule = schedule
        self.reset = reset
        self.accuracies: list[dict[str, Any]] = []
        """One entry for each stage that ended: its number, the step, and the accuracy on every file."""
        self._loss: float | None = None
        self._begun = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Finds the stage of a training that goes on from a checkpoint."""
        alone = args.dataloader_num_workers == 0
        why = "must be 0: a worker process would not hear of it when a stage ends"
        require(alone, "dataloader_num_workers", why)
        logged = {entry["step"]: entry["loss"] for entry in state.log_history if "loss" in entry}
        self.collator.begin(1, state.global_step * args.gradient_accumulation_steps)
        self._begun, self._loss = 0, None
        for step in range(1, state.global_step + 1):  # a step's end comes before its loss is logged
            self._end_stage(step, state.max_steps)
            self._loss = logged.get(step, self._loss)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
        if logs and "loss" in logs:
            self._loss = float(logs["loss"])

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        stage = self.collator.stage
        if self._end_stage(state.global_step, state.max_steps):
            self._measure(more["model"], stage, state.global_step)
            if self.reset:
                more["optimizer"].state.clear()

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._measure(more["model"], self.collator.stage, state.global_step)

    def _end_stage(self, step: int, steps: int) -> bool:
        """Whether the step ended a stage; then the next one has begun."""
        ended = self._ended(step, steps)
        if ended:
            self.collator.stage += 1
            self._begun, self._loss = step, None
        return ended

    def _ended(self, step: int, steps: int) -> bool:
        stage, stages = self.collator.stage, self.collator.experiment.curriculum.stages
        if stage == stages:
            return False
        if self.schedule.kind == "fixed":
            return step >= EqualShares(steps, stages).end(stage)
        inside = step - self._begun
        capped = self.schedule.cap is not None and inside >= self.schedule.cap
        learned = self._loss is not None and self._loss < self.schedule.bar
        return capped or (inside >= self.schedule.shortest and learned)

    def _measure(self, model: nn.Module, stage: int, step: int) -> None:
        experiment = self.collator.experiment
        found: dict[str, Any] = {"stage": stage, "step": step}
        budget = 0 if experiment.curriculum.budgets else None
        for name in experiment.material.evals:
            rows = chosen_rows(experiment, name, experiment.config.evaluation.rows)
            found[name] = measure_rows(experiment, model, rows, stage, budget).accuracy.value
        self.accuracies.append(found)


@dataclass(frozen=True)
class Followed:
    """What a trainer is given to follow a curriculum."""

    experiment: TextExperiment
    rows: tuple[CutRow, ...]
    """The dataset."""
    collator: CurriculumCollator
    callback: CurriculumCallback

    def model(self) -> nn.Module:
        """The config's model with the weights that a training begins with."""
        return self.experiment.new_model(Streams(self.experiment.config.seed)).train()


def follow(config: TextConfig) -> Followed:
    """Reads and checks everything that the config names, and refuses what a trainer would not follow.

    An adaptive schedule needs `signal="loss"` and `judge="mean"`: no more is logged.
    """
    _refuse_what_is_not_followed(config)
    with own_files():
        material = find_material(replace(config, iterations=10**9), {})
    experiment = TextExperiment(config, material, torch.device("cpu"))
    collator = CurriculumCollator(experiment)
    callback = CurriculumCallback(collator, config.schedule, config.optimizer.reset)
    return Followed(experiment, material.train, collator, callback)


THE_TRAINERS = ("iterations", "batch", "accumulate", "precision", "kernel", "log_every")
"""Fields that have no effect here: `TrainingArguments` has its own."""


def _refuse_what_is_not_followed(config: TextConfig) -> None:
    schedule, usual = config.schedule, TextConfig()
    if schedule.kind == "adaptive":
        require(
            schedule.signal == "loss", "schedule.signal", "must be loss: a trainer logs no accuracy on the way"
        )
        require(schedule.judge == "mean", "schedule.judge", "must be mean: a trainer logs no loss by position")
        for name in ("stop_early", "last_threshold", "memory"):
            free = getattr(schedule, name) == getattr(usual.schedule, name)
            shown = f"schedule.{name.replace('_', '-')}"
            require(free, shown, "is not followed here: the trainer ends the training and averages its losses")
    for name in THE_TRAINERS:
        own = getattr(config, name) == getattr(usual, name)
        require(own, name.replace("_", "-"), "belongs to the trainer here: name it in its TrainingArguments")
    settled = replace(config.optimizer, reset=usual.optimizer.reset) == usual.optimizer
    require(settled, "optimizer", "belongs to the trainer here, all but optimizer.reset")
    every = "is not followed here: files are measured at stage ends"
    require(config.evaluation.every is None, "evaluation.every", every)
