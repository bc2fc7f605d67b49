"""Files that a user names to be written: replaced whole where they are plain files, written through elsewhere.

A FIFO, a device or a link stands for something else, which the user means: it must still be there afterwards.
Files inside run folders are another matter (`runs/atomic.py`): there nobody means a link.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

STANDARD_OUTPUT = Path("-")
"""What a user writes for it in place of a file."""


def write_output(path: Path, content: bytes | str) -> None:
    """Write the whole content to what the path means: links are followed, `-` is standard output.

    A plain file is there whole or not at all, with the permissions that it had. Raises `OSError`.
    """
    data = content.encode() if isinstance(content, str) else content
    if is_standard_output(path):
        _print(data)
        return
    try:
        there = path.stat()
    except FileNotFoundError:
        _replace(path.resolve(), data, None)  # where a link leads, also to a file that is not there yet
        return
    if stat.S_ISREG(there.st_mode) and path.resolve().exists():  # what /dev/fd/3 leads to may have no name
        _replace(path.resolve(), data, there)
    else:
        _write_through(path, data)


def is_standard_output(path: Path) -> bool:
    """Whether it is written `-`, or leads to the very place where standard output goes, such as /dev/stdout.

    That may be a plain file to which a shell appends: replacing it would lose what is in it.
    """
    if path == STANDARD_OUTPUT:
        return True
    try:
        return os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or an output that is none
        return False


def _print(data: bytes) -> None:
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if isinstance(binary, io.IOBase):
        binary.write(data)
        binary.flush()
    else:  # a notebook's
        sys.stdout.write(data.decode(errors="replace"))


def _replace(target: Path, data: bytes, before: os.stat_result | None) -> None:
    """Beside the file, then into its place; where the folder does not allow that, into the file itself."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
    except PermissionError:
        _write_through(target, data)
        return
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(stat.S_IMODE(before.st_mode) if before is not None else 0o666 & ~_umask())
        try:
            temporary.replace(target)
        except OSError:  # not ours to replace, or mounted by itself into a container
            if before is None:
                raise
            _write_through(target, data)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)


def _umask() -> int:
    """There is no way to look at it but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
