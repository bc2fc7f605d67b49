"""`internalize text bench`: training and answering on text against what one would write with Hugging Face.

Training: the same rendered rows, the same model, and torch.optim.AdamW on the library's own loss with labels.
Answering: rows one by one through the library's `generate`, with its cache. In turns, in one process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from internalize.benchmarks.arguments import TextBenchArguments
from internalize.benchmarks.cases import seconds_each
from internalize.curricula import Progress
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import require
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.evaluation import asked_of, chosen_rows, kept_of
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.generation import write_answers
from internalize.kinds.text.material import find_material
from internalize.kinds.text.rows import write_rows
from internalize.kinds.text.trainer import NO_LOSS
from internalize.runs.provenance import provenance
from internalize.runtime.execution import threads
from internalize.runtime.kind import Streams, cpu
from internalize.tasks.text import draw_splits, find_problems

ROWS = 400


@dataclass(frozen=True)
class TextSpeed:
    """Tokens a second, and how many times the plain way."""

    what: str
    ours: float
    plain: float

    @property
    def ratio(self) -> float:
        return self.ours / self.plain


def text_bench_command(arguments: TextBenchArguments) -> None:
    require(arguments.repeats >= 1, "repeats", f"must be at least 1, got {arguments.repeats}")
    with threads(arguments.threads), tempfile.TemporaryDirectory() as folder:
        experiment = _experiment(arguments, Path(folder))
        found = [_training(experiment, stage, arguments) for stage in (1, experiment.curriculum.stages)]
        found.append(_answering(experiment, arguments))
        made = provenance(cpu())
    if arguments.json:
        rows = [{**asdict(speed), "ratio": speed.ratio} for speed in found]
        settings = {name: value for name, value in vars(arguments).items() if name != "json"}
        print(json.dumps({"settings": settings, "speeds": rows, "provenance": made}))
        return
    cells = [[s.what, f"{s.ours:,.0f}", f"{s.plain:,.0f}", f"{s.ratio:.2f}"] for s in found]
    shape = f"depth {arguments.depth}, width {arguments.width}, {arguments.heads} heads"
    title = f"{arguments.problems}, GPT-2 of {shape}, batch {arguments.batch}: tokens per second"
    PlainConsole().print(results_table(title, ["", "ours", "plain", "ratio"], cells))


def _experiment(arguments: TextBenchArguments, folder: Path) -> TextExperiment:
    sides = draw_splits(find_problems(arguments.problems, "problems"), {"test": 100, "train": ROWS}, 0)
    files = {side: write_rows(rows, folder / f"{side}.jsonl") for side, rows in sides.items()}
    shape = {"model_type": "gpt2", "n_layer": arguments.depth, "n_embd": arguments.width}
    (folder / "gpt2.json").write_text(json.dumps(shape | {"n_head": arguments.heads}))
    config = TextConfig(
        data=files["train"], eval=(f"id={files['test']}",), model=str(folder / "gpt2.json"), tokenizer="words",
        batch=arguments.batch,
    )  # fmt: skip
    return TextExperiment(config, find_material(config, {}), cpu())


def _training(experiment: TextExperiment, stage: int, arguments: TextBenchArguments) -> TextSpeed:
    """Whole steps: rows, forward and backward pass, optimizer."""
    streams, progress = Streams(0), Progress(stage=stage)
    state = experiment.init(streams)
    rows = experiment.rendered_at(progress, streams)
    tokens = sum(len(row.tokens) for row in rows)
    step = state.step

    def ours() -> None:
        step(experiment.rendered_at(progress, streams))
        state.optimizer.step()

    seconds = seconds_each({"ours": ours, "plain": _plain_step(experiment, stage)}, arguments.repeats)
    return TextSpeed(f"training, stage {stage}", tokens / seconds["ours"], tokens / seconds["plain"])


def _plain_step(experiment: TextExperiment, stage: int) -> Callable[[], None]:
    """What one would write first: padded ids with labels and a mask, the library's loss, torch's AdamW."""
    streams = Streams(0)
    model: Any = experiment.new_model(streams)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.01)
    rows = experiment.rendered_at(replace(Progress(), stage=stage), streams)
    longest, pad = max(len(row.tokens) for row in rows), experiment.material.renderer.markers.pad

    def filled(values: list[int], with_what: int) -> list[int]:
        return values + [with_what] * (longest - len(values))

    ids = torch.tensor([filled(row.tokens, pad) for row in rows])
    labels = torch.tensor([filled([NO_LOSS] * row.prompt + row.block, NO_LOSS) for row in rows])
    mask = torch.tensor([filled([1] * len(row.tokens), 0) for row in rows])

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()

    return step


def _answering(experiment: TextExperiment, arguments: TextBenchArguments) -> TextSpeed:
    """So many tokens each, of a model that has learned nothing and so never ends by itself."""
    model: Any = experiment.new_model(Streams(0)).eval()
    material = experiment.material
    rows = chosen_rows(experiment, "id", arguments.answered)
    asked = [asked_of(experiment, row, kept_of(experiment, row, 1, None), None) for row in rows]
    length = material.renderer.slots
    markers = material.renderer.markers

    def ours() -> None:
        write_answers(model, asked, markers, length, len(asked), length)

    def one_by_one() -> None:
        for row in asked:
            ids = torch.tensor([row.prompt])
            model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, min_new_tokens=length,
                do_sample=False, eos_token_id=markers.end, pad_token_id=markers.pad,
            )  # fmt: skip

    seconds = seconds_each({"ours": ours, "plain": one_by_one}, arguments.repeats)
    tokens = len(asked) * length
    return TextSpeed("answering with cache", tokens / seconds["ours"], tokens / seconds["plain"])
