"""`internalize runs verify`: what is damaged, what can be made anew, and making it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from internalize.contract import RunState
from internalize.display.terminal import plain
from internalize.errors import BadInput
from internalize.runs.checkpoint import Damaged, checkpoints, load_newest, load_tensors
from internalize.runs.folder import FORMAT, Identity, Run
from internalize.runs.index import Store
from internalize.runs.location import MARKER, find_folders, may_look_into, run_folders, runs_folder
from internalize.runs.manifest import MANIFEST, changed_files, read_manifest, write_manifest
from internalize.runs.measurements import require_measurements
from internalize.runs.storage import (
    Unreadable,
    own,
    parse_json,
    read_json,
    read_plain,
    require_shape,
    write_atomically,
)

LOST = "cannot be made anew"
FROM_CHECKPOINT = "comes anew from the last checkpoint: verify --rebuild, then internalize resume"
HERE = "can be made anew: verify --rebuild"


@dataclass(frozen=True)
class Damage:
    """One file that is not what was written."""

    run: str
    file: str
    reason: str
    remedy: str
    """What can be done about it."""


@dataclass(frozen=True)
class RunsVerifyArguments:
    """Check every file of runs against what was written, say what is damaged, and make anew what can be.

    A finished run has a manifest with a digest of each of its files. Older and unfinished runs have none: of
    these it is checked that all files can be read and that weights match their own checksums.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN [RUN ...]]")] = ()
    """The runs: folders, unique parts of their names, beginnings of their hashes, patterns such as 'C7-*', or
    latest. All runs if none is named."""
    out: Path = field(default_factory=runs_folder)
    """Folder that holds the run folders."""
    rebuild: bool = False
    """Make anew what can be, and the index. A run that lost its model or its results is marked as interrupted:
    `internalize resume` then finishes it again from its last checkpoint."""
    json: bool = False
    """Print one JSON object."""


def runs_verify_command(arguments: RunsVerifyArguments) -> int:
    folders = find_folders(arguments.runs, "runs", arguments.out)
    if not arguments.runs:
        store = Store(arguments.out)
        folders = [Path(folder) for folder, _ in run_folders(arguments.out)]
        if arguments.rebuild:
            store.rebuild()
    found = [damage for folder in folders for damage in verify(folder)]
    made: list[str] = []
    if arguments.rebuild:
        damaged = {damage.run for damage in found}
        mendable = [folder for folder in folders if str(folder) in damaged or _lacks_its_manifest(folder)]
        made = [line for folder in mendable for line in _rebuild_if_allowed(folder)]
        found = [damage for folder in folders for damage in verify(folder)]
    if arguments.json:
        print(json.dumps({"runs": len(folders), "made": made, "damaged": [asdict(one) for one in found]}))
        return 1 if found else 0
    for line in [*made, *(f"damaged: {one.run}/{one.file} {one.reason}; {one.remedy}" for one in found)]:
        print(plain(line))
    bad = len({one.run for one in found})
    print(f"{len(folders):,} runs checked, {bad:,} with damage")
    return 1 if found else 0


def verify(folder: Path) -> list[Damage]:
    """All damage in a run folder."""
    if not may_look_into(folder):
        return [Damage(str(folder), "config.json", "cannot be read: no permission", "ask whose it is")]
    found = changed_files(folder)
    for name, reason in _unreadable(folder).items():
        found.setdefault(name, reason)
    return [Damage(str(folder), name, reason, _remedy(folder, name)) for name, reason in found.items()]


def _unreadable(folder: Path) -> dict[str, str]:
    """What no manifest is needed for to be seen."""
    found: dict[str, str] = {}
    run = Run(folder)
    try:
        Run.at(folder)
    except BadInput as error:
        found["config.json"] = error.message
    status = run.status()
    if status["state"] == RunState.DAMAGED:
        found["status.json"] = status["message"].removeprefix(f"{folder / 'status.json'} ")
    for name, check in (("provenance.json", read_json), ("metrics.jsonl", _require_rows), (MARKER, read_json)):
        reason = _problem(check, folder / name)
        if reason:
            found[name] = reason
    if status["state"] == RunState.DONE and not (folder / "model" / "model.safetensors").is_file():
        found["model/model.safetensors"] = "is missing"
    if not (folder / MANIFEST).exists():  # else their digests say it
        parts = ("stages", "checkpoints", *(["model"] if status["state"] == RunState.DONE else []))
        for part in parts:  # the model of an unfinished run is still to be written
            for path in sorted((folder / part).glob("*.safetensors")):
                try:
                    load_tensors(path)
                except Damaged as error:
                    found[path.relative_to(folder).as_posix()] = str(error).removeprefix(f"{path} ")
    return found


def _problem(check: Callable[[Path], Any], path: Path) -> str:
    try:
        check(path)
    except FileNotFoundError:
        return ""
    except (Unreadable, OSError) as error:
        return str(error)
    return ""


def _require_rows(path: Path) -> None:
    """A last line that a kill has cut off is no damage: `resume` writes it again."""
    for i, line in enumerate(read_plain(path).split(b"\n")[:-1]):
        try:
            if line:
                require_measurements(require_shape(parse_json(line), {}))
        except Unreadable as error:
            raise Unreadable(f"has a line {i + 1} that {error}") from None


def _remedy(folder: Path, name: str) -> str:
    if name in ("config.json", MARKER):
        return HERE if _recorded_identity(folder) is not None else LOST
    if name == "metrics.jsonl" and _metrics(folder) is not None:
        return HERE
    if name in ("status.json", "metrics.jsonl", MANIFEST) or name.startswith("model/"):
        return FROM_CHECKPOINT if _has_checkpoint(folder) else LOST
    if name.startswith("checkpoints/"):
        return "not needed by a finished run: internalize runs prune --what checkpoints"
    return LOST


def _recorded_identity(folder: Path) -> Identity | None:
    """As provenance.json has it, if it is that of the marker or of the folder's name."""
    recorded = Run(folder).provenance().get("identity", {})
    try:
        identity = Identity(recorded["kind"], dict(recorded["config"]), dict(recorded["sources"]))
    except (KeyError, TypeError, ValueError):
        return None
    digest, marked = identity.digest(), None
    with suppress(Unreadable, OSError):
        marked = read_json(folder / MARKER)
    known = marked == {"format": FORMAT, "run": digest} or folder.name.endswith(f"-{digest}")
    return identity if known else None


def _has_checkpoint(folder: Path) -> bool:
    for path in checkpoints(folder / "checkpoints"):
        try:
            load_tensors(path)
        except Damaged:
            continue
        return True
    return False


def _metrics(folder: Path) -> bytes | None:
    """All rows of a finished run, from its last checkpoint, if they are what the manifest says."""
    try:
        record = read_manifest(folder) or {}
        saved = load_newest(folder / "checkpoints", Run(folder).digest())
    except (BadInput, Unreadable, OSError):
        return None
    if saved is None or len(saved.metrics) != record.get("metrics.jsonl", {}).get("bytes"):
        return None
    return saved.metrics


def _rebuild_if_allowed(folder: Path) -> list[str]:
    """One folder of somebody else, or that is being trained, does not keep the others from being mended."""
    try:
        return rebuild(folder)
    except (BadInput, OSError) as error:
        reason = error.message if isinstance(error, BadInput) else f"{folder}: {error.strerror}"
        return [f"left alone: {reason}"]


def rebuild(folder: Path) -> list[str]:
    """Make anew what can be; a line about each."""
    lines = []
    with own(folder):
        for one in verify(folder):
            identity, path = _recorded_identity(folder), folder / one.file
            metrics = _metrics(folder) if one.file == "metrics.jsonl" else None
            if one.remedy == HERE and identity is not None and one.file == MARKER:
                Run(folder).mark(identity)
            elif one.remedy == HERE and identity is not None and one.file == "config.json":
                text = json.dumps(identity.to_json(), indent=2, ensure_ascii=False) + "\n"
                write_atomically(path, text.encode())
            elif one.remedy == HERE and metrics is not None:
                write_atomically(path, metrics)
            elif one.remedy == FROM_CHECKPOINT:
                Run(folder).set_status(RunState.INTERRUPTED, message=f"{one.file} was damaged")
                lines.append(f"marked as interrupted: go on with: internalize resume {folder}")
                break
            else:
                continue
            lines.append(f"made anew: {path}")
        if _lacks_its_manifest(folder) and not verify(folder):
            write_manifest(folder)
            lines.append(f"made anew: {folder / MANIFEST}")
    return lines


def _lacks_its_manifest(folder: Path) -> bool:
    """As a kill at the very end leaves a finished run, or a version that wrote none."""
    return may_look_into(folder) and Run(folder).is_done and not (folder / MANIFEST).exists()
