"""Hugging Face's Trainer follows a curriculum of this package: additions whose carries are taken away.

    internalize data make addition:2 --n 4000 --split test=200 --file rows/train.jsonl
    python examples/text/trainer.py rows 2000

Needs accelerate, which the Trainer needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import Trainer, TrainingArguments

from internalize.curricula import ScheduleConfig
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.trainer import follow

SHAPE = '{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 8, "initializer_range": 0.1}'


def main(folder: Path, steps: int) -> list[dict[str, float]]:
    """Accuracy on held-out rows at the end of every stage."""
    (folder / "gpt2.json").write_text(SHAPE)
    followed = follow(
        TextConfig(
            data=str(folder / "train.jsonl"),
            eval=(f"id={folder / 'test.jsonl'}",),
            model=str(folder / "gpt2.json"),
            tokenizer="words",
            method="left",
            removal=RemovalConfig(per_stage=2),
            schedule=ScheduleConfig(),
        )
    )
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=32,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(
        model=followed.model(),
        args=arguments,
        train_dataset=list(followed.rows),
        data_collator=followed.collator,
        callbacks=[followed.callback],
    ).train()
    return followed.callback.accuracies


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for found in main(Path(sys.argv[1]), int(sys.argv[2])):
        print(found)
