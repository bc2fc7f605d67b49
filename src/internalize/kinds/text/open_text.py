"""A text run opened to be asked: its model at any stage, its files of rows, and anybody's question.

`internalize.open_run` gives an `OpenText` for a run of text: it has the words of every opened run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from torch import nn

from internalize.configs.files import read_data
from internalize.display.terminal import PlainConsole, percent, results_table
from internalize.errors import BadInput, require
from internalize.kinds.entrance import Moment, OpenStages, load_config, load_experiment
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.evaluation import (
    TextMeasurement,
    TextPredictor,
    chosen_rows,
    read_written,
    summarise,
)
from internalize.kinds.text.experiment import TextExperiment
from internalize.kinds.text.export import ABOUT_FILE
from internalize.kinds.text.generation import Prompts, write_answers
from internalize.kinds.text.network import build, find_model, load_weights
from internalize.kinds.text.rendering import CutRow, TextRenderer
from internalize.kinds.text.rows import read_rows
from internalize.kinds.text.tokenization import ANSWER, CHAIN, END, MADE, TextTokenizer, read_tokenizer
from internalize.runs.folder import Run
from internalize.runs.outside import MissingFiles
from internalize.runtime.execution import resolve_device

MARKED = (CHAIN, ANSWER, END)
"""What stands in every row beside its question, chain and answer."""


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
    truth: str | None
    """The right answer, where the question stands in a file of the run; None where nobody knows it."""
    right: bool | None
    """Whether it answered so; None where the truth is not known."""
    moment: Moment

    def __str__(self) -> str:
        said = "no answer" if self.answer is None else self.answer
        judged = "" if self.right is None else "right; " if self.right else f"wrong: it is {self.truth}; "
        before = self.chain or "nothing"
        return f"{said} ({judged}it wrote {before} before it; {self.moment})"

    def to_json(self) -> dict[str, object]:
        fields = {name: value for name, value in vars(self).items() if name != "moment"}
        return fields | self.moment.to_json()


class OpenText(OpenStages):
    """A run of the text kind, whose stages can be loaded one by one."""

    config: TextConfig
    experiment: TextExperiment

    def model(self, stage: int | None = None) -> nn.Module:
        """The language model of transformers with the weights at the end of that stage.

        None: the final ones, or in an unfinished run those at the end of the last stage that ended; `moment`
        says which.
        """
        stage = self.moment(stage).stage
        return self.experiment.load_model(self.run.weights(stage if stage in self.run.stages() else None))

    def predictor(self, budget: int | None = None, stage: int | None = None) -> TextPredictor:
        """budget: tokens of the chain before the answer; None: as many as the model wants."""
        stage = self.moment(stage).stage
        return TextPredictor(self.experiment, self.model(stage), stage, budget)

    # Rows ------------------------------------------------------------------------------------------------

    def rows(self, name: str | None, most: int | None) -> dict[str, list[CutRow]]:
        """Rows to measure on: of all the run's files, of the one of that name, or of another file."""
        material = self.experiment.material
        if name is None:
            return {file: chosen_rows(self.experiment, file, most) for file in material.evals}
        if name in material.evals:
            return {name: chosen_rows(self.experiment, name, most)}
        known = ", ".join(material.evals)
        require(Path(name).exists(), "inputs", f"must be one of {known}, or a file of rows; got {name!r}")
        texts, _ = read_rows(name, self.config.rows, "inputs", {})
        by_token = self.config.unit == "token"
        found = material.tokenizer.cut(texts, self.config.rows.joiner, by_token, f"inputs ({name})")
        self._require_room(found, name)
        return {name: found[:most]}

    def _require_room(self, rows: list[CutRow], name: str) -> None:
        """A table of positions ends somewhere; rows that do not fit would be an error of the library's."""
        renderer = self.experiment.material.renderer
        longest = max(len(row.question) + row.chain + len(row.answer) + len(MARKED) for row in rows)
        own, chain = self.experiment.material.context, max(row.chain for row in rows)
        has = f"{name} has rows of {longest} tokens, markers included"
        require(longest <= own, "inputs", f"{has}: the run's own have at most {own}")
        few = chain <= renderer.longest_chain
        have = f"the run's own have at most {renderer.longest_chain}"
        require(few, "inputs", f"{name} has chains of {chain} tokens: {have}")

    @cached_property
    def _known(self) -> dict[str, CutRow]:
        """Question → its row, of all files of the run: who asks one of these can be told what is right."""
        material = self.experiment.material
        cut = {"train": material.train, **material.evals}
        both = ((texts, cut[name]) for name, texts in material.texts.items())
        return {text.question: row for texts, rows in both for text, row in zip(texts, rows, strict=True)}

    def read_question(self, text: str) -> tuple[CutRow, bool]:
        """A question of somebody's as token ids, and whether it stands with its answer in a file of the run."""
        require(bool(text.strip()), "inputs", "is empty: ask a question like those of the run's rows")
        known = self._known.get(text) or self._known.get(text.strip())
        if known is not None:
            return known, True
        material = self.experiment.material
        row = material.tokenizer.question(text, "inputs")
        room = material.context - material.renderer.slots - 1
        asked = len(row.question)
        require(asked <= room, "inputs", f"has {asked} tokens: the run's own questions have at most {room}")
        if material.renderer.boundary == "none":  # then only its length tells where the answer begins
            lengths = {len(other.answer) for other in material.train}
            row = replace(row, answer=(-1,) * max(lengths))
        return row, False

    # Answers ---------------------------------------------------------------------------------------------

    def answer(self, inputs: Any, budget: int | None = None, stage: int | None = None) -> TextAnswer:
        """What it says to a question of anybody's."""
        require(isinstance(inputs, str), "inputs", f"must be a question as text, got {inputs!r}")
        row, known = self.read_question(inputs)
        return self.answers(self.predictor(budget, stage), [row], known)[0]

    def answers(self, predictor: TextPredictor, rows: Sequence[CutRow], known: bool = True) -> list[TextAnswer]:
        """One for each row. known: whether the rows say what is right."""
        tokenizer, moment = self.experiment.material.tokenizer, self.moment(predictor.stage)
        found = []
        for row, said in zip(rows, predictor.write(rows), strict=True):
            answer = None if said.answer is None else tokenizer.decode(said.answer)
            truth = tokenizer.decode(row.answer) if known else None
            right = said.answer == row.answer if known else None
            question = tokenizer.decode(row.question[len(tokenizer.prefix) :])
            chain = tokenizer.decode(said.chain)
            found.append(TextAnswer(question, chain, answer, said.length, truth, right, moment))
        return found

    def chain_of(self, row: CutRow) -> str:
        """The whole true chain of a row."""
        return self.experiment.material.tokenizer.decode(token for unit in row.units for token in unit)


def open_text(path: Any, device: str = "auto", field: str = "run") -> OpenText:
    """For whoever asks what only runs of text can tell. path: the run's folder, its name, or its hash."""
    run = Run.open(path, field)
    config, experiment = load_experiment(run, device)
    if not isinstance(experiment, TextExperiment):
        raise BadInput(field, f"{run.path.name} is a run of {run.identity().kind}, not of text")
    return OpenText(run, config, experiment)


ANSWERS = 4


@dataclass
class KeptTextAnswers:
    """Answers of the newest stage whose weights are in the folder; asked anew when there is a newer one."""

    stage: int = 0
    said: tuple[tuple[str, ...], ...] = ()

    def rows(self, folder: Path) -> Sequence[Sequence[str]]:
        """stage, question, what was written and what should be, of always the same rows."""
        kept = Run.at(folder).stages()
        if kept and kept[-1] != self.stage:
            self.stage = kept[-1]
            opened = open_text(folder, "cpu")
            rows = chosen_rows(opened.experiment, next(iter(opened.experiment.material.evals)), ANSWERS)
            answers = opened.answers(opened.predictor(stage=self.stage), rows)
            self.said = tuple(self._row(opened, *pair) for pair in zip(rows, answers, strict=True))
        return self.said

    def _row(self, opened: OpenText, row: CutRow, said: TextAnswer) -> tuple[str, ...]:
        curriculum, renderer = opened.experiment.curriculum, opened.experiment.material.renderer
        kept = curriculum.kept(len(row.units), self.stage)
        true = opened.experiment.material.tokenizer.decode(renderer.chain(row, kept))
        wrote = f"{said.chain} → {'no answer' if said.answer is None else said.answer}"
        return str(self.stage), said.question, wrote.strip(), f"{true} → {said.truth}".strip()


@dataclass(frozen=True)
class ModelAlone:
    """The final model of a run whose rows are gone, asked as the folder `model` itself says."""

    run: Run
    tokenizer: TextTokenizer
    model: nn.Module
    about: dict[str, Any]
    """How it is asked, and how long its answers may be."""
    kept_positions: bool

    @classmethod
    def of(cls, run: Run, device: str, missing: MissingFiles) -> ModelAlone:
        """missing: what is said where the model's folder is not there either."""
        folder = run.path / "model"
        if not run.is_done or not (folder / ABOUT_FILE).is_file():
            raise missing
        about = read_data(folder / ABOUT_FILE, "run")
        good = isinstance(about, dict) and isinstance(about.get("longest"), int)
        require(good, "run", f"{folder / ABOUT_FILE} does not say how long answers are")
        if about.get("answer_after") is None:  # only the length of a right answer tells where it begins
            raise missing
        config = load_config(run)
        budgets = len(about.get("budgets") or ())
        kind = config.tokenizer if config.tokenizer in MADE else str(folder)
        tokenizer = TextTokenizer.of(kind, read_tokenizer(folder, "run", budgets), budgets)
        model = build(find_model(str(folder), 0.0, None, "run"), tokenizer.size, None)
        load_weights(model, run.weights(), "run")
        kept = config.removal.positions == "kept"
        return cls(run, tokenizer, model.to(resolve_device(device)).eval(), about, kept)

    def answer(self, arguments: Any) -> TextAnswer:
        summary, markers = self.run.summary(), self.tokenizer.markers
        moment = Moment(int(summary["stage"]), int(summary["stages"]), "done")
        last = arguments.stage in (None, moment.stage)
        require(last, "stage", f"must be the last one, {moment.stage}, where the run's rows are not there")
        free = arguments.budget is None
        require(free, "budget", "cannot be asked for where the run's rows are not there")
        text = arguments.inputs
        require(bool(text.strip()), "inputs", "is empty: ask a question like those of the run's rows")
        row = self.tokenizer.question(text, "inputs")
        prompt = [*row.question, markers.chain, *markers.budgets[:1]]
        whole: Any = self.model
        room = getattr(whole.config, "max_position_embeddings", None) or 2**31
        require(len(prompt) < room, "inputs", f"has {len(row.question)} tokens: too many for the model")
        asked = Prompts(prompt, [] if self.kept_positions else None)
        (written,) = write_answers(self.model, [asked], markers, self.about["longest"], 1)
        said = read_written(written, TextRenderer(markers, 0, 0))
        answer = None if said.answer is None else self.tokenizer.decode(said.answer)
        return TextAnswer(text, self.tokenizer.decode(said.chain), answer, said.length, None, None, moment)


# Commands --------------------------------------------------------------------------------------------------


def refuse_drawing(arguments: Any) -> None:
    """Options of commands that draw inputs, which is done for runs of other kinds."""
    for name, nothing in (("seed", 0), ("horizon", None)):
        given = getattr(arguments, name, nothing) != nothing
        why = "cannot be chosen for a run of text, which is measured on the rows of its files: nothing is drawn"
        require(not given, name, why)


def evaluate(arguments: Any) -> None:
    """--inputs: one of the run's files by its name, or another file of rows; all of its own if not given."""
    require(arguments.samples >= 1, "samples", f"must be at least 1, got {arguments.samples}")
    refuse_drawing(arguments)
    opened = open_text(arguments.run, arguments.device)
    found = measure_files(opened, arguments.inputs, arguments.samples, arguments.budget, arguments.stage)
    if arguments.json:
        results = [measurement_json(name, measurement) for name, measurement in found.items()]
        whole = {**results[0], "distributions": results} if len(results) > 1 else results[0]
        print(json.dumps(whole | {"stage": opened.moment(arguments.stage).stage}))
        return
    columns = ["rows of", "n", "answer right", "chain right", "tokens", "FLOPs"]
    cells = [
        [escape(name), f"{m.rows:,}", str(m.accuracy), percent(m.chain_accuracy.value),
         f"{m.response_length:.2f}", f"{m.flops:,.0f}"]
        for name, m in found.items()
    ]  # fmt: skip
    title = f"{opened.title}: {opened.moment(arguments.stage)}"
    table = results_table(title, columns, cells)
    table.columns[0].overflow = "fold"
    PlainConsole().print(table)


def measure_files(
    opened: OpenText, inputs: str | None, most: int, budget: int | None, stage: int | None
) -> dict[str, TextMeasurement]:
    predictor = opened.predictor(budget, stage)
    found = {}
    for name, rows in opened.rows(inputs, most).items():
        said = predictor.write(rows)
        found[name] = summarise(opened.experiment, rows, said, predictor.stage, predictor.asked_budget)
    return found


def measurement_json(name: str, found: TextMeasurement) -> dict[str, Any]:
    rates = {
        "accuracy": found.accuracy,
        "chain_accuracy": found.chain_accuracy,
        "exact_chain": found.exact_chain,
        "direct_accuracy": found.direct_accuracy,
    }
    row: dict[str, Any] = {"inputs": name, "samples": found.rows}
    for key, rate in rates.items():
        row[key] = rate.value
        row["interval" if key == "accuracy" else f"{key}_interval"] = [rate.interval.low, rate.interval.high]
    length = found.response_length
    return row | {"response_length": length, "forward_passes": length, "flops": found.flops}


def show(arguments: Any) -> None:
    require(arguments.examples >= 1, "examples", f"must be at least 1, got {arguments.examples}")
    refuse_drawing(arguments)
    opened = open_text(arguments.run, arguments.device)
    predictor = opened.predictor(arguments.budget, arguments.stage)
    rows = next(iter(opened.rows(arguments.inputs, arguments.examples).values()))
    said = list(zip(rows, opened.answers(predictor, rows), strict=True))
    if arguments.json:
        found = [{**one.to_json(), "true_chain": opened.chain_of(row)} for row, one in said]
        print(json.dumps(found))
        return
    cells = [
        [escape(one.question), escape(one.chain) or "–", escape(_said(one.answer)),
         escape(opened.chain_of(row)), escape(str(one.truth)), _judged(one.right)]
        for row, one in said
    ]  # fmt: skip
    heads = ["question", "it wrote", "answer", "true chain", "truth", ""]
    table = results_table(f"{opened.title}: {opened.moment(predictor.stage)}", heads, cells)
    for column in table.columns[:5]:
        column.justify = "left"
        column.overflow = "fold"
    PlainConsole().print(table)


def ask(arguments: Any) -> None:
    """Of a run whose rows are gone the final model answers still; nobody knows what is right then."""
    missing = ""
    try:
        opened = open_text(arguments.run, arguments.device)
        title, said = opened.title, opened.answer(arguments.inputs, arguments.budget, arguments.stage)
    except MissingFiles as error:
        run = Run.open(arguments.run)
        title, missing = run.path.name, str(error.message)
        said = ModelAlone.of(run, arguments.device, error).answer(arguments)
    if arguments.json:
        print(json.dumps({"run": title, **said.to_json()}))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(_said(said.answer))}[/bold]  {_judged(said.right)}".rstrip())
    before = escape(said.chain) or "nothing"
    console.print(f"it wrote   {before} before it; {counted_tokens(said.tokens)} in all")
    if said.right is False:
        console.print(f"the truth  {escape(str(said.truth))}")
    if missing:
        console.print(f"the truth  is not known: {escape(missing)}")
    console.print(f"asked      {escape(title)}, {said.moment}")


def counted_tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def _judged(right: bool | None) -> str:
    return "" if right is None else "[green]right[/green]" if right else "[red]wrong[/red]"


def _said(answer: Any) -> str:
    return "no answer" if answer is None else str(answer)
