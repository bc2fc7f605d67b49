"""Run folders below a folder, and the one that a user means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path

from internalize.errors import BadInput, require

DEPTH = 3
"""How many folders deep runs are looked for, as in runs/sweep/case/RUN."""
PLACE = "INTERNALIZE_RUNS"
"""The environment variable that says where a user keeps runs."""
MARKER = ".run.json"
"""In every run folder: says that it is one, and which."""


def runs_folder() -> Path:
    """Where runs are, and go to, unless a command or a caller says otherwise."""
    return Path(os.environ.get(PLACE) or "runs").expanduser()


def run_folders(out: Path, depth: int = DEPTH) -> Iterator[tuple[str, os.stat_result]]:
    """Every run folder below `out`, and the stat of its config.json, or of its status where it has lost that;
    never inside of runs.

    Strings, and not a look more than needed: there may be ten thousand of them.
    """
    try:
        entries = sorted(os.scandir(out), key=lambda entry: entry.name)
    except OSError:  # no such folder, or one that is none of ours
        return
    for entry in entries:
        if entry.name.startswith(".") or not _is_folder(entry):
            continue
        config = _stat(f"{entry.path}/config.json")
        if config is None and hash_in_name(entry.name) and not may_look_into(entry.path):
            config = entry.stat()  # by its name a run: nobody may look, but it must not go unnoticed
        is_marked = config is None and _stat(f"{entry.path}/{MARKER}") is not None
        if is_marked:
            config = _stat(f"{entry.path}/status.json")  # none yet: the run is just being begun
        if config is not None:
            yield entry.path, config
        elif depth > 1 and not is_marked:
            yield from run_folders(Path(entry.path), depth - 1)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle
        return False


def _stat(path: str) -> os.stat_result | None:
    """Of the file, or of the link in its place that leads nowhere; None if there is nothing."""
    for look in (os.stat, os.lstat):
        with suppress(OSError):
            return look(path)
    return None


def may_look_into(folder: Path | str) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def is_run_folder(folder: Path) -> bool:
    """Also one that may not be read or has lost its config, whose reader then says so."""
    try:
        return (folder / "config.json").is_file() or has_lost_its_config(folder)
    except PermissionError:
        return True


def has_lost_its_config(folder: Path) -> bool:
    """A run is marked, then gets its config, then a status: one that has both others has had it."""
    others = (folder / MARKER, folder / "status.json")
    return not os.path.lexists(folder / "config.json") and all(map(Path.is_file, others))


LATEST = "latest"
"""What a user types for the run that was worked on last."""
MOST_NAMED = 5


def safe_part(label: str) -> str:
    """What a folder's name has of a label, before the hash; safe on every file system."""
    return re.sub(r"[^A-Za-z0-9.+=-]+", "_", label).strip("._")[:60]


def find_folder(text: Path | str, field: str, out: Path | None = None) -> Path:
    """The run that a user means: by a path, by its name below `out`, by the beginning of its hash, by a part of
    its name or a pattern that no other has, or by the word `latest`.

    out: `runs_folder` if not given.
    """
    out = out or runs_folder()
    path = Path(text)
    for place in (path, out / path):
        if is_run_folder(place):
            return place
    name = str(text)
    if os.path.lexists(path) or name in ("", ".", ".."):  # something else is there: no name of a run
        raise no_run(path, field)
    folders = [folder for folder, _ in run_folders(out)]
    if name == LATEST:
        require(bool(folders), field, f"there is no run in {out} yet, so none is the {LATEST}{_elsewhere()}")
        return Path(max(folders, key=_last_change))
    found = [folder for folder in folders if hash_in_name(folder).startswith(name)] if _is_hash(name) else []
    found = found or [folder for folder in folders if _fits(name, Path(folder).relative_to(out).as_posix())]
    require(
        bool(found),
        field,
        f"{name} is not a run folder, nor a part of a name in {out}{_nearest(name, folders, out)}",
    )
    several = ", ".join(Path(folder).name for folder in found[:MOST_NAMED])
    more = ", …" if len(found) > MOST_NAMED else ""
    require(len(found) == 1, field, f"{name} could be any of {len(found)} runs: {several}{more}")
    return Path(found[0])


def _fits(text: str, name: str) -> bool:
    """Whether the text is a part of the name, or a pattern of it: `C2-*-s7`, `C2*left*`."""
    return text in name or (is_pattern(text) and fnmatchcase(name, f"*{text.strip('*')}*"))


def is_pattern(text: Path | str) -> bool:
    return any(letter in str(text) for letter in "*?[")


def find_folders(texts: Sequence[Path | str], field: str, out: Path | None = None) -> list[Path]:
    """The runs that a user means; each text is one run, or a pattern of paths or of names below `out`."""
    out = out or runs_folder()
    found: list[Path] = []
    for text in texts:
        if not is_pattern(text):
            found.append(find_folder(text, field, out))
            continue
        matched = _matching(str(text), out)
        near = _nearest(str(text).strip("*"), [folder for folder, _ in run_folders(out)], out)
        require(bool(matched), field, f"no run matches {text}, here or in {out}{near}")
        found += matched
    return list(dict.fromkeys(found))


def _matching(pattern: str, out: Path) -> list[Path]:
    """The runs at the paths that the pattern means, as a shell would find them; else those below `out` whose
    name, with the folders above it or without, is as the pattern says."""
    names = glob(pattern, recursive=True)  # noqa: PTH207 (Path's own refuses `**x`, and a pattern of folders)
    if there := sorted(path for path in map(Path, names) if is_run_folder(path)):
        return there
    return [
        path
        for path in (Path(folder) for folder, _ in run_folders(out))
        if fnmatchcase(path.name, pattern) or fnmatchcase(path.relative_to(out).as_posix(), pattern)
    ]


def _is_hash(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{3,12}", name) is not None


def _last_change(folder: str) -> tuple[float, str]:
    """When the run last said how it stands; runs of one moment are told apart by their names."""
    for file in ("status.json", "config.json"):
        with suppress(OSError):
            return os.stat(f"{folder}/{file}").st_mtime, folder  # noqa: PTH116
    return 0.0, folder


def _nearest(name: str, folders: list[str], out: Path) -> str:
    """What the user may have meant; or, where there is nothing at all, where runs are looked for."""
    if not folders:
        return f", which has no runs{_elsewhere()}"
    import difflib

    names = [Path(folder).name for folder in folders]
    near = difflib.get_close_matches(name, [LATEST]) or difflib.get_close_matches(
        Path(name).name, names, n=3, cutoff=0.4
    )
    shown = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"{shown}; internalize runs lists them ({len(names):,})"


def _elsewhere() -> str:
    return f"; where runs are elsewhere, the environment variable {PLACE} says so"


def no_run(folder: Path, field: str) -> BadInput:
    return BadInput(field, f"{folder} is not a run folder (it has no config.json)")


def hash_in_name(folder: str) -> str:
    """The hash at the end of a folder's name; empty where somebody has given it another name."""
    match = re.search(r"-([0-9a-f]{12})$", folder)
    return match.group(1) if match else ""


def model_name(text: str) -> str | None:
    """The run in RUN[@STAGE][:BUDGET]; None where what follows the run is no such thing."""
    run = re.sub(r"(@\d+)?(:\d+)?$", "", text)
    return None if set("@:") & set(run.rpartition("/")[2]) else run


def split_stage(text: str, field: str) -> tuple[str, int | None]:
    """`RUN@STAGE` as the run and the stage's number; `RUN` alone has none. Folders above may have an @ too."""
    run, at, stage = text.rpartition("@")
    if not at or "/" in stage:
        return text, None
    good = bool(run) and stage.isascii() and stage.isdigit()
    require(good, field, f"must end in a stage's number after @, got {text!r}")
    return run, int(stage)
