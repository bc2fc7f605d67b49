"""A text run opened to be asked: its model at any stage, its files of rows, and anybody's question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from internalize.errors import BadInput, require
from internalize.kinds.text.evaluation import TextPredictor, chosen_rows
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.rendering import CutRow
from internalize.kinds.text.rows import read_rows
from internalize.runs.folder import Run


@dataclass(frozen=True)
class TextAnswer:
    """What a run answered to one question."""

    question: str
    chain: str
    """What it wrote before the answer."""
    answer: str | None
    """None where it never came to an answer and its end."""
    tokens: int
    """Written in all: as many forward passes."""


class OpenText:
    """A run of the text kind, whose stages can be loaded one by one."""

    def __init__(self, run: Run, experiment: TextExperiment) -> None:
        self.run = run
        self.experiment = experiment

    @property
    def title(self) -> str:
        return self.run.path.name

    @cached_property
    def stages(self) -> list[int]:
        """The stages whose weights can be loaded; the last one even if only the final model was kept."""
        kept = self.run.stages()
        if (self.run.path / "model" / "model.safetensors").is_file():
            kept = sorted({*kept, int(self.run.summary()["stage"])})
        require(bool(kept), "run", f"{self.run.path} has no saved weights (it is {self.run.status()['state']})")
        return kept

    def stage_or_last(self, stage: int | None) -> int:
        stage = self.stages[-1] if stage is None else stage
        require(stage in self.stages, "stage", f"kept are the stages {self.stages}, not {stage}")
        return stage

    def model(self, stage: int | None = None) -> nn.Module:
        stage = self.stage_or_last(stage)
        return self.experiment.load_model(self.run.weights(stage if stage in self.run.stages() else None))

    def predictor(self, budget: int | None = None, stage: int | None = None) -> TextPredictor:
        """budget: tokens of the chain before the answer; None: as many as the model wants."""
        stage = self.stage_or_last(stage)
        return TextPredictor(self.experiment, self.model(stage), stage, budget)

    def rows(self, name: str | None, most: int | None) -> dict[str, list[CutRow]]:
        """Rows to measure on: of all the run's files, of the one of that name, or of another file."""
        material = self.experiment.material
        if name in (None, "uniform"):  # `show` draws uniformly where nothing else is asked for
            return {file: chosen_rows(self.experiment, file, most) for file in material.evals}
        assert name is not None
        if name in material.evals:
            return {name: chosen_rows(self.experiment, name, most)}
        known = ", ".join(material.evals)
        require(Path(name).exists(), "inputs", f"must be one of {known}, or a file of rows; got {name!r}")
        config = self.experiment.config
        texts, _ = read_rows(name, config.rows, "inputs", {})
        found = material.tokenizer.cut(texts, config.rows.joiner, config.unit == "token", f"inputs ({name})")
        self._require_room(found, name)
        return {name: found[:most]}

    def _require_room(self, rows: list[CutRow], name: str) -> None:
        """A table of positions ends somewhere; rows that do not fit would be an error of the library's."""
        renderer = self.experiment.material.renderer
        longest = max(len(row.question) + row.chain + len(row.answer) for row in rows)
        own = self.experiment.material.context
        fits = longest + 3 <= own and max(row.chain for row in rows) <= renderer.longest_chain
        require(fits, "inputs", f"{name} has rows of {longest} tokens, the run's own need at most {own}")

    def answers(self, predictor: TextPredictor, rows: list[CutRow]) -> list[TextAnswer]:
        tokenizer = self.experiment.material.tokenizer
        found = []
        for row, said in zip(rows, predictor.write(rows), strict=True):
            answer = None if said.answer is None else tokenizer.decode(said.answer)
            question = tokenizer.decode(row.question)
            found.append(TextAnswer(question, tokenizer.decode(said.chain), answer, said.length))
        return found

    def answer(self, question: str, budget: int | None = None, stage: int | None = None) -> TextAnswer:
        """What it says to a question of anybody's."""
        row = self.experiment.material.tokenizer.question(question)
        return self.answers(self.predictor(budget, stage), [row])[0]


def open_text(path: Any, device: str = "auto", field: str = "run") -> OpenText:
    """path: the run's folder, its name, or the beginning of its hash."""
    from internalize.kinds.entrance import load_experiment

    run = Run.open(path, field)
    _, experiment = load_experiment(run, device)
    if not isinstance(experiment, TextExperiment):
        raise BadInput(field, f"{path} is a run of another kind, not of text")
    return OpenText(run, experiment)
