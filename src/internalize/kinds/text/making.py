"""`internalize data make`: files of problems with exact oracles, split so that no question is on both sides."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from internalize.configs.outputs import make_folder
from internalize.errors import require, require_seed
from internalize.kinds.text.rows import write_rows
from internalize.tasks.text import draw_splits, find_problems

OOD_ROWS = 1_000


@dataclass(frozen=True)
class DataMakeArguments:
    """Write rows of question, steps and answer for problems whose answers are known exactly."""

    name: Annotated[str, tyro.conf.Positional]
    """multiplication:4x4, addition:8, expressions:mod11:6, reachability:10:3, semiautomaton:C3:8."""
    n: int = 10_000
    """Rows of the file."""
    seed: int = 0
    """Which rows are drawn."""
    out: Path = Path("train.jsonl")
    """The file: .jsonl, or .txt in the form of Internalize_CoT."""
    split: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """NAME=N, once for each further file beside it: test=1000. No question of one is in another, not even with
    its factors exchanged."""
    ood: bool = False
    """Write files out of distribution too: longer numbers, other digits, more hops, binomial inputs."""
    json: bool = False
    """Print one JSON object with the files and their rows."""


def data_make_command(arguments: DataMakeArguments) -> None:
    require(arguments.n >= 1, "n", f"must be at least 1, got {arguments.n}")
    require_seed(arguments.seed)
    problems = find_problems(arguments.name)
    out = arguments.out
    require(out.suffix in (".jsonl", ".txt"), "out", f"must end in .jsonl or .txt, got {out}")
    sizes = {**_splits(arguments.split), out.stem: arguments.n}
    files = dict(draw_splits(problems, sizes, arguments.seed))
    if arguments.ood:
        for name, other in problems.companions().items():
            files |= draw_splits(other, {f"ood_{name}": OOD_ROWS}, arguments.seed, "ood", distinct=False)
    make_folder(out.parent, "out")
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
