"""Hugging Face's Trainer follows a curriculum: the same labels as our own step scores, stage by stage."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from internalize.cli import main
from internalize.curricula import ScheduleConfig
from internalize.errors import BadInput
from internalize.kinds.text.config import TextConfig, TextEvaluationConfig, TextOptimizerConfig
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.trainer import NO_LOSS, follow
from tests.kinds.text.toys import parity_rows, shape_file

if TYPE_CHECKING:
    from internalize.kinds.text.trainer import Followed

EXAMPLE = Path(__file__).parents[3] / "examples" / "text" / "trainer.py"


def test_a_batch_of_the_collator_has_our_loss(tmp_path: Path) -> None:
    rows = parity_rows(tmp_path)
    followed = follow(
        TextConfig(data=rows, eval=(f"id={rows}",), model=shape_file(tmp_path, "llama"), tokenizer="words",
                   removal=RemovalConfig(per_stage=1))
    )  # fmt: skip
    model: Any = followed.model()
    for stage, words in ((1, 5), (2, 4), (3, 3)):
        followed.collator.stage = stage
        batch = followed.collator(followed.rows[:4])
        assert int((batch["labels"] != NO_LOSS).sum()) == 4 * words
        rendered = [
            followed.experiment.material.renderer.render(row, followed.experiment.curriculum.kept(2, stage))
            for row in followed.rows[:4]
        ]
        alone = [
            model(
                input_ids=torch.tensor([row.tokens]),
                labels=torch.tensor([[NO_LOSS] * row.prompt + row.block]),
            ).loss
            for row in rendered
        ]
        torch.testing.assert_close(model(**batch).loss, torch.stack(alone).mean(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_example_runs_and_takes_the_words_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("accelerate")
    make = [
        "data",
        "make",
        "addition:1",
        "--n",
        "80",
        "--split",
        "test=10",
        "--out",
        str(tmp_path / "train.jsonl"),
    ]
    assert main(make) == 0
    found = runpy.run_path(str(EXAMPLE))["main"](tmp_path, 12)
    assert [(entry["stage"], entry["step"]) for entry in found] == [(1, 6), (2, 12)]
    assert all(0 <= entry["id"] <= 1 for entry in found)


def parity(folder: Path, **fields: Any) -> Followed:
    rows = parity_rows(folder)
    return follow(
        TextConfig(data=rows, eval=(f"id={rows}",), model=shape_file(folder, "gpt2"), tokenizer="words",
                   removal=RemovalConfig(per_stage=1), **fields)
    )  # fmt: skip


def trained(followed: Followed, folder: Path, resume: bool = False, **fields: Any) -> list[tuple[int, int]]:
    """Stage and scored words of a row, of every batch that the trainer asked for."""
    from transformers import Trainer, TrainingArguments

    seen: list[tuple[int, int]] = []

    def collate(rows: Any) -> Any:
        batch = followed.collator(rows)
        seen.append((followed.collator.stage, int((batch["labels"] != NO_LOSS).sum()) // len(rows)))
        return batch

    settings = {"max_steps": 12, "save_strategy": "steps", "save_steps": 7, "logging_steps": 1, **fields}
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"), per_device_train_batch_size=4, report_to=[], use_cpu=True,
        disable_tqdm=True, **settings,
    )  # fmt: skip
    Trainer(
        model=followed.model(), args=arguments, train_dataset=list(followed.rows), data_collator=collate,
        callbacks=[followed.callback],
    ).train(resume_from_checkpoint=str(folder / "trainer" / "checkpoint-7") if resume else None)  # fmt: skip
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["fixed", "adaptive"])
def test_a_training_that_goes_on_finds_its_stage(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    schedule = ScheduleConfig()
    if kind == "adaptive":  # the first stage is capped, the second ends by a loss that is always small enough
        schedule = ScheduleConfig(kind="adaptive", judge="mean", threshold=2.0, shortest=2, cap=5)
    first = parity(tmp_path, schedule=schedule)
    whole = trained(first, tmp_path)
    ended = [(entry["stage"], entry["step"]) for entry in first.callback.accuracies]
    again = parity(tmp_path, schedule=schedule)
    rest = trained(again, tmp_path, resume=True)
    left = [(stage, step) for stage, step in ended if step > 7]
    assert [(entry["stage"], entry["step"]) for entry in again.callback.accuracies] == left
    assert rest[0][0] > 1
    assert (
        rest[1:] == whole[-len(rest) + 1 :]
    )  # a batch is asked for ahead: the first may be of the stage before
    if kind == "fixed":
        assert ended == [(1, 4), (2, 8), (3, 12)]


@pytest.mark.filterwarnings("ignore")
def test_workers_are_refused_before_a_step(tmp_path: Path) -> None:
    """They would go on showing the stage at which they were started."""
    pytest.importorskip("accelerate")
    with pytest.raises(BadInput, match="dataloader_num_workers: must be 0"):
        trained(parity(tmp_path), tmp_path, dataloader_num_workers=1)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("schedule.judge", {"schedule": ScheduleConfig(kind="adaptive")}),
        ("schedule.signal", {"schedule": ScheduleConfig(kind="adaptive", signal="accuracy")}),
        ("schedule.stop-early", {"schedule": ScheduleConfig(kind="adaptive", judge="mean", stop_early=True)}),
        ("schedule.memory", {"schedule": ScheduleConfig(kind="adaptive", judge="mean", memory=9)}),
        ("batch", {"batch": 8}),
        ("precision", {"precision": "bf16"}),
        ("optimizer", {"optimizer": TextOptimizerConfig(lr=1.0)}),
        ("evaluation.every", {"evaluation": TextEvaluationConfig(every=3)}),
    ],
)
def test_what_a_trainer_does_not_follow_is_refused(field: str, fields: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^{field}: "):
        parity(tmp_path, **fields)
    assert parity(tmp_path, optimizer=TextOptimizerConfig(reset=False)).callback.reset is False
