"""Run folders as a stranger or a bad disk leaves them: values of other types, bytes flipped, files swapped."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from internalize.runs.manifest import MAY_GO

JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**63, 2**64 - 1, 10**300, 1e308, float("nan"), float("inf"), "", "x",
    "\x1b[31mred",
    "\ud800", "../../x", "/etc/passwd", "runs", "C2", "done", [], {}, [[]], {"": {}}, [None], ["x",
    3], {"a": [1, {"b": 2}]},
    "x" * 100_000, list(range(1000)), "x.py:y", "uniform", "🧨", "\u202e", "=1+1",
]  # fmt: skip
"""Values to put where another one belongs."""
DOCUMENTS = ("config.json", "status.json", "provenance.json", "manifest.json", ".run.json", "sources.json",
             "model/config.json", "metrics.jsonl", "timing.jsonl")  # fmt: skip


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is a value in a JSON document, itself included."""
    yield before
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*before, key))


def changed(value: Any, place: tuple[Any, ...], chance: random.Random) -> Any:
    """The document with junk at the place; or without what was there, or with something that nobody knows."""
    junk = copy.deepcopy(chance.choice(JUNK))  # the next change may be inside of it
    if not place:
        return junk
    *way, last = place
    inner = value
    for key in way:
        inner = inner[key]
    what = chance.randrange(6)
    if what == 0:
        del inner[last]
    elif what == 1 and isinstance(inner, dict):
        inner[f"no {last}"] = inner[last]
    else:
        inner[last] = junk
    return value


def change_value(run: Path, chance: random.Random) -> None:
    """One value of one document; in a file of rows, of one row."""
    path = run / chance.choice([name for name in DOCUMENTS if (run / name).exists()])
    text = path.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    if not rows:
        return
    which = chance.randrange(len(rows))
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        rows[which] = changed(rows[which], chance.choice(list(places(rows[which]))), chance)
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")


def flip_bytes(run: Path, chance: random.Random) -> None:
    path = chance.choice([path for path in files_of(run) if path.stat().st_size])
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 1, 3, 50])):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def cut_file(run: Path, chance: random.Random) -> None:
    path = chance.choice(files_of(run))
    content = path.read_bytes()
    path.write_bytes(content[: chance.choice([0, len(content) // 2, max(0, len(content) - 1)])])


def double_file(run: Path, chance: random.Random) -> None:
    path = chance.choice(files_of(run))
    path.write_bytes(2 * path.read_bytes())


def swap_files(run: Path, chance: random.Random) -> None:
    first, second = chance.sample(files_of(run), 2)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


def lose_file(run: Path, chance: random.Random) -> None:
    chance.choice(files_of(run)).unlink()


def lose_folder(run: Path, chance: random.Random) -> None:
    """One that `runs prune` does not take away, which is no damage."""
    folders = sorted(path for path in run.iterdir() if path.is_dir() and path.name not in MAY_GO)
    shutil.rmtree(chance.choice(folders or [run / "checkpoints"]), ignore_errors=True)


def put_something_else(run: Path, chance: random.Random) -> None:
    """A folder, a link to itself, a link out of the run, or a pipe in place of a file."""
    path = chance.choice(files_of(run))
    path.unlink()
    what = chance.randrange(4)
    if what == 0:
        path.mkdir()
    elif what == 1:
        os.mkfifo(path)
    else:
        path.symlink_to(path.name if what == 2 else "/proc/self/environ")


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    flip_bytes, cut_file, double_file, swap_files, lose_file, lose_folder, put_something_else,
]  # fmt: skip
ATTACKS = [change_value, change_value, change_value, *DAMAGES]
