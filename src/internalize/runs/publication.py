"""What a run folder holds that its owner may not want to publish."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from internalize.runs.lock import LOCK, OWNER
from internalize.runs.storage import Unreadable, read_plain

SECRET = re.compile(
    r"(?i)\b(?:api[_-]?key|token|secret|password|passwd)\b[\"']?\s*[=:]\s*[\"']?[^\s\"',}]{6,}"
    r"|\b(?:hf_|ghp_|github_pat_|sk-|AKIA)[A-Za-z0-9_-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
HOME = re.compile(r"(?:/home/|/Users/|/root/|[A-Z]:\\+Users\\+)[^\s\"',:]*")
MAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z][A-Za-z0-9.-]+")
TEXTS = (".json", ".jsonl", ".py", ".md", ".txt", ".yaml", ".yml", ".csv", "")
OWN = ("model", "stages", "checkpoints")
TOP = ("config.json", "provenance.json", "status.json", "manifest.json", "metrics.jsonl", "timing.jsonl")
LONGEST_SHOWN = 60


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
    if path.is_dir() or place.name == LOCK:
        return
    if place.name == OWNER:
        yield "names this machine and a process"
        return
    if place.parts[0] == "sources":
        yield "a copy of your own file: read it before you publish it"
    elif place.parts[0] not in OWN and place.name not in (*TOP, "sources.json", ".run.json"):
        yield "not a file of the run"
    if path.suffix in TEXTS:
        yield from _of_text(path)


def _of_text(path: Path) -> Iterator[str]:
    try:
        text = read_plain(path).decode("utf-8", "replace")
    except (Unreadable, OSError) as error:
        yield f"cannot be looked at: {error}"
        return
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
