"""What goes wrong with disks, in words."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from internalize.errors import RunFailed

TROUBLE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than allowed here",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk does not answer",
}


@contextmanager
def told_plainly(folder: Path) -> Iterator[None]:
    """Turn trouble with the disk below the run folder into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in TROUBLE:
            raise
        raise RunFailed(
            f"{TROUBLE[error.errno]} ({error.strerror}); the last checkpoint in {folder} is good: make room, "
            f"then go on with: internalize resume {shlex.quote(str(folder))}"
        ) from error
