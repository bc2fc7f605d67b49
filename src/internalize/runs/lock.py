"""One owner for a run: a lock that the operating system drops when its owner dies."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from internalize.errors import BadInput


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Hold the run while the block runs; a second owner is refused with a line that names the first."""
    lock = FileLock(folder / ".lock")
    owner = folder / ".owner.json"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BadInput("run", f"{folder} is being trained by {_describe(owner)}") from None
    try:
        owner.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def _describe(owner: Path) -> str:
    try:
        who = json.loads(owner.read_text())
        return f"process {who['process']} on {who['host']}"
    except (OSError, ValueError, KeyError):
        return "another process"
