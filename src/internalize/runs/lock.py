"""One owner for a run: a lock that the operating system drops when its owner dies.

The lock is `flock` on Linux and macOS and `LockFileEx` on Windows, by way of filelock. On a network file
system it holds between machines only where the server passes locks on (NFS 4 does, some mounts of NFS 3 do
not): do not let two machines train one run there.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from internalize.contract import RunState
from internalize.errors import BadInput, require


class Owned(BadInput):
    """Somebody else is training this run just now."""


LOCK, OWNER = ".lock", ".owner.json"
PATIENCE = 0.3
"""Seconds to wait for the lock: longer than `is_owned` holds it when it looks."""


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Hold the run while the block runs; a second owner is refused with a line that names the first."""
    _refuse_links(folder)
    lock = FileLock(folder / LOCK)
    owner = folder / OWNER
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout:
        raise Owned("run", f"{folder} is being trained by {_describe(owner)}") from None
    except FileNotFoundError:
        raise BadInput("run", f"{folder} has just been deleted") from None
    try:
        require((folder / LOCK).exists(), "run", f"{folder} has just been deleted")
        with suppress(OSError):  # only a hint for people: a full disk must not keep the owner out
            owner.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        yield
    finally:
        with suppress(OSError):
            owner.unlink(missing_ok=True)
        lock.release()


def is_owned(folder: Path) -> bool:
    """Whether somebody is training this run now. A killed owner leaves his card, but not the lock."""
    if not (folder / OWNER).exists() or (folder / LOCK).is_symlink():
        return False
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def living_state(said: RunState, folder: Path) -> RunState:
    """The one answer to "is it alive?": if it says that it is running, and nobody owns it, it is not."""
    return RunState.INTERRUPTED if said == RunState.RUNNING and not is_owned(folder) else said


def _refuse_links(folder: Path) -> None:
    """Both files are written: a link in a folder from somebody else would lead that anywhere."""
    for name in (LOCK, OWNER):
        require(not (folder / name).is_symlink(), "run", f"{folder / name} is a link: delete it first")


def _describe(owner: Path) -> str:
    try:
        who = json.loads(owner.read_text())
        return f"process {who['process']} on {who['host']}"
    except (OSError, ValueError, KeyError):
        return "another process"
