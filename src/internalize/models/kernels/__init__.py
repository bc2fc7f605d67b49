"""CPU kernels compiled by numba: fused attention for small heads, and the row-wise parts between products.

Imported only by `internalize.models.fast` and by the kinds that have kernels of their own, so that the package
itself does not need numba at import. Whoever imports it has a place where numba keeps what it compiles.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import numba

PLACE = "NUMBA_CACHE_DIR"
"""The environment variable by which numba, and every worker process, is told where compiled kernels are."""


def find_cache() -> str | None:
    """A place for compiled kernels: numba's own, beside the code or in the user's home, if one can be written.

    Else, as in a read-only installation without a home, a folder that lasts as long as this process; the result
    is its path. Never a folder that others can write to: what lies there is executed.
    """
    if _has_place():
        return None
    folder = tempfile.mkdtemp(prefix="internalize-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[PLACE] = numba.config.CACHE_DIR = folder
    return folder


def _has_place() -> bool:
    try:
        numba.njit(cache=True)(_probe)  # looks for a place, and compiles nothing
    except RuntimeError:
        return False
    return True


def _probe() -> int:
    return 0


find_cache()
