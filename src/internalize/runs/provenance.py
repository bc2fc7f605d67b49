"""Where a result comes from: versions, revision, machine, and how long it took. Never part of a hash."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from internalize.configs.named import (
    Untrusted,
    digest_of,
    file_of,
    is_object_name,
    may_run,
    read_source,
    remember,
    store,
)
from internalize.display.terminal import plain
from internalize.errors import BadInput, RunWarning, require
from internalize.runs.folder import Run
from internalize.runs.storage import NUMBER, Unreadable, read_rows, require_shape
from internalize.runs.table import flat

if TYPE_CHECKING:
    import torch


def package_version() -> str:
    try:
        return version("internalize")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"


def provenance(device: torch.device) -> dict[str, Any]:
    """What a reader needs to judge or repeat a run."""
    return {
        "created": now(),
        "revision": _revision(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else "",
        **circumstances(device),
    }


def for_others(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a published table or picture says of the run that it is from: not where it lay on its machine."""
    return {name: value for name, value in record.items() if name not in ("identity", "folder")}


def folder_begun_in() -> str:
    """Where relative names of files begin; empty where the folder was deleted under our feet."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def circumstances(device: torch.device) -> dict[str, Any]:
    """All but the run's identity on which the last bits of a result depend."""
    import torch

    return {
        "internalize": package_version(),
        "torch": torch.__version__,
        "processor": _processor(),
        "device": str(device),
        **({"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}),
        "threads": torch.get_num_threads(),
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _revision() -> str | None:
    """The git revision of the source tree, None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def usable_cores() -> int:
    """Cores of the machine, or as many of them as were left to this process (taskset, a cluster's job)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Time ----------------------------------------------------------------------------------------------------

Clock = Literal["seconds", "processor"]
"""seconds: by the clock on the wall; processor: of computing, which other work on the machine does not change
much."""


def read_times(run: Run) -> list[dict[str, Any]]:
    """The usable rows of the journal. Nothing that is computed needs it: damage in it stops nobody."""
    numbers = {"step": NUMBER, "seconds": NUMBER, "processor": NUMBER}
    good = []
    for row in read_rows(run.path / "timing.jsonl"):
        try:
            good.append(require_shape(row, numbers, needed=["step", "seconds"]))
        except Unreadable as error:
            warnings.warn(
                f"{run.path / 'timing.jsonl'} {error}: that row is left out", RunWarning, stacklevel=2
            )
    return good


def seconds_at(run: Run, step: float, clock: Clock = "processor") -> float | None:
    """Over all sittings. Between two notes of the journal, as if every step took as long as the others.

    None where the journal has not come so far, or was written before this clock was read.
    """
    before, total = 0, 0.0
    for row in read_times(run):
        if clock not in row:
            return None
        steps = row["step"] - before
        if row["step"] >= step and steps > 0:
            return total + float(row[clock]) * (step - before) / steps
        before, total = row["step"], total + float(row[clock])
    return total if step <= before else None


def seconds_in_all(run: Run, clock: Clock = "processor") -> float | None:
    """All that the journal holds; None where it was written before this clock was read."""
    rows = read_times(run)
    return sum(float(row[clock]) for row in rows) if all(clock in row for row in rows) else None


def code_of(run: Run) -> list[Path]:
    """The Python files that would be executed if the run were opened. Executes nothing.

    Every text of the config that has the form of an object's name counts, and so does its kind: which fields
    name objects, each kind knows for itself.
    """
    identity, copies = run.identity(), run.copies()
    found: dict[Path, None] = {}
    for name in (identity.kind, *flat(identity.config).values()):
        if not isinstance(name, str) or not is_object_name(name):
            continue
        try:
            path = copies[name] if name in copies else file_of(name.rpartition(":")[0])
        except (ImportError, ValueError, OSError):  # what only looks like a name, as S4:all does
            continue
        found[path] = None
    return list(found)


def require_trusted_code(run: Run) -> None:
    """Refuse a run with Python files that the user has not allowed, all of them in one line."""
    strange = [path for path in code_of(run) if not may_run(path)]
    if strange:
        raise Untrusted("run", strange, brought_by=str(run.path))


@dataclass(frozen=True)
class RunsTrustArguments:
    """Allow the Python files that runs bring along to be executed, as long as they stay the same.

    Read them first: they can do whatever you can. What you train with yourself needs no such word.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """One or more of: a run's folder, the beginning of its hash, a Python file."""


def runs_trust_command(arguments: RunsTrustArguments) -> None:
    require(len(arguments.runs) > 0, "runs", "name at least one run, or Python file")
    for name in arguments.runs:
        single = name.suffix == ".py" and name.is_file()
        files = [name] if single else code_of(Run.open(name, "runs"))
        for path in files:
            _trust(path)
        if not files:
            print(plain(f"{name} brings no Python files: there is nothing to allow"))


def _trust(path: Path) -> None:
    try:
        digest = digest_of(read_source(path))
    except OSError as error:
        raise BadInput("runs", f"cannot read {path}: {error.strerror}") from None
    require(
        remember(digest, path),
        "runs",
        f"cannot remember it: {store()} cannot be written; --trust needs no file",
    )
    print(plain(f"trusted from now on: {path} (sha256 {digest})"))
