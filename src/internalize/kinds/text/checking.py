"""`internalize data check`: what is in a file of rows, how it is cut into tokens, and what to beware of."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated

import tyro
from rich.markup import escape

from internalize.configs.files import make_folder
from internalize.configs.named import own_files
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import require, require_seed
from internalize.kinds.entrance import run_experiment
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.material import Material, find_material, joined, overlap
from internalize.kinds.text.rendering import CutRow, RemovalConfig, Unit
from internalize.kinds.text.rows import RowsConfig, TextRow, read_rows, write_rows
from internalize.kinds.text.tokenization import MADE, TextTokenizer
from internalize.runtime.execution import Execution
from internalize.runtime.fleet.seeds import SideBySide

VERY_DIFFERENT = 4.0
"""p99 of the chains' lengths against their median, above which the tail deserves `--removal.all-beyond`."""
LOOKED_AT = 1_000
"""Rows whose cutting is looked at."""


@dataclass(frozen=True)
class DataCheckArguments:
    """Look at a file of rows before a training: lengths, tokens, stages and warnings."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The training rows."""
    eval: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=FILE: files to measure on, once for each."""
    model: str | None = None
    """A Hugging Face folder or a config.json; without it only the rows themselves are looked at."""
    tokenizer: str | None = None
    """A folder, characters or words; the model folder's own if not given."""
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
    """How the first row is cut: question, chain, answer."""
    stages: list[dict[str, str]]
    """Three stages of the first row: what the model reads, and what it must write."""
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
    name = str(arguments.file)
    if arguments.model is None and arguments.tokenizer not in MADE:
        rows, _ = read_rows(name, arguments.rows, "file", {})
        require(arguments.tokenizer is None, "model", "must be given with a tokenizer's folder")
        return DataReport(
            name, len(rows), lengths([len(row.steps) for row in rows]), {}, {}, [], _about_rows(rows)
        )
    material = _material(arguments, name)
    everything = [row for rows in material.texts.values() for row in rows]
    training, tokenizer = material.texts["train"], material.tokenizer
    first = material.train[0]
    tokens = {
        "question": lengths([len(row.question) for row in material.train]),
        "chain": lengths([row.chain for row in material.train]),
        "answer": lengths([len(row.answer) for row in material.train]),
    }
    chain = [token for unit in first.units for token in unit]
    example = {"question": first.question, "chain": chain, "answer": first.answer}
    return DataReport(
        name,
        len(training),
        lengths([len(row.steps) for row in training]),
        tokens,
        {part: tokenizer.show(ids) for part, ids in example.items()},
        shown_stages(material, first),
        (*_about_rows(everything), *_about_tokens(material, arguments), *_about_splits(material)),
    )


def _material(arguments: DataCheckArguments, name: str) -> Material:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model
        if model is None:  # the smallest model that there is: only its tokenizer matters here
            path = Path(folder) / "config.json"
            path.write_text('{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1}')
            model = str(path)
        config = TextConfig(
            data=name, eval=arguments.eval, model=model, tokenizer=arguments.tokenizer,
            method=arguments.method, unit=arguments.unit, rows=arguments.rows, removal=arguments.removal,
            iterations=10**9,
        )  # fmt: skip
        if not arguments.eval:  # nothing is held out: all rows are looked at
            config = replace(config, eval=(f"id={name}",))
        return find_material(config, {})


def lengths(values: Sequence[int]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": float(median(ordered)),
        "p99": float(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]),
        "longest": float(ordered[-1]),
    }


def shown_stages(material: Material, row: CutRow) -> list[dict[str, str]]:
    """The first stage, one in the middle and the last, of one row."""
    curriculum, renderer, tokenizer = material.curriculum, material.renderer, material.tokenizer
    found = []
    for stage in sorted({1, (1 + curriculum.stages) // 2, curriculum.stages}):
        budget = len(curriculum.budgets) - 1 if curriculum.budgets else None
        kept = curriculum.kept(len(row.units), stage)
        if budget is not None:
            kept = curriculum.kept_within(len(row.units), curriculum.budgets[budget])
        rendered = renderer.render(row, kept, budget)
        found.append(
            {
                "stage": f"{stage} of {curriculum.stages}",
                "reads": tokenizer.show(rendered.tokens[: rendered.prompt]),
                "writes": tokenizer.show(rendered.block),
            }
        )
    return found


# Warnings --------------------------------------------------------------------------------------------------


def _about_rows(rows: Sequence[TextRow]) -> tuple[str, ...]:
    found = []
    chains = lengths([len(row.steps) for row in rows])
    if chains["median"] > 0 and chains["p99"] > VERY_DIFFERENT * chains["median"]:
        found.append(
            f"chains are of very different lengths (median {chains['median']:.0f} steps, p99 "
            f"{chains['p99']:.0f}): the last stages train on few rows; --removal.all-beyond ends the tail"
        )
    without = sum(not row.steps for row in rows)
    if without:
        found.append(f"{without:,} of {len(rows):,} rows have no steps: nothing of them can be taken away")
    return tuple(found)


def _about_tokens(material: Material, arguments: DataCheckArguments) -> list[str]:
    tokenizer = material.tokenizer
    if tokenizer.kind in MADE:
        return []
    texts = material.texts["train"][:LOOKED_AT]
    found = []
    merged = [token for row in texts for token in _merged_digits(row, tokenizer)]
    if merged:
        found.append(
            f"digits are merged into one token ({', '.join(map(repr, sorted(set(merged))[:4]))}): arithmetic "
            "on such tokens is harder; put spaces between digits, or take another tokenizer"
        )
    inside = sum(_cut_inside(row, material.train[i], tokenizer, arguments) for i, row in enumerate(texts))
    if inside:
        found.append(
            f"in {inside:,} of {len(texts):,} rows a boundary between question, steps or answer lies inside a "
            "token of the whole text: the parts are tokenized apart here, which a trained model has not seen so"
        )
    return found


def _merged_digits(row: TextRow, tokenizer: TextTokenizer) -> list[str]:
    words = {token for ids in tokenizer.encode([row.question, *row.steps, row.answer]) for token in ids}
    texts = [tokenizer.library.decode([token]).strip() for token in words]
    return [text for text in texts if re.search(r"\d\d", text)]


def _cut_inside(row: TextRow, cut: CutRow, tokenizer: TextTokenizer, arguments: DataCheckArguments) -> bool:
    whole = tokenizer.encode([joined(row, arguments.rows.joiner)])[0]
    apart = [*cut.question, *(token for unit in cut.units for token in unit), *cut.answer]
    return [*tokenizer.prefix, *whole] != apart


def _about_splits(material: Material) -> list[str]:
    found = []
    for name, rows in material.texts.items():
        if name == "train" or rows == material.texts["train"]:
            continue
        seen = overlap(material.texts["train"], rows)
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


OOD_ROWS = 1_000


@dataclass(frozen=True)
class DataMakeArguments:
    """Write rows of question, steps and answer for problems whose answers are known exactly."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")]
    """multiplication:4x4, addition:8, expressions:mod11:6, reachability:10:3, semiautomaton:C3:8."""
    n: int = 10_000
    """Rows of the file."""
    seed: int = 0
    """Which rows are drawn."""
    file: Annotated[Path, tyro.conf.arg(aliases=("--out",), metavar="FILE")] = Path("train.jsonl")
    """The file to write: .jsonl, or .txt in the form of Internalize_CoT."""
    split: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=N, once for each further file beside it: test=1000. No question of one is in another, not even with
    its factors exchanged."""
    ood: bool = False
    """Write files out of distribution too: longer numbers, other digits, more hops, binomial inputs."""
    json: bool = False
    """Print one JSON object with the files and their rows."""


def data_make_command(arguments: DataMakeArguments) -> None:
    from internalize.tasks.text import draw_splits, find_problems

    require(arguments.n >= 1, "n", f"must be at least 1, got {arguments.n}")
    require_seed(arguments.seed)
    problems = find_problems(arguments.name)
    out = arguments.file
    require(out.suffix in (".jsonl", ".txt"), "file", f"must end in .jsonl or .txt, got {out}")
    sizes = {**_splits(arguments.split), out.stem: arguments.n}
    files = dict(draw_splits(problems, sizes, arguments.seed))
    if arguments.ood:
        for name, other in problems.companions().items():
            files |= draw_splits(other, {f"ood_{name}": OOD_ROWS}, arguments.seed, "ood", distinct=False)
    make_folder(out.parent, "file")
    written = {}
    for name, rows in files.items():
        path = out.with_name(f"{name}{out.suffix}")
        write_rows(rows, path)
        written[str(path)] = len(rows)
    if arguments.json:
        print(json.dumps({"name": problems.name, "seed": arguments.seed, "files": written}))
        return
    for file, count in written.items():
        print(f"{file}: {count:,} rows")
    first = files[out.stem][0]
    print(f"for example: {first.question}  →  {' '.join(first.steps)}  →  {first.answer}")


def _splits(texts: tuple[str, ...]) -> dict[str, int]:
    sizes = {}
    for text in texts:
        name, _, count = text.partition("=")
        good = name.isidentifier() and count.isascii() and count.isdigit() and int(count) >= 1
        require(good, "split", f"must have the form test=1000, got {text!r}")
        sizes[name] = int(count)
    return sizes


@dataclass(frozen=True)
class TextArguments:
    """Teach a language model to answer with a chain of words, then take the words away.

    For example: internalize text --data train.jsonl --eval id=test.jsonl --model config.json --tokenizer words
    """

    config: Annotated[TextConfig, tyro.conf.arg(name="")] = field(default_factory=TextConfig)
    execution: Annotated[Execution, tyro.conf.arg(name="")] = field(default_factory=Execution)
    many: Annotated[SideBySide, tyro.conf.arg(name="")] = field(default_factory=SideBySide)


def text_command(arguments: TextArguments) -> int | None:
    return run_experiment(arguments.config, arguments.execution, arguments.many)
