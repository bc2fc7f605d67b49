"""Run folders below a folder, and the one that a user means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from internalize.errors import BadInput, require

DEPTH = 3
"""How many folders deep runs are looked for, as in runs/sweep/case/RUN."""
PLACE = "INTERNALIZE_RUNS"
"""The environment variable that says where a user keeps runs."""


def runs_folder() -> Path:
    """Where runs are, and go to, unless a command or a caller says otherwise."""
    return Path(os.environ.get(PLACE) or "runs").expanduser()


def run_folders(out: Path, depth: int = DEPTH) -> Iterator[tuple[str, os.stat_result]]:
    """Every folder below `out` that has a config.json, and that file's stat; never inside of runs.

    Strings, and not a look more than needed: there may be ten thousand of them.
    """
    try:
        entries = sorted(os.scandir(out), key=lambda entry: entry.name)
    except OSError:  # no such folder, or one that is none of ours
        return
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        try:
            config = os.stat(f"{entry.path}/config.json")  # noqa: PTH116
        except OSError:
            if depth > 1:
                yield from run_folders(Path(entry.path), depth - 1)
        else:
            yield entry.path, config


def is_run_folder(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def find_folder(text: Path | str, field: str, out: Path | None = None) -> Path:
    """What a user typed: the run folder at a path, or of that name below `out`, or whose hash begins so.

    out: `runs_folder` if not given.
    """
    out = out or runs_folder()
    path = Path(text)
    for place in (path, out / path):
        if is_run_folder(place):
            return place
    name = str(text)
    if not re.fullmatch(r"[0-9a-f]{3,12}", name):
        raise no_run(path, field)
    found = [folder for folder, _ in run_folders(out) if hash_in_name(folder).startswith(name)]
    elsewhere = f"where runs are elsewhere, the environment variable {PLACE} says so"
    none = f"{text} is neither a run folder nor the beginning of a hash below {out}; {elsewhere}"
    require(bool(found), field, none)
    several = ", ".join(Path(folder).name for folder in found[:5])
    require(len(found) == 1, field, f"{text} could be any of {len(found)} runs: {several}")
    return Path(found[0])


def no_run(folder: Path, field: str) -> BadInput:
    return BadInput(field, f"{folder} is not a run folder (it has no config.json)")


def hash_in_name(folder: str) -> str:
    """The hash at the end of a folder's name; empty where somebody has given it another name."""
    match = re.search(r"-([0-9a-f]{12})$", folder)
    return match.group(1) if match else ""


def split_stage(text: str, field: str) -> tuple[str, int | None]:
    """`RUN@STAGE` as the run and the stage's number; `RUN` alone has none. Folders above may have an @ too."""
    run, at, stage = text.rpartition("@")
    if not at or "/" in stage:
        return text, None
    good = bool(run) and stage.isascii() and stage.isdigit()
    require(good, field, f"must end in a stage's number after @, got {text!r}")
    return run, int(stage)
