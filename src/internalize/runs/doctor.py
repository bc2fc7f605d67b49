"""`internalize doctor`: what is here, and what is wrong with it."""

from __future__ import annotations

import getpass
import importlib
import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from internalize.configs.files import require_writable
from internalize.contract import RunState
from internalize.display.terminal import plain
from internalize.errors import BadInput
from internalize.runs.index import Store
from internalize.runs.location import runs_folder
from internalize.runs.manifest import changed_files
from internalize.runs.provenance import package_version, usable_cores
from internalize.runs.storage import (
    LOCK,
    OWNER,
    Unreadable,
    is_owned,
    own,
    read_plain,
    require_file,
    write_atomically,
)

NEEDED = ("torch", "numpy", "numba", "scipy", "safetensors", "tyro", "rich", "filelock", "matplotlib", "yaml")
EXTRAS = {
    "huggingface": ("transformers",),
    "text": ("transformers",),
    "lora": ("transformers", "peft"),
    "trainer": ("transformers", "accelerate"),
    "datasets": ("datasets",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "parquet": ("pyarrow",),
    "ray": ("ray",),
    "selfplay": ("open_spiel",),
    "notebook": ("nbformat", "nbclient", "ipykernel"),
}
"""Extra of the package, for those who use it → the packages it brings."""
LITTLE_DISK = 2**30
"""Bytes below which a long run may well fill the disk."""


@dataclass(frozen=True)
class Finding:
    """Something looked at."""

    name: str
    value: str
    problem: str | None = None
    """What is wrong, and what to do; None if all is well."""
    there: bool = True
    """False for something that one can do without, and that is not here."""

    @property
    def mark(self) -> str:
        return "✗" if self.problem is not None else "✓" if self.there else "–"


UNTESTED = "cuda and mps are built in, but were never tried on real hardware"
"""What whoever has a GPU should know; goes away when somebody has tried it."""


@dataclass(frozen=True)
class DoctorArguments:
    """Look at versions, devices, threads, folder, disk and extras, and say what is wrong."""

    out: Path = field(default_factory=runs_folder)
    """Folder that holds, or shall hold, the run folders."""
    json: bool = False
    """Print one JSON object."""


def doctor_command(arguments: DoctorArguments) -> int:
    findings = examine(arguments.out)
    problems = [finding for finding in findings if finding.problem is not None]
    if arguments.json:
        print(json.dumps({"findings": [asdict(f) for f in findings], "healthy": not problems}))
        return 1 if problems else 0
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(plain(f"{finding.mark} {finding.name:<{width}}  {finding.value}"))
    for finding in problems:
        print(plain(f"wrong: {finding.name}: {finding.problem}"))
    return 1 if problems else 0


def examine(out: Path) -> list[Finding]:
    """All findings; a check that breaks is a finding, too."""
    findings = [_python(), Finding("internalize", package_version())]
    findings += [_library(name) for name in NEEDED]
    folder = _looked_at("folder", lambda: _folder(out))
    findings += [_looked_at("devices", _devices), _looked_at("threads", _threads), folder]
    findings.append(_looked_at("kernels", _kernels))
    if folder.problem is None:  # else the room there is nobody's concern
        findings.append(_looked_at("disk", lambda: _disk(out)))
    findings.append(_looked_at("runs", lambda: _runs(out)))
    return findings + [_extra(extra, packages) for extra, packages in EXTRAS.items()]


def _looked_at(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # whatever is broken here is what the user wants to know
        return Finding(name, "unknown", f"{type(error).__name__}: {error}")


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    return Finding("python", platform.python_version(), None if good else "needs 3.11 or newer")


def _library(name: str) -> Finding:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        return Finding(name, "broken", f"cannot be imported ({error}): pip install --force-reinstall {name}")
    return Finding(name, str(getattr(module, "__version__", None) or version(name)))


def _devices() -> Finding:
    import torch

    names = ["cpu"]
    if torch.cuda.is_available():
        names += [f"cuda ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return Finding("devices", f"{', '.join(names)} ({UNTESTED})")


def _threads() -> Finding:
    cores, usable = os.cpu_count() or 1, usable_cores()
    asked = os.environ.get("OMP_NUM_THREADS")
    problem = None
    if asked is not None and not (asked.isdigit() and int(asked) >= 1):
        problem = f"OMP_NUM_THREADS is {asked!r}, which is no number of threads: unset it"
    return Finding(
        "threads", f"{usable} of {cores} cores usable, OMP_NUM_THREADS {asked or 'not set'}", problem
    )


def _kernels() -> Finding:
    """Where numba keeps what it compiles; beside this file's package, as it looks there first."""
    try:
        from numba import njit

        njit(cache=True)(_kernels)  # looks for a place, and compiles nothing
    except ImportError:  # which is told already
        return Finding("kernels", "none without numba", there=False)
    except RuntimeError:
        why = "neither the installation nor the home folder can be written: every start compiles for a minute"
        return Finding(
            "kernels", "kept nowhere", f"{why}; NUMBA_CACHE_DIR=FOLDER keeps them in a folder of yours"
        )
    return Finding("kernels", "kept when they are compiled")


def _folder(out: Path) -> Finding:
    """Write, move and lock a file where runs go, as training will."""
    try:
        require_writable(out)
    except BadInput as error:
        return Finding("folder", str(out), error.message)
    place = next(folder for folder in (out, *out.resolve().parents) if folder.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=place) as name:
            write_atomically(Path(name) / "file", b"x")
            with own(Path(name)):
                pass
    except (OSError, BadInput, NotImplementedError) as error:
        return Finding("folder", str(out), f"cannot write or lock files in {place}: {error}")
    return Finding(
        "folder", f"{out}{'' if place == out else ' (not there yet)'}, files can be written and locked"
    )


def _disk(out: Path) -> Finding:
    place = next(folder for folder in (out, *out.resolve().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    problem = None if free >= LITTLE_DISK else "less than 1 GB: make room, or choose another folder with --out"
    return Finding("disk", f"{free / 2**30:.1f} GB free", problem)


READ_WHOLE = 20
"""So many runs are read from end to end; of more, only the sizes of files are looked at, which is quick."""


def _runs(out: Path) -> Finding:
    if not out.is_dir():
        return Finding("runs", "none yet")
    entries = Store(out).entries()
    damaged = [entry for entry in entries if entry.state == RunState.DAMAGED]
    waiting = [
        entry for entry in entries if entry.state == RunState.INTERRUPTED and not is_owned(out / entry.path)
    ]
    problem = f"{len(damaged)} cannot be read, such as {damaged[0].message}" if damaged else None
    done = [out / entry.path for entry in entries if entry.state == RunState.DONE]
    broken = (
        f"{run / name} {reason}"
        for i, run in enumerate(done)
        for name, reason in changed_files(run, thorough=i < READ_WHOLE).items()
    )
    if problem is None and (first := next(broken, None)) is not None:
        problem = f"{first}: see internalize runs verify"
    return Finding("runs", f"{len(entries)} in {out}, {len(waiting)} interrupted", problem)


def _extra(extra: str, packages: Sequence[str]) -> Finding:
    try:
        found = [version(package) for package in packages]
    except PackageNotFoundError:
        how = f"not installed (pip install 'internalize[{extra}]')"
        return Finding(f"extra {extra}", how, there=False)
    each = (f"{package} {number}" for package, number in zip(packages, found, strict=True))
    return Finding(f"extra {extra}", ", ".join(each))


SECRET = re.compile(
    r"(?i)\b(?:api[_-]?key|token|secret|password|passwd)\b[\"']?\s*[=:]\s*[\"']?[^\s\"',}]{6,}"
    r"|\b(?:hf_|ghp_|github_pat_|glpat-|xox[abp]-|sk-|AKIA)[A-Za-z0-9_-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\bbearer\s+[A-Za-z0-9._~+/-]{16,}"
)
HOME = re.compile(r"(?:/home/|/Users/|/root/|[A-Z]:\\+Users\\+)[^\s\"',:]*")
PLACE = re.compile(r"(?<![\w/.:])(?:/[\w.+-]+){2,}")
MAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}\.[A-Za-z][A-Za-z0-9.-]+")
"""Looked for at the beginnings of words alone: a text of one long word would take hours."""
TEXTS = (".json", ".jsonl", ".py", ".md", ".txt", ".yaml", ".yml", ".csv", "")
OWN = {
    "model": (*TEXTS, ".safetensors", ".jinja", ".model"),
    "stages": (".safetensors",),
    "checkpoints": (".safetensors",),
}
"""Folders of a run, and how the names of files in them end."""
TOP = ("config.json", "provenance.json", "status.json", "manifest.json", "metrics.jsonl", "timing.jsonl",
       "sources.json", ".run.json")  # fmt: skip
LONGEST_SHOWN = 60
LONGEST_HEADER = 2**26


def private_matters(folder: Path) -> list[str]:
    """A line for everything in the folder that says more of its owner than of the run. Executes nothing."""
    return [
        f"{path.relative_to(folder).as_posix()}: {what}"
        for path in sorted(folder.rglob("*"))
        for what in _of_file(folder, path)
    ]


def _of_file(folder: Path, path: Path) -> Iterator[str]:
    place = path.relative_to(folder)
    if path.is_symlink():
        yield f"a link to {os.readlink(path)}"  # noqa: PTH115
        return
    if path.is_dir() or (place.as_posix() == LOCK and path.stat().st_size == 0):
        return
    if place.as_posix() == OWNER:
        yield "names this machine and a process"
        return
    if place.parts[0] == "sources":
        yield "a copy of your own file: read it before you publish it"
    elif not _is_of_run(place):
        yield "not a file of the run"
    if path.suffix in (*TEXTS, ".safetensors"):
        try:
            text = _text_in(path)
        except (Unreadable, OSError) as error:
            yield f"cannot be looked at: {error}"
            return
        written_here = place.as_posix() in TOP or path.suffix == ".safetensors"
        if written_here and not HOME.search(text) and (found := PLACE.search(text)):
            yield f"a path of this machine: {found[0][:LONGEST_SHOWN]}"
        yield from _of_text(text)


def _is_of_run(place: Path) -> bool:
    endings = OWN.get(place.parts[0], ()) if len(place.parts) == 2 else ()
    return place.as_posix() in TOP or place.suffix in endings


def _text_in(path: Path) -> str:
    """All of a text; of a file of tensors the words before them, which hold a run's state."""
    if path.suffix != ".safetensors":
        return read_plain(path).decode("utf-8", "replace")
    require_file(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return file.read(min(length, LONGEST_HEADER)).decode("utf-8", "replace")


def _of_text(text: str) -> Iterator[str]:
    if SECRET.search(text):
        yield "what looks like a key or a password"
    for what, form in (("a path in a home folder", HOME), ("an address", MAIL)):
        if found := form.search(text):
            yield f"{what}: {found[0][:LONGEST_SHOWN]}"
    for what, name in _names():
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            yield f"{what}: {name}"


def _names() -> Iterator[tuple[str, str]]:
    """Of user and machine, as far as they say anything."""
    with suppress(OSError, KeyError):
        if (user := getpass.getuser()) not in ("root", "user") and len(user) > 2:
            yield "your user name", user
    if (machine := socket.gethostname()) != "localhost" and len(machine) > 2:
        yield "this machine's name", machine
