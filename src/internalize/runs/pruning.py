"""`internalize runs prune`: say what would go, and let it go only when told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from internalize.errors import BadInput
from internalize.runs.commands import Selection
from internalize.runs.deleting import What, delete, finish_deleting, require_deletable
from internalize.runs.store import Store


@dataclass(frozen=True)
class PruneArguments:
    """Delete runs, or the parts of finished runs that nothing needs any more. Without --yes nothing goes."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    what: What = "runs"
    """runs: whole folders, the failed ones unless --status says otherwise. checkpoints: of finished runs, which
    resume needs no more. stages: the weights at stage ends of finished runs."""
    yes: bool = False
    """Delete."""


def prune_command(arguments: PruneArguments) -> None:
    out, what = arguments.which.out, arguments.what
    runs = find_victims(arguments)
    parts = [run if what == "runs" else run / what for run in runs]
    sizes = [size_of(part) for part in parts]
    for size, part in zip(sizes, parts, strict=True):
        print(f"{size / 2**20:10.1f} MB  {part}")
    if not arguments.yes:
        print(f"{len(runs)} to delete, {sum(sizes) / 2**20:.1f} MB; add --yes to delete them")
        return
    finish_deleting(out)
    deleted = 0
    for run in runs:
        try:
            delete(out, run, what)
            deleted += 1
        except BadInput as error:  # somebody is training it, or it has changed meanwhile
            print(f"left alone: {error.message}")
    Store(out).entries()
    print(f"deleted {deleted} of {len(runs)}")


def find_victims(arguments: PruneArguments) -> list[Path]:
    """The runs that go, or of which a part does, read from the folders. Never one that is running."""
    which = arguments.which
    wanted = which.status or ("failed" if arguments.what == "runs" else "done")
    found = []
    for entry in Store(which.out).entries(which.filter(), from_folders=True):
        run = which.out / entry.path
        if not entry.state == wanted != "running":
            continue
        try:
            require_deletable(which.out, run, arguments.what)
        except BadInput as error:
            print(f"left alone: {error.message}")
            continue
        if arguments.what == "runs" or (run / arguments.what).is_dir():
            found.append(run)
    return found


def size_of(folder: Path) -> int:
    """Bytes of all files below the folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
