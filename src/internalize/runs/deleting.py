"""Deleting a run folder, or a part of it: only what is a run for certain, and never half of it.

A folder is moved out of sight first, under a hidden name in the folder of runs, and its marker goes last: what
a killed process leaves there is known for what it was, and the next one finishes it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Literal

from internalize.errors import BadInput, require
from internalize.runs.atomic import read_json, write_json
from internalize.runs.finding import hash_in_name
from internalize.runs.folder import MARKER, Run
from internalize.runs.identity import FORMAT
from internalize.runs.lock import own

What = Literal["runs", "checkpoints", "stages"]
HIDDEN = ".deleting-"
STATES = ("new", "running", "interrupted", "failed", "done")


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
