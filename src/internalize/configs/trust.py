"""Which Python files may be executed: those that this user has trained with or has allowed, by their content.

A file that a run folder or a sweep brings along is a program of whoever made it. Nothing is executed unless
its very bytes are known here: because the user named the file for a training (`own_files`), said so for one
command (`trusting`, the flag --trust) or for good (`remember`, the command `internalize runs trust`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from internalize.errors import BadInput

PLACE = "INTERNALIZE_CONFIG"
"""The environment variable that says where this user's settings are."""
STORE = "trusted.jsonl"
"""The file there: a line for each file that is trusted, so that two processes can add to it at once."""

_own: ContextVar[bool] = ContextVar("own", default=False)
_once: ContextVar[bool] = ContextVar("once", default=False)
_known_here: set[str] = set()
"""Hashes that this process trusts, whether or not they could be written down."""


class Untrusted(BadInput):
    """Python files that this user has not allowed to be executed."""

    def __init__(self, field: str, files: Sequence[Path], brought_by: str = "") -> None:
        """brought_by: the run that `internalize runs trust` takes; the files themselves if empty."""
        names = shlex.join(name if (name := str(file)).isprintable() else ascii(name) for file in files)
        lost = "" if _writable() else f" ({store()} cannot be written: nothing is remembered)"
        super().__init__(
            field,
            f"{brought_by or 'this'} would run Python code that you have neither trained with nor allowed. "
            f"Read it: less {names} – then allow it: --trust for this once, or for good: "
            f"internalize runs trust {shlex.quote(brought_by) if brought_by else names}{lost}",
        )
        self.files = tuple(files)


@dataclass(frozen=True, kw_only=True)
class TrustOption:
    """For the arguments of every command that may meet other people's files."""

    trust: bool = False
    """Run the Python files that a run or a sweep brings along, this once, even if they were never allowed."""


# Whose files ---------------------------------------------------------------------------------------------


@contextmanager
def own_files() -> Iterator[None]:
    """What is named inside the block is named by the user, for a training: it is trusted from then on."""
    with _set(_own, True):
        yield


@contextmanager
def others_files() -> Iterator[None]:
    """What is named inside the block comes from a run folder, whoever is around it."""
    with _set(_own, False):
        yield


@contextmanager
def trusting() -> Iterator[None]:
    """Everything may be executed inside the block; afterwards only this process remembers."""
    with _set(_once, True):
        yield


@contextmanager
def _set(switch: ContextVar[bool], value: bool) -> Iterator[None]:
    before = switch.set(value)
    try:
        yield
    finally:
        switch.reset(before)


def require_trusted(content: bytes, path: Path, field: str) -> None:
    """Refuse to go on unless these bytes may be executed, here and now."""
    digest = digest_of(content)
    if _once.get():
        _known_here.add(digest)
    elif _own.get():
        remember(digest, path)
    elif not is_trusted(digest):
        raise Untrusted(field, [path])


def may_run(path: Path) -> bool:
    """Whether the file as it is now would be executed; a file that cannot be read says so when it is."""
    try:
        return _once.get() or is_trusted(digest_of(path.read_bytes()))
    except OSError:
        return True


# What is remembered --------------------------------------------------------------------------------------


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def store() -> Path:
    """The user's list of trusted files."""
    if os.environ.get(PLACE):
        return Path(os.environ[PLACE]).expanduser() / STORE
    if os.environ.get("XDG_CONFIG_HOME"):
        return Path(os.environ["XDG_CONFIG_HOME"]) / "internalize" / STORE
    with suppress(RuntimeError):  # nobody's home is known here
        return Path.home() / ".config" / "internalize" / STORE
    return Path(os.devnull) / STORE


def is_trusted(digest: str) -> bool:
    if digest in _known_here:
        return True
    _known_here.update(_stored())
    return digest in _known_here


def remember(digest: str, path: Path) -> bool:
    """Trust these bytes from now on; False if only this process will know, for want of a place to write."""
    known = digest in _stored()
    _known_here.add(digest)
    if known:
        return True
    line = json.dumps({"sha256": digest, "file": str(path.absolute())}) + "\n"
    place = store()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # one short line in one call: what others append at the same time comes before or after it
        handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError:
        return False
    return True


def _stored() -> set[str]:
    """All hashes in the list; a line that is none of ours trusts nothing."""
    found: set[str] = set()
    try:
        lines = store().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return found
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            found.add(str(json.loads(line)["sha256"]))
    return found


def _writable() -> bool:
    place = store().absolute()
    there = next(path for path in (place, *place.parents) if path.exists())
    return os.access(there, os.W_OK)
