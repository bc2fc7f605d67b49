"""One torch thread in each of several Python threads: products and kernels leave the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch


class Workers:
    """Runs a function for 0 … parts-1, each call with one torch thread."""

    def __init__(self, threads: int | None) -> None:
        """threads: torch's number if not given."""
        self.threads = torch.get_num_threads() if threads is None else threads
        # Also one worker needs a thread of its own if torch would use more here.
        alone = self.threads == 1 and torch.get_num_threads() == 1
        self._pool = None if alone else ThreadPoolExecutor(self.threads, initializer=_use_one_thread)

    def run(self, work: Callable[[int], None], parts: int) -> None:
        if self._pool is None:
            for part in range(parts):
                work(part)
        else:
            list(self._pool.map(work, range(parts)))  # a list, so that an error in a worker is raised here


def _use_one_thread() -> None:
    torch.set_num_threads(1)
