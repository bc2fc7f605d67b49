"""`internalize data make`: rows of problems with exact answers, in files that share no question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from internalize.configs.files import make_folder
from internalize.errors import require, require_seed
from internalize.kinds.text.rows import write_rows

if TYPE_CHECKING:
    from internalize.tasks.text import Problems

OOD_ROWS = 1_000


@dataclass(frozen=True)
class DataMakeArguments:
    """Write rows of question, steps and answer for problems whose answers are known exactly."""

    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")]
    """multiplication:4x4, addition:8, expressions:mod11:6, reachability:10:3, semiautomaton:C3:8."""
    n: int = 10_000
    """Rows of the file."""
    seed: int = 0
    """Which rows are drawn."""
    file: Annotated[Path, tyro.conf.arg(aliases=("--out",), metavar="FILE")] = Path("train.jsonl")
    """The file to write: .jsonl, or .txt in the form of Internalize_CoT."""
    split: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=N")] = ()
    """Once for each further file beside it: test=1000. No question of one is in another, not even with
    its factors exchanged."""
    ood: bool = False
    """Write files out of distribution too, ood_NAME: longer numbers, other digits, more hops, binomial inputs.
    Refused where a problem has none."""
    json: bool = False
    """Print one JSON object with the files and their rows."""


def data_make_command(arguments: DataMakeArguments) -> None:
    from internalize.tasks.text import draw_splits, find_problems

    require(arguments.n >= 1, "n", f"must be at least 1, got {arguments.n}")
    require_seed(arguments.seed)
    problems = find_problems(arguments.problem)
    out = arguments.file
    require(out.suffix in (".jsonl", ".txt"), "file", f"must end in .jsonl or .txt, got {out}")
    others = _out_of_distribution(problems) if arguments.ood else {}
    sizes = _sizes(arguments, others)
    files = dict(draw_splits(problems, sizes, arguments.seed))
    for name, other in others.items():
        files |= draw_splits(other, {name: OOD_ROWS}, arguments.seed, "ood", distinct=False)
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
    if out.suffix == ".txt" and any(len(row.steps) > 1 for row in files[out.stem]):
        print("a line of a .txt does not say where a step ends: for --unit step write a .jsonl")
    first = files[out.stem][0]
    print(f"for example: {first.question}  →  {' '.join(first.steps)}  →  {first.answer}")


def _out_of_distribution(problems: Problems) -> dict[str, Problems]:
    found = {f"ood_{name}": other for name, other in problems.companions().items()}
    family = problems.name.partition(":")[0]
    more = {"reachability": "more hops need two more nodes for each", "semiautomaton": "it has a single symbol"}
    why = f"{problems.name} has no problems out of distribution"
    require(bool(found), "ood", f"{why}: {more.get(family, 'leave --ood out')}")
    return found


def _sizes(arguments: DataMakeArguments, others: Mapping[str, Problems]) -> dict[str, int]:
    """Name of a file → its rows, the training rows last; two files of one name would overwrite each other."""
    splits = _splits(arguments.split)
    names = [name for name, _ in splits]
    for name, count in Counter(names).items():
        require(count == 1, "split", f"the name {name!r} is there twice")
        clash = "the file of --file" if name == arguments.file.stem else "one that --ood writes"
        free = name != arguments.file.stem and name not in others
        require(free, "split", f"{name!r} is also the name of {clash}: take another one")
    beside = arguments.file.stem not in others
    require(
        beside, "file", f"{arguments.file.name} is also the name of one that --ood writes: take another one"
    )
    return {**dict(splits), arguments.file.stem: arguments.n}


def _splits(texts: tuple[str, ...]) -> list[tuple[str, int]]:
    found = []
    for text in texts:
        name, _, count = text.partition("=")
        good = name.isidentifier() and count.isascii() and count.isdigit() and int(count) >= 1
        require(good, "split", f"must have the form test=1000, got {text!r}")
        found.append((name, int(count)))
    return found
