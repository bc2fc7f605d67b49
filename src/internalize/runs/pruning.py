"""`internalize runs prune`: say what would go, and let it go only when told to."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from internalize.errors import BadInput
from internalize.runs.commands import Selection
from internalize.runs.lock import own
from internalize.runs.store import Store

What = Literal["runs", "checkpoints", "stages"]


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
    victims = find_victims(arguments)
    total = sum(size_of(path) for path in victims)
    for path in victims:
        print(f"{size_of(path) / 2**20:10.1f} MB  {path}")
    if not arguments.yes:
        print(f"{len(victims)} to delete, {total / 2**20:.1f} MB; add --yes to delete them")
        return
    deleted = [path for path in victims if delete(path, arguments.what)]
    Store(arguments.which.out).entries()
    print(f"deleted {len(deleted)} of {len(victims)}")


def find_victims(arguments: PruneArguments) -> list[Path]:
    """What goes. Whoever is running now is never among them."""
    wanted = arguments.which.status or ("failed" if arguments.what == "runs" else "done")
    entries = [entry for entry in arguments.which.entries() if entry.state == wanted != "running"]
    folders = [arguments.which.out / entry.path for entry in entries]
    if arguments.what == "runs":
        return folders
    parts = [folder / arguments.what for folder in folders]
    return [part for part in parts if part.is_dir()]


def delete(path: Path, what: What) -> bool:
    """Delete a run or a part of it as its owner; False if somebody is training it."""
    run = path if what == "runs" else path.parent
    doomed = run.with_name(f".deleted-{os.getpid()}-{run.name}")
    try:
        with own(run):
            if what != "runs":
                shutil.rmtree(path)
                return True
            # out of sight in one step: nobody ever finds half a run
            run.rename(doomed)
    except BadInput as error:
        print(f"left alone: {error.message}")
        return False
    shutil.rmtree(doomed)
    return True


def size_of(folder: Path) -> int:
    """Bytes of all files below the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
