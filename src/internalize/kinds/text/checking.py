"""`internalize data check`: what is in a file of rows, how it is cut into tokens, and what to beware of."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, median_low
from typing import Annotated, Any, ClassVar

import tyro
from rich.markup import escape

from internalize.configs.named import own_files
from internalize.curricula.schedule import CONTROLS, ScheduleConfig
from internalize.display.terminal import PlainConsole, results_table
from internalize.kinds.entrance import run_experiment
from internalize.kinds.text.config import HELD_OUT, TextConfig
from internalize.kinds.text.material import Material, find_material, joined, overlap
from internalize.kinds.text.rendering import CutRow, Kept, RemovalConfig, Unit
from internalize.kinds.text.rows import RowsConfig, TextRow, read_rows
from internalize.kinds.text.tokenization import MADE, TextTokenizer
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide

VERY_DIFFERENT = 4.0
"""p99 of the chains' lengths against their median, above which the tail deserves `--removal.all-beyond`."""
MUCH_SHORTER = 8.0
"""The same of the tenth of the chains that are shortest."""
LOOKED_AT = 1_000
"""Rows whose cutting is looked at."""


@dataclass(frozen=True)
class DataCheckArguments:
    """Look at a file of rows before a training: lengths, tokens, stages and warnings."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The training rows."""
    eval: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=FILE")] = ()
    """Once for each file to measure on: are its questions in training, and can it be read?"""
    model: str | None = None
    """A Hugging Face folder or a config.json; its own tokenizer is taken if no other is given."""
    tokenizer: str | None = None
    """A folder, characters or words. With neither model nor tokenizer only the texts are looked at."""
    method: str = "left"
    """The curriculum whose stages are shown."""
    unit: Unit = "token"
    """What is taken away at a time."""
    rows: RowsConfig = field(default_factory=RowsConfig)
    removal: RemovalConfig = field(default_factory=RemovalConfig)
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class DataReport:
    """What was found."""

    file: str
    rows: int
    steps: dict[str, float]
    """Of the chains, in steps: median, p99, longest."""
    tokens: dict[str, dict[str, float]]
    """question, chain, answer → median, p99, longest, in tokens; empty without a tokenizer."""
    example: dict[str, str]
    """How a row with a chain of median length is cut: question, chain, answer."""
    stages: list[dict[str, str]]
    """Three stages of this row, or three budgets of a mixture: what the model reads, and must write."""
    warnings: tuple[str, ...]


def data_check_command(arguments: DataCheckArguments) -> int:
    with own_files():
        report = check_data(arguments)
    if arguments.json:
        print(json.dumps(vars(report)))
    else:
        _print(report)
    return 0


def check_data(arguments: DataCheckArguments) -> DataReport:
    name, named = str(arguments.file), TextConfig(eval=arguments.eval).eval_files()
    if arguments.model is None and arguments.tokenizer is None:
        return _check_rows(arguments, name, named)
    material = _material(arguments, name, named)
    texts = {"train": material.texts["train"], **{file: material.texts[file] for file in named}}
    typical = median_low([len(row.units) for row in material.train])
    shown = next(row for row in material.train if len(row.units) == typical)
    tokens = {
        "question": lengths([len(row.question) for row in material.train]),
        "chain": lengths([row.chain for row in material.train]),
        "answer": lengths([len(row.answer) for row in material.train]),
    }
    chain = [token for unit in shown.units for token in unit]
    example = {"question": shown.question, "chain": chain, "answer": shown.answer}
    units = {f"{arguments.unit}s": [len(row.units) for row in material.train]}
    return DataReport(
        name,
        len(texts["train"]),
        lengths([len(row.steps) for row in texts["train"]]),
        tokens,
        {part: material.tokenizer.show(ids) for part, ids in example.items()},
        shown_stages(material, shown),
        (
            *_about_lengths(units),
            *_about_steps(texts),
            *_about_tokens(material, arguments),
            *_about_splits(texts),
        ),
    )


def _check_rows(arguments: DataCheckArguments, name: str, named: Mapping[str, str]) -> DataReport:
    """What can be told of texts alone."""
    texts = {"train": read_rows(name, arguments.rows, "file", {})[0]}
    for file, path in named.items():
        texts[file], _ = read_rows(path, arguments.rows, f"eval {file}", {})
    steps = [len(row.steps) for row in texts["train"]]
    units = {"steps": steps, "words": [len(" ".join(row.steps).split()) for row in texts["train"]]}
    warnings = (*_about_lengths(units), *_about_steps(texts), *_about_splits(texts))
    return DataReport(name, len(steps), lengths(steps), {}, {}, [], warnings)


def _material(arguments: DataCheckArguments, name: str, named: Mapping[str, str]) -> Material:
    import tempfile

    # all rows are looked at: without a file of that name some would be held out
    held_out = () if HELD_OUT in named else (f"{HELD_OUT}={name}",)
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model
        if model is None:  # the smallest model that there is: only its tokenizer matters here
            path = Path(folder) / "config.json"
            path.write_text('{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1}')
            model = str(path)
        config = TextConfig(
            data=name, eval=(*held_out, *arguments.eval), model=model, tokenizer=arguments.tokenizer,
            method=arguments.method, unit=arguments.unit, rows=arguments.rows, removal=arguments.removal,
            iterations=10**9,
        )  # fmt: skip
        return find_material(config, {})


def lengths(values: Sequence[int]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": float(median(ordered)),
        "p99": float(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]),
        "longest": float(ordered[-1]),
    }


def shown_stages(material: Material, row: CutRow) -> list[dict[str, str]]:
    """The first stage, one in the middle and the last, of one row; of a mixture, three of its budgets."""
    curriculum, units = material.curriculum, len(row.units)
    budgets = curriculum.budgets
    if not budgets:
        stages = _three(1, curriculum.stages)
        return [_shown(material, row, curriculum.kept(units, s), f"{s} of {curriculum.stages}") for s in stages]
    return [
        _shown(
            material,
            row,
            curriculum.kept_within(units, budgets[i]),
            f"1 of 1, budget {i} (up to {budgets[i]} {curriculum.unit}s)",
            i,
        )
        for i in _three(0, len(budgets) - 1)
    ]


def _three(first: int, last: int) -> list[int]:
    return sorted({first, (first + last) // 2, last})


def _shown(
    material: Material, row: CutRow, kept: Kept, stage: str, budget: int | None = None
) -> dict[str, str]:
    rendered, show = material.renderer.render(row, kept, budget), material.tokenizer.show
    return {"stage": stage, "reads": show(rendered.tokens[: rendered.prompt]), "writes": show(rendered.block)}


# Warnings --------------------------------------------------------------------------------------------------


def _about_lengths(chains: Mapping[str, Sequence[int]]) -> list[str]:
    """chains: unit → how many each chain has; one warning is enough."""
    for unit, counts in chains.items():
        found, short = lengths(counts), sorted(counts)[len(counts) // 10]
        long_tail = 0 < VERY_DIFFERENT * found["median"] < found["p99"]
        if long_tail or 0 < MUCH_SHORTER * short < found["p99"]:
            numbers = f"p10 {short}, median {found['median']:.0f}, p99 {found['p99']:.0f} {unit}"
            after = "the last stages take words away from few rows; --removal.all-beyond ends the tail"
            return [f"chains are of very different lengths ({numbers}): {after}"]
    return []


def _about_steps(texts: Mapping[str, Sequence[TextRow]]) -> list[str]:
    found = []
    for name, rows in texts.items():
        without, which = sum(not row.steps for row in rows), "" if name == "train" else f" of {name!r}"
        if without:
            some = f"{without:,} of {len(rows):,} rows{which} have no steps"
            found.append(f"{some}: nothing of them can be taken away")
    return found


def _about_tokens(material: Material, arguments: DataCheckArguments) -> list[str]:
    tokenizer, texts = material.tokenizer, material.texts["train"][:LOOKED_AT]
    found = []
    merged = {token for row in texts for token in _merged_digits(row, tokenizer)}
    if merged:
        found.append(
            f"digits are merged into one token ({', '.join(map(repr, sorted(merged)[:4]))}): arithmetic "
            "on such tokens is harder; put spaces between digits, or take --tokenizer characters"
        )
    if tokenizer.kind in MADE:  # their cuts are the same wherever a text ends
        return found
    inside = sum(_cut_inside(row, material.train[i], tokenizer, arguments) for i, row in enumerate(texts))
    if inside:
        found.append(
            f"in {inside:,} of {len(texts):,} rows a boundary between question, steps or answer lies inside a "
            "token of the whole text: the parts are tokenized apart here, which a trained model has not seen so"
        )
    return found


def _merged_digits(row: TextRow, tokenizer: TextTokenizer) -> list[str]:
    """Tokens with two digits of a number; those of a name, as in n12, are none."""
    words = {token for ids in tokenizer.encode([row.question, *row.steps, row.answer]) for token in ids}
    texts = [tokenizer.library.decode([token]).strip() for token in words]
    return [text for text in texts if re.search(r"(?<![^\W_])\d\d", text)]


def _cut_inside(row: TextRow, cut: CutRow, tokenizer: TextTokenizer, arguments: DataCheckArguments) -> bool:
    whole = tokenizer.encode([joined(row, arguments.rows.joiner)])[0]
    apart = [*cut.question, *(token for unit in cut.units for token in unit), *cut.answer]
    return [*tokenizer.prefix, *whole] != apart


def _about_splits(texts: Mapping[str, Sequence[TextRow]]) -> list[str]:
    found = []
    for name, rows in texts.items():
        seen = 0 if name == "train" else overlap(texts["train"], rows)
        if seen:
            found.append(f"{seen:,} of {len(rows):,} questions of {name!r} occur in training")
    return found


def _print(report: DataReport) -> None:
    console = PlainConsole()
    table = [["steps", *(f"{report.steps[key]:,.0f}" for key in ("median", "p99", "longest"))]]
    for part, found in report.tokens.items():
        table.append([f"tokens of the {part}", *(f"{found[key]:,.0f}" for key in ("median", "p99", "longest"))])
    title = f"{report.file}: {report.rows:,} rows"
    console.print(results_table(title, ["", "median", "p99", "longest"], table))
    for part, text in report.example.items():
        console.print(f"[bold]{part}[/bold]  {escape(text)}", soft_wrap=True)
    for stage in report.stages:
        reads, writes = escape(stage["reads"]), escape(stage["writes"])
        console.print(f"[bold]stage {stage['stage']}[/bold]  {reads}  →  {writes}", soft_wrap=True)
    for warning in report.warnings:
        console.print(f"[yellow]warning[/yellow]  {escape(warning)}", soft_wrap=True)
    if not report.warnings:
        console.print("no warnings")


@dataclass(frozen=True)
class TextArguments:
    """Teach a language model to answer with a chain of words, then take the words away.

    For example: internalize text --data train.jsonl --eval id=test.jsonl --model config.json --tokenizer words
    """

    HIDDEN: ClassVar[Mapping[type[Any], Collection[str]]] = {ScheduleConfig: CONTROLS}
    """Options of the controller, which text does not have."""

    config: Annotated[TextConfig, tyro.conf.arg(name="")] = field(default_factory=TextConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)


def text_command(arguments: TextArguments) -> int | None:
    return run_experiment(arguments.config, arguments.execution, arguments.many)
