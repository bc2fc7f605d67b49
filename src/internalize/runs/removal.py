"""`internalize runs prune`: only what is a run for certain is deleted, when told to, and never half of it.

A folder is moved out of sight first, under a hidden name in the folder of runs, and its marker goes last: what
a killed process leaves there is known for what it was, and the next one finishes it.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from internalize.display.terminal import plain
from internalize.errors import BadInput, require
from internalize.runs.commands import Selection
from internalize.runs.folder import FORMAT, STATES, Run
from internalize.runs.index import Store
from internalize.runs.location import MARKER, hash_in_name
from internalize.runs.storage import Owned, own, read_json, write_json


@dataclass(frozen=True)
class PruneArguments:
    """Delete runs, or the parts of finished runs that nothing needs any more. Without --yes nothing goes."""

    which: Annotated[Selection, tyro.conf.arg(name="")] = field(default_factory=Selection)
    what: What = "runs"
    """runs: whole folders, the failed ones unless --status says otherwise. checkpoints: of finished runs, which
    resume needs no more. stages: the weights at stage ends of finished runs."""
    yes: bool = False
    """Delete."""


def prune_command(arguments: PruneArguments) -> int:
    """1 where something that was to be deleted is still there, though nobody trains it."""
    out, what = arguments.which.out, arguments.what
    runs = find_victims(arguments)
    parts = [run if what == "runs" else run / what for run in runs]
    sizes = [size_of(part) for part in parts]
    for size, part in zip(sizes, parts, strict=True):
        print(plain(f"{size / 2**20:10.1f} MB  {part}"))
    if not arguments.yes:
        print(f"{len(runs)} to delete, {sum(sizes) / 2**20:.1f} MB; add --yes to delete them")
        return 0
    finish_deleting(out)
    deleted = spared = 0
    for run in runs:
        try:
            delete(out, run, what)
            deleted += 1
        except BadInput as error:  # somebody is training it, or it has changed meanwhile
            print(plain(f"left alone: {error.message}"))
            spared += isinstance(error, Owned)
        except OSError as error:
            print(plain(f"left alone: {run}: {error.strerror}"))
    Store(out).entries()
    print(f"deleted {deleted} of {len(runs)}")
    return 0 if deleted + spared == len(runs) else 1


def find_victims(arguments: PruneArguments) -> list[Path]:
    """The runs that go, or of which a part does, read from the folders. Never one that is running."""
    which = arguments.which
    whole = arguments.what == "runs"
    needed = f"must be done or failed for --what {arguments.what}: other runs need them to go on"
    require(whole or which.status in (None, "done", "failed"), "status", needed)
    wanted = which.status or ("failed" if whole else "done")
    found = []
    for entry in Store(which.out).entries(which.filter(), from_folders=True):
        run = which.out / entry.path
        if not entry.state == wanted != "running":
            continue
        try:
            require_deletable(which.out, run, arguments.what)
        except BadInput as error:
            print(plain(f"left alone: {error.message}"))
            continue
        if whole or (run / arguments.what).is_dir():
            found.append(run)
    return found


def size_of(folder: Path) -> int:
    """Bytes of all files below the folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


# Deleting ------------------------------------------------------------------------------------------------

What = Literal["runs", "checkpoints", "stages"]
HIDDEN = ".deleting-"


def require_deletable(out: Path, folder: Path, what: What = "runs") -> str:
    """The hash of the run in this folder; refused unless it is a run of this format, and really below `out`.

    Whatever called it a run, an index or a file of the name config.json, is not asked.
    """
    inside = folder.is_relative_to(out) and ".." not in folder.relative_to(out).parts and folder != out
    require(inside, "out", f"{folder} is not below {out}")
    place = out.resolve() / folder.relative_to(out)
    for path in (folder, folder / what) if what != "runs" else (folder,):
        same = (place / path.relative_to(folder)) == path.resolve()
        require(same, "out", f"{path} is reached by a link: delete what it leads to yourself")
    digest = marked(folder) or _recognised(folder)
    require(bool(digest), "out", f"{folder} is not known for certain as a run of this format")
    others = [path.parent for path in folder.rglob("status.json") if path.parent != folder]
    require(not others or what != "runs", "out", f"{folder} holds another run: {others[:1]}")
    return digest


def marked(folder: Path) -> str:
    """The hash in the folder's marker, if its config or its name agrees; else nothing."""
    marker = _object(folder / MARKER)
    digest = marker.get("run")
    if (
        marker.get("format") != FORMAT
        or not isinstance(digest, str)
        or not re.fullmatch("[0-9a-f]{12}", digest)
    ):
        return ""
    return digest if digest in (_digest(folder), hash_in_name(str(folder))) else ""


def _recognised(folder: Path) -> str:
    """The hash of a run that was made before there were markers: by its config and status, and by its name or
    the record of how it was made; else nothing."""
    digest = _digest(folder)
    known_state = _object(folder / "status.json").get("state") in STATES
    recorded = _object(folder / "provenance.json").get("identity")
    agrees = hash_in_name(str(folder)) == digest or recorded == _object(folder / "config.json")
    return digest if digest and known_state and agrees else ""


def _digest(folder: Path) -> str:
    """Of what the config says; empty if it is none."""
    stored = _object(folder / "config.json")
    if stored.get("format") != FORMAT or not isinstance(stored.get("kind"), str):
        return ""
    if not all(isinstance(stored.get(name), dict) for name in ("config", "sources")):
        return ""
    return Run(folder).identity().digest()


def _object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def delete(out: Path, folder: Path, what: What) -> None:
    """Delete the run in the folder, or that part of it, as its owner; refused if somebody is training it."""
    require_deletable(out, folder, what)  # before anything is written there, a lock for one
    with own(folder):
        digest = require_deletable(out, folder, what)
        part = folder if what == "runs" else folder / what
        doomed = out / f"{HIDDEN}{digest}-{what}-{os.getpid()}"
        try:
            write_json(part / MARKER, {"format": FORMAT, "run": digest})
            part.rename(doomed)  # in one step: nobody ever finds half a run
        except OSError as error:
            raise BadInput("out", f"{part} cannot be moved away: {error.strerror}") from None
    _remove(doomed)


def finish_deleting(out: Path) -> list[Path]:
    """Delete what killed processes have left half-deleted in the folder of runs."""
    found = []
    for path in sorted(out.glob(f"{HIDDEN}*")):
        form = re.fullmatch(rf"{re.escape(HIDDEN)}([0-9a-f]{{12}})-(runs|checkpoints|stages)-(\d+)", path.name)
        if form is None or path.is_symlink() or not path.is_dir():
            continue
        marker = _object(path / MARKER)
        if marker == {"format": FORMAT, "run": form[1]} or not any(path.iterdir()):
            _remove(path)
            found.append(path)
    return found


def _remove(doomed: Path) -> None:
    """The marker goes last."""
    try:
        for entry in doomed.iterdir():
            if entry.name == MARKER:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        (doomed / MARKER).unlink(missing_ok=True)
        doomed.rmdir()
    except FileNotFoundError:  # another process finishes the same
        pass
    except OSError as error:
        raise BadInput("out", f"{doomed} cannot be deleted: {error.strerror}") from None
